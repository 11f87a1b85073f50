/*
 * model.h - what the runtime needs of a model
 */
#ifndef HTH_MODELS_MODEL_H
#define HTH_MODELS_MODEL_H

#include "base/status.h"
#include "cache/key.h"
#include "engine/backend.h"
#include "sched/sequence.h"

/*
 * Take a reference of a model that is in the runtime's list, unless its last one is being given back. Called with the
 * runtime's list locked, which a dying model takes before it goes.
 */
bool hth_model_try_ref(hearth_model *model);

/* A request's prompt, read and checked as hearth_submit does it, and what it is looked up with. */
typedef struct hth_model_prompt {
    hth_keyspace keyspace; /* with the request's salt */
    hearth_token *tokens;  /* [n_tokens] */
    size_t n_tokens;
    bool no_cache_read;
    /* The model's; valid until the prompt is given back, which keeps the model from being unloaded. */
    const hth_backend *backend;
    const hth_engine_model *engine_model;
    const hth_workplace *place;
} hth_model_prompt;

/* Statuses as hearth_submit; function is its name for messages. To be followed by hth_model_prompt_give_back. */
hearth_status hth_model_prompt_take(hearth_model *model, const hearth_request *request, const char *function,
                                    hth_model_prompt *out, hearth_error *err);
void hth_model_prompt_give_back(hearth_model *model, hth_model_prompt *prompt);

/* End a model's work at once: cancel its requests, save, free the engine's part. The handle stays. Blocks. */
void hth_model_shut_down(hearth_model *model);

#endif
