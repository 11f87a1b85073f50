/*
 * cached_embedder.c - a batcher whose requests are inputs
 */
#include "sched/cached_embedder.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/smaller.h"

enum {
    INPUTS_MAX = 32, /* at once; more would gain little, because few inputs that are worth caching fit in a batch */
    STATES_MAX = 8,  /* the same for models with state per sequence */
    CELLS_MIN = 2048,
    ROWS_MAX = 512, /* of an evaluation; their logits take memory */
};

struct hth_cached_embedder {
    hth_workplace place; /* the model's, but with the context below */
    hth_engine_context *context;
    hth_schedule schedule;
    hth_counters *counters;
    hth_batcher *batcher;
    hth_pulse pulse;   /* unused by the context */
    uint32_t n;        /* inputs that have begun */
    bool all_admitted; /* none of them waits for cells */
};

void hth_cached_embedder_close(hth_cached_embedder *embedder)
{
    if (!embedder)
        return;
    hth_batcher_close(embedder->batcher);
    embedder->place.backend->context_free(embedder->context);
    free(embedder);
}

static hearth_status make_context(hth_cached_embedder *embedder, const hth_cached_embedder_options *options,
                                  hearth_error *err)
{
    hth_engine_context_params params = options->params;
    hth_workplace *place = &embedder->place;
    hth_engine_context_info info;
    uint8_t hash[sizeof(place->keyspace.ctx_params_hash)];
    uint32_t n_ctx_model;
    hearth_status status;

    params.n_ctx = hth_larger(options->n_tokens_max, hth_smaller(CELLS_MIN, place->n_ctx));
    if (place->n_ctx > options->n_ctx_short) /* with the same RoPE factors as the model's context */
        params.n_ctx = hth_larger(params.n_ctx, options->n_ctx_short + 1);
    params.n_batch = hth_smaller(place->n_batch, ROWS_MAX);
    params.n_seq_max = embedder->schedule.n_sequences + 1; /* one more, the scratch sequence */
    params.abort = options->abort;
    params.abort_user_data = options->abort_user_data;
    status = place->backend->context_new(place->engine_model, &params, &embedder->context, err);
    if (status != HEARTH_OK)
        return status;
    place->backend->context_info(embedder->context, &info);
    if (info.n_ctx < options->n_tokens_max)
        return hth_fail(
            err, HEARTH_UNSUPPORTED,
            "the engine made a context of %u tokens for embeddings, and inputs may have %u; a smaller n_batch "
            "allows shorter inputs only",
            info.n_ctx, options->n_tokens_max);
    place->context = embedder->context;
    n_ctx_model = place->n_ctx;
    place->n_ctx = info.n_ctx;
    place->n_batch = info.n_batch;
    place->idle_cost = info.idle_cost;
    hth_sha256_of(info.params_text, strlen(info.params_text), hash);
    if (memcmp(hash, place->keyspace.ctx_params_hash, sizeof(hash)) != 0) {
        place->cache = NULL;
        hth_info(place->log,
                 "embeddings use no cache: their context of %u tokens has not the parameters of the model's, of %u",
                 info.n_ctx, n_ctx_model);
    }
    place->true_tokens = NULL;
    place->draft_model = NULL;
    place->on_work = NULL; /* it reports the scheduler's work */
    return HEARTH_OK;
}

/* An hth_ended_fn. */
static void input_ended(hth_slot *slot, void *user_data)
{
    hth_cached_embedder *embedder = user_data;
    hth_cached_input *input = slot->request->user_data;
    const hearth_result *result = &hth_reply_result(slot->reply)->shown;

    hth_batcher_count(embedder->counters, slot);
    embedder->n--;
    input->on_end(input, result, slot->n_evaluated);
}

