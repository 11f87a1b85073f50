/*
 * default_context.c - see default_context.h
 *
 * Free memory varies from start to start, and so does the size of the context. The size is not part of any key, so a
 * start with less memory finds the rows of a start with more. But a model with two sets of RoPE factors computes
 * different cells with a context beyond its original size, and rows from one side of that limit are useless on the
 * other. So the total memory, which does not change, decides on which side of the limit the size is.
 */
#include "models/default_context.h"

enum {
    N_CTX_UNKNOWN = 8192,     /* if the model's training context is unknown */
    N_CTX_BLIND_MAX = 32768,  /* maximum, if the bytes per cell are unknown */
    N_CTX_DEFAULT_MIN = 2048, /* less is useless: the engine will report the lack of memory */
    DEVICE_SHARE = 2,         /* cells get this fraction of free device memory: a half */
    HOST_SHARE = 4,           /* and a quarter of host memory, which other models and the tiers use, too */
};

static uint64_t n_cells(uint64_t bytes, const hth_cell_room *room)
{
    return bytes / (room->is_device ? DEVICE_SHARE : HOST_SHARE) / room->cell_bytes / HTH_CONTEXT_STEP *
           HTH_CONTEXT_STEP;
}

uint32_t hth_default_context(uint32_t n_ctx_train, uint32_t n_ctx_short, const hth_cell_room *room)
{
    const uint64_t n_train = n_ctx_train ? n_ctx_train : N_CTX_UNKNOWN;
    const uint64_t n_short_max = (uint64_t)n_ctx_short / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP,
                   n_long_min = n_short_max + HTH_CONTEXT_STEP;
    uint64_t n_fit = N_CTX_BLIND_MAX;

    if (room->cell_bytes > 0) { /* the room is known, even if nothing is free */
        n_fit = n_cells(room->free_bytes, room);
        if (n_fit < N_CTX_DEFAULT_MIN)
            n_fit = N_CTX_DEFAULT_MIN;
        if (n_short_max > 0 && n_train >= n_long_min) {
            const bool is_long =
                n_cells(room->total_bytes, room) >= n_long_min && room->free_bytes / room->cell_bytes >= n_long_min;

            if (is_long && n_fit < n_long_min)
                n_fit = n_long_min;
            if (!is_long && n_fit > n_short_max)
                n_fit = n_short_max;
        }
    }
    return (uint32_t)(n_train <= n_fit ? n_train : n_fit);
}
