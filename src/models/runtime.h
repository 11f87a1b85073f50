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
hth_cache *hth_runtime_cache(const hearth_runtime *runtime); /* NULL: disabled */
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

/*
 * The options of the file tiers of a runtime that opened with options (NULL: the defaults), for another process with
 * the same tiers: directories, quotas, and the space that stays free. They borrow from options and directory, which
 * gets the default one. Without a log, key and RAM tier. HEARTH_MISUSE: as hearth_runtime_open.
 */
enum { HTH_RUNTIME_PATH_BYTES = 4096 };
hearth_status hth_runtime_file_options(const hearth_runtime_options *options, char directory[HTH_RUNTIME_PATH_BYTES],
                                       hth_cache_options *out, hearth_error *err);

/* Add a model to the list, borrowed until it is removed. HEARTH_CANCELLED: the runtime is closing. */
hearth_status hth_runtime_add(hearth_runtime *runtime, hearth_model *model, hearth_error *err);
void hth_runtime_remove(hearth_runtime *runtime, hearth_model *model);
/* Have a thread of the runtime end a model without references. Does not block. */
void hth_runtime_end_model(hearth_runtime *runtime, hearth_model *model);

#endif
