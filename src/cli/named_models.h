/*
 * named_models.h - the models that an operator named while the server runs (POST /admin/models)
 *
 * They are read like models of the command line, after all others, at each reload. They live as long as the server.
 * One thread at a time.
 */
#ifndef HTH_CLI_NAMED_MODELS_H
#define HTH_CLI_NAMED_MODELS_H

#include "cli/serve_options.h"

typedef struct hth_named_models {
    char *given[HTH_SERVE_MODELS_MAX]; /* "NAME=FILE" */
    size_t n;
} hth_named_models;

/* HEARTH_MISUSE: the name has a '=', or there are too many models; HEARTH_NO_MEMORY. Nothing else is checked here. */
hearth_status hth_named_models_add(hth_named_models *models, const char *name, const char *file, hearth_error *err);
/* HEARTH_NOT_FOUND: no model was named so. */
hearth_status hth_named_models_remove(hth_named_models *models, const char *name, hearth_error *err);
void hth_named_models_deinit(hth_named_models *models);

#endif
