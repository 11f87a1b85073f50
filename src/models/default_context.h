/*
 * default_context.h - the default context size: the model's training context, as far as memory allows
 */
#ifndef HTH_MODELS_DEFAULT_CONTEXT_H
#define HTH_MODELS_DEFAULT_CONTEXT_H

#include <stdint.h>

#include "engine/backend.h"

/*
 * The number of cells of the context, at least 1. n_ctx_train and n_ctx_short are as in hth_engine_model_info. The
 * total memory decides whether the size is above n_ctx_short, unless free memory has no room for that. A pure function.
 */
uint32_t hth_default_context(uint32_t n_ctx_train, uint32_t n_ctx_short, const hth_cell_room *room);

#endif
