/*
 * fit_model.h - a made-up model whose needs follow a formula, for tests of the choice that fits
 *
 * A layer lies on the host or on one of the devices, with its weights and cells.
 */
#ifndef HTH_TESTS_FIT_MODEL_H
#define HTH_TESTS_FIT_MODEL_H

#include "models/fit_choice.h"

typedef struct fit_model {
    uint64_t layer_bytes, cell_bytes; /* of one layer; of one token in one layer */
    uint64_t host_bytes;              /* whatever the layers are */
    uint64_t buffer_bytes;            /* on each device */
    uint32_t n_layers, n_devices;     /* layers with the output */
    hth_fit_limits limits;
    uint64_t device_total, device_free;
    unsigned n_asked;
    hearth_status fails; /* the status of the next answer */
} fit_model;

static inline hth_engine_needs fit_model_needs(const fit_model *m, const hth_fit_candidate *at)
{
    const uint32_t n_on = m->n_devices > 0 ? at->n_layers : 0;
    const uint64_t layer = m->layer_bytes, cells = m->cell_bytes * at->n_ctx;
    hth_engine_needs needs = {
        .host = { .weight_bytes = m->host_bytes + (m->n_layers - n_on) * layer,
                  .cell_bytes = (m->n_layers - n_on) * cells },
        .n_devices = m->n_devices,
    };

    for (uint32_t i = 0; i < m->n_devices; i++) {
        const uint32_t n = n_on / m->n_devices + (i < n_on % m->n_devices);

        needs.devices[i] = (hth_engine_device_share){
            .free_bytes = m->device_free,
            .total_bytes = m->device_total,
            .share = { .weight_bytes = n * layer, .cell_bytes = n * cells, .compute_bytes = m->buffer_bytes },
        };
    }
    return needs;
}

static inline hth_fit_answer fit_model_answer(const fit_model *m, const hth_fit_candidate *at)
{
    const hth_engine_needs needs = fit_model_needs(m, at);

    return hth_fit_compare(&needs, 0, &m->limits);
}

/* The hth_fit_ask_fn of a fit_model. */
static inline hearth_status fit_model_ask(const hth_fit_candidate *at, void *user_data, hth_fit_answer *out,
                                          hearth_error *err)
{
    fit_model *m = user_data;

    m->n_asked++;
    if (m->fails != HEARTH_OK)
        return hth_fail(err, m->fails, "no answer");
    *out = fit_model_answer(m, at);
    return HEARTH_OK;
}

#endif
