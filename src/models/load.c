/*
 * load.c - from a file to a model that takes requests
 *
 *   1. The engine loads the file and makes a context. Meanwhile another thread makes the fingerprint of the file.
 *   2. With both, the model gets its keyspace, and its scheduler starts.
 *
 * After the first step, a model can render templates and tokenize, because these need no keys. Requests wait for the
 * second step. So Hearth looks up and saves rows only under the fingerprint of the loaded file.
 */
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/structs.h"
#include "engine/engine_options.h"
#include "models/adapter_spec.h"
#include "models/model_inside.h"
#include "models/needs.h"

enum {
    HISTORY_NAME_BYTES = 16, /* of the fingerprint, in the name of the directory */
    QUEUE_MAX_MAX = 65536,
    TICK_MS_MAX = 60000,
    N_IDLE_MIN = 4, /* limits of the number of idle sequences */
    N_IDLE_MAX = 32,
};

/* ---- options ---- */

/* The caller's policy (NULL: the default) in a context of n_ctx tokens. */
static hearth_status read_policy(const hearth_cache_policy *given, uint32_t n_ctx, hth_policy *out, hearth_error *err)
{
    hearth_cache_policy policy = hearth_cache_policy_default();
    hearth_status status =
        given ? hth_struct_read(&policy, sizeof(policy), given, "hearth_cache_policy", err) : HEARTH_OK;

    *out = given ? hth_policy_of(&policy, n_ctx) : hth_policy_default(n_ctx);
    return status;
}

static hearth_status check_policy(const hearth_cache_policy *given, hearth_error *err)
{
    hth_policy policy;
    hearth_status status = read_policy(given, UINT32_MAX, &policy, err);

    if (status != HEARTH_OK)
        return status;
    status = hth_policy_validate(&policy, err);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "the model's cache_policy cannot be used");
    return status;
}

hearth_status hth_model_read_options(const hearth_model_options *options, hearth_model_options *out, hearth_error *err)
{
    hearth_engine_options engine;
    hearth_status status = HEARTH_OK;

    *out = hearth_model_options_default();
    if (options)
        status = hth_struct_read(out, sizeof(*out), options, "hearth_model_options", err);
    if (status != HEARTH_OK)
        return status;
    if (out->n_ctx > HTH_N_CTX_MAX)
        return hth_fail(err, HEARTH_MISUSE, "n_ctx is %u; it must be at most %d", out->n_ctx, HTH_N_CTX_MAX);
    if (out->fit_n_ctx > HTH_N_CTX_MAX)
        return hth_fail(err, HEARTH_MISUSE, "fit_n_ctx is %u; it must be at most %d", out->fit_n_ctx, HTH_N_CTX_MAX);
    if (out->n_batch < 1 || out->n_batch > 65536)
        return hth_fail(err, HEARTH_MISUSE, "n_batch is %u; it must be between 1 and 65536", out->n_batch);
    if (out->n_threads > 1024)
        return hth_fail(err, HEARTH_MISUSE, "n_threads is %u; it must be at most 1024", out->n_threads);
    if (out->draft_n_ctx > HTH_N_CTX_MAX || out->draft_n_gpu_layers < -1)
        return hth_fail(err, HEARTH_MISUSE,
                        "draft_n_ctx is %u and draft_n_gpu_layers is %d; they must be at most %d, and at least -1",
                        out->draft_n_ctx, out->draft_n_gpu_layers, HTH_N_CTX_MAX);
    if (out->n_gpu_layers < HEARTH_GPU_LAYERS_AUTO)
        return hth_fail(err, HEARTH_MISUSE, "n_gpu_layers is %d; it must be -2 (as many as fit), -1 (all) or more",
                        out->n_gpu_layers);
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
    if (out->draft_max > HEARTH_DRAFT_MAX || out->draft_min > HEARTH_DRAFT_MAX)
        return hth_fail(err, HEARTH_MISUSE, "draft_max is %u and draft_min is %u; each must be at most %d",
                        out->draft_max, out->draft_min, HEARTH_DRAFT_MAX);
    if ((unsigned)out->fingerprint_mode > HEARTH_FINGERPRINT_FAST_UNSAFE)
        return hth_fail(err, HEARTH_MISUSE, "fingerprint_mode %d does not exist", (int)out->fingerprint_mode);
    if (hth_check_pooling(out->pooling, err) != HEARTH_OK || hth_control_vectors_check(out, err) != HEARTH_OK)
        return HEARTH_MISUSE;
    if (out->portable && out->deterministic)
        return hth_fail(err, HEARTH_MISUSE,
                        "portable and deterministic exclude each other, because rows of other CPUs are rounded "
                        "differently; leave one of them out");
    status = hth_engine_options_read(out->engine, &engine, err);
    return status == HEARTH_OK ? check_policy(out->cache_policy, err) : status;
}

