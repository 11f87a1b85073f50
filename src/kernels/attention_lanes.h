/*
 * attention_lanes.h - vectors of floats, as wide as the machine's registers
 *
 * A vector wider than a register would be spilled to memory between any two operations; that made a chunk's attention
 * six times slower. Results do not depend on the width, because sums over lanes always go through 16 lanes (N_PARTS
 * vectors together). Values in memory are only aligned as floats.
 *
 * Each function gives a lane the same bits wherever it is called, whatever the other lanes hold: only fused() fuses
 * operations, provided the file is compiled with -ffp-contract=off. Machines with and without fused operations differ.
 * A change that alters bits here needs a new word for attention in the key of rows (backend_context.c).
 */
#ifndef HTH_KERNELS_ATTENTION_LANES_H
#define HTH_KERNELS_ATTENTION_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__FMA__) || defined(__AVX512F__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

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
 * a * b + c, rounded once where the machine can do that, otherwise twice. If left to the compiler, this would vary from
 * place to place: for CPUs on which a chain of fused operations is slow (Zen), GCC 12 fuses in loops with many sums but
 * not in those with one.
 */
static inline lanes fused(lanes a, lanes b, lanes c)
{
#if defined(__AVX512F__)
    return (lanes)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (lanes)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (lanes)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* The same for one float. */
static inline float fused_one(float a, float b, float c)
{
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* A vector whose lanes are all x. */
static inline lanes all_lanes(float x)
{
    return x - (lanes){ 0 }; /* which is x itself, also for -0 */
}

/*
 * x to e^x, for x <= 0, accurate to about 2 units in the last place. Below -87, e^x is negligible compared with 1, and
 * the result is
 * 0. x = n ln 2 + r; a series gives e^r, and the bits of a float give 2^n. Adding 1.5 * 2^23 rounds to a whole number
 * and leaves it in the lowest bits.
 */
static inline void exponential(lanes *x)
{
    const float rounder = 12582912;
    static const float series[] = { 1 / 120.0f, 1 / 24.0f, 1 / 6.0f, 0.5f };
    lanes shifted = fused(*x, all_lanes(1.44269504f), all_lanes(rounder));
    lanes n = shifted - rounder;
    lanes r = fused(n, all_lanes(2.12194440e-4f), fused(n, all_lanes(-0.693359375f), *x));
    lanes power = all_lanes(1 / 720.0f);
    bit_lanes exponent, bits;
    bit_lanes kept = ~(bit_lanes)(*x < -87);

    for (size_t i = 0; i < sizeof(series) / sizeof(series[0]); i++)
        power = fused(power, r, all_lanes(series[i]));
    power = fused(power * r, r, r) + 1;
    memcpy(&bits, &shifted, sizeof(bits));
    exponent = (bits << 23) + (127u << 23); /* the shift drops the bits of the rounding constant above the number */
    memcpy(&shifted, &exponent, sizeof(shifted));
    power *= shifted;
    memcpy(&bits, &power, sizeof(bits));
    bits &= kept; /* NaN passes through */
    memcpy(x, &bits, sizeof(bits));
}

/* The larger of each pair. If they are equal, or one is NaN, the second. */
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
