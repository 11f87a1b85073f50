/*
 * measure.h - samples of times, and a memory copy to compare them with
 */
#ifndef HTH_BASE_MEASURE_H
#define HTH_BASE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- samples ---- */

enum { HTH_SAMPLES_MAX = 20000 };

/* Numbers of one kind, the first HTH_SAMPLES_MAX of them. A zeroed struct is empty. */
typedef struct hth_samples {
    size_t n;
    double values[HTH_SAMPLES_MAX];
} hth_samples;

void hth_samples_add(hth_samples *samples, double value);
/* part 0.99: one in a hundred samples is above the result. Interpolates between two samples. 0 without samples. */
double hth_samples_percentile(const hth_samples *samples, double part);

static inline double hth_samples_median(const hth_samples *samples)
{
    return hth_samples_percentile(samples, 0.5);
}

static inline double hth_samples_min(const hth_samples *samples)
{
    return hth_samples_percentile(samples, 0);
}

static inline double hth_samples_max(const hth_samples *samples)
{
    return hth_samples_percentile(samples, 1);
}

/* Milliseconds from a time of hth_os_monotonic_ns to now. */
double hth_ms_since(uint64_t begin_ns);

/* ---- memcpy ---- */

/* Two buffers with resident pages: one on huge pages, like the RAM tier's slabs, one allocated like the engine's. */
typedef struct hth_copy {
    uint8_t *slabs;
    uint8_t *cells;
    size_t n_bytes;
} hth_copy;

/* False, with *copy as zeros, when there is no memory. */
bool hth_copy_init(hth_copy *copy, size_t n_bytes);
void hth_copy_deinit(hth_copy *copy); /* accepts a zeroed copy */
/* Milliseconds of one memcpy of everything, from the slabs to the cells. */
double hth_copy_ms(hth_copy *copy);

#endif
