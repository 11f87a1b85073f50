/*
 * batching_test.c - on real models: rows and logits go to the requests that they belong to
 *
 * Dozens of requests run at once, with shared prefixes, different seeds, cancels and preemptions. Bits of real logits
 * depend on what else is in a batch and on where cells lie, so the oracle is not each request alone: every call of the
 * engine is recorded, and played again on a fresh context, in the same order. There the tokens of every sequence are
 * followed, and a token of a reply must be one that is drawn from played logits of just the tokens before it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/solo.h"
#include "support/stage.h"
#include "support/support.h"

enum { REQUESTS = 24, PROMPT_MAX = 700, REPLY = 14, N_CTX = 2200, N_BATCH = 256, ANY = -1 };

typedef enum call_kind { CALL_DECODE, CALL_REMOVE, CALL_COPY, CALL_SET } call_kind;

typedef struct call {
    call_kind kind;
    hth_batch_row *rows; /* CALL_DECODE */
    uint8_t *bytes;      /* CALL_SET */
    size_t n;            /* of either */
    uint32_t sequence, to, begin, end;
    hth_state_part part;
} call;

typedef struct reply {
    hearth_token tokens[PROMPT_MAX + REPLY]; /* prompt and reply */
    uint32_t n_prompt, n;                    /* n: of both */
    hearth_request request;
    hearth_sampling sampling;
    test_reply *handle;
    bool drawn[REPLY]; /* the token is drawn from played logits */
} reply;

typedef struct record {
    test_stage stage;
    call *calls;
    size_t n_calls, capacity;
    reply replies[REQUESTS];
    hearth_token *played; /* [n_sequences][N_CTX], tokens of the played sequences; ANY: set from an image */
    uint64_t seed;
} record;

/* ---- recording ---- */

static call *add_call(record *r, call_kind kind)
{
    if (r->n_calls == r->capacity) {
        r->capacity = 2 * r->capacity + 256;
        r->calls = realloc(r->calls, r->capacity * sizeof(*r->calls));
        assert_non_null(r->calls);
    }
    r->calls[r->n_calls] = (call){ .kind = kind };
    return &r->calls[r->n_calls++];
}

static void *copy_of(const void *from, size_t n_bytes)
{
    void *copy = malloc(n_bytes);

    assert_non_null(copy);
    memcpy(copy, from, n_bytes);
    return copy;
}

static void on_decode(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    call *c = add_call(user_data, CALL_DECODE);

    (void)watch;
    c->rows = copy_of(rows, n_rows * sizeof(*rows));
    c->n = n_rows;
}

static void on_remove(test_watch *watch, uint32_t sequence, uint32_t begin, uint32_t end, void *user_data)
{
    call *c = add_call(user_data, CALL_REMOVE);

    (void)watch;
    c->sequence = sequence;
    c->begin = begin;
    c->end = end;
}

static void on_copy(test_watch *watch, uint32_t from, uint32_t to, uint32_t begin, uint32_t end, void *user_data)
{
    call *c = add_call(user_data, CALL_COPY);

    (void)watch;
    c->sequence = from;
    c->to = to;
    c->begin = begin;
    c->end = end;
}

static void on_set(test_watch *watch, uint32_t sequence, hth_state_part part, const uint8_t *bytes, size_t n_bytes,
                   uint32_t begin, uint32_t end, void *user_data)
{
    call *c = add_call(user_data, CALL_SET);

    (void)watch;
    c->sequence = sequence;
    c->part = part;
    c->bytes = copy_of(bytes, n_bytes);
    c->n = n_bytes;
    c->begin = begin;
    c->end = end;
}

/* ---- the requests ---- */

