/*
 * runtime.c - the runtime: its options, its list of models, opening and closing
 *
 * The caller holds one reference to the runtime, and every model holds another. Closing shuts down every model (frees
 * its engine part; the handle stays), closes the cache, and drops the caller's reference. The last model handle frees
 * the memory.
 *
 * Dropping the last reference to a model never blocks. A thread, the ender, ends such models one after another, and
 * exits when none is left. Closing the runtime waits for it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/os.h"
#include "base/structs.h"
#include "models/model_inside.h"
#include "rows/directory.h"

enum { CLOSE_WRITES_MS = 10000 };

const char *hearth_version(void)
{
    return HEARTH_VERSION;
}

uint32_t hearth_version_number(void)
{
    return HEARTH_VERSION_NUMBER;
}

void hearth_free(void *memory)
{
    free(memory);
}

const hth_log *hth_runtime_log(const hearth_runtime *runtime)
{
    return &runtime->log;
}

hth_cache *hth_runtime_cache(const hearth_runtime *runtime)
{
    return runtime->cache;
}

hth_counters *hth_runtime_counters(hearth_runtime *runtime)
{
    return &runtime->counters;
}

uint64_t hth_runtime_next_request_ids(hearth_runtime *runtime, uint32_t n)
{
    return atomic_fetch_add_explicit(&runtime->last_request_id, n, memory_order_relaxed) + 1;
}

uint64_t hth_runtime_last_request_id(const hearth_runtime *runtime)
{
    return atomic_load_explicit(&runtime->last_request_id, memory_order_relaxed);
}

static bool find_strategy_locked(const hearth_runtime *runtime, const char *name, hth_strategy *out)
{
    for (size_t i = 0; name && i < runtime->n_strategies; i++)
        if (strcmp(runtime->strategies[i].name, name) == 0) {
            *out = runtime->strategies[i];
            return true;
        }
    return hth_strategy_builtin(name, out);
}

hearth_status hth_runtime_strategy(hearth_runtime *runtime, const char *name, hth_strategy *out, hearth_error *err)
{
    bool found;

    pthread_mutex_lock(&runtime->lock);
    found = find_strategy_locked(runtime, name, out);
    pthread_mutex_unlock(&runtime->lock);
    if (!found)
        return hth_fail(err, HEARTH_MISUSE,
                        "there is no strategy '%s'; use decode_maximal, prefill_priority, balanced, or one that was "
                        "added with hearth_runtime_add_strategy",
                        name);
    return HEARTH_OK;
}

hearth_status hearth_runtime_add_strategy(hearth_runtime *runtime, const char *name, hearth_strategy_fn plan,
                                          void *user_data, hearth_error *err)
{
    hth_strategy added = { .plan = plan, .user_data = user_data }, other;
    hearth_status status = HEARTH_OK;

    if (!runtime || !plan || !name || !*name || strnlen(name, sizeof(added.name)) == sizeof(added.name))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_runtime_add_strategy: runtime or plan is NULL, or the name is not 1 to %zu bytes long",
                        sizeof(added.name) - 1);
    memcpy(added.name, name, strlen(name) + 1);
    pthread_mutex_lock(&runtime->lock);
    if (find_strategy_locked(runtime, name, &other))
        status = hth_fail(err, HEARTH_MISUSE, "there is a strategy '%s' already; choose another name", name);
    else if (runtime->n_strategies == HTH_STRATEGIES_MAX)
        status = hth_fail(err, HEARTH_FULL, "%d strategies were added already; there is no room for more",
                          HTH_STRATEGIES_MAX);
    else
        runtime->strategies[runtime->n_strategies++] = added;
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

void hth_runtime_ref(hearth_runtime *runtime)
{
    atomic_fetch_add_explicit(&runtime->holders, 1, memory_order_relaxed);
}

void hth_runtime_unref(hearth_runtime *runtime)
{
    if (atomic_fetch_sub_explicit(&runtime->holders, 1, memory_order_acq_rel) != 1)
        return;
    pthread_cond_destroy(&runtime->loads.changed);
    pthread_mutex_destroy(&runtime->loads.lock);
    pthread_cond_destroy(&runtime->models_changed);
    pthread_mutex_destroy(&runtime->lock);
    pthread_rwlock_destroy(&runtime->log_lock);
    free(runtime->memo_directory);
    free(runtime->history_directory);
    free(runtime->engine_directory);
    hth_signing_key_free(runtime->signing_key);
    free(runtime);
}

/* ---- the log ---- */

