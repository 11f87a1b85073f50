/*
 * scheduler_memory_test.c - every allocation of the scheduler fails in turn, and a steady tick makes none
 *
 * The linker sends allocations to support/failing_heap.h. A script of a few requests, which share, wait, preempt, save
 * and restore, is run with the n-th allocation failing, for every n, alone or with several that follow. Nothing
 * crashes, hangs or leaks. Each accepted request ends once, and each that ends well has the right reply.
 */
#include <stdlib.h>
#include <string.h>

#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/failing_heap.h"
#include "support/solo.h"
#include "support/stage.h"
#include "support/support.h"

enum { REQUESTS = 5, TOKENS = 600, REPLY_MAX = 64, TICKS_MAX = 4000, FAILURES_MAX = 20000 };

/* ---- allocations ---- */

static _Thread_local failing_heap heap;

ALLOCATION_FAILS(n_bytes)
{
    return failing_heap_counts(&heap);
}

/* ---- the script ---- */

typedef struct answer {
    bool accepted;
    unsigned n_done;
    hearth_status status;
    hearth_token tokens[REPLY_MAX];
    uint32_t n_tokens;
    char text[8 * REPLY_MAX];
} answer;

typedef struct script {
    const char *model;
    bool cached;
    hearth_token tokens[REQUESTS][TOKENS];
    hearth_request requests[REQUESTS];
    hearth_sampling samplings[REQUESTS];
    answer right[REQUESTS];
    answer answers[REQUESTS];
} script;

static bool on_text(uint64_t id, const char *text, size_t n, void *user_data)
{
    (void)id, (void)text, (void)n, (void)user_data;
    return true;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    answer *a = user_data;

    (void)id;
    heap.armed = false;
    a->n_done++;
    a->status = result->status;
    a->n_tokens = result->stats->completion_tokens;
    assert_in_range(a->n_tokens, 0, REPLY_MAX);
    if (a->n_tokens > 0)
        memcpy(a->tokens, result->tokens, a->n_tokens * sizeof(*a->tokens));
    assert_in_range(result->n_bytes, 0, sizeof(a->text) - 1);
    memcpy(a->text, result->text, result->n_bytes + 1);
    heap.armed = true;
}

static void write_script(script *s, const char *model, bool cached)
{
    static const char *const stops[] = { "ZZZ", "~~" };
    static const uint32_t lengths[REQUESTS] = { 500, 510, 300, 500, 40 };

    *s = (script){ .model = model, .cached = cached };
    for (unsigned i = 0; i < REQUESTS; i++) {
        hearth_request *request = &s->requests[i];

        test_tokens(1, s->tokens[i], TOKENS);
        test_tokens(10 + i, s->tokens[i] + 400, TOKENS - 400); /* 400 tokens are everybody's */
        *request = test_request(s->tokens[i], lengths[i], 12 + 10 * (int32_t)i);
        s->samplings[i] = *request->sampling;
        s->samplings[i].seed = i;
        s->samplings[i].temperature = i % 2 ? 0.8f : 0;
        request->sampling = &s->samplings[i];
        request->session_id = i == 2 ? "talk" : NULL;
        request->priority = i == 4 ? 2 : 0;
        request->n_top_logprobs = i == 1 ? 2 : 0;
        request->stop = stops;
        request->n_stop = 2;
        request->echo = i == 4;
        request->on_text = on_text;
        request->on_done = on_done;
        request->user_data = &s->answers[i];
    }
}

