/*
 * model_inside.h - internals shared by the files of a model
 */
#ifndef HTH_MODELS_MODEL_INSIDE_H
#define HTH_MODELS_MODEL_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/backend.h"
#include "models/chat_templates.h"
#include "models/events.h"
#include "models/fingerprint.h"
#include "models/model.h"
#include "models/runtime.h"
#include "sched/adapter_set.h"
#include "sched/draft_model.h"
#include "sched/embedder.h"

enum { HTH_STRATEGIES_MAX = 16 };

/* Loads on threads of their own (load_start.c). */
typedef struct hth_loads {
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t changed;
    struct hth_load *list;  /* running loads */
    struct hth_load *ended; /* loads whose threads must be joined */
    bool is_ending;
} hth_loads;

/* Refuse new loads, cancel the running ones, and wait for them to end. */
void hth_loads_end(hth_loads *loads);

struct hearth_runtime {
    /* Set by open; close resets cache to NULL. */
    hth_log log;      /* passes lines on to user_log */
    hth_cache *cache; /* NULL: disabled, or closed */
    uint32_t resume_wait_ms;
    bool keeps_text;
    size_t history_bytes_max;     /* of each model; 0: no history */
    char *history_directory;      /* NULL: in memory only */
    char *memo_directory;         /* NULL: none */
    char *engine_directory;       /* NULL: the default */
    hth_signing_key *signing_key; /* NULL: rows are not signed */

    /* Any thread. */
    hth_counters counters;
    hth_loads loads;
    _Atomic uint64_t last_request_id;
    _Atomic unsigned holders;

    /* Guards user_log, and is held for reading during its call, so that close waits for the call. Innermost lock. */
    pthread_rwlock_t log_lock;
    hearth_log_fn user_log; /* NULL: closed; its user data may be gone */
    void *user_log_data;

    /* Guards the fields below. While it is held, only hth_model_try_ref is called, and no other lock is taken. */
    pthread_mutex_t lock;
    pthread_cond_t models_changed;
    hearth_model *models; /* borrowed; those that take requests */
    bool closing;
    hearth_model *to_end; /* models without references */
    bool ender_works;     /* the ender still processes to_end */
    bool has_ender;       /* join it */
    pthread_t ender;
    hth_strategy strategies[HTH_STRATEGIES_MAX]; /* [n_strategies], by hearth_runtime_add_strategy */
    size_t n_strategies;
};

typedef struct hth_loaded_adapter {
    uint32_t id;
    float scale;
    float named_scale; /* for requests that name it as their model */
    char *name;
    char *path;
    hth_adapter *adapter;
} hth_loaded_adapter;

typedef struct hth_adapters {
    /* Guards the fields below. Innermost lock: nothing is loaded or freed while it is held. */
    pthread_mutex_t lock;
    hth_loaded_adapter loaded[HTH_ADAPTERS_MAX]; /* [n], by id */
    size_t n;
    uint32_t n_ids;
} hth_adapters;

struct hearth_model {
    /* Fixed after the first step of loading, except the fingerprint in place.keyspace. */
    hearth_runtime *runtime;
    char *name;
    char *path;
    char *cache_salt; /* NULL: none */
    const hth_backend *backend;
    hth_engine_model_info info;
    const hth_chat_template *chat_template; /* a built-in one; NULL: the model's or the caller's */
    atomic_bool has_warned;                 /* whether it has warned that the model may not know the template in use */
    bool is_deterministic;
    bool refuses_questions; /* while it has an engine part; not set for a model that is only queried for its needs */
    bool has_overrides;     /* of metadata */
    bool turns_positions;   /* rotates positions (RoPE) differently than the file says */
    uint8_t overrides_digest[32];
    bool no_embeddings; /* as in the options; likewise the next one */
    bool no_reranking;
    hth_workplace place;
    hth_engine_context_params context_params; /* without abort; the types are owned */
    hth_schedule schedule;
    uint32_t queue_max;
    uint32_t n_threads;
    hearth_pooling pooling;    /* as in the options */
    uint32_t embed_tokens_max; /* of one input */
    uint32_t draft_max;        /* for requests that do not set it; likewise the next one */
    uint32_t draft_min;
    hearth_load_progress_fn progress; /* of the options; NULL: none */
    void *progress_user_data;
    hth_fingerprinting *fingerprinting; /* NULL: the model has no file */
    hearth_model *draft;                /* its draft model, a handle that no caller has; NULL: none */
    bool is_draft;                      /* of another model, so it renders no conversations */
    /*
     * The fingerprint of the file with the control vectors, without salts and adapters; set in the second step of
     * loading.
     */
    uint8_t model_fingerprint[32];

