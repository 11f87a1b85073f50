/*
 * attention_row.h - the attention of one row over its open cells, and of a chunk: up to 64 neighbouring rows of one
 * sequence, or up to 64 heads of a row
 */
#ifndef HTH_KERNELS_ATTENTION_ROW_H
#define HTH_KERNELS_ATTENTION_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/attention_mask.h"

struct ggml_tensor;

/* Maximum number of heads sharing K and V in one pass over the cells. */
#define HTH_ATTENTION_HEADS_MAX ((size_t)8)

/* The engine's operation. */
typedef struct hth_attention {
    const struct ggml_tensor *q, *k, *v, *mask, *out;
    const hth_mask_plan *plan; /* of the mask; owned by the caller */
    const float *sinks;        /* [n_heads], or NULL */
    size_t n_rows;
    size_t n_cells;
    size_t n_heads;
    size_t n_kv_heads;
    size_t n_group; /* heads that share their K and V */
    size_t dk, dv;  /* number of values in a K and in a V */
    float scale;
    float softcap;
    float bias; /* for ALiBi; 0: none */
} hth_attention;

/* Read an operation, without the plan. False: this code does not handle its form. */
bool hth_attention_read(const struct ggml_tensor *operation, hth_attention *out);

/* A row of the mask, [n_cells]. */
const uint16_t *hth_attention_mask(const hth_attention *attention, size_t row);
/* The factor of a mask's values for a head. */
float hth_attention_slope(const hth_attention *attention, size_t head);
/* A row's Q of a head, [dk]. */
const float *hth_attention_query(const hth_attention *attention, size_t row, size_t head);
/* A cell's K or V as floats, [dk] or [dv]. */
void hth_attention_floats(const struct ggml_tensor *tensor, uint32_t cell, size_t kv_head, float *to);

/*
 * A partial result of one head, 2 + dv floats: the highest score, the sum of the weights relative to it, and the
 * weighted sum of V. clear: no cells yet (-infinity, 0, 0). add: part becomes the result of its own cells plus those of
 * later.
 */
size_t hth_attention_part_floats(const hth_attention *attention);
void hth_attention_part_clear(const hth_attention *attention, float *part);
void hth_attention_part_add(const hth_attention *attention, float *part, const float *later);

/* The size of hth_attention_cells' scratch, in floats. */
size_t hth_attention_scratch_floats(const hth_attention *attention);

/*
 * Compute the parts of the heads head .. head + n_heads - 1, which share K and V, over the next n open cells of walk.
 * The parts of consecutive heads are part_stride floats apart.
 */
void hth_attention_cells(const hth_attention *attention, size_t row, size_t head, size_t n_heads, hth_open_cells *walk,
                         size_t n, float *scratch, float *parts, size_t part_stride);

/* Turn a complete result into the output of a head. */
void hth_attention_finish(const hth_attention *attention, size_t row, size_t head, float *part);

/* ---- chunks (attention_chunk.c) ---- */

/* The size of hth_attention_chunk's scratch, in floats. */
size_t hth_attention_chunk_floats(const hth_attention *attention);

/* Compute a head of a group of rows, or several heads of a group of one row, which share K and V. */
void hth_attention_chunk(const hth_attention *attention, const hth_mask_group *group, size_t head, size_t n_heads,
                         float *scratch);

#endif
