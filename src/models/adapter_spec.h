/*
 * adapter_spec.h - files with scales in options: adapters, "[NAME=]FILE[:SCALE]", and control vectors, "FILE[:SCALE]"
 *
 * The name is the part before the first '=', if there is no '/' before that; otherwise the file's name without ".gguf".
 * The scale is the part after the last ':', if it is a number; otherwise 1. The reading functions open no file and keep
 * no pointers. Any thread may call them. After an error, outputs do not change.
 */
#ifndef HTH_MODELS_ADAPTER_SPEC_H
#define HTH_MODELS_ADAPTER_SPEC_H

#include "engine/backend.h"

typedef struct hth_adapter_spec {
    char name[128];
    char path[4096];
    float scale;
} hth_adapter_spec;

/* HEARTH_MISUSE with a message that names the wrong part. */
hearth_status hth_adapter_spec_read(const char *text, hth_adapter_spec *out, hearth_error *err);

/* The adapters in the options of a model. */
typedef struct hth_adapter_specs {
    const char *list[HTH_ADAPTERS_MAX]; /* [n] */
    size_t n;
    const char *directory; /* of adapters loaded later, while a server runs; NULL: none can be loaded */
    bool wait;             /* scales are 0 until a client sets others or names the adapter */
} hth_adapter_specs;

/* Load them in order. Statuses as for hearth_adapter_load. */
hearth_status hth_adapter_specs_load(const hth_adapter_specs *specs, hearth_model *model, hearth_error *err);

/* ---- control vectors ---- */

/* Read one. HEARTH_MISUSE, also for NULL text, with a message that names the wrong part. */
hearth_status hth_control_vector_read(const char *text, hth_control_vector *out, hearth_error *err);

/*
 * Check the options for control vectors. HEARTH_MISUSE with a message that names the wrong option or text. The model is
 * not known here: hth_backend.model_load checks the files and the layers against it.
 */
hearth_status hth_control_vectors_check(const hearth_model_options *options, hearth_error *err);
/*
 * Read the control vectors of options that hth_control_vectors_check accepted. *out, [options->n_control_vectors], is
 * freed by the caller; NULL if there are none. HEARTH_NO_MEMORY.
 */
hearth_status hth_control_vectors_read(const hearth_model_options *options, hth_control_vector **out,
                                       hearth_error *err);

#endif
