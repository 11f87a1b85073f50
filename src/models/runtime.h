/*
 * runtime.h - shared by all models of a runtime: cache, log, counters, list of models
 *
 * Any thread may call these functions. Results live as long as the runtime's memory, except for the cache, which ends
 * with hearth_runtime_close.
 */
#ifndef HTH_MODELS_RUNTIME_H
#define HTH_MODELS_RUNTIME_H

#include "cache/cache.h"
#include "sched/scheduler.h"

/* References to the memory of the runtime. Each model has one, so its handle stays valid after the runtime closes. */
void hth_runtime_ref(hearth_runtime *runtime);
void hth_runtime_unref(hearth_runtime *runtime);

const hth_log *hth_runtime_log(const hearth_runtime *runtime);
hth_cache *hth_runtime_cache(const hearth_runtime *runtime);             /* NULL: disabled */
const char *hth_runtime_memo_directory(const hearth_runtime *runtime);   /* NULL: none */
const char *hth_runtime_engine_directory(const hearth_runtime *runtime); /* NULL: the default */
/* Options of the runtime that models use. */
typedef struct hth_runtime_settings {
    uint32_t resume_wait_ms;
    bool keeps_text;
    size_t history_bytes_max;      /* of each model; 0: no history */
    const char *history_directory; /* NULL: in memory only */
} hth_runtime_settings;
const hth_runtime_settings *hth_runtime_settings_of(const hearth_runtime *runtime);

hth_counters *hth_runtime_counters(hearth_runtime *runtime);
/* Reserve n consecutive ids; returns the first. */
uint64_t hth_runtime_next_request_ids(hearth_runtime *runtime, uint32_t n);
/* The last reserved id; 0: none. */
uint64_t hth_runtime_last_request_id(const hearth_runtime *runtime);
/*
 * Copy a strategy by name; NULL: the default. HEARTH_MISUSE for an unknown name, with a message that lists the built-in
 * ones.
 */
hearth_status hth_runtime_strategy(hearth_runtime *runtime, const char *name, hth_strategy *out, hearth_error *err);

/* The default quota of the RAM tier: an eighth of the memory, at most 4 GiB. */
uint64_t hth_runtime_ram_bytes_default(void);

/* A model as the runtime sees it: a handle and three functions. */
typedef struct hth_runtime_member {
    hearth_model *model;
    /*
     * Take a reference. False if the last one is gone. Called with the list's lock held; hth_runtime_remove takes that
     * lock before the model is freed.
     */
    bool (*try_ref)(hearth_model *model);
    /* Cancel the requests and free the engine part; the handle remains. Blocks. */
    void (*shut_down)(hearth_model *model);
    /* Shut down and free a model without references. Calls hth_runtime_remove. Blocks. */
    void (*end)(hearth_model *model);
    struct hth_runtime_member *next_to_end; /* used by the runtime */
} hth_runtime_member;

/* Add a model to the list, borrowed until it is removed. HEARTH_CANCELLED: the runtime is closing. HEARTH_NO_MEMORY. */
hearth_status hth_runtime_add(hearth_runtime *runtime, hth_runtime_member *member, hearth_error *err);
void hth_runtime_remove(hearth_runtime *runtime, const hth_runtime_member *member);
/* Have a thread of the runtime end a model without references. Does not block. */
void hth_runtime_end_member(hearth_runtime *runtime, hth_runtime_member *member);

/* ---- loads on their own threads (load_start.c) ---- */

typedef struct hth_loads hth_loads;
/* NULL if out of memory. */
hth_loads *hth_loads_new(void);
/* No load may be left. Accepts NULL. */
void hth_loads_free(hth_loads *loads);
/* Refuse new loads, cancel the running ones, and wait for them to end. */
void hth_loads_end(hth_loads *loads);
hth_loads *hth_runtime_loads(const hearth_runtime *runtime);

#endif
