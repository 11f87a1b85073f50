/*
 * model_inside.h - what the files of a model share
 */
#ifndef HTH_MODELS_MODEL_INSIDE_H
#define HTH_MODELS_MODEL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backend.h"
#include "models/chat_templates.h"
#include "models/events.h"
#include "models/fingerprinting.h"
#include "models/model.h"
#include "models/runtime.h"

struct hearth_model {
    /* Fixed after the first step of loading, but for the fingerprint in place.keyspace. */
    hearth_runtime *runtime;
    char *name;
    char *path;
    char *cache_salt; /* NULL: none */
    const hth_backend *backend;
    hth_engine_model_info info;
    const hth_chat_template *chat_template; /* one of ours; NULL: the model's, or one that was given */
    atomic_bool has_warned;                 /* that its conversations have a template which it may not know */
    hth_workplace place;
    hth_schedule schedule;
    uint32_t queue_max;
    hth_fingerprinting *fingerprinting; /* NULL: of no file */

    _Atomic unsigned references;
    hearth_model *next_to_end; /* the runtime's, once there are none */
    hearth_work_fn on_work;    /* the caller's; NULL: nobody watches */
    void *work_user_data;
    hth_event_source *told; /* the scheduler thread's: they have told something in this round */
    hth_pulse pulse;

    /* The engine part; changed only while `users` is 0 and `unloading` is set. */
    hth_engine_model *engine_model;
    hth_engine_context *context;

    /*
     * Guards the fields below, and place.keyspace until the second step of loading has ended. Held around the scheduler's
     * lock, no other.
     */
    pthread_mutex_t lock;
    hth_scheduler *scheduler; /* NULL before that; may be used without the lock by those who entered after it */
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

/* The options as they are used: checked, newer fields as their defaults. */
hearth_status hth_model_read_options(const hearth_model_options *options, hearth_model_options *out, hearth_error *err);
/* Have hth_model_identify end soon, where it waits for a fingerprint (HEARTH_CANCELLED). Any thread. */
void hth_model_stop_identifying(hearth_model *model);

/* Is that UTF-8 of a length that is read? what names it in the message. */
hearth_status hth_check_text(const char *what, const char *text, size_t n_bytes, hearth_error *err);
/* A new array of the text's tokens. The model is entered. */
hearth_status hth_model_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                                 hearth_token **tokens_out, size_t *n_out, hearth_error *err);

/* A new array of its prompt's tokens, at least one, at most the context's. The model is entered. */
hearth_status hth_model_prompt_tokens(hearth_model *model, const hearth_request *request, hearth_token **out,
                                      size_t *n_out, hearth_error *err);
/* The model's keyspace, with a request's salt (NULL: none). */
hth_keyspace hth_model_keyspace(const hearth_model *model, const char *cache_salt);

/* A request's prompt, read and checked as hearth_submit does it, and what it is looked up with. */
typedef struct hth_model_prompt {
    hth_keyspace keyspace; /* with the request's salt */
    hearth_token *tokens;  /* [n_tokens] */
    size_t n_tokens;
    bool no_cache_read;
} hth_model_prompt;

/*
 * Statuses as hearth_submit; function is its name for messages. To be followed by hth_model_prompt_give_back, until when
 * the model is entered.
 */
hearth_status hth_model_prompt_take(hearth_model *model, const hearth_request *request, const char *function,
                                    hth_model_prompt *out, hearth_error *err);
void hth_model_prompt_give_back(hearth_model *model, hth_model_prompt *prompt);

/* Mark a request as paused by who holds it, or not by him any more. False when it is not there. */
bool hth_model_pause(hearth_model *model, uint64_t request_id, hth_pause by, bool paused);

/* Say once that a model without a chat template is asked to converse. */
void hth_model_warn_of_template(hearth_model *model);

#endif
