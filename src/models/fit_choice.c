/*
 *   1. All layers with the largest context, which usually fit.
 *   2. The most layers that fit on the devices with the smallest context. Fewer layers take more host memory, so no
 *      number of layers fits if this one does not fit there.
 *   3. With them, the largest context that fits.
 */
#include "models/fit_choice.h"

#include <assert.h>
#include <string.h>

enum { MARGIN_SHARE = 16 };                  /* this fraction of a device's memory is the margin, */
#define MARGIN_BYTES_MAX (UINT64_C(1) << 30) /* but at most this: other programs take no more on a larger device */

/* ---- needs and limits ---- */

uint64_t hth_fit_device_part(uint64_t total_bytes, uint64_t found_bytes)
{
    const uint64_t most = total_bytes > 0 ? total_bytes - total_bytes / 10 : UINT64_MAX;

    return found_bytes > 0 && found_bytes < most ? found_bytes : most;
}

/* More than was found may be free now, because another program ended. The server will find it, too, from the answer. */
static uint64_t found_on(const hth_engine_device_share *device, const hth_fit_found *found)
{
    for (size_t i = 0; found && i < found->n; i++)
        if (strcmp(found->at[i].name, device->name) == 0 && found->at[i].bytes > device->free_bytes)
            return found->at[i].bytes;
    return device->free_bytes;
}

uint64_t hth_fit_device_limit(const hth_engine_device_share *device, const hth_fit_limits *limits)
{
    const uint64_t share = device->total_bytes / MARGIN_SHARE,
                   margin = share < MARGIN_BYTES_MAX ? share : MARGIN_BYTES_MAX;

    if (limits->device_bytes > 0)
        return limits->device_bytes;
    if (!limits->takes_free)
        return hth_fit_device_part(device->total_bytes, found_on(device, limits->found));
    if (device->total_bytes == 0)
        return UINT64_MAX;
    return device->free_bytes > margin ? device->free_bytes - margin : 0;
}

hth_fit_answer hth_fit_compare(const hth_engine_needs *needs, uint64_t process_bytes, const hth_fit_limits *limits)
{
    hth_fit_answer answer = {
        .on_host = hth_engine_share_bytes(&needs->host) + needs->repacked_bytes + process_bytes <= limits->host_bytes,
        .on_devices = true,
    };

    for (size_t i = 0; i < needs->n_devices; i++)
        answer.on_devices &=
            hth_engine_share_bytes(&needs->devices[i].share) <= hth_fit_device_limit(&needs->devices[i], limits);
    return answer;
}

/* ---- the search ---- */

typedef struct search {
    const hth_fit_terms *terms;
    hth_fit_ask_fn ask;
    void *user_data;
    hearth_error *err;
} search;

static hearth_status ask_for(const search *s, hth_fit_candidate candidate, hth_fit_answer *out)
{
    return s->ask(&candidate, s->user_data, out, s->err);
}

/* The context of a step: 0 is the minimum, n_steps the maximum. */
static uint32_t context_at(const hth_fit_terms *terms, uint32_t step)
{
    const uint64_t n_ctx = ((uint64_t)terms->n_ctx_min / HTH_CONTEXT_STEP + step) * HTH_CONTEXT_STEP;

    if (step == 0)
        return terms->n_ctx_min;
    return n_ctx < terms->n_ctx_max ? (uint32_t)n_ctx : terms->n_ctx_max;
}

static uint32_t n_steps(const hth_fit_terms *terms)
{
    const uint32_t base = terms->n_ctx_min / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP;

    return terms->n_ctx_max > terms->n_ctx_min ? (terms->n_ctx_max - base - 1) / HTH_CONTEXT_STEP + 1 : 0;
}

/* The largest number of layers below the maximum that fit on the devices with the minimum context; 0 if none do. */
static hearth_status choose_layers(const search *s, uint32_t *out)
{
    uint32_t fits = 0, too_many = s->terms->n_layers_max;

    while (too_many - fits > 1) {
        const uint32_t middle = fits + (too_many - fits) / 2;
        const hth_fit_candidate candidate = { .n_ctx = s->terms->n_ctx_min, .n_layers = middle };
        hth_fit_answer answer;
        const hearth_status status = ask_for(s, candidate, &answer);

        if (status != HEARTH_OK)
            return status;
        if (answer.on_devices)
            fits = middle;
        else
            too_many = middle;
    }
    *out = fits;
    return HEARTH_OK;
}

/*
 * The largest context that fits with n_layers, given that the minimum does. knows_most: the maximum is known not to
 * fit.
 */
static hearth_status choose_context(const search *s, uint32_t n_layers, bool knows_most, uint32_t *out)
{
    uint32_t fits = 0, too_many = n_steps(s->terms) + !knows_most;
    bool is_first = !knows_most;

    while (too_many - fits > 1) {
        const uint32_t middle = is_first ? too_many - 1 : fits + (too_many - fits) / 2;
        const hth_fit_candidate candidate = { .n_ctx = context_at(s->terms, middle), .n_layers = n_layers };
        hth_fit_answer answer;
        const hearth_status status = ask_for(s, candidate, &answer);

        if (status != HEARTH_OK)
            return status;
        if (answer.on_devices && answer.on_host)
            fits = middle;
        else
            too_many = middle;
        is_first = false;
    }
    *out = context_at(s->terms, fits);
    return HEARTH_OK;
}

hearth_status hth_fit_choose(const hth_fit_terms *terms, hth_fit_ask_fn ask, void *user_data, hth_fit_choice *out,
                             hearth_error *err)
{
    const search s = { .terms = terms, .ask = ask, .user_data = user_data, .err = err };
    hth_fit_candidate at = { .n_ctx = terms->n_ctx_max, .n_layers = terms->n_layers_max };
    hth_fit_answer answer;
    hearth_status status = ask_for(&s, at, &answer);

    assert(terms->n_ctx_min >= 1);
    assert(terms->n_ctx_min <= terms->n_ctx_max);
    if (status == HEARTH_OK && !(answer.on_host && answer.on_devices) && terms->n_ctx_min < terms->n_ctx_max) {
        at.n_ctx = terms->n_ctx_min;
        status = ask_for(&s, at, &answer);
    }
    if (status == HEARTH_OK && !answer.on_devices && at.n_layers > 0) {
        status = choose_layers(&s, &at.n_layers);
        if (status == HEARTH_OK)
            status = ask_for(&s, at, &answer);
    }
    if (status == HEARTH_OK && answer.on_host && answer.on_devices && at.n_ctx < terms->n_ctx_max)
        status = choose_context(&s, at.n_layers, at.n_layers == terms->n_layers_max, &at.n_ctx);
    if (status == HEARTH_OK)
        *out = (hth_fit_choice){ .at = at, .fits = answer.on_host && answer.on_devices };
    return status;
}

/* ---- the default context ----------------------------------------------------------------------------------------- */

/*
 * Free memory varies from start to start, and so does the size of the context. The size is not part of any key, so a
 * start with less memory finds the rows of a start with more. But a model with two sets of RoPE factors computes
 * different cells with a context beyond its original size, and rows from one side of that limit are useless on the
 * other. So the total memory, which does not change, decides on which side of the limit the size is.
 */
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
