/*
 * default_context.c - see default_context.h
 *
 * What is free differs from day to day, and so does the number. It enters no key, so that a start with less memory finds
 * what one with more has kept. But models with two sets of RoPE factors compute otherwise beyond their original context:
 * there the rows of one day would be none of the next. So that border is crossed by what does not change.
 */
#include "models/default_context.h"

enum {
    N_CTX_UNKNOWN = 8192,     /* where a model does not say what it was trained with */
    N_CTX_BLIND_MAX = 32768,  /* where it cannot be told what cells take */
    N_CTX_DEFAULT_MIN = 2048, /* less is of no use: then the engine says what is missing */
    DEVICE_SHARE = 2,         /* of what is free there, one in so many bytes goes into cells */
    HOST_SHARE = 4,           /* less of this machine's, where other models and the tiers live, too */
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

    if (room->cell_bytes > 0) { /* nothing may be free, and that is known then */
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
