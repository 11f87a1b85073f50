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
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os.h"
#include "engine/backend.h"
#include "models/fingerprint.h"
#include "models/runtime.h"
#include "sched/text_stream.h"

enum {
    N_CTX_DEFAULT_MAX = 8192,
    N_CTX_MAX = 1 << 24,
    PIECE_BYTES_MAX = 4096,
    PROMPT_BYTES_MAX = 256 << 20,
};

struct hearth_model {
    /* Fixed after loading. */
    hearth_runtime *runtime;
    char *name;
    const hth_backend *backend;
    hth_engine_model_info info;
    hth_workplace place;
    uint64_t file_bytes;

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

/* ---- users of the engine part ---- */

static hearth_status enter(hearth_model *model, const char *function, hearth_error *err)
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

static void leave(hearth_model *model)
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

static hearth_status make_context(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    hth_engine_context_params params = {
        .n_ctx = options->n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = HTH_SEQUENCES,
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
        status =
            hth_scheduler_open(&model->place, &model->pulse, hth_runtime_counters(runtime), &model->scheduler, err);
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

    filled.activity = HEARTH_UNLOADED;
    if (enter(model, "hearth_model_info_get", NULL) == HEARTH_OK) {
        hth_scheduler_status status;

        hth_scheduler_status_get(model->scheduler, &status);
        leave(model);
        filled.activity = status.activity;
        filled.request_id = status.request_id;
        filled.n_done = status.n_done;
        filled.n_total = status.n_total;
        filled.n_waiting = status.n_waiting;
    }
    n_bytes = info->struct_size < sizeof(filled) ? info->struct_size : sizeof(filled);
    filled.struct_size = info->struct_size;
    memcpy(info, &filled, n_bytes);
    return HEARTH_OK;
}

/* ---- text and tokens; the model is entered ---- */

static hearth_status check_text(const char *what, const char *text, size_t n_bytes, hearth_error *err)
{
    if (n_bytes > PROMPT_BYTES_MAX)
        return hth_fail(err, HEARTH_TOO_LONG, "%s is %zu bytes long; at most %d are read", what, n_bytes,
                        PROMPT_BYTES_MAX);
    if (!hth_utf8_is_valid(text, n_bytes))
        return hth_fail(err, HEARTH_INVALID_TEXT, "%s is not valid UTF-8; convert it first, for example with iconv",
                        what);
    return HEARTH_OK;
}

/* A new array of the text's tokens. */
static hearth_status tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token **tokens_out, size_t *n_out, hearth_error *err)
{
    size_t capacity = n_bytes / 2 + 64; /* a guess that nearly always holds */
    hth_tokenize_result result = HTH_TOKENIZE_MORE_ROOM;
    hearth_token *tokens = NULL;
    hearth_status status = HEARTH_OK;
    size_t n = 0;

    while (status == HEARTH_OK && result == HTH_TOKENIZE_MORE_ROOM) {
        hearth_token *grown = realloc(tokens, capacity * sizeof(*tokens));

        if (!grown) {
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu tokens", capacity);
            break;
        }
        tokens = grown;
        status =
            model->backend->tokenize(model->engine_model, text, n_bytes, flags, tokens, capacity, &n, &result, err);
        if (n > capacity)
            capacity = n;
    }
    if (status != HEARTH_OK) {
        free(tokens);
        return status;
    }
    *tokens_out = tokens;
    *n_out = n;
    return HEARTH_OK;
}

hearth_status hearth_tokenize(hearth_model *model, const char *text, size_t n_bytes, unsigned flags,
                              hearth_token *tokens, size_t capacity, size_t *n_out, hearth_error *err)
{
    hearth_token *all = NULL;
    size_t n = 0;
    hearth_status status;

    if ((!text && n_bytes > 0) || (!tokens && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_tokenize: text, tokens or n_out is NULL");
    status = enter(model, "hearth_tokenize", err);
    if (status != HEARTH_OK)
        return status;
    status = check_text("the text", text, n_bytes, err);
    if (status == HEARTH_OK)
        status = tokenize(model, text, n_bytes, flags, &all, &n, err);
    leave(model);
    if (status != HEARTH_OK)
        return status;
    *n_out = n;
    if (n > capacity)
        status =
            hth_fail(err, HEARTH_TOO_LONG, "the text has %zu tokens, more than the %zu there is room for", n, capacity);
    else if (n > 0)
        memcpy(tokens, all, n * sizeof(*tokens));
    free(all);
    return status;
}

typedef struct text_builder {
    char *text;
    size_t n;
    size_t capacity;
} text_builder;

static bool build(text_builder *builder, const char *bytes, size_t n)
{
    if (!builder->text || builder->n + n + 1 > builder->capacity) {
        size_t capacity = 2 * (builder->n + n + 1) + 64;
        char *grown = realloc(builder->text, capacity);

        if (!grown)
            return false;
        builder->text = grown;
        builder->capacity = capacity;
    }
    memcpy(builder->text + builder->n, bytes, n);
    builder->n += n;
    builder->text[builder->n] = '\0';
    return true;
}

hearth_status hearth_detokenize(hearth_model *model, const hearth_token *tokens, size_t n_tokens, bool special,
                                char **text_out, size_t *n_out, hearth_error *err)
{
    text_builder builder = { .text = NULL };
    hth_text_stream *stream;
    const char *text = "";
    size_t n_text = 0;
    hearth_status status;

    if ((!tokens && n_tokens > 0) || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_detokenize: tokens or text_out is NULL");
    status = enter(model, "hearth_detokenize", err);
    if (status != HEARTH_OK)
        return status;
    stream = hth_text_stream_new(NULL, 0);
    if (!stream || !build(&builder, "", 0))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    for (size_t i = 0; status == HEARTH_OK && i < n_tokens; i++) {
        char piece[PIECE_BYTES_MAX];
        size_t n_piece = 0;
        bool stopped;

        status = model->backend->piece(model->engine_model, tokens[i], special, piece, sizeof(piece), &n_piece, err);
        if (status == HEARTH_OK &&
            (!hth_text_stream_feed(stream, piece, n_piece, &text, &n_text, &stopped) || !build(&builder, text, n_text)))
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    }
    if (status == HEARTH_OK && (!hth_text_stream_finish(stream, &text, &n_text) || !build(&builder, text, n_text)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a text of %zu tokens", n_tokens);
    leave(model);
    hth_text_stream_free(stream);
    if (status != HEARTH_OK) {
        free(builder.text);
        return status;
    }
    *text_out = builder.text;
    if (n_out)
        *n_out = builder.n;
    return HEARTH_OK;
}

hearth_status hearth_chat_render(hearth_model *model, const hearth_chat_message *messages, size_t n_messages,
                                 char **text_out, size_t *n_out, hearth_error *err)
{
    char *text = NULL;
    hearth_status status;

    if (!messages || n_messages == 0 || !text_out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_chat_render: at least one message and text_out are needed");
    for (size_t i = 0; i < n_messages; i++) {
        if (!messages[i].role || !messages[i].content)
            return hth_fail(err, HEARTH_MISUSE, "hearth_chat_render: message %zu has no role or no content", i);
        status = check_text("a message", messages[i].content, strlen(messages[i].content), err);
        if (status != HEARTH_OK)
            return status;
    }
    status = enter(model, "hearth_chat_render", err);
    if (status != HEARTH_OK)
        return status;
    status = model->backend->chat_render(model->engine_model, messages, n_messages, &text, err);
    leave(model);
    if (status != HEARTH_OK)
        return status;
    *text_out = text;
    if (n_out)
        *n_out = strlen(text);
    return HEARTH_OK;
}

/* ---- requests ---- */

static hearth_status read_request(const hearth_request *request, hearth_request *out, hearth_error *err)
{
    *out = hearth_request_default();
    if (!request)
        return hth_fail(err, HEARTH_MISUSE, "the request is NULL");
    if (request->struct_size < sizeof(size_t) || request->struct_size > sizeof(*out))
        return hth_fail(
            err, HEARTH_MISUSE,
            "hearth_request.struct_size is %zu; make the struct with its default function, compiled against "
            "this version of hearth.h",
            request->struct_size);
    memcpy(out, request, request->struct_size);
    if (!out->prompt == !out->tokens)
        return hth_fail(err, HEARTH_MISUSE, "a request needs either prompt or tokens, and not both");
    return HEARTH_OK;
}

static hearth_status prompt_tokens(hearth_model *model, const hearth_request *request, hearth_token **out,
                                   size_t *n_out, hearth_error *err)
{
    hearth_token *tokens = NULL;
    size_t n = 0;
    hearth_status status = HEARTH_OK;

    if (request->prompt) {
        size_t n_bytes = strlen(request->prompt);

        /* The token that begins every text would be left: an empty prompt is nearly always a mistake. */
        status = n_bytes == 0 ? hth_fail(err, HEARTH_MISUSE, "the prompt is empty; give at least one character")
                              : check_text("the prompt", request->prompt, n_bytes, err);
        if (status == HEARTH_OK)
            status = tokenize(model, request->prompt, n_bytes, request->tokenize_flags, &tokens, &n, err);
    } else {
        n = request->n_tokens;
        for (size_t i = 0; i < n && status == HEARTH_OK; i++)
            if (request->tokens[i] < 0 || (uint32_t)request->tokens[i] >= model->info.n_vocab)
                status = hth_fail(err, HEARTH_MISUSE, "token %zu of the prompt is %d; this model has tokens 0 to %u", i,
                                  request->tokens[i], model->info.n_vocab - 1);
        if (status == HEARTH_OK && n <= model->place.n_ctx) {
            tokens = malloc((n ? n : 1) * sizeof(*tokens));
            if (!tokens)
                status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a prompt of %zu tokens", n);
            else if (n > 0)
                memcpy(tokens, request->tokens, n * sizeof(*tokens));
        }
    }
    if (status == HEARTH_OK && n == 0)
        status = hth_fail(err, HEARTH_MISUSE, "the prompt is empty; give at least one token of text");
    if (status == HEARTH_OK && n > model->place.n_ctx)
        status = hth_fail(err, HEARTH_TOO_LONG,
                          "the prompt has %zu tokens, the context has room for %u; shorten it or load the model with a "
                          "larger context",
                          n, model->place.n_ctx);
    if (status != HEARTH_OK) {
        free(tokens);
        return status;
    }
    *out = tokens;
    *n_out = n;
    return HEARTH_OK;
}

hearth_status hth_model_prompt_take(hearth_model *model, const hearth_request *request, const char *function,
                                    hth_model_prompt *out, hearth_error *err)
{
    hth_model_prompt prompt = { .tokens = NULL };
    hearth_request given;
    hearth_status status = read_request(request, &given, err);

    if (status == HEARTH_OK)
        status = enter(model, function, err);
    if (status != HEARTH_OK)
        return status;
    status = prompt_tokens(model, &given, &prompt.tokens, &prompt.n_tokens, err);
    if (status != HEARTH_OK) {
        leave(model);
        return status;
    }
    prompt.keyspace = model->place.keyspace;
    hth_keyspace_salt(&prompt.keyspace, given.cache_salt);
    prompt.no_cache_read = given.no_cache_read;
    prompt.backend = model->backend;
    prompt.engine_model = model->engine_model;
    prompt.place = &model->place;
    *out = prompt;
    return HEARTH_OK;
}

void hth_model_prompt_give_back(hearth_model *model, hth_model_prompt *prompt)
{
    free(prompt->tokens);
    leave(model);
}

hearth_status hearth_submit(hearth_model *model, const hearth_request *request, uint64_t *id_out, hearth_error *err)
{
    hearth_request given;
    hth_request *copied = NULL;
    hearth_token *tokens = NULL;
    size_t n_tokens = 0;
    uint64_t id;
    hearth_status status = read_request(request, &given, err);

    if (status != HEARTH_OK)
        return status;
    status = enter(model, "hearth_submit", err);
    if (status != HEARTH_OK)
        return status;
    status = prompt_tokens(model, &given, &tokens, &n_tokens, err);
    if (status == HEARTH_OK) {
        id = hth_runtime_next_request_id(model->runtime);
        status = hth_request_new(&given, tokens, n_tokens, id, &copied, err);
    }
    if (status == HEARTH_OK && given.cache_salt && *given.cache_salt) {
        copied->has_salt = true;
        hth_salted_fingerprint(model->place.keyspace.fingerprint, given.cache_salt, copied->fingerprint);
    }
    if (status == HEARTH_OK) {
        status = hth_scheduler_submit(model->scheduler, copied, err);
        if (status != HEARTH_OK)
            hth_request_free(copied);
        else if (id_out)
            *id_out = id;
    }
    leave(model);
    return status;
}

/* The blocking form waits for on_done, passing the caller's callbacks through. */
typedef struct completion {
    const hearth_request *request;
    hearth_result *result;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
} completion;

static bool pass_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    completion *c = user_data;

    return !c->request->on_text || c->request->on_text(id, text, n, c->request->user_data);
}

static void pass_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    completion *c = user_data;

    if (c->request->on_progress)
        c->request->on_progress(id, phase, n_done, n_total, c->request->user_data);
}

static void take_result(uint64_t id, const hearth_result *result, void *user_data)
{
    completion *c = user_data;
    size_t n_tokens = result->stats.completion_tokens;

    if (c->request->on_done)
        c->request->on_done(id, result, c->request->user_data);
    *c->result = *result;
    c->result->text = malloc(result->n_bytes + 1);
    c->result->tokens = malloc((n_tokens ? n_tokens : 1) * sizeof(*result->tokens));
    if (c->result->text && c->result->tokens) {
        memcpy(c->result->text, result->text, result->n_bytes + 1);
        if (n_tokens > 0)
            memcpy(c->result->tokens, result->tokens, n_tokens * sizeof(*result->tokens));
    } else {
        hearth_result_free(c->result);
        c->result->status = hth_fail(&c->result->error, HEARTH_NO_MEMORY, "no memory for the reply");
    }
    pthread_mutex_lock(&c->lock);
    c->done = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

hearth_status hearth_complete(hearth_model *model, const hearth_request *request, hearth_result *result,
                              hearth_error *err)
{
    completion c = { .result = result };
    hearth_request given;
    hearth_request inner;
    hearth_status status;

    if (!result)
        return hth_fail(err, HEARTH_MISUSE, "hearth_complete: result is NULL");
    memset(result, 0, sizeof(*result));
    status = read_request(request, &given, err);
    if (status != HEARTH_OK)
        return status;
    c.request = &given;
    inner = given;
    inner.struct_size = sizeof(inner);
    inner.on_text = pass_text;
    inner.on_progress = pass_progress;
    inner.on_done = take_result;
    inner.user_data = &c;
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    status = hearth_submit(model, &inner, NULL, err);
    if (status == HEARTH_OK) {
        pthread_mutex_lock(&c.lock);
        while (!c.done)
            pthread_cond_wait(&c.changed, &c.lock);
        pthread_mutex_unlock(&c.lock);
        status = result->status;
        if (status != HEARTH_OK && err)
            *err = result->error;
    }
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
    return status;
}

hearth_status hearth_cancel(hearth_model *model, uint64_t request_id, hearth_error *err)
{
    bool found;

    if (!model)
        return hth_fail(err, HEARTH_MISUSE, "hearth_cancel: model is NULL");
    /* Running requests of a model that is being unloaded can be cancelled too: its scheduler lives while they do. */
    pthread_mutex_lock(&model->lock);
    found = model->scheduler && hth_scheduler_cancel(model->scheduler, request_id);
    pthread_mutex_unlock(&model->lock);
    if (!found)
        return hth_fail(err, HEARTH_NOT_FOUND, "request %llu is neither waiting nor running",
                        (unsigned long long)request_id);
    return HEARTH_OK;
}

hearth_status hearth_model_save(hearth_model *model, hearth_save_reason reason, uint32_t timeout_ms, hearth_error *err)
{
    hearth_status status;

    if (reason != HEARTH_SAVE_EVICT && reason != HEARTH_SAVE_SHUTDOWN)
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_model_save: reason must be HEARTH_SAVE_EVICT or HEARTH_SAVE_SHUTDOWN");
    status = enter(model, "hearth_model_save", err);
    if (status != HEARTH_OK)
        return status;
    status = hth_scheduler_save(model->scheduler, reason, timeout_ms, err);
    leave(model);
    return status;
}