static void log_to_user(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    hearth_runtime *runtime = user_data;

    pthread_rwlock_rdlock(&runtime->log_lock);
    if (runtime->user_log)
        runtime->user_log(level, source, message, runtime->user_log_data);
    pthread_rwlock_unlock(&runtime->log_lock);
}

/* ---- options ---- */

uint64_t hth_runtime_ram_bytes_default(void)
{
    uint64_t eighth = hth_os_memory_bytes() / 8;

    return eighth < UINT64_C(4) << 30 ? eighth : UINT64_C(4) << 30;
}

/* Copy the caller's options into our struct. Fields that a smaller, older struct lacks keep their defaults. */
static hearth_status read_options(const hearth_runtime_options *options, hearth_runtime_options *out, hearth_error *err)
{
    *out = hearth_runtime_options_default();
    if (options) {
        hearth_status status = hth_struct_read(out, sizeof(*out), options, "hearth_runtime_options", err);

        if (status != HEARTH_OK)
            return status;
    }
    if (out->n_writer_threads < 1 || out->n_writer_threads > HTH_WRITER_THREADS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_writer_threads is %u; it must be 1 to %d", out->n_writer_threads,
                        HTH_WRITER_THREADS_MAX);
    if (out->n_more_directories > 0 && !out->more_directories)
        return hth_fail(err, HEARTH_MISUSE, "n_more_directories is %zu, but more_directories is NULL",
                        out->n_more_directories);
    if (out->n_more_directories >= HTH_FILE_TIER_ROOTS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_more_directories is %zu; at most %d directories can be given",
                        out->n_more_directories, HTH_FILE_TIER_ROOTS_MAX - 1);
    for (size_t i = 0; i < out->n_more_directories; i++)
        if (!out->more_directories[i])
            return hth_fail(err, HEARTH_MISUSE, "more_directories[%zu] is NULL", i);
    if (out->history_bytes_max > SIZE_MAX / 16)
        return hth_fail(err, HEARTH_MISUSE, "history_bytes_max is %llu; it must be at most %llu",
                        (unsigned long long)out->history_bytes_max, (unsigned long long)(SIZE_MAX / 16));
    if (out->write_queue_rows_max < 1)
        return hth_fail(err, HEARTH_MISUSE, "write_queue_rows_max is 0; it must be at least 1");
    if (out->ram_bytes_max == 0)
        out->ram_bytes_max = hth_runtime_ram_bytes_default();
    if (out->disk_bytes_max == 0)
        out->disk_bytes_max = UINT64_C(32) << 30;
    return HEARTH_OK;
}

/* The path of a subdirectory; NULL if out of memory. */
static char *folder_in(const char *directory, const char *name)
{
    size_t n = strlen(directory) + strlen(name) + 2;
    char *path = malloc(n);

    if (path)
        (void)snprintf(path, n, "%s/%s", directory, name); /* sized above */
    return path;
}

/* What the file tiers need. Borrows from options and directory. */
static hth_cache_options file_options(const hearth_runtime_options *options, char directory[HTH_RUNTIME_PATH_BYTES])
{
    hth_cache_options out = {
        .ram_file_directory = options->ram_file_directory,
        .ram_file_bytes_max = options->ram_file_bytes_max,
        .ram_file_free_min = options->ram_file_free_min,
        .directory = options->cache_directory,
        .more_directories = options->more_directories,
        .n_more_directories = options->n_more_directories,
        .index_directory = options->index_directory,
        .disk_bytes_max = options->disk_bytes_max,
        .disk_free_min = options->disk_free_min,
        .ram_memory_fd = -1,
    };

    if (!out.directory && hth_cache_default_directory(directory, HTH_RUNTIME_PATH_BYTES))
        out.directory = directory;
    return out;
}

hearth_status hth_runtime_file_options(const hearth_runtime_options *options, char directory[HTH_RUNTIME_PATH_BYTES],
                                       hth_cache_options *out, hearth_error *err)
{
    hearth_runtime_options given;
    hearth_status status = read_options(options, &given, err);

    if (status == HEARTH_OK)
        *out = file_options(&given, directory);
    return status;
}