hearth_status hth_cached_embedder_open(const hth_cached_embedder_options *options, hth_cached_embedder **out,
                                       hearth_error *err)
{
    hth_cached_embedder *embedder = calloc(1, sizeof(*embedder));
    hearth_status status;

    if (!embedder)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for embeddings");
    embedder->place = *options->place;
    embedder->counters = options->counters;
    embedder->all_admitted = true;
    embedder->schedule = *options->schedule;
    embedder->schedule.n_parallel = options->place->kind == HTH_MODEL_PLAIN ? INPUTS_MAX : STATES_MAX;
    embedder->schedule.n_sequences = embedder->schedule.n_parallel + 1;
    status = make_context(embedder, options, err);
    if (status == HEARTH_OK)
        status = hth_batcher_open(&embedder->place, &embedder->schedule, &embedder->pulse, input_ended, embedder,
                                  &embedder->batcher, err);
    if (status != HEARTH_OK) {
        hth_cached_embedder_close(embedder);
        return status;
    }
    *out = embedder;
    return HEARTH_OK;
}

bool hth_cached_embedder_has_room(const hth_cached_embedder *embedder)
{
    return embedder->n < embedder->schedule.n_parallel && embedder->all_admitted;
}

/* The request's on_vector. */
static void take_vector(const float *values, void *user_data)
{
    hth_cached_input *input = user_data;

    input->on_vector(input, values);
}

hearth_status hth_cached_embedder_begin(hth_cached_embedder *embedder, hth_cached_input *input, hearth_error *err)
{
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request given = hearth_request_default();
    hearth_token *tokens = malloc(input->n_tokens * sizeof(*tokens));
    hth_request *request;
    hearth_status status;

    assert(hth_cached_embedder_has_room(embedder));
    if (!tokens)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for an input of %u tokens", input->n_tokens);
    memcpy(tokens, input->tokens, input->n_tokens * sizeof(*tokens));
    sampling.seed = 0;
    given.sampling = &sampling;
    given.prefill_only = true;
    given.no_cache_read = input->no_cache_read;
    given.user_data = input;
    status = hth_request_new(&given, tokens, input->n_tokens, input->id, &request, err);
    if (status != HEARTH_OK)
        return status;
    request->on_vector = take_vector;
    request->adapters = hth_adapter_set_ref(input->adapters);
    request->keyspace = *input->keyspace;
    status = hth_slot_new(hth_batcher_workplace(embedder->batcher), request, &sampling, NULL, &input->slot, err);
    if (status != HEARTH_OK) {
        hth_request_free(request);
        return status;
    }
    embedder->n++;
    hth_batcher_add(embedder->batcher, input->slot);
    embedder->all_admitted = hth_batcher_admit_now(embedder->batcher);
    return HEARTH_OK;
}

void hth_cached_embedder_cancel(hth_cached_embedder *embedder, hth_cached_input *input)
{
    hth_batcher_cancel(embedder->batcher, input->slot->request);
}

void hth_cached_embedder_tick(hth_cached_embedder *embedder)
{
    (void)hth_batcher_tick(embedder->batcher); /* while there are inputs, there is something to do */
    embedder->all_admitted = hth_batcher_admit_now(embedder->batcher);
    if (embedder->n == 0)
        hth_batcher_save(embedder->batcher, HEARTH_SAVE_EVICT); /* and empty the finished sequences */
}

void hth_cached_embedder_forget(hth_cached_embedder *embedder, const uint8_t fingerprint[32],
                                const hearth_token *tokens, uint32_t n_tokens, uint32_t n_kept)
{
    hth_batcher_forget(embedder->batcher, fingerprint, tokens, n_tokens, n_kept);
}

uint64_t hth_cached_embedder_n_evaluations(const hth_cached_embedder *embedder)
{
    hth_batcher_status status;

    hth_batcher_status_get(embedder->batcher, &status);
    return status.n_ticks;
}

uint64_t hth_cached_input_last_evaluation(const hth_cached_input *input)
{
    return input->slot->last_ticked;
}