    _Atomic unsigned references;
    hearth_model *prev, *next, *next_to_end; /* in lists of the runtime; guarded by its lock, like the next one */
    bool is_listed;
    hearth_work_fn on_work; /* the caller's; NULL: none */
    void *work_user_data;
    hth_event_source *listed; /* sources with events of this round; scheduler thread */
    hth_pulse pulse;

    /* The engine part; changes only while `users` is 0 and `unloading` is set. */
    hth_engine_model *engine_model;
    hth_engine_context *context; /* NULL: the model does not generate */
    hth_adapters adapters;

    /*
     * Guards the fields below, and place.keyspace until the end of the second step of loading. Only the scheduler's
     * lock may be taken while it is held.
     */
    pthread_mutex_t lock;
    /*
     * Both are NULL before the second step; users that entered after it need no lock. A model that does not generate
     * has no scheduler.
     */
    hth_scheduler *scheduler;
    hth_embedder *embedder;
    pthread_cond_t users_changed;
    unsigned users;   /* calls inside the engine part */
    bool unloading;   /* no new users */
    bool is_claimed;  /* a thread is about to free the engine part */
    bool engine_gone; /* the engine part was freed */
    bool has_unloader;
    pthread_t unloader;
};

/*
 * Enter the engine part, which is not freed before the caller leaves. function names the public function in messages.
 * HEARTH_MISUSE without a model, HEARTH_CANCELLED if it is unloaded.
 */
hearth_status hth_model_enter(hearth_model *model, const char *function, hearth_error *err);
void hth_model_leave(hearth_model *model);
/* The same for calls that need the scheduler: HEARTH_UNSUPPORTED for a model that does not generate. */
hearth_status hth_model_enter_scheduler(hearth_model *model, const char *function, hearth_error *err);

/* Drop all, before the engine's model is freed. */
void hth_adapters_clear(hth_adapters *adapters);
/* HEARTH_UNSUPPORTED if a request to a deterministic model cannot use this many adapters. */
hearth_status hth_adapters_check_deterministic(size_t n, hearth_error *err);
/*
 * The set of a request that names these adapters, [n]; named NULL: the loaded ones with their scales. *out may be NULL,
 * the empty set. HEARTH_NOT_FOUND, HEARTH_MISUSE, HEARTH_NO_MEMORY.
 */
hearth_status hth_adapters_choose(hth_adapters *adapters, const hearth_adapter_scale *named, size_t n,
                                  hth_adapter_set **out, hearth_error *err);

/*
 * Take a reference. False if the last one is gone. Called with the lock of the runtime's list held; hth_runtime_remove
 * takes that lock before the model is freed.
 */
bool hth_model_try_ref(hearth_model *model);

/*
 * Memory needs are queried from the engine only while the process has no model, because a query changes the engine's
 * log, which all threads share. Call these before a model is loaded, and after the engine has freed it. The first one
 * waits for a query to end. Any thread.
 */
void hth_engine_questions_refuse(void);
void hth_engine_questions_allow(void);

enum { HTH_N_CTX_MAX = 1 << 24 };

/* Check the caller's options and copy them; fields that an older caller lacks get their defaults. */
hearth_status hth_model_read_options(const hearth_model_options *options, hearth_model_options *out, hearth_error *err);
/* A new model, with nothing loaded yet. options must have been read. End it with hth_model_end. HEARTH_NO_MEMORY. */
hearth_status hth_model_new(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                            hearth_model **out, hearth_error *err);
/* Load its weights, or only the metadata. Statuses as for hearth_model_load. */
hearth_status hth_model_load_weights(hearth_model *model, const hearth_model_options *options, bool no_weights,
                                     hearth_error *err);
