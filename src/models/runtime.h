/*
 * runtime.h - what all models of a process share: cache, log, counters, the list of models
 */
#ifndef HTH_MODELS_RUNTIME_H
#define HTH_MODELS_RUNTIME_H

#include "cache/cache.h"
#include "sched/scheduler.h"

/* Take and give back a hold on the runtime's memory; a model holds it, so that close leaves it valid handles. */
void hth_runtime_ref(hearth_runtime *runtime);
void hth_runtime_unref(hearth_runtime *runtime);

const hth_log *hth_runtime_log(const hearth_runtime *runtime);
hth_cache *hth_runtime_cache(const hearth_runtime *runtime);             /* NULL: disabled */
const char *hth_runtime_memo_directory(const hearth_runtime *runtime);   /* NULL: none */
const char *hth_runtime_engine_directory(const hearth_runtime *runtime); /* NULL: the default */
/* What models take over from the runtime's options. */
typedef struct hth_runtime_settings {
    uint32_t resume_wait_ms;
    bool keeps_text;
} hth_runtime_settings;
const hth_runtime_settings *hth_runtime_settings_of(const hearth_runtime *runtime);
hth_counters *hth_runtime_counters(hearth_runtime *runtime);
/* The first of n ids in a row. */
uint64_t hth_runtime_next_request_ids(hearth_runtime *runtime, uint32_t n);
/* The last one that was given; 0: none was. */
uint64_t hth_runtime_last_request_id(const hearth_runtime *runtime);
/* A strategy by name; NULL: the default. HEARTH_MISUSE naming those that there are. */
hearth_status hth_runtime_strategy(hearth_runtime *runtime, const char *name, hth_strategy *out, hearth_error *err);

/* What the RAM tier may hold where nobody says: an eighth of the memory, at most 4 GiB. */
uint64_t hth_runtime_ram_bytes_default(void);

/* Enter a model into the list; false when the runtime is closing. */
bool hth_runtime_add(hearth_runtime *runtime, hearth_model *model);
void hth_runtime_remove(hearth_runtime *runtime, hearth_model *model);
/* Have a model without references ended (hth_model_end) on a thread of the runtime's. Does not block. */
void hth_runtime_end_model(hearth_runtime *runtime, hearth_model *model);

/* ---- loads on threads of their own (load_start.c) ---- */

typedef struct hth_loads hth_loads;
/* NULL without memory. */
hth_loads *hth_loads_new(void);
/* Accepts NULL; there is none any more. */
void hth_loads_free(hth_loads *loads);
/* Refuse new ones, cancel those that run, and wait for their ends. */
void hth_loads_end(hth_loads *loads);
hth_loads *hth_runtime_loads(const hearth_runtime *runtime);

#endif
