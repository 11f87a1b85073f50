/*
 * serve_config_inside.h - the state while a set of server options is made, for the files that make it
 */
#ifndef HTH_OPTIONS_SERVE_CONFIG_INSIDE_H
#define HTH_OPTIONS_SERVE_CONFIG_INSIDE_H

#include "options/config_reader.h"
#include "options/serve_config.h"

typedef struct hth_serve_loader {
    int argc; /* of the flags; 0: no flags */
    char **argv;
    hth_serve_set *set;
    hth_serve_options *o; /* set->effective */
    hth_pool *pool;
    hth_problems *problems;
    hth_serve_model *models; /* [n_models] so far */
    size_t n_models;
    /* The sections of models in the file. */
    hth_config_reader reader;
    const hth_config_node *sections[HTH_SERVE_MODELS_MAX];
    size_t n_sections;
    hth_config_presets presets;
    const hth_named_model *named; /* [n_named], added by operators */
    size_t n_named;
} hth_serve_loader;

/* Make a loader with an empty set; NULL without memory, with the error in problems. */
hth_serve_loader *hth_serve_loader_new(hth_problems *problems);
/* Report that there is no memory. Returns false. */
bool hth_serve_no_memory(const hth_serve_loader *l);

/* Read the flags into options again. They were parsed before, so they have no errors. */
void hth_serve_apply_flags(const hth_serve_loader *l, hth_serve_options *options);

/* Make paths absolute, so that they are valid in every process: one path, those of a table, those of a model. */
const char *hth_serve_absolute(const hth_serve_loader *l, const char *path);
void hth_serve_make_absolute(const hth_serve_loader *l, const hth_option_table *table, void *options);
void hth_serve_setup_make_absolute(const hth_serve_loader *l, hth_model_setup *setup);

/* Check that the default model exists. Call when all models are known. */
void hth_serve_check_default_model(const hth_serve_loader *l);

/*
 * Read the models from flags, sections and the folder, and named ones. Errors are in problems. False: no memory, or the
 * folder cannot be read.
 */
bool hth_serve_models_read(hth_serve_loader *l);
/* Make the models of the server's options, with the command lines of their workers. */
bool hth_serve_workers_make(const hth_serve_loader *l);

#endif
