/*
 * model_inside.h - what the files of a model share: model.c, text.c, submit.c
 */
#ifndef HTH_MODELS_MODEL_INSIDE_H
#define HTH_MODELS_MODEL_INSIDE_H

#include <pthread.h>

#include "engine/backend.h"
#include "models/model.h"
#include "models/runtime.h"

struct hearth_model {
    /* Fixed after loading. */
    hearth_runtime *runtime;
    char *name;
    const hth_backend *backend;
    hth_engine_model_info info;
    hth_workplace place;
    uint64_t file_bytes;
    uint32_t n_parallel;
    char strategy[HTH_STRATEGY_NAME_BYTES];

    _Atomic unsigned references;
    hth_pulse pulse;

    /* The engine part; changed only while `users` is 0 and `unloading` is set. */
    hth_engine_model *engine_model;
    hth_engine_context *context;

    /* Guards the fields below. Held around the scheduler's lock, no other. */
    pthread_mutex_t lock;
    hth_scheduler *scheduler; /* may be used without the lock by those who entered */
    pthread_cond_t users_changed;
    unsigned users;   /* calls inside the engine part */
    bool unloading;   /* no new users */
    bool engine_gone; /* the engine part was freed */
    bool has_unloader;
    pthread_t unloader;
};

/*
 * Count a call into the engine part, so that it is not freed meanwhile. HEARTH_MISUSE without a model, HEARTH_CANCELLED
 * when it is unloaded; function is the public one that asks.
 */
hearth_status hth_model_enter(hearth_model *model, const char *function, hearth_error *err);
void hth_model_leave(hearth_model *model);

/* Is that UTF-8 of a length that is read? what names it in the message. */
hearth_status hth_check_text(const char *what, const char *text, size_t n_bytes, hearth_error *err);
/* A new array of the text's tokens. The model is entered. */
hearth_status hth_model_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                 hearth_token **tokens_out, size_t *n_out, hearth_error *err);

/* The request as it is used: checked for its size, newer fields as their defaults. */
hearth_status hth_read_request(const hearth_request *request, hearth_request *out, hearth_error *err);
/* A new array of its prompt's tokens, at least one, at most the context's. The model is entered. */
hearth_status hth_model_prompt_tokens(hearth_model *model, const hearth_request *request, hearth_token **out,
                                      size_t *n_out, hearth_error *err);
/* The effective fingerprint of requests with that salt (NULL: the model's). */
void hth_model_fingerprint(const hearth_model *model, const char *cache_salt, uint8_t out[32]);

#endif
