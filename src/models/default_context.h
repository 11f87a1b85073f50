/*
 * default_context.h - the context of a model where nobody gives a size: what it was trained with, as far as memory allows
 */
#ifndef HTH_MODELS_DEFAULT_CONTEXT_H
#define HTH_MODELS_DEFAULT_CONTEXT_H

#include <stdint.h>

#include "engine/backend.h"

/*
 * Cells of the context, at least 1. n_ctx_train, n_ctx_short: the model's, as hth_engine_model_info has them. On which side of
 * n_ctx_short it lies is decided by the memory that there is in all, unless what is free has no room for that. Pure.
 */
uint32_t hth_default_context(uint32_t n_ctx_train, uint32_t n_ctx_short, const hth_cell_room *room);

#endif
