/*
 * measure.h - samples of times, and a memory copy to compare them with
 */
#ifndef HTH_BASE_MEASURE_H
#define HTH_BASE_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- samples ---- */

enum { HTH_SAMPLES_MAX = 4096 };

/* Numbers of one kind, the first HTH_SAMPLES_MAX of them. A zeroed struct is empty. */
typedef struct hth_samples {
    size_t n;
    double values[HTH_SAMPLES_MAX];
} hth_samples;

void hth_samples_add(hth_samples *samples, double value);
/* Without samples these are 0. */
/* part 0.99: one in a hundred samples is above the result. Interpolates linearly between two samples. */
double hth_samples_percentile(const hth_samples *samples, double part);
double hth_samples_median(const hth_samples *samples);
double hth_samples_min(const hth_samples *samples);
double hth_samples_max(const hth_samples *samples);

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
/*
 * Milliseconds of copying a restore's bytes to a restore's places: n_blocks blocks lie one after the other, and each
 * has n_tensors pieces of piece_bytes. Each piece goes to the block's place in the buffer of its tensor. All of it must
 * fit.
 */
double hth_copy_pieces_ms(hth_copy *copy, size_t n_blocks, size_t n_tensors, size_t piece_bytes);

#endif
