/*
 * tuning_options.h - llama.cpp's options of a model, with the names of llama-server
 */
#ifndef HTH_OPTIONS_TUNING_OPTIONS_H
#define HTH_OPTIONS_TUNING_OPTIONS_H

#include "options/option_table.h"

/* The options as they are read. Texts belong to the command line or the configuration. */
typedef struct hth_tuning {
    hearth_engine_options engine;                                  /* without arrays */
    const char *tensor_overrides[HEARTH_TENSOR_OVERRIDES_MAX];     /* [engine.n_tensor_overrides] */
    const char *metadata_overrides[HEARTH_METADATA_OVERRIDES_MAX]; /* [engine.n_metadata_overrides] */
} hth_tuning;

extern const hth_option_table hth_tuning_options; /* in an hth_tuning */

#endif