static void write_requests(record *r)
{
    static const uint32_t shared[] = { 0, 1, 100, 256, 300, 511 };
    hearth_token common[PROMPT_MAX];

    for (unsigned i = 0; i < PROMPT_MAX; i++)
        common[i] = 3 + (hearth_token)hth_test_random(&r->seed, r->stage.place.n_vocab - 3);
    for (unsigned i = 0; i < REQUESTS; i++) {
        reply *one = &r->replies[i];
        uint32_t n_shared = shared[hth_test_random(&r->seed, sizeof(shared) / sizeof(shared[0]))];

        one->n_prompt = n_shared + (uint32_t)hth_test_random(&r->seed, 60);
        if (one->n_prompt == 0)
            one->n_prompt = 1;
        memcpy(one->tokens, common, n_shared * sizeof(*common));
        for (unsigned k = n_shared; k < one->n_prompt; k++)
            one->tokens[k] = 3 + (hearth_token)hth_test_random(&r->seed, r->stage.place.n_vocab - 3);
        if (i % 6 == 5) { /* another reply to the prompt before */
            one->n_prompt = r->replies[i - 1].n_prompt;
            memcpy(one->tokens, r->replies[i - 1].tokens, one->n_prompt * sizeof(hearth_token));
        }
        one->n = one->n_prompt;
        one->request = test_request(one->tokens, one->n_prompt, 2 + (int32_t)hth_test_random(&r->seed, REPLY - 1));
        one->sampling = hearth_sampling_default();
        one->request.sampling = &one->sampling;
        one->sampling.temperature = i % 3 == 0 ? 0 : 1;
        one->sampling.seed = i;
        one->request.priority = i % 7 == 6;
    }
}

static void run_requests(record *r)
{
    unsigned n_submitted = 0;

    for (unsigned i = 0; n_submitted < REQUESTS || r->stage.n_open > 0; i++) {
        assert_in_range(i, 0, 20000);
        while (n_submitted < REQUESTS && hth_test_random(&r->seed, 3) > 0) {
            reply *one = &r->replies[n_submitted++];

            one->handle = test_stage_submit(&r->stage, &one->request, NULL, NULL);
            assert_non_null(one->handle);
        }
        if (n_submitted > 0 && hth_test_random(&r->seed, 25) == 0) {
            test_reply *unlucky = r->replies[hth_test_random(&r->seed, n_submitted)].handle;

            if (unlucky->request)
                test_stage_cancel(&r->stage, unlucky);
        }
        if (hth_test_random(&r->seed, 40) == 0)
            hth_batcher_save(r->stage.batcher, HEARTH_SAVE_EVICT);
        (void)test_stage_tick(&r->stage);
    }
    for (unsigned i = 0; i < REQUESTS; i++) {
        reply *one = &r->replies[i];
        const hearth_result *result = one->handle->result;

        if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED)
            fail_msg("request %u: %s", i, result->error.message);
        memcpy(one->tokens + one->n_prompt, result->tokens, result->stats->completion_tokens * sizeof(hearth_token));
        one->n += result->stats->completion_tokens;
    }
}

/* ---- playing it again ---- */

static hearth_token *played_of(const record *r, uint32_t sequence)
{
    return r->played + (size_t)sequence * N_CTX;
}

/* The token that a request draws after its first n tokens, from these logits. */
static hearth_token draw(const record *r, const reply *one, uint32_t n, const float *logits)
{
    const hth_backend *engine = r->stage.watch.inner;
    hth_engine_sampler *sampler;
    hearth_token token;

    assert_int_equal(engine->sampler_new(r->stage.engine_model, &one->sampling, &sampler, NULL), HEARTH_OK);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(engine->sampler_accept(sampler, one->tokens[i], i >= one->n_prompt, NULL), HEARTH_OK);
    token = test_solo_draw(engine, sampler, logits, n, one->sampling.seed);
    engine->sampler_free(sampler);
    return token;
}

/* Logits after so many tokens of a sequence: which replies' next tokens come from them? */
static void use_logits(record *r, const hth_batch_row *row, const float *logits)
{
    const hearth_token *tokens = played_of(r, row->sequence);
    uint32_t n = row->position + 1;

    for (unsigned i = 0; i < REQUESTS; i++) {
        reply *one = &r->replies[i];
        uint32_t k = 0;

        if (n < one->n_prompt || n >= one->n)
            continue;
        while (k < n && (tokens[k] == ANY || tokens[k] == one->tokens[k]))
            k++;
        if (k == n && !one->drawn[n - one->n_prompt])
            one->drawn[n - one->n_prompt] = draw(r, one, n, logits) == one->tokens[n];
    }
}

static void play_decode(record *r, hth_engine_context *context, const call *c)
{
    const hth_backend *engine = r->stage.watch.inner;
    hth_decode_result result;
    hearth_error err;

    assert_ok(engine->decode(context, c->rows, c->n, &result, &err), err);
    assert_int_equal(result, HTH_DECODE_OK);
    for (size_t i = 0; i < c->n; i++)
        played_of(r, c->rows[i].sequence)[c->rows[i].position] = c->rows[i].token;
    for (size_t i = 0; i < c->n; i++)
        if (c->rows[i].wants_logits)
            use_logits(r, &c->rows[i], engine->logits(context, i));
}

