/*
 * replies_grammar_test.c - replies to one prompt read their grammar once, and each follows it by itself
 *
 * Where the linker lets us, every reading is counted.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { REPLIES = 12, THREADS = 4, ROUNDS = 5 };

static atomic_uint n_read;

#ifdef HTH_TEST_WRAPS_GBNF
/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
hearth_status __real_hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                                  hearth_error *err);
hearth_status __wrap_hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                                  hearth_error *err);

hearth_status __wrap_hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                                  hearth_error *err)
{
    atomic_fetch_add(&n_read, 1);
    return __real_hth_gbnf_new(text, n_bytes, outside, out, err);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif

static void expect_read(unsigned n)
{
#ifdef HTH_TEST_WRAPS_GBNF
    assert_int_equal(atomic_load(&n_read), n);
#else
    (void)n;
#endif
}

/* A request for a reply to each of several seeds; sampling, which it points to, is made. */
static hearth_request request_of(const char *grammar, hearth_sampling *sampling)
{
    hearth_request request = hth_test_greedy("say something", 24);

    *sampling = hearth_sampling_default();
    sampling->temperature = 1;
    sampling->seed = 7;
    sampling->grammar = grammar;
    request.sampling = sampling;
    request.ignore_eos = false;
    request.n = REPLIES;
    return request;
}

/* Each of n replies is what a request for it alone gets. */
static void expect_as_alone(hearth_model *model, const hearth_request *request, const hearth_result **results)
{
    for (unsigned i = 0; i < request->n; i++) {
        hearth_request alone = *request;
        hearth_sampling sampling = *request->sampling;
        const hearth_result *result;

        alone.n = 1;
        alone.sampling = &sampling;
        sampling.seed += i;
        result = hth_test_complete(model, &alone);
        assert_string_equal(results[i]->text, result->text);
        assert_int_equal(results[i]->finish_reason, result->finish_reason);
        hearth_result_unref(result);
    }
}

static void read_once(hearth_model *model, const hearth_request *request)
{
    const hearth_result *results[REPLIES];
    unsigned n_different = 0;
    hearth_error err;

    atomic_store(&n_read, 0);
    assert_ok(hearth_complete(model, request, results, &err), err);
    expect_read(1);
    expect_as_alone(model, request, results);
    for (unsigned i = 0; i < request->n; i++) {
        n_different += strcmp(results[i]->text, results[0]->text) != 0;
        if (i > 0)
            hearth_result_unref(results[i]);
    }
    hearth_result_unref(results[0]);
    assert_true(n_different > 0);
}

STUB_TEST(replies_to_one_prompt_read_their_grammar_once)
{
    static const hearth_trigger triggers[] = {
        { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_WORD, .text = "e" },
        { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_PATTERN, .text = "(q[a-z])" }
    };
    hearth_sampling sampling;
    hearth_request request = request_of("root ::= [a-f]+ (\"-\" [0-9]+)?", &sampling);

    read_once(f->model, &request);
    sampling.grammar_prefix = "ab";
    sampling.repeat_penalty = 1.3f;
    sampling.dry_multiplier = 1;
    read_once(f->model, &request);
    request = request_of("root ::= (\"e\" | \"q\" [a-z]) [0-9]*", &sampling);
    sampling.grammar_is_lazy = true;
    sampling.triggers = triggers;
    sampling.n_triggers = 2;
    read_once(f->model, &request);
}

STUB_TEST(a_grammar_that_cannot_be_read_is_refused_once_for_all)
{
    hearth_sampling sampling;
    hearth_request request = request_of("root ::= [", &sampling);
    const hearth_result *results[REPLIES];
    hearth_error err;

    atomic_store(&n_read, 0);
    assert_int_equal(hearth_complete(f->model, &request, results, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "grammar"));
    expect_read(1);
}

STUB_TEST(a_grammar_that_is_complete_ends_a_reply_that_may_not_end)
{
    hearth_sampling sampling;
    hearth_request request = request_of("root ::= [a-z]+ \"!\"", &sampling);
    const hearth_result *result;

    request.n = 1;
    request.n_predict = 1000;
    request.ignore_eos = true;
    result = hth_test_complete(f->model, &request);
    assert_int_equal(result->finish_reason, HEARTH_FINISH_STOP);
    assert_int_equal(result->text[result->n_bytes - 1], '!');
    hearth_result_unref(result);
    sampling.grammar = "root ::= [a-z]+"; /* complete at each letter, and it may always go on */
    result = hth_test_complete(f->model, &request);
    assert_int_equal(result->finish_reason, HEARTH_FINISH_LENGTH);
    assert_int_equal(result->n_bytes, 1000);
    hearth_result_unref(result);
}

/* ---- what is shared outlives the reply that it was read for ---- */

typedef struct crowd {
    hearth_model *model;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_open, n_ok;
} crowd;

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    crowd *c = user_data;

    (void)id;
    pthread_mutex_lock(&c->lock);
    c->n_open--;
    c->n_ok += result->status == HEARTH_OK && strspn(result->text, "abcdef-0123456789") == result->n_bytes;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* Submit replies, and cancel the first of them, again and again. */
static void *submit_some(void *context)
{
    crowd *c = context;
    hearth_sampling sampling;
    hearth_request request = request_of("root ::= [a-f]+ (\"-\" [0-9]+)?", &sampling);
    uint64_t id;

    request.on_done = on_done;
    request.user_data = c;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (hearth_submit(c->model, &request, &id, NULL) != HEARTH_OK)
            return NULL;
        (void)hearth_cancel(c->model, id, NULL); /* unless it has ended */
    }
    return c;
}

STUB_TEST(a_grammar_outlives_the_reply_that_it_was_read_for)
{
    crowd c = { .model = f->model, .n_open = THREADS * ROUNDS * REPLIES };
    pthread_t threads[THREADS];

    atomic_store(&n_read, 0);
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.changed, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_some, &c), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    pthread_mutex_lock(&c.lock);
    while (c.n_open > 0)
        pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    assert_true(c.n_ok >= THREADS * ROUNDS * (REPLIES - 1));
    expect_read(THREADS * ROUNDS);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
}