/* As test_stage_submit, but nothing of the test allocates while the heap is armed. */
static void submit(script *s, test_stage *stage, unsigned i)
{
    hearth_token *tokens = malloc(s->requests[i].n_tokens * sizeof(*tokens));
    hth_request *request = NULL;
    hth_slot *slot = NULL;
    hearth_error err;
    hearth_status status;

    assert_non_null(tokens);
    memcpy(tokens, s->tokens[i], s->requests[i].n_tokens * sizeof(*tokens));
    heap.armed = true;
    status = hth_request_new(&s->requests[i], tokens, s->requests[i].n_tokens, i + 1, &request, &err);
    if (status == HEARTH_OK) {
        request->keyspace = stage->place.keyspace;
        status = hth_slot_new(&stage->batcher->place, request, s->requests[i].sampling, NULL, &slot, &err);
        if (status != HEARTH_OK)
            hth_request_free(request);
    }
    if (status == HEARTH_OK) {
        s->answers[i].accepted = true;
        stage->n_open++;
        hth_batcher_add(stage->batcher, slot);
    } else {
        assert_int_equal(status, HEARTH_NO_MEMORY);
    }
    heap.armed = false;
}

static void tick(test_stage *stage)
{
    heap.armed = true;
    (void)hth_batcher_tick(stage->batcher);
    heap.armed = false;
    test_stage_check(stage);
}

/* Run it; how many allocations there were. */
static uint64_t play(script *s, uint64_t fail_at, uint64_t n_fails)
{
    test_stage_options options = test_stage_options_default();
    test_stage stage;

    memset(s->answers, 0, sizeof(s->answers));
    options.model = s->model;
    options.n_ctx = 1400;
    options.n_parallel = 3;
    options.ram_bytes = s->cached ? 8 << 20 : 0;
    test_stage_open(&stage, &options);
    heap.n = 0;
    heap.fail_at = fail_at;
    heap.n_fails = n_fails;
    for (unsigned i = 0; i < REQUESTS - 1; i++)
        submit(s, &stage, i);
    for (unsigned i = 0; i < 10; i++)
        tick(&stage);
    submit(s, &stage, REQUESTS - 1); /* of a higher priority */
    heap.armed = true;
    hth_batcher_save(stage.batcher, HEARTH_SAVE_EVICT);
    heap.armed = false;
    for (unsigned i = 0; stage.n_open > 0; i++) {
        if (i == TICKS_MAX)
            fail_msg("allocation %llu fails: %u requests never end", (unsigned long long)fail_at, stage.n_open);
        tick(&stage);
        test_stage_pass(&stage, 1);
    }
    heap.fail_at = 0;
    test_stage_close(&stage);
    return heap.n;
}

static void check_answers(const script *s, uint64_t fail_at)
{
    for (unsigned i = 0; i < REQUESTS; i++) {
        const answer *a = &s->answers[i], *right = &s->right[i];

        assert_int_equal(a->n_done, a->accepted);
        if (!a->accepted)
            continue;
        if (a->status != HEARTH_OK && a->status != HEARTH_NO_MEMORY)
            fail_msg("allocation %llu fails: request %u ends with %s", (unsigned long long)fail_at, i,
                     hearth_status_name(a->status));
        assert_true(a->n_tokens <= right->n_tokens);
        assert_memory_equal(a->tokens, right->tokens, a->n_tokens * sizeof(*a->tokens));
        if (a->status == HEARTH_OK) {
            assert_int_equal(a->n_tokens, right->n_tokens);
            assert_string_equal(a->text, right->text);
        }
    }
}

/* The right answers are the solo engine's. */
static void compute_right(script *s)
{
    hth_engine_model_params params = { .n_gpu_layers = 0 };
    const hth_backend *stub = hth_backend_stub();
    hth_engine_model *model;

    assert_int_equal(stub->model_load(s->model, &params, &model, NULL), HEARTH_OK);
    for (unsigned i = 0; i < REQUESTS; i++) {
        const hearth_request *request = &s->requests[i];
        answer *right = &s->right[i];
        test_solo_reply alone;

        test_solo_chain(stub, model, request->tokens, request->n_tokens, request->sampling,
                        (uint32_t)request->n_predict, 512, right->tokens);
        alone = test_solo_finish(stub, model, request, (uint32_t)request->n_predict, right->tokens,
                                 (uint32_t)request->n_predict);
        right->n_tokens = alone.n_tokens;
        assert_in_range(alone.n_bytes, 0, sizeof(right->text) - 1);
        memcpy(right->text, alone.text, alone.n_bytes + 1);
        free(alone.text);
    }
    stub->model_free(model);
}