/* ---- the first step ---- */

/* Overridden metadata makes a different model. */
static hearth_status note_overrides(hearth_model *model, const hearth_engine_options *engine, hearth_error *err)
{
    static const char domain[] = "hearth-metadata-v1";
    hth_sha256 *sha = hth_sha256_new();

    if (!sha)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", model->path);
    model->has_overrides = engine->n_metadata_overrides > 0;
    hth_sha256_update(sha, domain, sizeof(domain));
    for (size_t i = 0; i < engine->n_metadata_overrides; i++)
        hth_sha256_update(sha, engine->metadata_overrides[i], strlen(engine->metadata_overrides[i]) + 1);
    hth_sha256_peek(sha, model->overrides_digest);
    hth_sha256_free(sha);
    return HEARTH_OK;
}

hearth_status hth_model_load_weights(hearth_model *model, const hearth_model_options *options, bool no_weights,
                                     hearth_error *err)
{
    const hth_chat_template *named = options->chat_template ? hth_chat_template_named(options->chat_template) : NULL;
    hearth_engine_options engine;
    hth_engine_model_params params = {
        .n_gpu_layers = options->n_gpu_layers,
        .rpc_servers = options->rpc_servers,
        .no_mmap = options->no_mmap,
        .host_weights = options->host_weights,
        .keep_host_weights = options->keep_host_weights,
        .chat_template = named ? named->source : options->chat_template,
        .fallback_template = model->is_draft ? NULL : hth_chat_template_named(HTH_CHAT_TEMPLATE_FALLBACK)->source,
        .progress = options->progress,
        .progress_user_data = options->progress_user_data,
        .log = hth_runtime_log(model->runtime),
        .n_control_vectors = options->n_control_vectors,
        .control_layer_first = options->control_layer_first,
        .control_layer_last = options->control_layer_last,
        .options = &engine,
        .no_weights = no_weights,
        .special_in_messages = options->special_in_messages,
    };
    hth_control_vector *vectors = NULL;
    hearth_status status = hth_backend_of_model(model->runtime->engine_directory, model->path, &model->backend, err);

    if (status == HEARTH_OK)
        status = hth_engine_options_read(options->engine, &engine, err);
    if (status == HEARTH_OK)
        status = note_overrides(model, &engine, err);
    if (status == HEARTH_OK)
        status = hth_control_vectors_read(options, &vectors, err);
    params.control_vectors = vectors;
    if (status == HEARTH_OK)
        status = model->backend->model_load(model->path, &params, &model->engine_model, err);
    free(vectors);
    if (status != HEARTH_OK)
        return status;
    model->turns_positions = hth_engine_options_turn(&engine);
    model->backend->model_info(model->engine_model, &model->info);
    model->chat_template = named;
    if (strcmp(model->info.chat_template_kind, "fallback") == 0)
        model->chat_template = hth_chat_template_named(HTH_CHAT_TEMPLATE_FALLBACK);
    return HEARTH_OK;
}

/*
 * The number of sequences of the context, assigned and idle. Idle sequences are cheap only with plain attention, where
 * they use cells that no request needs. Other kinds of models keep state for each sequence.
 */
static uint32_t n_sequences(const hearth_model *model, uint32_t n_parallel)
{
    uint32_t n_idle = n_parallel < N_IDLE_MIN ? N_IDLE_MIN : n_parallel > N_IDLE_MAX ? N_IDLE_MAX : n_parallel;

    return n_parallel + (model->info.kind == HTH_MODEL_PLAIN ? n_idle : 1);
}