static hearth_status open_cache(hearth_runtime *runtime, const hearth_runtime_options *options, hearth_error *err)
{
    char directory[HTH_RUNTIME_PATH_BYTES];
    hth_cache_options cache_options = file_options(options, directory);
    hearth_status status;

    cache_options.ram_bytes_max = options->ram_bytes_max;
    cache_options.n_writer_threads = options->n_writer_threads;
    cache_options.write_limits = (hth_writer_limits){ .queue_rows_max = options->write_queue_rows_max,
                                                      .queue_bytes_max = options->write_queue_bytes_max,
                                                      .bytes_per_s = options->disk_write_bytes_per_s };
    cache_options.save_on_second_use = options->save_on_second_use;
    cache_options.ram_memory_fd = options->ram_memory_fd;
    cache_options.key = runtime->signing_key;
    cache_options.counters = &runtime->counters;
    cache_options.log = &runtime->log;
    if (!cache_options.directory)
        hth_warn(&runtime->log,
                 "nothing will be cached on disk: neither HEARTH_CACHE nor HOME is set; set one of them");

    status = hth_cache_open(&cache_options, &runtime->cache, err);
    /* A directory that the cache refused is not used for fingerprints either. */
    if (status == HEARTH_OK && cache_options.directory && hth_cache_is_durable(runtime->cache)) {
        /* If out of memory, large models are hashed again, and the history is only in memory. */
        runtime->memo_directory = folder_in(cache_options.directory, "fingerprints");
        runtime->history_directory = folder_in(cache_options.directory, "history");
    }
    if (status == HEARTH_OK)
        runtime->history_bytes_max = (size_t)options->history_bytes_max;
    return status;
}

