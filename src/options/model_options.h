/*
 * model_options.h - the options of a model, which `hearth run`, `hearth worker` and `hearth serve` share
 *
 * They are those of the runtime (its tiers), of the model (context, engine, scheduling) and of the cache policy.
 */
#ifndef HTH_OPTIONS_MODEL_OPTIONS_H
#define HTH_OPTIONS_MODEL_OPTIONS_H

#include "api/defaults.h"
#include "hearth.h"
#include "models/adapter_spec.h"
#include "options/option_table.h"

/*
 * Options for request values that clients do not send: rows in an hth_api_defaults, for rows of the kind
 * HTH_OPTION_TABLE. An option that is not set has no value, so that the model's recommendation applies.
 */
extern const hth_option_table hth_default_options;
/* Only the rows of the sampling numbers, likewise in an hth_api_defaults. */
extern const hth_option_table hth_sampling_options;
/* Only the rows of `reasoning` and `chat_template_kwargs`, likewise in an hth_api_defaults. */
extern const hth_option_table hth_thinking_options;

/* The recommendations in the generation_config.json beside a model's file; none if it cannot be read. */
hth_api_defaults hth_default_options_beside(const char *model_path);

enum { HTH_MODEL_DIRECTORIES_MAX = 15, HTH_MODEL_PARALLEL_MAX = 128 };

/* llama.cpp's options of a model, with the names of llama-server, as they are read. */
typedef struct hth_tuning {
    hearth_engine_options engine;                                  /* without arrays */
    const char *tensor_overrides[HEARTH_TENSOR_OVERRIDES_MAX];     /* [engine.n_tensor_overrides] */
    const char *metadata_overrides[HEARTH_METADATA_OVERRIDES_MAX]; /* [engine.n_metadata_overrides] */
} hth_tuning;

/* Plain values: a copy is complete, except for the strings, which belong to the command line or the configuration. */
typedef struct hth_model_setup {
    const char *path;
    const char *chat_template; /* the name of a built-in template, or a file */
    const char *chat_template_file;
    const char *more_directories[HTH_MODEL_DIRECTORIES_MAX];
    hth_adapter_specs adapters;
    const char *control_vectors[HEARTH_CONTROL_VECTORS_MAX]; /* [model.n_control_vectors] */
    bool has_policy;
    hearth_cache_policy policy;
    hearth_runtime_options runtime; /* without arrays and log */
    hearth_model_options model;     /* without policy, template text, options of the engine and callbacks */
    hth_tuning tuning;
    hth_api_defaults defaults; /* for requests; the library does not use them */
} hth_model_setup;

/*
 * Rows of options in an hth_model_setup, for rows of the kind HTH_OPTION_TABLE; without headings. Their keys are those
 * of the configuration file.
 */
extern const hth_option_table hth_model_serving_options;  /* path, name, and the rows of the next table */
extern const hth_option_table hth_model_reply_options;    /* the other options that only a server needs */
extern const hth_option_table hth_model_template_options; /* the chat template */
extern const hth_option_table hth_model_scheduling_options;
extern const hth_option_table hth_model_cache_options;
extern const hth_option_table hth_model_engine_options;

void hth_model_setup_init(hth_model_setup *out); /* the defaults */
/*
 * Read the chat template of the options in the form of hearth_model_options: *out, for free(); NULL: none. False, with
 * a message on standard error, if it cannot be read or if there are two.
 */
bool hth_model_setup_template(const hth_model_setup *setup, char **out);
/* The options in the form of the library, with pointers into setup. The caller reads the chat template. */
hearth_runtime_options hth_model_setup_runtime(const hth_model_setup *setup);
/* Likewise for the model; engine receives a part of the options. */
hearth_model_options hth_model_setup_model(const hth_model_setup *setup, hearth_engine_options *engine);

#endif
