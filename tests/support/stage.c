#include "stub/backend.h"
#include "support/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/batcher.h"
#include "support/cmocka_all.h"
#include "support/greedy.h"
#include "support/support.h"

enum { IDLE_TICKS_MAX = 64, TICKS_MAX = 2000000 };

test_stage_options test_stage_options_default(void)
{
    return (test_stage_options){
        .model = "stub:",
        .n_ctx = 4096,
        .n_batch = 512,
        .n_parallel = 8,
        .prefill_chunk = 256,
        .max_tick_ms = 250,
        .session_idle_ms = 300000,
        .stalled_ms = 30000,
        .aging_ms = 10000,
        .n_tell = HTH_TELL_TOKENS,
        .resume_wait_ms = 100,
        .idle_cost = { .cells_max = UINT32_MAX },
    };
}

static uint64_t now_of(void *clock)
{
    return *(const uint64_t *)clock;
}

/* ---- requests ---- */

static test_reply *reply_of(void *user_data)
{
    return user_data;
}

static void stream(test_reply *reply, const char *text, size_t n)
{
    char *grown = realloc(reply->streamed, reply->n_streamed + n + 1);

    assert_non_null(grown);
    assert_int_equal(text[n], 0);
    memcpy(grown + reply->n_streamed, text, n + 1);
    reply->streamed = grown;
    reply->n_streamed += n;
}

static bool on_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    test_reply *reply = reply_of(user_data);

    assert_int_equal(id, reply->id);
    assert_int_equal(reply->n_done, 0);
    stream(reply, text, n);
    return true;
}

static void on_progress(uint64_t id, hearth_phase phase, uint32_t n_done, uint32_t n_total, void *user_data)
{
    test_reply *reply = reply_of(user_data);

    assert_int_equal(id, reply->id);
    assert_int_equal(reply->n_done, 0);
    assert_true(n_done <= n_total);
    if (phase == HEARTH_PHASE_RESTORE)
        reply->n_restored = n_done;
}

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    test_reply *reply = reply_of(user_data);

    assert_int_equal(id, reply->id);
    assert_int_equal(event->index, reply->n_before + reply->n_events);
    assert_int_equal(reply->n_restored, event->stats->cached_tokens);
    reply->n_events++;
    if (event->n_bytes > 0)
        stream(reply, event->text, event->n_bytes);
    return reply->refuse_after == 0 || reply->n_events < reply->refuse_after;
}

static void *copy_of(const void *from, size_t n_bytes)
{
    void *copy = malloc(n_bytes + 1);

    assert_non_null(copy);
    if (n_bytes > 0)
        memcpy(copy, from, n_bytes);
    return copy;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    test_reply *reply = reply_of(user_data);
    uint32_t n = result->stats->completion_tokens;

    assert_int_equal(id, reply->id);
    assert_int_equal(reply->n_done, 0);
    reply->n_done++;
    reply->request = NULL;
    reply->result = hearth_result_ref(result);
    assert_int_equal(result->text[result->n_bytes], '\0');
    assert_int_equal(reply->n_before + reply->n_events, n);
    assert_true(reply->n_streamed <= result->n_bytes);
    if (reply->n_streamed > 0 && reply->refuse_after == 0) /* replayed text comes before it */
        assert_memory_equal(reply->streamed, result->text + result->n_bytes - reply->n_streamed, reply->n_streamed);
    if (reply->n_before == 0 && reply->refuse_after == 0)
        assert_int_equal(reply->n_streamed, result->n_bytes);
}

static void ended(hth_slot *slot, void *user_data)
{
    test_stage *stage = user_data;
    hth_request *request = slot->request;

    assert_int_equal(slot->state, HTH_SLOT_DONE);
    assert_null(slot->entry);
    if (request->options.on_done)
        request->options.on_done(request->id, &slot->reply->result->shown, request->options.user_data);
    if (request->options.on_done == on_done)
        reply_of(request->options.user_data)->n_ticks = stage->batcher->n_ticks;
    stage->n_open--;
}