hearth_status hearth_runtime_open(const hearth_runtime_options *options, hearth_runtime **out, hearth_error *err)
{
    hearth_runtime_options given;
    hearth_runtime *runtime;
    hearth_status status;

    if (!out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_open: out is NULL");
    status = read_options(options, &given, err);
    if (status != HEARTH_OK)
        return status;
    runtime = calloc(1, sizeof(*runtime));
    if (!runtime)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to open a runtime");
    runtime->log = (hth_log){ .level = given.log_level, .write = given.log ? log_to_user : NULL, .user_data = runtime };
    runtime->user_log = given.log;
    runtime->user_log_data = given.log_user_data;
    runtime->resume_wait_ms = given.session_resume_wait_ms;
    runtime->keeps_text = given.keep_prompt_text;
    pthread_rwlock_init(&runtime->log_lock, NULL);
    pthread_mutex_init(&runtime->lock, NULL);
    pthread_cond_init(&runtime->models_changed, NULL);
    pthread_mutex_init(&runtime->loads.lock, NULL);
    pthread_cond_init(&runtime->loads.changed, NULL);
    atomic_init(&runtime->holders, 1);
    runtime->engine_directory = given.engine_directory ? strdup(given.engine_directory) : NULL;
    if (given.engine_directory && !runtime->engine_directory)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to open a runtime");
    if (status == HEARTH_OK && given.signing_key_file)
        status = hth_signing_key_load(NULL, given.signing_key_file, &runtime->signing_key, err);
    if (status == HEARTH_OK && !given.cache_disabled)
        status = open_cache(runtime, &given, err);
    if (status != HEARTH_OK) {
        hth_runtime_unref(runtime);
        return status;
    }
    *out = runtime;
    return HEARTH_OK;
}

/* ---- models that end ---- */

static void end_models_locked(hearth_runtime *runtime)
{
    while (runtime->to_end) {
        hearth_model *model = runtime->to_end;

        runtime->to_end = model->next_to_end;
        pthread_mutex_unlock(&runtime->lock);
        hth_model_end(model);
        pthread_mutex_lock(&runtime->lock);
    }
}

static void *run_ender(void *user_data)
{
    hearth_runtime *runtime = user_data; /* lives until this thread is joined */

    hth_os_thread_name("hearth-end");
    pthread_mutex_lock(&runtime->lock);
    end_models_locked(runtime);
    runtime->ender_works = false;
    pthread_cond_broadcast(&runtime->models_changed);
    pthread_mutex_unlock(&runtime->lock);
    return NULL;
}

/* Join an ender that has left its loop (ender_works is false). */
static void join_ender(hearth_runtime *runtime)
{
    if (runtime->has_ender)
        pthread_join(runtime->ender, NULL);
    runtime->has_ender = false;
}

void hth_runtime_end_model(hearth_runtime *runtime, hearth_model *model)
{
    pthread_mutex_lock(&runtime->lock);
    LL_PREPEND2(runtime->to_end, model, next_to_end);
    if (!runtime->ender_works) {
        join_ender(runtime); /* it has released the lock for good, so this does not deadlock */
        runtime->has_ender = pthread_create(&runtime->ender, NULL, run_ender, runtime) == 0;
        runtime->ender_works = runtime->has_ender; /* otherwise the next ender or hearth_runtime_close ends the model */
    }
    pthread_cond_broadcast(&runtime->models_changed);
    pthread_mutex_unlock(&runtime->lock);
}

/* ---- closing ---- */

static void unlist_locked(hearth_runtime *runtime, hearth_model *model)
{
    if (model->is_listed)
        DL_DELETE(runtime->models, model);
    model->is_listed = false;
}

void hearth_runtime_close(hearth_runtime *runtime)
{
    bool is_ended;

    if (!runtime)
        return;
    hth_loads_end(&runtime->loads);
    pthread_mutex_lock(&runtime->lock);
    runtime->closing = true;
    while (runtime->models || runtime->to_end || runtime->ender_works) {
        hearth_model *model = runtime->models ? runtime->models->prev : NULL; /* the last one */

        if (runtime->to_end && !runtime->ender_works) { /* no ender could be started */
            end_models_locked(runtime);
            continue;
        }
        if (!model || !hth_model_try_ref(model)) {
            pthread_cond_wait(&runtime->models_changed,
                              &runtime->lock); /* until an ending model has left the list, or the ender is done */
            continue;
        }
        unlist_locked(runtime, model);
        pthread_mutex_unlock(&runtime->lock);
        hth_model_shut_down(model);
        hearth_model_unref(model);
        pthread_mutex_lock(&runtime->lock);
    }
    pthread_mutex_unlock(&runtime->lock);
    join_ender(runtime); /* the remaining models are only handles, which end without a thread */
    is_ended = hth_cache_close(runtime->cache, CLOSE_WRITES_MS);
    runtime->cache = NULL;
    pthread_rwlock_wrlock(&runtime->log_lock);
    runtime->user_log = NULL; /* although model handles or a hanging writer may still use the log */
    pthread_rwlock_unlock(&runtime->log_lock);
    if (is_ended) /* otherwise the runtime stays for the hanging writer */
        hth_runtime_unref(runtime);
}

hearth_status hearth_runtime_flush(hearth_runtime *runtime, uint32_t timeout_ms, hearth_error *err)
{
    if (!runtime)
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_flush: runtime is NULL");
    if (runtime->cache && !hth_cache_flush(runtime->cache, timeout_ms))
        return hth_fail(err, HEARTH_TIMED_OUT, "not all rows were written within %u ms; writing goes on", timeout_ms);
    return HEARTH_OK;
}

/* ---- the list ---- */

hearth_status hth_runtime_add(hearth_runtime *runtime, hearth_model *model, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    pthread_mutex_lock(&runtime->lock);
    if (runtime->closing) {
        status = hth_fail(err, HEARTH_CANCELLED, "the runtime is being closed");
    } else {
        DL_APPEND(runtime->models, model);
        model->is_listed = true;
    }
    pthread_mutex_unlock(&runtime->lock);
    return status;
}

void hth_runtime_remove(hearth_runtime *runtime, hearth_model *model)
{
    pthread_mutex_lock(&runtime->lock);
    unlist_locked(runtime, model);
    pthread_cond_broadcast(&runtime->models_changed);
    pthread_mutex_unlock(&runtime->lock);
}

hearth_status hearth_runtime_models(hearth_runtime *runtime, hearth_model **models, size_t capacity, size_t *n_out,
                                    hearth_error *err)
{
    hearth_model *model;
    size_t n = 0;

    if (!runtime || !n_out || (capacity > 0 && !models))
        return hth_fail(err, HEARTH_MISUSE, "hearth_runtime_models: runtime, n_out or models is NULL");
    pthread_mutex_lock(&runtime->lock);
    DL_FOREACH(runtime->models, model)
    {
        if (n < capacity) {
            if (!hth_model_try_ref(model))
                continue;
            models[n] = model;
        }
        n++;
    }
    pthread_mutex_unlock(&runtime->lock);
    *n_out = n;
    return HEARTH_OK;
}