/* Choose the size of the context, and log the reason. */
static uint32_t default_context(const hearth_model *model, const hearth_model_options *options)
{
    const hth_log *log = hth_runtime_log(model->runtime);
    hth_cell_room room = { .cell_bytes = 0 };
    uint32_t n_ctx;

    model->backend->cell_room(model->engine_model, options->type_k, options->type_v, &room);
    if (model->draft && room.cell_bytes > 0) {
        hth_cell_room draft = { .cell_bytes = 0 };
        uint64_t draft_bytes;

        model->draft->backend->cell_room(model->draft->engine_model, NULL, NULL, &draft);
        draft_bytes = draft.cell_bytes * options->draft_n_ctx;
        if (options->draft_n_ctx == 0) /* its context grows with the model's */
            room.cell_bytes += draft.cell_bytes;
        room.free_bytes -= draft_bytes < room.free_bytes ? draft_bytes : room.free_bytes;
    }
    n_ctx = hth_default_context(model->info.n_ctx_train, model->info.n_ctx_short, &room);
    if (model->info.n_ctx_train == 0)
        hth_info(log, "model '%s': a context of %u tokens; the file does not say what it was trained with", model->name,
                 n_ctx);
    else if (n_ctx >= model->info.n_ctx_train)
        hth_info(log, "model '%s': a context of %u tokens, which is what it was trained with", model->name, n_ctx);
    else
        hth_info(
            log,
            "model '%s': a context of %u tokens of the %u that it was trained with: a token takes %llu KiB, and %llu "
            "MiB are free%s; give another size with --ctx (context)",
            model->name, n_ctx, model->info.n_ctx_train, (unsigned long long)(room.cell_bytes >> 10),
            (unsigned long long)(room.free_bytes >> 20), room.is_device ? " on its devices" : "");
    return n_ctx;
}

static void warn_beyond_training(const hearth_model *model, uint32_t n_ctx)
{
    const uint32_t n_train = model->info.n_ctx_train;

    if (n_train > 0 && n_ctx > (n_train + HTH_CONTEXT_STEP - 1) / HTH_CONTEXT_STEP * HTH_CONTEXT_STEP)
        hth_warn(
            hth_runtime_log(model->runtime),
            "model '%s' was trained with %u tokens, and its context has %u: a conversation beyond the former may get "
            "worse replies; several shorter ones are as good as ever",
            model->name, n_train, n_ctx);
}

/* The hearth_work_fn of the scheduler. */
static void note_work(const hearth_work *work, void *user_data)
{
    hearth_model *model = user_data;

    if (work->kind == HEARTH_WORK_ENDS || work->kind == HEARTH_WORK_DELIVERED)
        hth_events_round(model);
    if (model->on_work)
        model->on_work(work, model->work_user_data);
}

hth_engine_context_params hth_model_context_params(const hearth_model *model, const hearth_model_options *options)
{
    return (hth_engine_context_params){
        .n_ctx = options->n_ctx > 0 ? options->n_ctx : default_context(model, options),
        .n_batch = options->n_batch,
        .n_seq_max = n_sequences(model, options->n_parallel) + 1, /* one more, the scratch sequence */
        .n_threads = options->n_threads ? options->n_threads : hth_os_n_cpus(),
        .type_k = options->type_k,
        .type_v = options->type_v,
        .deterministic = options->deterministic,
        .portable = options->portable,
    };
}

