/*
 * model.c - a loaded model: its handle, its engine part, and who still uses it
 *
 * Two lifetimes. The handle (hearth_model) lives as long as somebody has a reference. The engine part (weights,
 * context, scheduler) lives from load until unloading, shutting down or the last reference; calls that touch it count
 * themselves in and out, so it is freed only when nobody is inside. Freeing waits for running requests and joins a
 * thread, so unloading does it on a thread of its own.
 */
#include "models/model.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "engine/rpc_address.h"
#include "models/fingerprint.h"
#include "models/model_inside.h"

enum {
    N_CTX_DEFAULT_MAX = 8192,
    N_CTX_MAX = 1 << 24,
    QUEUE_MAX_MAX = 65536,
    TICK_MS_MAX = 60000,
    N_IDLE_MIN = 4, /* finished sequences that may stay in the context */
    N_IDLE_MAX = 32,
};

/* ---- users of the engine part ---- */

bool hth_model_keeps_prompt(hearth_model *model, size_t n_tokens)
{
    const hth_workplace *place = &model->place;
    bool keeps;

    if (hth_model_enter(model, "hth_model_keeps_prompt", NULL) != HEARTH_OK)
        return false; /* it keeps nothing any more */
    keeps = place->cache && place->kind != HTH_MODEL_UNCACHED &&
            hth_policy_should_save_prompt((int64_t)n_tokens, &place->policy);
    hth_model_leave(model);
    return keeps;
}

hearth_status hth_model_enter(hearth_model *model, const char *function, hearth_error *err)
{
    bool entered;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "%s: model is NULL", function);
    pthread_mutex_lock(&model->lock);
    entered = !model->unloading;
    if (entered)
        model->users++;
    pthread_mutex_unlock(&model->lock);
    if (!entered)
        return hth_fail(err, HEARTH_CANCELLED, "model '%s' is unloaded; load it again", model->name);
    return HEARTH_OK;
}

void hth_model_leave(hearth_model *model)
{
    pthread_mutex_lock(&model->lock);
    model->users--;
    pthread_cond_broadcast(&model->users_changed);
    pthread_mutex_unlock(&model->lock);
}

/* Refuse new users; true for the one caller who is to free the engine part. */
static bool begin_unloading(hearth_model *model)
{
    bool first;

    pthread_mutex_lock(&model->lock);
    first = !model->unloading;
    model->unloading = true;
    pthread_mutex_unlock(&model->lock);
    return first;
}

static void free_engine_part(hearth_model *model)
{
    hth_scheduler *scheduler;

    pthread_mutex_lock(&model->lock);
    while (model->users > 0)
        pthread_cond_wait(&model->users_changed, &model->lock);
    scheduler = model->scheduler;
    model->scheduler = NULL; /* hearth_cancel looks here */
    pthread_mutex_unlock(&model->lock);
    hth_scheduler_close(scheduler);
    if (model->backend) {
        model->backend->context_free(model->context);
        model->backend->model_free(model->engine_model);
    }
    model->context = NULL;
    model->engine_model = NULL;

    pthread_mutex_lock(&model->lock);
    model->engine_gone = true;
    pthread_cond_broadcast(&model->users_changed);
    pthread_mutex_unlock(&model->lock);
}

static void *unload_when_idle(void *user_data)
{
    hearth_model *model = user_data;

    hth_os_thread_name("hearth-unload");
    hth_scheduler_wait_idle(model->scheduler);
    free_engine_part(model);
    return NULL;
}

static void join_unloader(hearth_model *model)
{
    bool has_unloader;

    pthread_mutex_lock(&model->lock);
    has_unloader = model->has_unloader;
    model->has_unloader = false;
    pthread_mutex_unlock(&model->lock);
    if (has_unloader)
        pthread_join(model->unloader, NULL);
}

void hearth_model_unload(hearth_model *model)
{
    bool started;

    if (!model || !begin_unloading(model))
        return;
    pthread_mutex_lock(&model->lock);
    hth_scheduler_refuse(model->scheduler); /* it is there: only who began unloading may free it */
    started = pthread_create(&model->unloader, NULL, unload_when_idle, model) == 0;
    model->has_unloader = started;
    pthread_mutex_unlock(&model->lock);
    if (!started)
        (void)unload_when_idle(model); /* without a thread it blocks, which is better than keeping the memory */
}

