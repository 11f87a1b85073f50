/*
 * fit_choice.h - the largest layers and context of a model that fit into memory
 *
 * Pure functions of the needs that the caller tells. More layers on GPUs come first, because a layer on the CPU slows
 * every token; then more context. With more memory, the choice is never fewer layers, and with the same layers never
 * less context.
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

/* Memory of devices that a server saw for its models: it was free, or they had it. */
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
    uint64_t device_bytes; /* of each device; 0: by the device */
    /* By the device: what is free there now, less a margin; else hth_fit_device_part of what was found or is free. */
    bool takes_free;
    const hth_fit_found *found; /* NULL: nothing */
} hth_fit_limits;

/* Do the needs of a candidate fit? */
typedef struct hth_fit_answer {
    bool on_host;
    bool on_devices;
} hth_fit_answer;

typedef struct hth_fit_choice {
    hth_fit_candidate at; /* the smallest candidate that was of use, if nothing fits */
    bool fits;
} hth_fit_choice;

/*
 * The part of a device that a server's models may have: nine tenths of its memory, and no more than was found for them.
 * A number of 0 is unknown; UINT64_MAX: both are.
 */
uint64_t hth_fit_device_part(uint64_t total_bytes, uint64_t found_bytes);

/* The limit of a device; UINT64_MAX: unknown. */
uint64_t hth_fit_device_limit(const hth_engine_device_share *device, const hth_fit_limits *limits);

/* Compare. process_bytes: of the host, besides the model. */
hth_fit_answer hth_fit_compare(const hth_engine_needs *needs, uint64_t process_bytes, const hth_fit_limits *limits);

typedef hearth_status (*hth_fit_ask_fn)(const hth_fit_candidate *candidate, void *user_data, hth_fit_answer *out,
                                        hearth_error *err);

/*
 * Choose. A candidate takes no less on the host and on devices with more context, and no less on devices with more
 * layers. ask is called about 2 * log2 of the candidates times, and its failure ends the search. The choice was asked
 * for. Contexts between the bounds are multiples of HTH_CONTEXT_STEP.
 */
hearth_status hth_fit_choose(const hth_fit_terms *terms, hth_fit_ask_fn ask, void *user_data, hth_fit_choice *out,
                             hearth_error *err);

#endif
