/*
 * bytes.h - integers as little-endian bytes, and checked size arithmetic
 *
 * Everything that Hearth writes to disk or hashes goes through these functions, so the byte order is known in one place
 * only. All pointers may be unaligned.
 */
#ifndef HTH_BASE_BYTES_H
#define HTH_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void hth_put_u32(uint8_t *bytes, uint32_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
}

static inline void hth_put_u64(uint8_t *bytes, uint64_t value)
{
    hth_put_u32(bytes, (uint32_t)value);
    hth_put_u32(bytes + 4, (uint32_t)(value >> 32));
}

static inline uint32_t hth_get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static inline uint64_t hth_get_u64(const uint8_t *bytes)
{
    return (uint64_t)hth_get_u32(bytes) | (uint64_t)hth_get_u32(bytes + 4) << 32;
}

static inline void hth_put_f32(uint8_t *bytes, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    hth_put_u32(bytes, bits);
}

static inline float hth_get_f32(const uint8_t *bytes)
{
    uint32_t bits = hth_get_u32(bytes);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline void hth_put_f64(uint8_t *bytes, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    hth_put_u64(bytes, bits);
}

static inline double hth_get_f64(const uint8_t *bytes)
{
    uint64_t bits = hth_get_u64(bytes);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* *out = a + b. False, with *out unchanged, if the sum does not fit in size_t. */
static inline bool hth_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *out = sum;
    return true;
}

/* *out = a * b. False, with *out unchanged, if the product does not fit in size_t. */
static inline bool hth_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

#endif