static hearth_status make_context(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    hth_engine_context_params params = hth_model_context_params(model, options);
    hth_workplace *place = &model->place;
    hth_engine_context_info info = { .n_batch = options->n_batch };
    hearth_status status;

    params.type_k = options->type_k ? strdup(options->type_k) : NULL;
    params.type_v = options->type_v ? strdup(options->type_v) : NULL;
    model->context_params = params;
    model->context_params.n_ctx = options->n_ctx;
    if ((options->type_k && !params.type_k) || (options->type_v && !params.type_v))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", model->path);
    params.abort = hth_pulse_wants_abort;
    params.abort_user_data = &model->pulse;
    status = model->backend->context_new(model->engine_model, &params, &model->context, err);
    if (status != HEARTH_OK && !(status == HEARTH_UNSUPPORTED && model->info.embeds && !options->deterministic))
        return status;
    model->n_threads = params.n_threads;
    model->pooling = options->pooling;
    model->no_embeddings = options->no_embeddings;
    model->no_reranking = options->no_reranking;
    model->embed_tokens_max = hth_model_embed_tokens_max(&model->info, status == HEARTH_OK, options->n_batch);
    if (status == HEARTH_OK) {
        model->backend->context_info(model->context, &info);
        if (options->deterministic && !info.is_deterministic)
            return hth_fail(err, HEARTH_UNSUPPORTED,
                            "deterministic: the engine '%s' does not promise replies that depend on nothing else",
                            model->backend->name);
        model->is_deterministic = options->deterministic;
        if (options->n_ctx > 0 && !model->turns_positions)
            warn_beyond_training(model, info.n_ctx);
    } else { /* an encoder */
        info.n_ctx = model->embed_tokens_max;
        model->info.kind = HTH_MODEL_UNCACHED;
    }
    place->backend = model->backend;
    place->engine_model = model->engine_model;
    place->context = model->context;
    place->kind = model->info.kind;
    place->n_window = model->info.n_window;
    place->is_deterministic = model->is_deterministic;
    place->n_ctx = info.n_ctx;
    place->n_batch = info.n_batch;
    place->n_vocab = model->info.n_vocab;
    place->idle_cost = info.idle_cost;
    place->keyspace.quant_byte = hth_quant_byte_of_rows(model->info.quant_type);
    hth_sha256_of(info.params_text, strlen(info.params_text), place->keyspace.ctx_params_hash);
    (void)read_policy(options->cache_policy, info.n_ctx, &place->policy, NULL); /* it was checked */
    place->engine_build = model->backend->build();
    place->model = model->name;
    place->cache = hth_runtime_cache(model->runtime);
    place->resume_wait_ms = model->runtime->resume_wait_ms;
    place->keeps_text = model->runtime->keeps_text;
    place->log = hth_runtime_log(model->runtime);
    place->on_work = note_work;
    place->work_user_data = model;
    model->on_work = options->on_work;
    model->work_user_data = options->work_user_data;
    if (place->cache && place->kind == HTH_MODEL_UNCACHED && model->context)
        hth_info(place->log,
                 "model '%s' (%s) is of a kind that was not measured, or has too many parts; nothing of it is cached",
                 model->name, model->info.architecture);
    return HEARTH_OK;
}

static hearth_status plan_schedule(hearth_model *model, const hearth_model_options *options, hearth_error *err)
{
    model->queue_max = options->queue_max;
    model->draft_max = options->draft_max == 0 && model->draft ? HEARTH_DRAFT_MAX : options->draft_max;
    model->draft_min = options->draft_min;
    if (model->draft_max > 0 && model->info.kind != HTH_MODEL_PLAIN)
        hth_warn(hth_runtime_log(model->runtime),
                 "model '%s' makes no drafts: a sequence with a window or with recurrent state cannot be cut",
                 model->name);
    model->schedule = (hth_schedule){
        .n_parallel = options->n_parallel,
        .n_sequences = n_sequences(model, options->n_parallel),
        .prefill_chunk = options->prefill_chunk,
        .max_tick_ms = options->max_tick_ms,
        .session_idle_ms = options->session_idle_ms,
        .stalled_ms = options->stalled_ms,
        .aging_ms = options->aging_ms,
        .n_tell = HTH_TELL_TOKENS,
    };
    return hth_runtime_strategy(model->runtime, options->strategy, &model->schedule.strategy, err);
}

/* The engine reports the loaded fraction. If hashing the file is slower, its fraction counts. */
static bool on_progress(float fraction, void *user_data)
{
    const hearth_model *model = user_data;
    const float hashed = model->fingerprinting ? hth_fingerprinting_fraction(model->fingerprinting) : 1;

    return model->progress(hashed < fraction ? hashed : fraction, model->progress_user_data);
}