void hth_model_shut_down(hearth_model *model)
{
    bool first = begin_unloading(model);

    /* Under the lock the scheduler cannot go away, also where another thread is unloading already. */
    pthread_mutex_lock(&model->lock);
    if (model->scheduler) {
        hth_scheduler_refuse(model->scheduler);
        hth_scheduler_cancel_all(model->scheduler);
    }
    pthread_mutex_unlock(&model->lock);
    if (first) {
        free_engine_part(model);
        return;
    }
    /* Another thread began it: wait until it is done, whether it has a thread of its own yet or not. */
    pthread_mutex_lock(&model->lock);
    while (!model->engine_gone)
        pthread_cond_wait(&model->users_changed, &model->lock);
    pthread_mutex_unlock(&model->lock);
    join_unloader(model);
}

/* ---- references ---- */

hearth_model *hearth_model_ref(hearth_model *model)
{
    if (model)
        atomic_fetch_add_explicit(&model->references, 1, memory_order_relaxed);
    return model;
}

bool hth_model_try_ref(hearth_model *model)
{
    unsigned n = atomic_load_explicit(&model->references, memory_order_relaxed);

    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(&model->references, &n, n + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

static void model_free(hearth_model *model)
{
    pthread_cond_destroy(&model->users_changed);
    pthread_mutex_destroy(&model->lock);
    free(model->name);
    hth_runtime_unref(model->runtime);
    free(model);
}

void hearth_model_unref(hearth_model *model)
{
    if (!model || atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) != 1)
        return;
    hth_model_shut_down(model);
    hth_runtime_remove(model->runtime, model); /* after: a runtime that closes waits for this */
    model_free(model);
}

/* ---- loading ---- */

/* The policy that was asked for, in a context of n_ctx tokens. */
static hth_policy policy_of(const hearth_cache_policy *given, uint32_t n_ctx)
{
    hearth_cache_policy policy = hearth_cache_policy_default();

    if (!given)
        return hth_policy_default(n_ctx);
    memcpy(&policy, given, given->struct_size); /* checked when the options were read */
    return (hth_policy){
        .min_tokens = policy.min_tokens,
        .cold_min_tokens = policy.cold_min_tokens,
        .cold_max_tokens = policy.cold_max_tokens ? policy.cold_max_tokens : hth_policy_default(n_ctx).cold_max_tokens,
        .continued_interval = policy.continued_interval,
        .boundary_trim_tokens = policy.boundary_trim_tokens,
        .boundary_align_tokens = policy.boundary_align_tokens,
        .snapshot_interval = policy.snapshot_interval,
    };
}

static hearth_status check_policy(const hearth_cache_policy *given, hearth_error *err)
{
    hth_policy policy;
    hearth_status status;

    if (given && (given->struct_size < sizeof(size_t) || given->struct_size > sizeof(*given)))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_cache_policy.struct_size is %zu; make the struct with its default function, compiled "
                        "against this version of hearth.h",
                        given->struct_size);
    policy = policy_of(given, UINT32_MAX);
    status = hth_policy_validate(&policy, err);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "the model's cache_policy cannot be used");
    return status;
}

