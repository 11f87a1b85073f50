/*
 * adapter_spec.h - an adapter in an option: "[NAME=]FILE[:SCALE]"
 *
 * The name is the part before the first '=', if there is no '/' before that; otherwise the file's name without ".gguf".
 * The scale is the part after the last ':', if it is a number; otherwise 1.
 */
#ifndef HTH_MODELS_ADAPTER_SPEC_H
#define HTH_MODELS_ADAPTER_SPEC_H

#include "engine/backend.h"

typedef struct hth_adapter_spec {
    char name[128];
    char path[4096];
    float scale;
} hth_adapter_spec;

/*
 * The length of the text without ":SCALE". *scale_out is the scale, which may be infinite or NAN; 1 if there is none.
 */
size_t hth_without_scale(const char *text, float *scale_out);
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

#endif
