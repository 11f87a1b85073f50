/*
 * backend_sampler.h - making samplers for a model of llama.cpp
 */
#ifndef HTH_LLAMA_BACKEND_SAMPLER_H
#define HTH_LLAMA_BACKEND_SAMPLER_H

#include <llama.h>

#include "engine/backend.h"
#include "engine/vocabulary.h"
#include "grammar/grammar_memo.h"

/* As hth_backend.sampler_new; texts and grammars belong to the model and outlive the sampler. */
hearth_status hth_llama_sampler_new(const struct llama_model *llama, hth_texts *texts, hth_grammar_memo *grammars,
                                    const hearth_sampling *sampling, hth_engine_sampler **out, hearth_error *err);

#endif
