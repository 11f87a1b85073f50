/*
 * attention_chunk.h - the attention of a chunk: up to 64 neighbouring rows of one sequence, or up to 64 heads of a row
 */
#ifndef HTH_KERNELS_ATTENTION_CHUNK_H
#define HTH_KERNELS_ATTENTION_CHUNK_H

#include "kernels/attention_row.h"

/* The size of hth_attention_chunk's scratch, in floats. */
size_t hth_attention_chunk_floats(const hth_attention *attention);

/* Compute a head of a group of rows, or several heads of a group of one row, which share K and V. */
void hth_attention_chunk(const hth_attention *attention, const hth_mask_group *group, size_t head, size_t n_heads,
                         float *scratch);

#endif