hth_adapter_set *test_stage_adapter(test_stage *stage, const char *directory, uint64_t number, float scale)
{
    hth_adapter_use use = { .scale = scale };
    hth_engine_adapter *engine_adapter;
    hth_adapter_set *set = NULL;
    uint8_t sha256[HTH_SHA256_BYTES];
    hearth_error err;
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%llu.adapter", directory, (unsigned long long)number); /* else not found */
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "stub-adapter %llu", (unsigned long long)number) > 0);
    assert_int_equal(fclose(file), 0);
    if (stage->watch.inner->adapter_load(stage->engine_model, path, &engine_adapter, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    hth_sha256_of(&number, sizeof(number), sha256);
    use.adapter = hth_adapter_new(stage->watch.inner, engine_adapter, sha256);
    assert_non_null(use.adapter);
    assert_int_equal(hth_adapter_set_new(&use, 1, &set, &err), HEARTH_OK);
    hth_adapter_unref(use.adapter);
    return set;
}

test_reply *test_stage_prepare_with(test_stage *stage, const hearth_request *request, hth_adapter_set *adapters,
                                    const char *salt, hth_slot **slot_out, hearth_error *err)
{
    test_reply *reply = calloc(1, sizeof(*reply));
    hearth_token *tokens = copy_of(request->tokens, request->n_tokens * sizeof(*tokens));
    hearth_request given = *request;
    hth_slot *slot = NULL;
    hearth_status status;

    assert_non_null(reply);
    reply->id = ++stage->n_ids;
    reply->n_before = request->tell_replayed ? 0 : (uint32_t)request->n_replayed;
    given.on_text = on_text;
    given.on_token = on_token;
    given.on_progress = on_progress;
    given.on_done = on_done;
    given.user_data = reply;
    status = hth_request_new(&given, tokens, request->n_tokens, reply->id, &reply->request, err);
    if (status == HEARTH_OK) {
        reply->request->keyspace = stage->place.keyspace;
        reply->request->adapters = hth_adapter_set_ref(adapters);
        assert_int_equal(hth_adapter_set_fold(adapters, reply->request->keyspace.fingerprint,
                                              reply->request->keyspace.fingerprint, NULL),
                         HEARTH_OK);
        hth_keyspace_salt(&reply->request->keyspace, salt);
        status = hth_slot_new(&stage->batcher->place, reply->request, given.sampling, NULL, &slot, err);
        if (status != HEARTH_OK)
            hth_request_free(reply->request);
    }
    if (status != HEARTH_OK) {
        free(reply);
        return NULL;
    }
    *slot_out = slot;
    return reply;
}

void test_stage_add(test_stage *stage, hth_slot *slot)
{
    stage->n_open++;
    hth_batcher_add(stage->batcher, slot);
}

test_reply *test_stage_submit(test_stage *stage, const hearth_request *request, const char *salt, hearth_error *err)
{
    hth_slot *slot;
    test_reply *reply = test_stage_prepare_with(stage, request, NULL, salt, &slot, err);

    if (reply)
        test_stage_add(stage, slot);
    return reply;
}

void test_stage_cancel(test_stage *stage, const test_reply *reply)
{
    hth_batcher_cancel(stage->batcher, reply->request);
}

void test_reply_free(test_reply *reply)
{
    if (!reply)
        return;
    assert_int_equal(reply->n_done, 1);
    hearth_result_unref(reply->result);
    free(reply->streamed);
    free(reply);
}

hearth_request test_request(const hearth_token *tokens, size_t n_tokens, int32_t n_predict)
{
    hearth_request request = hearth_request_default();

    request.tokens = tokens;
    request.n_tokens = n_tokens;
    request.n_predict = n_predict;
    request.sampling = hth_test_greedy_sampling();
    request.ignore_eos = true;
    return request;
}

void test_tokens(uint64_t seed, hearth_token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = (hearth_token)('a' + hth_test_random(&seed, 26));
}

/* ---- the stage ---- */

static void open_cache(test_stage *stage)
{
    hth_cache_options options = {
        .ram_bytes_max = stage->options.ram_bytes,
        .directory = stage->options.directory,
        .disk_bytes_max = 64 << 20,
        .write_limits = { .queue_rows_max = 4096, .queue_bytes_max = 64 << 20 },
        .ram_memory_fd = -1,
    };
    hearth_error err;

    if (stage->options.ram_bytes > 0 && hth_cache_open(&options, &stage->cache, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
}

static void open_draft_model(test_stage *stage, const hth_engine_model_params *model_params)
{
    const test_stage_options *options = &stage->options;
    const hth_backend *stub = hth_backend_stub();
    hth_engine_context_params params = {
        .n_ctx = options->draft_n_ctx ? options->draft_n_ctx : options->n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = stage->schedule.n_sequences + 1,
        .n_threads = 1,
    };
    hth_draft_model_options draft = {
        .place = &stage->draft_place,
        .n_sequences = stage->schedule.n_sequences,
        .n_vocab = stage->place.n_vocab,
        .max_tick_ms = options->max_tick_ms,
    };
    hth_engine_model_info info;
    hearth_error err;

    if (stub->model_load(options->draft_model, model_params, &stage->draft_engine_model, &err) != HEARTH_OK ||
        stub->context_new(stage->draft_engine_model, &params, &stage->draft_context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    stub->model_info(stage->draft_engine_model, &info);
    test_watch_init(&stage->draft_watch, stub, stage->draft_context, info.kind);
    stage->draft_watch.clock_ns = &stage->now_ns;
    stage->draft_place = stage->place;
    stage->draft_place.backend = &stage->draft_watch.backend;
    stage->draft_place.engine_model = stage->draft_engine_model;
    stage->draft_place.context = test_watch_context(&stage->draft_watch);
    stage->draft_place.n_vocab = info.n_vocab;
    stage->draft_place.n_ctx = params.n_ctx;
    stage->draft_place.keyspace.fingerprint[0] = 2;
    if (hth_draft_model_open(&draft, &stage->place.draft_model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
}

static void close_draft_model(test_stage *stage)
{
    if (!stage->options.draft_model)
        return;
    assert_int_equal(test_watch_n_used(&stage->draft_watch), 0);
    hth_draft_model_close(stage->place.draft_model);
    stage->draft_watch.inner->context_free(stage->draft_context);
    stage->draft_watch.inner->model_free(stage->draft_engine_model);
    test_watch_deinit(&stage->draft_watch);
}

void test_stage_open(test_stage *stage, const test_stage_options *options)
{
    static const hth_log silence = { .level = HEARTH_LOG_ERROR };
    hth_engine_model_params model_params = { .n_gpu_layers = 0, .log = &silence };
    hth_engine_context_params params;
    hth_engine_model_info info;
    const hth_backend *engine = options && options->engine ? options->engine : hth_backend_stub();
    hearth_error err;

    *stage = (test_stage){ .options = options ? *options : test_stage_options_default(), .now_ns = 1000000000u };
    options = &stage->options;
    stage->schedule = (hth_schedule){
        .n_parallel = options->n_parallel,
        .n_sequences = options->n_sequences ? options->n_sequences : options->n_parallel + 5,
        .prefill_chunk = options->prefill_chunk,
        .max_tick_ms = options->max_tick_ms,
        .session_idle_ms = options->session_idle_ms,
        .stalled_ms = options->stalled_ms,
        .aging_ms = options->aging_ms,
        .n_tell = options->n_tell,
    };
    assert_true(hth_strategy_builtin(options->strategy, &stage->schedule.strategy));
    params = (hth_engine_context_params){
        .n_ctx = options->n_ctx,
        .n_batch = options->n_batch,
        .n_seq_max = stage->schedule.n_sequences + 1,
        .n_threads = options->n_threads ? options->n_threads : 1,
        .abort = hth_pulse_wants_abort,
        .abort_user_data = &stage->pulse,
    };
    if (engine->model_load(options->model, &model_params, &stage->engine_model, &err) != HEARTH_OK ||
        engine->context_new(stage->engine_model, &params, &stage->context, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    engine->model_info(stage->engine_model, &info);
    test_watch_init(&stage->watch, engine, stage->context, info.kind);
    stage->watch.clock_ns = &stage->now_ns;
    open_cache(stage);
    stage->place = (hth_workplace){
        .backend = &stage->watch.backend,
        .engine_model = stage->engine_model,
        .context = test_watch_context(&stage->watch),
        .kind = info.kind,
        .n_ctx = options->n_ctx,
        .n_batch = options->n_batch,
        .n_vocab = info.n_vocab,
        .n_window = info.n_window,
        .is_deterministic = options->is_deterministic,
        .policy = hth_policy_default(options->n_ctx),
        .engine_build = "stub",
        .cache = stage->cache,
        .resume_wait_ms = options->resume_wait_ms,
        .idle_cost = options->idle_cost,
        .now_ns = now_of,
        .clock = &stage->now_ns,
    };
    stage->place.keyspace.quant_byte = hth_quant_byte("f16");
    stage->place.keyspace.fingerprint[0] = 1;
    if (options->draft_model)
        open_draft_model(stage, &model_params);
    if (hth_batcher_open(&stage->place, &stage->schedule, &stage->pulse, ended, stage, &stage->batcher, &err) !=
        HEARTH_OK)
        fail_msg("%s", err.message);
}

void test_stage_close(test_stage *stage)
{
    assert_int_equal(stage->n_open, 0);
    assert_true(hth_batcher_is_idle(stage->batcher));
    hth_batcher_save(stage->batcher, HEARTH_SAVE_EVICT);
    assert_int_equal(test_watch_n_used(&stage->watch), 0);
    hth_batcher_close(stage->batcher);
    close_draft_model(stage);
    hth_cache_close(stage->cache, 60000);
    stage->watch.inner->context_free(stage->context);
    stage->watch.inner->model_free(stage->engine_model);
    test_watch_deinit(&stage->watch);
}

/* ---- ticks ---- */

/* What runs has a sequence of its own, and the cells that it was promised. */
void test_stage_check(const test_stage *stage)
{
    const hth_batcher *batcher = stage->batcher;
    uint32_t running[HTH_PARALLEL_MAX], n_assigned = 0, n_held;
    uint64_t n_promised = 0;
    hth_batcher_status status;

    hth_batcher_status_get(batcher, &status);
    assert_int_equal(status.n_cells_used, test_watch_n_used(&stage->watch));
    assert_int_equal(test_watch_n_tokens(&stage->watch, stage->schedule.n_sequences), 0); /* the scratch one */
    if (stage->options.draft_model)
        assert_int_equal(test_watch_n_tokens(&stage->draft_watch, stage->schedule.n_sequences), 0);
    assert_true(batcher->n_running <= stage->schedule.n_parallel);
    assert_int_equal(status.n_waiting + status.n_running, stage->n_open);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];
        uint32_t n;

        if (!slot->entry) {
            n_promised += slot->n_needed;
            continue;
        }
        n = hth_sequence_n_tokens(slot->entry->sequence);
        assert_int_equal(n, test_watch_n_tokens(&stage->watch, hth_sequence_id(slot->entry->sequence)));
        n_promised += slot->n_room > n ? slot->n_room - n : 0;
        running[n_assigned] = hth_sequence_id(slot->entry->sequence);
        for (uint32_t j = 0; j < n_assigned; j++)
            assert_int_not_equal(running[j], running[n_assigned]);
        n_assigned++;
    }
    n_held = test_watch_n_cells_of(&stage->watch, running, n_assigned);
    if (n_held + n_promised > stage->watch.n_cells)
        fail_msg("%u cells are held and %llu promised; there are %u", n_held, (unsigned long long)n_promised,
                 stage->watch.n_cells);
}

bool test_stage_tick(test_stage *stage)
{
    bool busy = hth_batcher_tick(stage->batcher);

    test_stage_check(stage);
    return busy;
}

void test_stage_pass(test_stage *stage, uint64_t ms)
{
    stage->now_ns += ms * 1000000u;
}

/* A tick, and a step of the clock where nothing else is to be done; false when nothing ever happens any more. */
static bool step(test_stage *stage, unsigned *n_still)
{
    uint64_t n_ticks = stage->batcher->n_ticks, n_ended = stage->batcher->n_ended, wake;

    if (test_stage_tick(stage)) {
        bool still = stage->batcher->n_ticks == n_ticks && stage->batcher->n_ended == n_ended &&
                     stage->batcher->n_to_tell == stage->schedule.n_tell;

        *n_still = still ? *n_still + 1 : 0;
        if (*n_still > IDLE_TICKS_MAX)
            fail_msg("%u ticks were busy with nothing", *n_still);
        return true;
    }
    if (stage->n_open == 0)
        return true;
    wake = hth_batcher_wake_ns(stage->batcher);
    if (wake == UINT64_MAX)
        return false;
    if (stage->now_ns < wake)
        stage->now_ns = wake;
    return true;
}

void test_stage_run(test_stage *stage)
{
    unsigned n_still = 0;

    for (unsigned i = 0; stage->n_open > 0; i++) {
        assert_in_range(i, 0, TICKS_MAX);
        if (!step(stage, &n_still) && stage->n_open > 0)
            fail_msg("%u requests never end", stage->n_open);
    }
}

static uint32_t n_tokens_of(const test_reply *reply)
{
    return reply->n_before + reply->n_events;
}

void test_stage_run_until(test_stage *stage, const test_reply *reply, uint32_t n_tokens)
{
    unsigned n_still = 0;

    while (reply->n_done == 0 && n_tokens_of(reply) < n_tokens)
        if (!step(stage, &n_still) && reply->n_done == 0)
            fail_msg("a request comes to a halt after %u tokens", n_tokens_of(reply));
}