static hearth_status read_options(const hearth_model_options *options, hearth_model_options *out, hearth_error *err)
{
    *out = hearth_model_options_default();
    if (options) {
        if (options->struct_size < sizeof(size_t) || options->struct_size > sizeof(*out))
            return hth_fail(
                err, HEARTH_MISUSE,
                "hearth_model_options.struct_size is %zu; make the struct with its default function, compiled "
                "against this version of hearth.h",
                options->struct_size);
        memcpy(out, options, options->struct_size);
    }
    if (out->n_ctx > N_CTX_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_ctx is %u; it must be at most %d", out->n_ctx, N_CTX_MAX);
    if (out->n_batch < 1 || out->n_batch > 65536)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be between 1 and 65536", out->n_batch);
    if (out->n_threads > 1024)
        return hth_fail(err, HEARTH_MISUSE, "n_threads is %u; it must be at most 1024", out->n_threads);
    if (out->n_gpu_layers < -1)
        return hth_fail(err, HEARTH_MISUSE, "n_gpu_layers is %d; it must be -1 (all) or more", out->n_gpu_layers);
    if (out->rpc_servers && hth_rpc_addresses_read(out->rpc_servers, &(hth_rpc_addresses){ .n = 0 }, err) != HEARTH_OK)
        return HEARTH_MISUSE;
    if (out->n_parallel < 1 || out->n_parallel > HTH_PARALLEL_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_parallel is %u; it must be 1 to %d", out->n_parallel, HTH_PARALLEL_MAX);
    if (out->queue_max < 1 || out->queue_max > QUEUE_MAX_MAX)
        return hth_fail(err, HEARTH_MISUSE, "queue_max is %u; it must be 1 to %d", out->queue_max, QUEUE_MAX_MAX);
    if (out->prefill_chunk != 64 && out->prefill_chunk != 128 && out->prefill_chunk != 256)
        return hth_fail(err, HEARTH_MISUSE, "prefill_chunk is %u; it must be 64, 128 or 256", out->prefill_chunk);
    if (out->max_tick_ms < 1 || out->max_tick_ms > TICK_MS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "max_tick_ms is %u; it must be 1 to %d", out->max_tick_ms, TICK_MS_MAX);
    if (out->session_idle_ms < 1 || out->stalled_ms < 1 || out->aging_ms < 1)
        return hth_fail(err, HEARTH_MISUSE, "session_idle_ms, stalled_ms and aging_ms must be at least 1");
    if ((unsigned)out->fingerprint_mode > HEARTH_FINGERPRINT_FAST_UNSAFE)
        return hth_fail(err, HEARTH_MISUSE, "fingerprint_mode %d does not exist", (int)out->fingerprint_mode);
    return check_policy(out->cache_policy, err);
}

static bool is_stub(const char *path)
{
    return strncmp(path, "stub:", 5) == 0;
}

/* "models/hearth-tiny.gguf" -> "hearth-tiny" */
static char *name_of_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    size_t n = strlen(base);

    if (n > 5 && strcmp(base + n - 5, ".gguf") == 0)
        n -= 5;
    return strndup(base, n);
}

static hearth_status fingerprint(hearth_model *model, const char *path, const hearth_model_options *options,
                                 hearth_error *err)
{
    hth_keyspace *keyspace = &model->place.keyspace;
    uint8_t plain[32];
    hearth_status status = HEARTH_OK;

    if (is_stub(path))
        hth_sha256_of(path, strlen(path), plain);
    else
        status = hth_fingerprint_file(path, options->fingerprint_mode, hth_runtime_memo_directory(model->runtime),
                                      plain, NULL, err);
    if (status == HEARTH_OK) {
        hth_keyspace_set_fingerprint(keyspace, plain);
        hth_keyspace_salt(keyspace, options->cache_salt);
        keyspace->fingerprint_mode = (uint8_t)options->fingerprint_mode;
    }
    return status;
}

static hearth_status load_engine_model(hearth_model *model, const char *path, const hearth_model_options *options,
                                       hearth_error *err)
{
    hth_engine_model_params params = {
        .n_gpu_layers = options->n_gpu_layers,
        .rpc_servers = options->rpc_servers,
        .no_mmap = options->no_mmap,
        .chat_template = options->chat_template,
        .progress = options->progress,
        .progress_user_data = options->progress_user_data,
        .log = hth_runtime_log(model->runtime),
    };
    hearth_status status = HEARTH_OK;

    if (is_stub(path))
        model->backend = hth_backend_stub();
    else
        status = hth_backend_llama(hth_runtime_engine_directory(model->runtime), &model->backend, err);
    if (status == HEARTH_OK)
        status = model->backend->model_load(path, &params, &model->engine_model, err);
    if (status == HEARTH_OK)
        model->backend->model_info(model->engine_model, &model->info);
    return status;
}

/*
 * Sequences of the context: those that run, and finished ones that stay. The latter cost nothing but cells that nobody
 * else needs, except where state is kept for each.
 */
static uint32_t n_sequences(const hearth_model *model, uint32_t n_parallel)
{
    uint32_t n_idle = n_parallel < N_IDLE_MIN ? N_IDLE_MIN : n_parallel > N_IDLE_MAX ? N_IDLE_MAX : n_parallel;

    return n_parallel + (model->info.kind == HTH_MODEL_PLAIN ? n_idle : 1);
}

static hearth_status make_context(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    hth_engine_context_params params = {
        .n_ctx = options->n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = n_sequences(model, options->n_parallel) + 1, /* and one for cutting rows */
        .n_threads = options->n_threads ? options->n_threads : hth_os_n_cpus(),
        .type_k = options->type_k,
        .type_v = options->type_v,
        .abort = hth_pulse_wants_abort,
        .abort_user_data = &model->pulse,
    };
    hth_workplace *place = &model->place;
    hth_engine_context_info info;
    hearth_status status;

    if (params.n_ctx == 0)
        params.n_ctx = model->info.n_ctx_train > 0 && model->info.n_ctx_train < N_CTX_DEFAULT_MAX
                         ? model->info.n_ctx_train
                         : N_CTX_DEFAULT_MAX;
    status = model->backend->context_new(model->engine_model, &params, &model->context, err);
    if (status != HEARTH_OK)
        return status;
    model->backend->context_info(model->context, &info);
    place->backend = model->backend;
    place->engine_model = model->engine_model;
    place->context = model->context;
    place->kind = model->info.kind;
    place->n_window = model->info.n_window;
    place->n_ctx = info.n_ctx;
    place->n_batch = info.n_batch;
    place->n_vocab = model->info.n_vocab;
    place->keyspace.quant_byte = hth_quant_byte(model->info.quant_type);
    hth_sha256_of(info.params_text, strlen(info.params_text), place->keyspace.ctx_params_hash);
    place->policy = policy_of(options->cache_policy, info.n_ctx);
    place->engine_build = model->backend->build();
    place->cache = hth_runtime_cache(model->runtime);
    place->resume_wait_ms = hth_runtime_settings_of(model->runtime)->resume_wait_ms;
    place->keeps_text = hth_runtime_settings_of(model->runtime)->keeps_text;
    place->log = hth_runtime_log(model->runtime);
    place->on_work = options->on_work;
    place->work_user_data = options->work_user_data;
    /*
     * A type that the row format has no byte for is entered as f32: the fingerprint tells the model apart anyway, and
     * rows with byte 255 are refused on reading.
     */
    if (place->keyspace.quant_byte == HTH_QUANT_UNKNOWN)
        place->keyspace.quant_byte = hth_quant_byte("f32");
    if (place->cache && place->kind == HTH_MODEL_UNCACHED)
        hth_info(place->log,
                 "model '%s' (%s) is split over files or of a kind that was not measured; nothing of it is cached",
                 model->name, model->info.architecture);
    return HEARTH_OK;
}

static hearth_status start_scheduler(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    hth_schedule schedule = {
        .n_parallel = options->n_parallel,
        .n_sequences = n_sequences(model, options->n_parallel),
        .prefill_chunk = options->prefill_chunk,
        .max_tick_ms = options->max_tick_ms,
        .session_idle_ms = options->session_idle_ms,
        .stalled_ms = options->stalled_ms,
        .aging_ms = options->aging_ms,
    };
    hearth_status status = hth_runtime_strategy(model->runtime, options->strategy, &schedule.strategy, err);

    if (status != HEARTH_OK)
        return status;
    model->n_parallel = options->n_parallel;
    memcpy(model->strategy, schedule.strategy.name, sizeof(model->strategy));
    return hth_scheduler_open(&model->place, &schedule, options->queue_max, &model->pulse,
                              hth_runtime_counters(model->runtime), &model->scheduler, err);
}

/* The weights that were loaded and the bytes that were fingerprinted must be those of one file. */
static bool is_unchanged(const char *path, const struct stat *before)
{
    struct stat after;

    return stat(path, &after) == 0 && after.st_dev == before->st_dev && after.st_ino == before->st_ino &&
           after.st_size == before->st_size && hth_os_mtime_ns(&after) == hth_os_mtime_ns(before) &&
           hth_os_ctime_ns(&after) == hth_os_ctime_ns(before);
}

hearth_status hearth_model_load(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                hearth_model **out, hearth_error *err)
{
    hearth_model_options given;
    hearth_model *model;
    struct stat before;
    bool has_identity;
    hearth_status status;

    if (!runtime || !path || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_load: runtime, path or out is NULL");
    status = read_options(options, &given, err);
    if (status != HEARTH_OK)
        return status;
    model = calloc(1, sizeof(*model));
    if (!model)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);
    pthread_mutex_init(&model->lock, NULL);
    pthread_cond_init(&model->users_changed, NULL);
    atomic_init(&model->references, 1);
    model->runtime = runtime;
    hth_runtime_ref(runtime);
    model->name = given.name ? strdup(given.name) : name_of_path(path);
    if (!model->name)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);

    /* The engine looks first: it says best what is wrong with a file that is no model. */
    has_identity = !is_stub(path) && stat(path, &before) == 0;
    if (status == HEARTH_OK)
        status = load_engine_model(model, path, &given, err);
    if (status == HEARTH_OK)
        status = fingerprint(model, path, &given, err);
    if (status == HEARTH_OK && has_identity && !is_unchanged(path, &before))
        status = hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded; load it again", path);
    if (status == HEARTH_OK)
        status = make_context(model, &given, err);
    if (status == HEARTH_OK)
        status = start_scheduler(model, &given, err);
    if (status == HEARTH_OK && !hth_runtime_add(runtime, model))
        status = hth_fail(err, HEARTH_CANCELLED, "the runtime is being closed");
    if (status != HEARTH_OK) {
        hearth_model_unref(model);
        return status;
    }
    *out = model;
    return HEARTH_OK;
}