static void fail_each(const char *model, bool cached, uint64_t n_fails, uint64_t stride)
{
    script *s = calloc(1, sizeof(*s));
    uint64_t n_all;

    assert_non_null(s);
    write_script(s, model, cached);
    compute_right(s);
    n_all = play(s, 0, 0);
    check_answers(s, 0);
    for (unsigned i = 0; i < REQUESTS; i++)
        assert_int_equal(s->answers[i].status, HEARTH_OK);
    assert_in_range(n_all, 50, FAILURES_MAX); /* else nothing is tested */
    for (uint64_t i = 1; i <= n_all; i += stride) {
        (void)play(s, i, n_fails);
        check_answers(s, i);
    }
    free(s);
}

TEST(any_allocation_may_fail)
{
    static const char *const models[] = { "stub:", "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    if (!WRAPS_MALLOC)
        skip();
    for (size_t m = 0; m < 4; m++)
        for (unsigned cached = 0; cached < 2; cached++)
            fail_each(models[m], cached, 1, 1);
}

TEST(several_in_a_row_may_fail)
{
    static const uint64_t lengths[] = { 2, 5, 30, UINT64_C(1) << 32 };

    if (!WRAPS_MALLOC)
        skip();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        fail_each("stub:", true, lengths[i], 3);
        fail_each("stub:kind=hybrid", true, lengths[i], 3);
    }
}

TEST(a_steady_tick_allocates_nothing)
{
    enum { STREAMS = 64, STEADY_TICKS = 60 };

    if (!WRAPS_MALLOC)
        skip();
    for (unsigned cached = 0; cached < 2; cached++) {
        test_stage_options options = test_stage_options_default();
        static const char *const stops[] = { "\n\n\n", "\t" };
        answer answers[STREAMS] = { { .accepted = false } };
        hearth_token tokens[STREAMS][20];
        test_stage stage;

        options.n_parallel = STREAMS;
        options.n_ctx = STREAMS * 150;
        options.ram_bytes = cached ? 32 << 20 : 0;
        test_stage_open(&stage, &options);
        for (unsigned i = 0; i < STREAMS; i++) {
            hearth_sampling sampling = hearth_sampling_default();
            hearth_request request;
            hth_request *taken;
            hth_slot *slot;
            hearth_token *copied = malloc(sizeof(tokens[i]));

            test_tokens(i, tokens[i], 20);
            request = test_request(tokens[i], 20, REPLY_MAX + 40);
            request.n_top_logprobs = 2;
            sampling.temperature = 1;
            request.sampling = &sampling;
            request.stop = stops;
            request.n_stop = 2;
            request.on_text = on_text;
            request.user_data = &answers[i];
            assert_non_null(copied);
            memcpy(copied, tokens[i], sizeof(tokens[i]));
            assert_int_equal(hth_request_new(&request, copied, 20, i + 1, &taken, NULL), HEARTH_OK);
            taken->keyspace = stage.place.keyspace;
            assert_int_equal(hth_slot_new(&stage.batcher->place, taken, &sampling, NULL, &slot, NULL), HEARTH_OK);
            stage.n_open++;
            hth_batcher_add(stage.batcher, slot);
        }
        for (unsigned i = 0; i < 20; i++) /* until all of them stream */
            tick(&stage);
        heap.n = 0;
        stage.watch.n_rows = 0;
        for (unsigned i = 0; i < STEADY_TICKS; i++)
            tick(&stage);
        assert_int_equal(stage.watch.n_rows, STEADY_TICKS * STREAMS);
        assert_int_equal(heap.n, 0);
        test_stage_run(&stage);
        test_stage_close(&stage);
    }
}
