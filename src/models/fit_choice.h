/*
 * fit_choice.h - the largest layers and context of a model that fit into memory, and its default context
 *
 * Pure functions of the needs that the caller provides. Layers on GPUs have priority, because a layer on the CPU slows
 * every token; then comes context. More memory never leads to fewer layers, nor with the same layers to less context.
 */
#ifndef HTH_MODELS_FIT_CHOICE_H
#define HTH_MODELS_FIT_CHOICE_H

#include "base/status.h"
#include "engine/backend.h"

typedef struct hth_fit_candidate {
    uint32_t n_ctx;
    uint32_t n_layers; /* on GPUs */
} hth_fit_candidate;

/* The bounds of the choice. */
typedef struct hth_fit_terms {
    uint32_t n_ctx_min; /* 1 .. n_ctx_max */
    uint32_t n_ctx_max;
    uint32_t n_layers_max;
} hth_fit_terms;

/* Memory of devices that a server found available to its models: free, or used by them. */
typedef struct hth_fit_found_device {
    char name[sizeof(((hth_engine_device_share *)NULL)->name)];
    uint64_t bytes;
} hth_fit_found_device;

typedef struct hth_fit_found {
    hth_fit_found_device at[HTH_DEVICES_MAX];
    size_t n;
} hth_fit_found;

typedef struct hth_fit_limits {
    uint64_t host_bytes;
    uint64_t device_bytes; /* of each device; 0: depends on the device */
    /*
     * If it depends on the device: true for its free memory now, minus a margin; false for hth_fit_device_part of the
     * memory that was found or is free.
     */
    bool takes_free;
    const hth_fit_found *found; /* NULL: none */
} hth_fit_limits;

/* Do the needs of a candidate fit? */
typedef struct hth_fit_answer {
    bool on_host;
    bool on_devices;
} hth_fit_answer;

typedef struct hth_fit_choice {
    hth_fit_candidate at; /* the smallest useful candidate, if nothing fits */
    bool fits;
} hth_fit_choice;

/*
 * The part of a device's memory that a server's models may use: nine tenths of it, and no more than was found for them.
 * 0 means unknown. Returns UINT64_MAX if both are unknown.
 */
uint64_t hth_fit_device_part(uint64_t total_bytes, uint64_t found_bytes);

/* The limit of a device; UINT64_MAX: unknown. */
uint64_t hth_fit_device_limit(const hth_engine_device_share *device, const hth_fit_limits *limits);

/* Compare needs with limits. process_bytes is host memory in addition to the model's. */
hth_fit_answer hth_fit_compare(const hth_engine_needs *needs, uint64_t process_bytes, const hth_fit_limits *limits);

typedef hearth_status (*hth_fit_ask_fn)(const hth_fit_candidate *candidate, void *user_data, hth_fit_answer *out,
                                        hearth_error *err);

/*
 * Choose a candidate. More context must not need less memory on the host or on devices, and more layers must not need
 * less on devices. ask is called about 2 * log2(candidates) times, and its failure ends the search. It has always been
 * called for the chosen candidate. Contexts between the bounds are multiples of HTH_CONTEXT_STEP.
 */
hearth_status hth_fit_choose(const hth_fit_terms *terms, hth_fit_ask_fn ask, void *user_data, hth_fit_choice *out,
                             hearth_error *err);

/* ---- without options: the model's training context, as far as memory allows ---- */

/*
 * The number of cells of the context, at least 1. n_ctx_train and n_ctx_short are as in hth_engine_model_info. The
 * total memory decides whether the size is above n_ctx_short, unless free memory has no room for that. A pure function.
 */
uint32_t hth_default_context(uint32_t n_ctx_train, uint32_t n_ctx_short, const hth_cell_room *room);

#endif