static hearth_status load_engine(hearth_model *model, hearth_model_options *options, hearth_error *err)
{
    const hth_fingerprint_options fingerprint = {
        .mode = options->fingerprint_mode,
        .memo_directory = model->runtime->memo_directory,
        .log = hth_runtime_log(model->runtime),
        .trusts_digests = options->trust_digests,
    };
    hearth_status status = HEARTH_OK;

    model->progress = options->progress;
    model->progress_user_data = options->progress_user_data;
    if (options->progress) {
        options->progress = on_progress;
        options->progress_user_data = model;
    }

    hth_engine_questions_refuse();
    model->refuses_questions = true;
    /* Errors of the file come from hth_fingerprinting_wait, so the engine reports first. Its messages are better. */
    if (hth_model_path_is_file(model->runtime->engine_directory, model->path))
        status = hth_fingerprinting_new(model->path, &fingerprint, options->on_work, options->work_user_data,
                                        &model->fingerprinting, err);
    if (status == HEARTH_OK)
        status = hth_model_load_weights(model, options, false, err);
    if (status == HEARTH_OK && options->draft_model)
        status = hth_model_draft_load(model, options, &fingerprint, err);
    if (status == HEARTH_OK)
        status = make_context(model, options, err);
    if (status == HEARTH_OK)
        status = plan_schedule(model, options, err);
    if (status == HEARTH_OK && model->draft)
        status = hth_model_draft_make_context(model, options, err);
    return status;
}

hearth_status hth_model_new(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                            hearth_model **out, hearth_error *err)
{
    hearth_model *model = calloc(1, sizeof(*model));

    if (!model)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);
    pthread_mutex_init(&model->lock, NULL);
    pthread_mutex_init(&model->adapters.lock, NULL);
    pthread_cond_init(&model->users_changed, NULL);
    atomic_init(&model->references, 1);
    model->runtime = runtime;
    hth_runtime_ref(runtime);
    model->name = options->name ? strdup(options->name) : hth_gguf_name_of_path(path);
    model->path = strdup(path);
    model->cache_salt = options->cache_salt ? strdup(options->cache_salt) : NULL;
    model->place.keyspace.fingerprint_mode = (uint8_t)options->fingerprint_mode;
    if (!model->name || !model->path || (options->cache_salt && !model->cache_salt)) {
        hth_model_end(model);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to load '%s'", path);
    }
    *out = model;
    return HEARTH_OK;
}