static void play(record *r, hth_engine_context *context, const call *c)
{
    const hth_backend *engine = r->stage.watch.inner;
    hearth_error err;

    switch (c->kind) {
    case CALL_DECODE: play_decode(r, context, c); break;
    case CALL_REMOVE: assert_true(engine->seq_remove(context, c->sequence, c->begin, c->end)); break;
    case CALL_COPY:
        assert_int_equal(engine->seq_copy(context, c->sequence, c->to, c->begin, c->end, &err), HEARTH_OK);
        memcpy(played_of(r, c->to) + c->begin, played_of(r, c->sequence) + c->begin,
               (c->end - c->begin) * sizeof(hearth_token));
        break;
    case CALL_SET:
        assert_int_equal(engine->state_set(context, c->sequence, c->part, c->bytes, c->n, c->begin, c->end, &err),
                         HEARTH_OK);
        for (uint32_t i = c->begin; i < c->end && (c->part != HTH_STATE_REST || c->begin == 0); i++)
            if (c->part != HTH_STATE_REST || r->stage.watch.kind == HTH_MODEL_RECURRENT)
                played_of(r, c->sequence)[i] = ANY;
        break;
    }
}

static void play_all(record *r)
{
    hth_engine_context_params params = {
        .n_ctx = N_CTX,
        .n_batch = N_BATCH,
        .n_seq_max = r->stage.schedule.n_sequences + 1,
        .n_threads = r->stage.options.n_threads,
    };
    const hth_backend *engine = r->stage.watch.inner;
    hth_engine_context *context;
    hearth_error err;
    unsigned n_drawn = 0;

    assert_ok(engine->context_new(r->stage.engine_model, &params, &context, &err), err);
    r->played = calloc((size_t)params.n_seq_max * N_CTX, sizeof(*r->played));
    assert_non_null(r->played);
    for (size_t i = 0; i < r->n_calls; i++)
        play(r, context, &r->calls[i]);
    engine->context_free(context);
    for (unsigned i = 0; i < REQUESTS; i++)
        for (uint32_t k = 0; k < r->replies[i].n - r->replies[i].n_prompt; k++) {
            if (!r->replies[i].drawn[k])
                fail_msg("request %u: token %u of its reply is drawn from none of the logits of its tokens", i, k);
            n_drawn++;
        }
    assert_in_range(n_drawn, REQUESTS, REQUESTS * REPLY); /* else nothing was tested */
}

static void run_model(const char *path, uint64_t ram_bytes)
{
    test_stage_options options = test_stage_options_default();
    record *r = calloc(1, sizeof(*r));
    hearth_error err;

    assert_non_null(r);
    printf("%s%s: ", path, ram_bytes ? ", with a cache" : "");
    r->seed = hth_test_seed();
    (void)fflush(stdout);
    assert_ok(hth_backend_llama(NULL, &options.engine, &err), err);
    options.model = path;
    options.n_threads = 1;
    options.n_ctx = N_CTX;
    options.n_batch = N_BATCH;
    options.n_parallel = 8;
    options.ram_bytes = ram_bytes;
    test_stage_open(&r->stage, &options);
    r->stage.watch.hooks = (test_watch_hooks){
        .after_decode = on_decode, .on_remove = on_remove, .on_copy = on_copy, .on_set = on_set, .user_data = r
    };
    write_requests(r);
    run_requests(r);
    play_all(r);
    for (unsigned i = 0; i < REQUESTS; i++)
        test_reply_free(r->replies[i].handle);
    test_stage_close(&r->stage);
    for (size_t i = 0; i < r->n_calls; i++) {
        free(r->calls[i].rows);
        free(r->calls[i].bytes);
    }
    free(r->calls);
    free(r->played);
    free(r);
}

TEST(replies_of_the_bundled_model_are_drawn_from_their_own_logits)
{
    run_model(HTH_TEST_MODELS "/hearth-tiny.gguf", 0);
    run_model(HTH_TEST_MODELS "/hearth-tiny.gguf", 64 << 20);
}

TEST(replies_of_every_kind_are_drawn_from_their_own_logits)
{
    static const char *const shapes[] = { "tiny-llama",  "tiny-window",        "tiny-recurrent",
                                          "tiny-hybrid", "tiny-hybrid-window", "tiny-qwen35" };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char path[4096];

        hth_test_model(shapes[i], path, sizeof(path));
        run_model(path, 0);
        run_model(path, 256 << 20);
    }
}