/* The parameters of its context, without abort. If the options have no n_ctx, chooses it and logs the reason. */
hth_engine_context_params hth_model_context_params(const hearth_model *model, const hearth_model_options *options);
/* Make hth_model_identify end soon with HEARTH_CANCELLED, if it waits for a fingerprint. Any thread; accepts NULL. */
void hth_model_stop_identifying(hearth_model *model);

/* The options of a draft model, from those of its target, which were checked. *engine is a part of them. */
hearth_model_options hth_model_draft_options(const hearth_model_options *target, hearth_engine_options *engine);
/*
 * Load the weights of options->draft_model. HEARTH_UNSUPPORTED if it cannot draft for the model, with the reason: the
 * first token that differs, or a kind of model whose sequences cannot be shortened. Other statuses as for
 * hearth_model_load.
 */
hearth_status hth_model_draft_load(hearth_model *model, const hearth_model_options *options,
                                   const hth_fingerprint_options *fingerprint, hearth_error *err);
/* Make its context, of the model's size unless the options give another one. */
hearth_status hth_model_draft_make_context(hearth_model *model, const hearth_model_options *options, hearth_error *err);
/* The second step: wait for its fingerprint, and open it for the model's scheduler. */
hearth_status hth_model_draft_identify(hearth_model *model, hearth_error *err);

/* Copy a text, truncated to whole characters. */
void hth_copy_text(char *to, size_t capacity, const char *from);
/* HEARTH_MISUSE for a pooling that does not exist. */
hearth_status hth_check_pooling(hearth_pooling pooling, hearth_error *err);
/* The pooling of requests that name none; never HEARTH_POOLING_MODEL. */
hearth_pooling hth_model_pooling(const hearth_model *model);
/* The maximum tokens of one input to embed: one evaluation takes them all. */
uint32_t hth_model_embed_tokens_max(const hth_engine_model_info *info, bool generates, uint32_t n_batch);

/* Check a text: HEARTH_TOO_LONG, or HEARTH_INVALID_TEXT if it is not UTF-8. what is its name in messages. */
hearth_status hth_check_text(const char *what, const char *text, size_t n_bytes, hearth_error *err);
/* Like hth_model_prompt_of_text, for a text that was checked. The caller has entered the model. */
hearth_status hth_model_text_tokens(hearth_model *model, const hth_prompt_source *source, hth_prompt_tokens *out,
                                    hearth_error *err);

/* The model's keyspace, with a request's adapters and salt (NULL: none). HEARTH_NO_MEMORY. */
hearth_status hth_model_keyspace(const hearth_model *model, const hth_adapter_set *adapters, const char *cache_salt,
                                 hth_keyspace *out, hearth_error *err);
/* The same for requests of this owner. Statuses as for hth_adapters_choose. */
hearth_status hth_model_request_keyspace(hearth_model *model, const hth_prefix_owner *owner, hth_keyspace *out,
                                         hearth_error *err);

/* The prompt of a request, read and checked as in hearth_submit, and the inputs of its lookup. */
typedef struct hth_model_prompt {
    hth_keyspace keyspace; /* with the request's adapters and salt */
    hearth_token *tokens;  /* [n_tokens] */
    size_t n_tokens;
    size_t n_known;         /* leading tokens from the history */
    hth_prefix_owner owner; /* its pointers are the request's */
    bool no_cache_read;
} hth_model_prompt;

/*
 * Read a request's prompt and enter the model, until hth_model_prompt_give_back. function names the public function in
 * messages. Statuses as for hearth_submit.
 */
hearth_status hth_model_prompt_take(hearth_model *model, const hearth_request *request, const char *function,
                                    hth_model_prompt *out, hearth_error *err);
void hth_model_prompt_give_back(hearth_model *model, hth_model_prompt *prompt);

/* hth_scheduler_pause. Also false without a scheduler. */
bool hth_model_pause(hearth_model *model, uint64_t request_id, hth_pause by, bool paused);

#endif
