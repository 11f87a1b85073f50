/*
 * attention_lanes.h - vectors of floats, as wide as the machine's registers
 *
 * A vector wider than a register would be written to memory between any two operations; that made a chunk's attention
 * six times slower. Results do not depend on the width, because sums over lanes always go through 16 lanes (N_PARTS
 * vectors together). Values in memory are aligned as floats only.
 */
#ifndef HTH_ENGINE_ATTENTION_LANES_H
#define HTH_ENGINE_ATTENTION_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES_BYTES 64
#elif defined(__AVX__)
#define LANES_BYTES 32
#else
#define LANES_BYTES 16
#endif

#define N_LANES ((size_t)LANES_BYTES / 4)
#define N_PARTS (16 / N_LANES)

typedef float lanes __attribute__((vector_size(LANES_BYTES)));
typedef float loose_lanes __attribute__((vector_size(LANES_BYTES), aligned(4), may_alias));
typedef uint32_t bit_lanes __attribute__((vector_size(LANES_BYTES)));

#define LOAD(at) (*(const loose_lanes *)(at))
#define STORE(at, value) (*(loose_lanes *)(at) = (value))

/*
 * x to e^x, for x <= 0, right to about 2 units in the last place. Below -87 e^x is nothing beside 1, and the result is
 * 0. x = n ln 2 + r; a series gives e^r, and the bits of a float give 2^n. Adding 1.5 * 2^23 rounds to a whole number
 * and leaves it in the lowest bits.
 */
static inline void exponential(lanes *x)
{
    const float rounder = 12582912;
    lanes shifted = *x * 1.44269504f + rounder;
    lanes n = shifted - rounder;
    lanes r = (*x - n * 0.693359375f) + n * 2.12194440e-4f;
    lanes power = ((((r * (1 / 720.0f) + 1 / 120.0f) * r + 1 / 24.0f) * r + 1 / 6.0f) * r + 0.5f) * r * r + r + 1;
    bit_lanes exponent, bits;
    bit_lanes kept = ~(bit_lanes)(*x < -87);

    memcpy(&bits, &shifted, sizeof(bits));
    exponent = (bits << 23) + (127u << 23); /* the shift drops the rounder's bits above the number */
    memcpy(&shifted, &exponent, sizeof(shifted));
    power *= shifted;
    memcpy(&bits, &power, sizeof(bits));
    bits &= kept; /* NaN passes through */
    memcpy(x, &bits, sizeof(bits));
}

/* The larger of each pair. Of equals, and when one is NaN, the second. */
static inline lanes larger(lanes a, lanes b)
{
    bit_lanes takes_a = (bit_lanes)(a > b);
    bit_lanes a_bits, b_bits;

    memcpy(&a_bits, &a, sizeof(a_bits));
    memcpy(&b_bits, &b, sizeof(b_bits));
    a_bits = (a_bits & takes_a) | (b_bits & ~takes_a);
    memcpy(&a, &a_bits, sizeof(a));
    return a;
}

#endif
