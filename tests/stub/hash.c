/*
 * hash.c - the stub's arithmetic: bytes and logits are hashes
 */
#include "base/bytes.h"
#include "stub/inside.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators). */
uint64_t hth_stub_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t hth_stub_mix2(uint64_t a, uint64_t b)
{
    return hth_stub_mix(hth_stub_mix(a) + b);
}

uint64_t hth_stub_digest(const uint8_t *bytes, size_t n_bytes)
{
    uint64_t hash = n_bytes;

    for (size_t i = 0; i < n_bytes; i += 8)
        hash = hth_stub_mix2(hash, hth_get_u64(bytes + i));
    return hash;
}

void hth_stub_expand(uint64_t seed, uint8_t *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 8)
        hth_put_u64(bytes + i, hth_stub_mix2(seed, i));
}