/* ---- what it is ---- */

static void copy_text(char *to, size_t capacity, const char *from)
{
    size_t n = strnlen(from, capacity);

    memcpy(to, from, n < capacity ? n : capacity);
    if (n < capacity)
        to[n] = '\0';
    else
        hth_end_at_character(to, capacity);
}

hearth_status hearth_model_info_get(hearth_model *model, hearth_model_info *info, hearth_error *err)
{
    hearth_model_info filled = { .struct_size = sizeof(filled) };
    size_t n_bytes;

    if (!model || !info || info->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_model_info_get: set info->struct_size to sizeof(hearth_model_info)");
    copy_text(filled.name, sizeof(filled.name), model->name);
    copy_text(filled.architecture, sizeof(filled.architecture), model->info.architecture);
    copy_text(filled.description, sizeof(filled.description), model->info.description);
    copy_text(filled.chat_template_kind, sizeof(filled.chat_template_kind), model->info.chat_template_kind);
    copy_text(filled.quant_type, sizeof(filled.quant_type), model->info.quant_type);
    filled.file_bytes = model->info.weight_bytes;
    filled.n_params = model->info.n_params;
    filled.n_ctx = model->place.n_ctx;
    filled.n_ctx_train = model->info.n_ctx_train;
    filled.n_vocab = model->info.n_vocab;
    filled.n_layers = model->info.n_layers;
    filled.block_tokens = HTH_BLOCK_TOKENS;
    filled.rows_are_blocks = model->place.kind != HTH_MODEL_RECURRENT && model->place.kind != HTH_MODEL_UNCACHED;
    memcpy(filled.fingerprint, model->place.keyspace.fingerprint, sizeof(filled.fingerprint));
    memcpy(filled.ctx_params_hash, model->place.keyspace.ctx_params_hash, sizeof(filled.ctx_params_hash));

    filled.n_parallel = model->n_parallel;
    memcpy(filled.strategy, model->strategy, sizeof(filled.strategy));
    filled.activity = HEARTH_UNLOADED;
    if (hth_model_enter(model, "hearth_model_info_get", NULL) == HEARTH_OK) {
        hth_batcher_status status;

        hth_scheduler_status_get(model->scheduler, &status);
        hth_model_leave(model);
        filled.activity = status.activity;
        filled.request_id = status.request_id;
        filled.n_done = status.n_done;
        filled.n_total = status.n_total;
        filled.n_waiting = status.n_waiting;
        filled.n_running = status.n_running;
        filled.n_idle_sequences = status.n_idle_sequences;
        filled.n_cells_used = status.n_cells_used;
        filled.n_ticks = status.n_ticks;
        filled.n_preempted = status.n_preempted;
    }
    n_bytes = info->struct_size < sizeof(filled) ? info->struct_size : sizeof(filled);
    filled.struct_size = info->struct_size;
    memcpy(info, &filled, n_bytes);
    return HEARTH_OK;
}