hearth_status hth_model_load_engine(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                    hearth_model **out, hearth_error *err)
{
    hearth_model_options given;
    hearth_model *model = NULL;
    hearth_status status;

    if (!runtime || !path || !out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_load: runtime, path or out is NULL");
    status = hth_model_read_options(options, &given, err);
    if (status == HEARTH_OK && hth_model_must_fit(&given))
        status = hth_model_fit_options(runtime, path, HTH_FIT_FREE, NULL, &given, &(hth_model_fit){ 0 }, err);
    if (status == HEARTH_OK)
        status = hth_model_new(runtime, path, &given, &model, err);
    if (status != HEARTH_OK)
        return status;
    assert(model);
    status = load_engine(model, &given, err);
    if (status != HEARTH_OK) {
        hth_model_end(model); /* no one else has a reference */
        return status;
    }
    *out = model;
    return HEARTH_OK;
}

/* ---- the second step ---- */

/* Open the history, in a directory named after the fingerprint without salts, so that a reloaded model finds it. */
static void open_history(hearth_model *model, const uint8_t fingerprint[32])
{
    const hearth_runtime *runtime = model->runtime;
    hth_true_tokens_options options = {
        .backend = model->backend,
        .model = model->engine_model,
        .n_vocab = model->info.n_vocab,
        .bytes_max = runtime->history_bytes_max,
        .log = hth_runtime_log(model->runtime),
    };
    char name[2 * HISTORY_NAME_BYTES + 1], path[PATH_MAX];

    /*
     * A tokenizer that ends every text would end the prompt before the reply. The history makes the tokens of a prompt
     * depend on earlier requests.
     */
    if (runtime->history_bytes_max == 0 || model->info.adds_eos || model->is_deterministic)
        return;
    hth_hex_encode(fingerprint, HISTORY_NAME_BYTES, name);
    if (runtime->history_directory &&
        snprintf(path, sizeof(path), "%s/%s", runtime->history_directory, name) < (int)sizeof(path))
        options.directory = path;
    options.key = hth_cache_signing_key(model->place.cache);
    model->place.true_tokens = hth_true_tokens_new(&options); /* if out of memory, there is no history */
}

/* Changes that make a different model are folded in like an adapter of all requests. */
static hearth_status fold(hearth_model *model, const uint8_t digest[HTH_SHA256_BYTES], hearth_error *err)
{
    hth_folded_adapter change = { .scale = 1 };

    memcpy(change.sha256, digest, sizeof(change.sha256));
    return hth_effective_fingerprint(model->model_fingerprint, &change, 1, model->model_fingerprint, err);
}

static hearth_status identify(hearth_model *model, hearth_error *err)
{
    hth_embedder_options embedding = {
        .backend = model->backend,
        .model = model->engine_model,
        .log = model->place.log,
        .n_tokens_max = model->embed_tokens_max,
        .n_threads = model->n_threads,
        .queue_max = model->queue_max,
        .bytes_max = HTH_EMBEDDINGS_VALUES_MAX * sizeof(float),
        .place = model->context && model->place.cache && model->place.kind != HTH_MODEL_UNCACHED ? &model->place : NULL,
        .schedule = &model->schedule,
        .context = model->context_params,
        .n_ctx_short = model->info.n_ctx_short,
        .counters = hth_runtime_counters(model->runtime),
    };
    hth_keyspace *keyspace = &model->place.keyspace;
    hth_scheduler *scheduler = NULL;
    hth_embedder *embedder = NULL;
    hearth_status status = HEARTH_OK;

    if (model->fingerprinting)
        status = hth_fingerprinting_wait(model->fingerprinting, model->progress, model->progress_user_data,
                                         model->model_fingerprint, err);
    else
        hth_module_fingerprint(model->path, model->model_fingerprint);
    if (status == HEARTH_OK && model->info.has_control)
        status = fold(model, model->info.control_digest, err);
    if (status == HEARTH_OK && model->has_overrides)
        status = fold(model, model->overrides_digest, err);
    if (status != HEARTH_OK)
        return status;
    pthread_mutex_lock(&model->lock);
    hth_keyspace_set_fingerprint(keyspace, model->model_fingerprint);
    hth_keyspace_salt(keyspace, model->cache_salt);
    pthread_mutex_unlock(&model->lock);
    if (model->place.cache && model->context)
        open_history(model, model->model_fingerprint);
    status = hth_embedder_new(&embedding, &embedder, err);
    if (status == HEARTH_OK && model->draft)
        status = hth_model_draft_identify(model, err);
    if (status == HEARTH_OK && model->context)
        status = hth_scheduler_open(&model->place, &model->schedule, model->queue_max, &model->pulse,
                                    hth_runtime_counters(model->runtime), &scheduler, err);
    if (status != HEARTH_OK) {
        hth_embedder_free(embedder);
        return status;
    }
    pthread_mutex_lock(&model->lock);
    model->scheduler = scheduler;
    model->embedder = embedder;
    pthread_mutex_unlock(&model->lock);
    return HEARTH_OK;
}

hearth_status hth_model_identify(hearth_model *model, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, "hth_model_identify", err);

    if (status != HEARTH_OK)
        return status;
    status = identify(model, err);
    hth_model_leave(model);
    return status == HEARTH_OK ? hth_runtime_add(model->runtime, model, err) : status;
}

hearth_status hearth_model_load(hearth_runtime *runtime, const char *path, const hearth_model_options *options,
                                hearth_model **out, hearth_error *err)
{
    hearth_model *model = NULL;
    hearth_status status;

    if (!out)
        return hth_fail(err, HEARTH_MISUSE, "hearth_model_load: runtime, path or out is NULL");
    status = hth_model_load_engine(runtime, path, options, &model, err);
    if (status != HEARTH_OK)
        return status;
    assert(model);
    status = hth_model_identify(model, err);
    if (status != HEARTH_OK) {
        hth_model_end(model); /* no one else has a reference */
        return status;
    }
    *out = model;
    return HEARTH_OK;
}
