/*
 * model.c - a loaded model: its handle, its engine part, and their users
 *
 * The handle (hearth_model) lives as long as there is a reference to it. The engine part (weights, context, scheduler)
 * lives until the model is unloaded or shut down, or until the last reference is dropped. Calls that use the engine
 * part enter and leave it, and it is freed only when no call is inside. Freeing waits for running requests and joins a
 * thread, so hearth_model_unload starts a thread for it, and hearth_model_unref leaves it to the ender (runtime.c).
 */
#include "models/model.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/structs.h"
#include "models/model_inside.h"

/* ---- users of the engine part ---- */

bool hth_model_keeps_prompt(hearth_model *model, size_t n_tokens)
{
    const hth_workplace *place = &model->place;
    bool keeps;

    if (hth_model_enter(model, "hth_model_keeps_prompt", NULL) != HEARTH_OK)
        return false; /* an unloaded model saves nothing */
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

hearth_status hth_model_enter_scheduler(hearth_model *model, const char *function, hearth_error *err)
{
    hearth_status status = hth_model_enter(model, function, err);

    if (status != HEARTH_OK || model->context)
        return status;
    hth_model_leave(model);
    return hth_fail(err, HEARTH_UNSUPPORTED,
                    "model '%s' (%s) generates no text, it makes embeddings; use another model, or hearth_embed",
                    model->name, model->info.architecture);
}

void hth_model_leave(hearth_model *model)
{
    pthread_mutex_lock(&model->lock);
    model->users--;
    pthread_cond_broadcast(&model->users_changed);
    pthread_mutex_unlock(&model->lock);
}

/* Refuse new users. True for only one caller, which then frees the engine part. */
static bool claim_engine_part(hearth_model *model)
{
    bool first;

    pthread_mutex_lock(&model->lock);
    first = !model->is_claimed;
    model->unloading = true;
    model->is_claimed = true;
    pthread_mutex_unlock(&model->lock);
    return first;
}

static void free_engine_part(hearth_model *model)
{
    hth_scheduler *scheduler;
    hth_embedder *embedder;
    bool hangs;

    pthread_mutex_lock(&model->lock);
    while (model->users > 0)
        pthread_cond_wait(&model->users_changed, &model->lock);
    scheduler = model->scheduler;
    embedder = model->embedder;
    model->scheduler = NULL; /* hearth_cancel checks this */
    model->embedder = NULL;
    pthread_mutex_unlock(&model->lock);
    hth_embedder_free(embedder);
    hth_scheduler_close(scheduler);
    hth_draft_model_close(model->place.draft_model);
    model->place.draft_model = NULL;
    hth_model_shut_down(model->draft);
    if (model->backend) {
        model->backend->context_free(model->context);
        hth_adapters_clear(&model->adapters);
    }
    hangs = !hth_true_tokens_free(model->place.true_tokens);
    if (hangs)
        hth_runtime_ref(model->runtime); /* a device hangs: keep what its thread uses */
    else if (model->backend)
        model->backend->model_free(model->engine_model);
    if (model->refuses_questions && !hangs)
        hth_engine_questions_allow();
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
    if (model->scheduler)
        hth_scheduler_wait_idle(model->scheduler);
    hth_embedder_wait_idle(model->embedder);
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
    bool begins;

    if (!model)
        return;
    pthread_mutex_lock(&model->lock);
    begins = !model->unloading;
    model->unloading = true;
    if (begins) {
        /* The embedder is not NULL, because the engine part is not claimed. */
        if (model->scheduler)
            hth_scheduler_refuse(model->scheduler);
        hth_embedder_refuse(model->embedder);
        /* Unloading must not block. If no thread can be started, the last reference frees the memory. */
        model->has_unloader = pthread_create(&model->unloader, NULL, unload_when_idle, model) == 0;
        model->is_claimed = model->has_unloader;
    }
    pthread_mutex_unlock(&model->lock);
}

void hth_model_stop_identifying(hearth_model *model)
{
    for (; model; model = model->draft)
        if (model->fingerprinting)
            hth_fingerprinting_cancel(model->fingerprinting);
}

/* Make requests and the wait for a fingerprint end soon. */
static void cancel_work(hearth_model *model)
{
    hth_model_stop_identifying(model);
    /* The lock keeps the scheduler alive while another thread unloads. */
    pthread_mutex_lock(&model->lock);
    if (model->scheduler) {
        hth_scheduler_refuse(model->scheduler);
        hth_scheduler_cancel_all(model->scheduler);
    }
    if (model->embedder) {
        hth_embedder_refuse(model->embedder);
        hth_embedder_cancel_all(model->embedder);
    }
    pthread_mutex_unlock(&model->lock);
}

void hth_model_shut_down(hearth_model *model)
{
    bool first;

    if (!model)
        return;
    first = claim_engine_part(model);
    cancel_work(model);
    if (first) {
        free_engine_part(model);
        return;
    }
    /* Another thread frees the engine part: wait for it. */
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
    hth_adapters_clear(&model->adapters);
    pthread_mutex_destroy(&model->adapters.lock);
    hth_fingerprinting_free(model->fingerprinting);
    free((char *)model->context_params.type_k);
    free((char *)model->context_params.type_v);
    free(model->cache_salt);
    free(model->path);
    free(model->name);
    hth_runtime_unref(model->runtime);
    free(model);
}

void hth_model_end(hearth_model *model)
{
    hth_model_shut_down(model);
    if (model->draft)
        hth_model_end(model->draft);
    hth_runtime_remove(model->runtime, model); /* last: hearth_runtime_close waits for this */
    model_free(model);
}

void hearth_model_unref(hearth_model *model)
{
    bool is_handle;

    if (!model || atomic_fetch_sub_explicit(&model->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&model->lock);
    is_handle = model->engine_gone;
    pthread_mutex_unlock(&model->lock);
    if (is_handle) { /* does not block; a closed runtime has no ender */
        hth_model_end(model);
        return;
    }
    cancel_work(model);
    hth_runtime_end_model(model->runtime, model);
}

/* ---- properties ---- */

bool hth_model_drafts(const hearth_model *model)
{
    return model->draft_max > 0 && model->info.kind == HTH_MODEL_PLAIN;
}

void hth_model_advice(const hearth_model *model, hth_sampling_advice *out)
{
    *out = model->info.advice;
}

void hth_copy_text(char *to, size_t capacity, const char *from)
{
    size_t n = strnlen(from, capacity);

    memcpy(to, from, n < capacity ? n : capacity);
    if (n < capacity)
        to[n] = '\0';
    else
        hth_end_at_character(to, capacity);
}

/* hearth_model_info.keyspace. The caller holds the lock. */
static void digest_keyspace(const hearth_model *model, uint8_t out[HTH_SHA256_BYTES])
{
    static const char domain[] = "hearth-keyspace-v1";
    static const uint8_t unknown[sizeof(model->model_fingerprint)];
    const hth_keyspace *keyspace = &model->place.keyspace;
    uint8_t parts[sizeof(domain) + sizeof(model->model_fingerprint) + 1 + sizeof(keyspace->ctx_params_hash)],
        *at = parts;

    if (memcmp(keyspace->fingerprint, unknown, sizeof(unknown)) == 0)
        return;
    memcpy(at, domain, sizeof(domain));
    at += sizeof(domain);
    memcpy(at, model->model_fingerprint, sizeof(model->model_fingerprint));
    at += sizeof(model->model_fingerprint);
    *at++ = keyspace->quant_byte;
    memcpy(at, keyspace->ctx_params_hash, sizeof(keyspace->ctx_params_hash));
    hth_sha256_of(parts, sizeof(parts), out);
}

hearth_status hearth_model_info_get(hearth_model *model, hearth_model_info *info, hearth_error *err)
{
    hearth_model_info filled = { .struct_size = sizeof(filled) };

    if (!model || !info || info->struct_size < sizeof(size_t))
        return hth_fail(err, HEARTH_MISUSE,
                        "hearth_model_info_get: set info->struct_size to sizeof(hearth_model_info)");
    hth_copy_text(filled.name, sizeof(filled.name), model->name);
    hth_copy_text(filled.architecture, sizeof(filled.architecture), model->info.architecture);
    hth_copy_text(filled.description, sizeof(filled.description), model->info.description);
    hth_copy_text(filled.chat_template_kind, sizeof(filled.chat_template_kind), model->info.chat_template_kind);
    hth_copy_text(filled.quant_type, sizeof(filled.quant_type), model->info.quant_type);
    filled.file_bytes = model->info.weight_bytes;
    filled.n_params = model->info.n_params;
    filled.n_ctx = model->place.n_ctx;
    filled.n_ctx_train = model->info.n_ctx_train;
    filled.n_vocab = model->info.n_vocab;
    filled.n_layers = model->info.n_layers;
    filled.vocabulary_type = model->info.vocabulary_type;
    filled.block_tokens = HTH_BLOCK_TOKENS;
    filled.rows_are_blocks = model->place.kind != HTH_MODEL_RECURRENT && model->place.kind != HTH_MODEL_UNCACHED;
    memcpy(filled.ctx_params_hash, model->place.keyspace.ctx_params_hash, sizeof(filled.ctx_params_hash));
    pthread_mutex_lock(&model->lock);
    memcpy(filled.fingerprint, model->place.keyspace.fingerprint, sizeof(filled.fingerprint));
    digest_keyspace(model, filled.keyspace);
    pthread_mutex_unlock(&model->lock);

    filled.n_parallel = model->schedule.n_parallel;
    memcpy(filled.strategy, model->schedule.strategy.name, sizeof(filled.strategy));
    filled.generates = model->place.context != NULL;
    filled.embeds = model->info.embeds && !model->no_embeddings;
    filled.ranks = model->info.n_labels > 0 && !model->no_reranking;
    filled.deterministic = model->is_deterministic;
    filled.pooling = hth_model_pooling(model);
    filled.n_embedding = model->info.n_embedding;
    filled.embed_tokens_max = model->embed_tokens_max;
    filled.activity = HEARTH_UNLOADED;
    if (hth_model_enter(model, "hearth_model_info_get", NULL) == HEARTH_OK) {
        hth_batcher_status status = { .activity = HEARTH_IDLE };
        hth_embedder_status embedded = { .n_requests = 0 };
        hth_scheduler *scheduler;
        hth_embedder *embedder;

        pthread_mutex_lock(&model->lock);
        scheduler = model->scheduler;
        embedder = model->embedder;
        pthread_mutex_unlock(&model->lock);
        if (scheduler)
            hth_scheduler_status_get(scheduler, &status);
        if (embedder)
            hth_embedder_status_get(embedder, &embedded);
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
        filled.n_prompt_left = status.n_prompt_left;
        filled.prompt_token_ns = status.prompt_token_ns;
        filled.reply_token_ns = status.reply_token_ns;
        filled.n_embed_waiting = embedded.n_requests;
        filled.n_embed_inputs = embedded.n_inputs;
        filled.n_embed_ticks = embedded.n_evaluations;
    }
    hth_struct_write(info, &filled, sizeof(filled));
    return HEARTH_OK;
}
