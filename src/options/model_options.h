/*
 * model_options.h - the options of a model, which all commands that load a model share
 *
 * They are those of the runtime (its tiers), of the model (context, engine, scheduling) and of the cache policy.
 */
#ifndef HTH_OPTIONS_MODEL_OPTIONS_H
#define HTH_OPTIONS_MODEL_OPTIONS_H

#include "api/defaults.h"
#include "hearth.h"
#include "models/adapter_spec.h"
#include "options/option_table.h"

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
    /*
     * Arrays, policy and options of the engine are unset in these; hth_model_setup_* sets them. The caller sets the
     * log, the callbacks and the template's text.
     */
    hearth_runtime_options runtime;
    hearth_model_options model;
    hth_tuning tuning;
    hth_api_defaults defaults; /* for requests; the library does not use them */
} hth_model_setup;

/*
 * Include these tables in another with a row of kind HTH_OPTION_TABLE whose offset is that of an hth_model_setup. They
 * have no headings. Their keys are those of the configuration file.
 */
extern const hth_option_table hth_model_serving_options;  /* path, name, and the rows of the next table */
extern const hth_option_table hth_model_reply_options;    /* those of the template, and others that only servers have */
extern const hth_option_table hth_model_template_options; /* the chat template */
extern const hth_option_table hth_model_scheduling_options;
extern const hth_option_table hth_model_cache_options;
extern const hth_option_table hth_model_engine_options;

void hth_model_setup_init(hth_model_setup *out); /* the defaults */
/*
 * Read the chat template of the options in the form of hearth_model_options: *out, for free(); NULL: none. False, with
 * a message on standard error and *out unchanged, if it cannot be read, if there are two, or if out of memory.
 */
bool hth_model_setup_template(const hth_model_setup *setup, char **out);
/*
 * The options in the form of the library, with pointers into setup, which must outlive the result. The caller reads the
 * chat template.
 */
hearth_runtime_options hth_model_setup_runtime(const hth_model_setup *setup);
/* Likewise for the model; engine receives a part of the options, and must outlive the result, too. */
hearth_model_options hth_model_setup_model(const hth_model_setup *setup, hearth_engine_options *engine);

#endif
