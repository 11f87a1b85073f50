/*
 * adapter_spec.h - an adapter in an option: "[NAME=]FILE[:SCALE]"
 *
 * The name is what stands before the first '=', if no '/' is before that; else the file's name without ".gguf". The
 * scale is what stands behind the last ':', if it is a number; else 1.
 */
#ifndef HTH_MODELS_ADAPTER_SPEC_H
#define HTH_MODELS_ADAPTER_SPEC_H

#include "engine/backend.h"

typedef struct hth_adapter_spec {
    char name[128];
    char path[4096];
    float scale;
} hth_adapter_spec;

/* The length of the text without ":SCALE", and the scale, which may be infinite or NAN; 1: there is none. */
size_t hth_without_scale(const char *text, float *scale_out);
/* HEARTH_MISUSE names the part that is wrong. */
hearth_status hth_adapter_spec_read(const char *text, hth_adapter_spec *out, hearth_error *err);

/* The adapters in the options of a model. */
typedef struct hth_adapter_specs {
    const char *list[HTH_ADAPTERS_MAX]; /* [n] */
    size_t n;
    const char *directory; /* of those that are loaded later, while a server runs; NULL: none can be */
    bool wait;             /* scales of 0, until somebody sets others or names the adapter */
} hth_adapter_specs;

/* Load them in their order. Statuses as hearth_adapter_load. */
hearth_status hth_adapter_specs_load(const hth_adapter_specs *specs, hearth_model *model, hearth_error *err);

#endif
