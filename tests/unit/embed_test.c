/*
 * embed_test.c - embeddings through the public interface, on the stub engine
 *
 * The stub's vectors are functions of the input's tokens (tests/stub/embedder.c), so each input must get the same
 * vector whatever is evaluated beside it.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "models/model.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_VALUES = 8, N_INPUTS_MAX = 512 };

static hearth_embed_input text_input(const char *text)
{
    return (hearth_embed_input){ .struct_size = sizeof(hearth_embed_input), .text = text };
}

static hearth_embed_request request_of(const hearth_embed_input *inputs, size_t n)
{
    hearth_embed_request request = hearth_embed_request_default();

    request.inputs = inputs;
    request.n_inputs = n;
    return request;
}

static const hearth_embeddings *embed(hearth_model *model, const hearth_embed_request *request)
{
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };

    assert_ok(hearth_embed(model, request, &embeddings, &err), err);
    return embeddings;
}

static void expect_refused(hearth_model *model, const hearth_embed_request *request, hearth_status status,
                           const char *message)
{
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(hearth_embed(model, request, &embeddings, &err), status);
    assert_null(embeddings);
    if (!strstr(err.message, message))
        fail_msg("'%s' does not say '%s'", err.message, message);
}

static hearth_model_info info_of(hearth_model *model)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    return info;
}

/* The vector of one text alone. */
static void alone(hearth_model *model, hearth_pooling pooling, const char *text, float out[N_VALUES])
{
    hearth_embed_input input = text_input(text);
    hearth_embed_request request = request_of(&input, 1);
    const hearth_embeddings *embeddings;

    request.pooling = pooling;
    embeddings = embed(model, &request);
    assert_int_equal(embeddings->n_values, N_VALUES);
    memcpy(out, embeddings->vectors[0], N_VALUES * sizeof(float));
    hearth_embeddings_unref(embeddings);
}

static float norm_of(const float *values, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)values[i] * (double)values[i];
    return (float)sqrt(sum);
}

STUB_TEST(each_input_gets_the_vector_that_it_has_alone)
{
    char texts[100][8];
    hearth_embed_input inputs[100] = { { .text = NULL } };
    hearth_embed_request request = request_of(inputs, 100);
    const hearth_embeddings *embeddings;

    for (int i = 0; i < 100; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "text %d", i);
        inputs[i] = text_input(texts[i]);
    }
    embeddings = embed(f->model, &request);
    assert_int_equal(embeddings->n_inputs, 100);
    assert_int_equal(embeddings->pooling, HEARTH_POOLING_LAST); /* of a model that generates */
    for (int i = 0; i < 100; i++) {
        float expected[N_VALUES];

        alone(f->model, HEARTH_POOLING_MODEL, texts[i], expected);
        assert_int_equal(embeddings->n_vectors[i], 1);
        assert_int_equal(embeddings->n_tokens[i], strlen(texts[i]) + 1);
        assert_memory_equal(embeddings->vectors[i], expected, sizeof(expected));
    }
    hearth_embeddings_unref(embeddings);
}

STUB_TEST(an_empty_text_is_the_token_that_begins_every_text)
{
    hearth_embed_input inputs[2] = { text_input(""), text_input("a") };
    hearth_embed_request request = request_of(inputs, 2);
    const hearth_embeddings *embeddings = embed(f->model, &request);

    assert_int_equal(embeddings->n_tokens[0], 1);
    assert_int_equal(embeddings->n_tokens[1], 2);
    hearth_embeddings_unref(embeddings);
}

STUB_TEST(inputs_are_evaluated_together)
{
    hearth_embed_input inputs[16] = { { .text = NULL } };
    hearth_embed_request request = request_of(inputs, 16);
    const hearth_embeddings *embeddings;

    for (int i = 0; i < 16; i++)
        inputs[i] = text_input("a short text");
    embeddings = embed(f->model, &request);
    assert_int_equal(embeddings->n_evaluations, 1);
    assert_int_equal(info_of(f->model).n_embed_ticks, 1);
    assert_int_equal(info_of(f->model).n_embed_inputs, 16);
    hearth_embeddings_unref(embeddings);
}

STUB_TEST(tokens_are_inputs_as_they_are)
{
    static const hearth_token tokens[] = { 256, 'h', 'i' };
    hearth_embed_input input = { .struct_size = sizeof(input), .tokens = tokens, .n_tokens = 3 };
    hearth_embed_request request = request_of(&input, 1);
    const hearth_embeddings *embeddings = embed(f->model, &request);
    float expected[N_VALUES];

    alone(f->model, HEARTH_POOLING_MODEL, "hi", expected);
    assert_memory_equal(embeddings->vectors[0], expected, sizeof(expected));
    hearth_embeddings_unref(embeddings);
}

STUB_TEST(a_vector_for_each_token_and_its_mean_and_first_belong_together)
{
    hearth_embed_input input = text_input("abc");
    hearth_embed_request request = request_of(&input, 1);
    const hearth_embeddings *all, *mean, *cls;

    request.norm = -1;
    request.pooling = HEARTH_POOLING_NONE;
    all = embed(f->model, &request);
    request.pooling = HEARTH_POOLING_MEAN;
    mean = embed(f->model, &request);
    request.pooling = HEARTH_POOLING_CLS;
    cls = embed(f->model, &request);
    assert_int_equal(all->n_vectors[0], 4);
    assert_memory_equal(all->vectors[0], cls->vectors[0], N_VALUES * sizeof(float));
    for (int i = 0; i < N_VALUES; i++) {
        float sum = 0;

        for (int k = 0; k < 4; k++)
            sum += all->vectors[0][k * N_VALUES + i];
        assert_true(fabsf(sum / 4 - mean->vectors[0][i]) < 1e-5f);
    }
    hearth_embeddings_unref(all);
    hearth_embeddings_unref(mean);
    hearth_embeddings_unref(cls);
}

STUB_TEST(vectors_are_cut_before_they_are_normalised)
{
    hearth_embed_input input = text_input("abc");
    hearth_embed_request request = request_of(&input, 1);
    const hearth_embeddings *raw, *cut, *taxi, *largest;

    request.norm = -1;
    raw = embed(f->model, &request);
    request.norm = 2;
    request.dimensions = 3;
    cut = embed(f->model, &request);
    request.norm = 1;
    taxi = embed(f->model, &request);
    request.norm = 0;
    largest = embed(f->model, &request);
    assert_int_equal(cut->n_values, 3);
    assert_true(fabsf(norm_of(cut->vectors[0], 3) - 1) < 1e-6f);
    for (int i = 0; i < 3; i++)
        assert_true(fabsf(cut->vectors[0][i] - raw->vectors[0][i] / norm_of(raw->vectors[0], 3)) < 1e-6f);
    assert_true(fabsf(fabsf(taxi->vectors[0][0]) + fabsf(taxi->vectors[0][1]) + fabsf(taxi->vectors[0][2]) - 1) <
                1e-6f);
    assert_true(fabsf(fmaxf(fmaxf(fabsf(largest->vectors[0][0]), fabsf(largest->vectors[0][1])),
                            fabsf(largest->vectors[0][2])) -
                      32760) < 0.1f);
    hearth_embeddings_unref(raw);
    hearth_embeddings_unref(cut);
    hearth_embeddings_unref(taxi);
    hearth_embeddings_unref(largest);
}

/* ---- what is refused ---- */

STUB_TEST(bad_requests_are_refused_with_a_reason)
{
    static const hearth_token bad_token[] = { 260 };
    hearth_embed_input input = text_input("x"), empty = text_input(""), broken = text_input("\xff");
    hearth_embed_input nothing = { .struct_size = sizeof(nothing) };
    hearth_embed_input token = { .struct_size = sizeof(token), .tokens = bad_token, .n_tokens = 1 };
    hearth_embed_request request = request_of(&input, 0);

    expect_refused(f->model, &request, HEARTH_MISUSE, "0 inputs");
    request = request_of(&empty, 1);
    request.tokenize_flags = 0;
    expect_refused(f->model, &request, HEARTH_MISUSE, "input 0 is empty");
    request = request_of(&nothing, 1);
    expect_refused(f->model, &request, HEARTH_MISUSE, "either a text or tokens");
    request = request_of(&token, 1);
    expect_refused(f->model, &request, HEARTH_MISUSE, "token 0 of input 0 is 260; this model has tokens 0 to 259");
    request = request_of(&broken, 1);
    expect_refused(f->model, &request, HEARTH_INVALID_TEXT, "UTF-8");
    request = request_of(&input, 1);
    request.pooling = HEARTH_POOLING_RANK;
    expect_refused(f->model, &request, HEARTH_UNSUPPORTED, "has no classifier");
    request.pooling = (hearth_pooling)9;
    expect_refused(f->model, &request, HEARTH_MISUSE, "there is no pooling 9");
    request.pooling = HEARTH_POOLING_MEAN;
    request.query = "q";
    expect_refused(f->model, &request, HEARTH_MISUSE, "pooling rank, not mean");
    request.query = NULL;
    request.norm = 65;
    expect_refused(f->model, &request, HEARTH_MISUSE, "norm is 65");
    request.norm = 2;
    request.dimensions = 9;
    expect_refused(f->model, &request, HEARTH_MISUSE, "have 8 values");
}

STUB_TEST(an_input_beyond_the_batch_is_refused_with_the_limit_or_cut)
{
    uint32_t n_max = info_of(f->model).embed_tokens_max;
    char *text = hth_test_prompt(n_max, 1); /* and a token before it */
    char *cut = hth_test_prompt(n_max - 1, 1);
    hearth_embed_input input = text_input(text);
    hearth_embed_request request = request_of(&input, 1);
    const hearth_embeddings *embeddings;
    float expected[N_VALUES];

    assert_int_equal(n_max, 512);
    expect_refused(f->model, &request, HEARTH_TOO_LONG, "has 513 tokens; an input of model");
    request.truncate = true;
    embeddings = embed(f->model, &request);
    assert_int_equal(embeddings->n_tokens[0], 512);
    alone(f->model, HEARTH_POOLING_MODEL, cut, expected);
    assert_memory_equal(embeddings->vectors[0], expected, sizeof(expected));
    hearth_embeddings_unref(embeddings);
    free(text);
    free(cut);
}

RUNTIME_TEST(a_model_without_embeddings_says_so)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:embeds=0", NULL);
    hearth_embed_input input = text_input("x");
    hearth_embed_request request = request_of(&input, 1);

    assert_false(info_of(model).embeds);
    expect_refused(model, &request, HEARTH_UNSUPPORTED, "makes no embeddings");
    hearth_model_unref(model);
}

RUNTIME_TEST(embeddings_and_scores_can_be_switched_off)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_embed_input input = text_input("x");
    hearth_embed_request request = request_of(&input, 1);
    hearth_model *model;

    options.no_embeddings = true;
    model = hth_test_model_load(f->runtime, "stub:labels=1", &options);
    assert_false(info_of(model).embeds);
    assert_true(info_of(model).ranks);
    expect_refused(model, &request, HEARTH_UNSUPPORTED, "its operator has switched them off (no_embeddings)");
    request.query = "q";
    hearth_embeddings_unref(embed(model, &request));
    hearth_model_unref(model);

    options.no_embeddings = false;
    options.no_reranking = true;
    model = hth_test_model_load(f->runtime, "stub:labels=1", &options);
    assert_true(info_of(model).embeds);
    assert_false(info_of(model).ranks);
    expect_refused(model, &request, HEARTH_UNSUPPORTED, "its operator has switched them off (no_reranking)");
    request.query = NULL;
    hearth_embeddings_unref(embed(model, &request));
    hearth_model_unref(model);
}

/* ---- encoders and rerankers ---- */

RUNTIME_TEST(an_encoder_embeds_and_refuses_to_generate)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:encoder=1", NULL);
    hearth_request prompt = hth_test_greedy("Hello", 4);
    const hearth_result *result = NULL;
    hearth_error err = { .message = "" };
    float vector[N_VALUES];

    assert_false(info_of(model).generates);
    assert_int_equal(info_of(model).pooling, HEARTH_POOLING_MEAN);
    assert_int_equal(info_of(model).embed_tokens_max, 2048);
    alone(model, HEARTH_POOLING_MODEL, "x", vector);
    assert_true(fabsf(norm_of(vector, N_VALUES) - 1) < 1e-6f);
    assert_int_equal(hearth_complete(model, &prompt, &result, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "generates no text"));
    assert_int_equal(hearth_model_save(model, HEARTH_SAVE_SHUTDOWN, 1000, &err), HEARTH_OK);
    hearth_model_unload(model);
    hearth_model_unref(model);
}

RUNTIME_TEST(a_reranker_scores_documents_for_a_query)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:encoder=1,labels=2", NULL);
    hearth_embed_input documents[2] = { text_input("ab"), text_input("cd") };
    hearth_embed_input pair = text_input("qab"); /* the stub has no separators */
    hearth_embed_request request = request_of(documents, 2), together = request_of(&pair, 1);
    const hearth_embeddings *scores, *one;

    request.query = "q";
    scores = embed(model, &request);
    assert_int_equal(scores->pooling, HEARTH_POOLING_RANK);
    assert_int_equal(scores->n_values, 2);
    assert_int_equal(scores->n_tokens[1], 4);
    together.pooling = HEARTH_POOLING_RANK;
    one = embed(model, &together);
    assert_memory_equal(scores->vectors[0], one->vectors[0], 2 * sizeof(float));
    hearth_embeddings_unref(scores);
    hearth_embeddings_unref(one);
    hearth_model_unref(model);
}

RUNTIME_TEST(a_query_without_room_for_a_document_is_refused_also_when_inputs_are_cut)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:encoder=1,labels=1", NULL);
    char *query = hth_test_prompt(info_of(model).embed_tokens_max, 1);
    hearth_embed_input document = text_input("ab");
    hearth_embed_request request = request_of(&document, 1);

    request.query = query;
    request.truncate = true;
    expect_refused(model, &request, HEARTH_TOO_LONG, "the query has 2048 tokens");
    query[2047] = '\0'; /* and a token before it */
    expect_refused(model, &request, HEARTH_TOO_LONG, "the query leaves no room for document 0");
    query[2046] = '\0';
    hearth_embeddings_unref(embed(model, &request));
    free(query);
    hearth_model_unref(model);
}

/* The scores of one document, cut for its query, are those of its beginning, which nearly fills the room. */
static void expect_cut(hearth_model *model, const char *document)
{
    hearth_embed_input whole = text_input(document), part;
    hearth_embed_request request = request_of(&whole, 1);
    const hearth_embeddings *scores, *expected = NULL;
    uint32_t n_max = info_of(model).embed_tokens_max;
    char *beginning = strdup(document);

    assert_non_null(beginning);
    request.query = "q";
    request.truncate = true;
    scores = embed(model, &request);
    assert_in_range(scores->n_tokens[0], n_max - n_max / 16, n_max);
    for (size_t n = n_max; n > n_max - n_max / 16 - 8 && !expected; n--) {
        beginning[n] = '\0';
        if (((unsigned char)document[n] & 0xc0) == 0x80)
            continue;
        part = text_input(beginning);
        request.inputs = &part;
        request.truncate = false;
        if (hearth_embed(model, &request, &expected, NULL) == HEARTH_OK &&
            expected->n_tokens[0] != scores->n_tokens[0]) {
            hearth_embeddings_unref(expected);
            expected = NULL;
        }
    }
    assert_non_null(expected);
    assert_memory_equal(scores->vectors[0], expected->vectors[0], sizeof(float));
    hearth_embeddings_unref(expected);
    hearth_embeddings_unref(scores);
    free(beginning);
}

RUNTIME_TEST(with_a_query_the_document_is_cut)
{
    hearth_model *models[] = { hth_test_model_load(f->runtime, "stub:encoder=1,labels=1", NULL),
                               hth_test_model_load(f->runtime, "stub:encoder=1,labels=1,pairs=1", NULL) };
    enum { N = 9000 };
    char *plain = hth_test_prompt(N, 1), *wide = malloc(N + 1);

    assert_non_null(wide);
    for (size_t i = 0; i < N; i++)
        wide[i] = "\xe2\x82\xac"[i % 3];
    wide[N] = '\0';
    for (int i = 0; i < 2; i++) {
        expect_cut(models[i], plain);
        expect_cut(models[i], wide);
        hearth_model_unref(models[i]);
    }
    free(plain);
    free(wide);
}

RUNTIME_TEST(the_tokens_of_a_request_have_a_bound)
{
    enum { N = 2200 }; /* of 2000 tokens each */
    hearth_model *model = hth_test_model_load(f->runtime, "stub:encoder=1,labels=1", NULL);
    char *query = hth_test_prompt(2000, 1);
    hearth_embed_input *documents = calloc(N, sizeof(*documents));
    hearth_embed_request request = request_of(documents, N);

    assert_non_null(documents);
    for (size_t i = 0; i < N; i++)
        documents[i] = text_input("ab");
    request.query = query;
    expect_refused(model, &request, HEARTH_MISUSE, "at most 4194304: send fewer inputs at once");
    free(query);
    free(documents);
    hearth_model_unref(model);
}

STUB_TEST(the_values_of_a_request_have_a_bound)
{
    hearth_embed_input inputs[2] = { text_input("a"), text_input("b") };
    hearth_embed_request request = request_of(inputs, 2);
    hth_embed_terms terms = { .n_values_max = 2 * N_VALUES - 1 };
    hearth_error err = { .message = "" };
    uint64_t id;

    assert_int_equal(hth_embed_submit(f->model, &request, &terms, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "2 vectors of 8 values; a request may have at most 15 values"));
    terms.n_values_max++;
    assert_int_equal(hth_embed_submit(f->model, &request, &terms, &id, &err), HEARTH_OK);
    hth_embed_wait_idle(f->model);
    assert_int_equal(hearth_cancel(f->model, id, NULL), HEARTH_NOT_FOUND);
}

RUNTIME_TEST(the_option_of_the_model_names_the_pooling)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;
    float by_option[N_VALUES], by_request[N_VALUES];

    options.pooling = HEARTH_POOLING_CLS;
    model = hth_test_model_load(f->runtime, "stub:", &options);
    alone(model, HEARTH_POOLING_MODEL, "abc", by_option);
    alone(model, HEARTH_POOLING_CLS, "abc", by_request);
    assert_memory_equal(by_option, by_request, sizeof(by_option));
    hearth_model_unref(model);
}

/* ---- several requests ---- */

typedef struct watched {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned n_done;
    uint64_t order[8]; /* ids as they ended */
    hearth_status status[8];
    uint64_t n_evaluated[8]; /* tokens */
} watched;

static void note(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    watched *w = user_data;

    pthread_mutex_lock(&w->lock);
    w->order[w->n_done] = id;
    w->n_evaluated[w->n_done] = embeddings->n_tokens_evaluated;
    w->status[w->n_done++] = embeddings->status;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static uint64_t submit(hearth_model *model, hearth_embed_request request, watched *w)
{
    hearth_error err = { .message = "" };
    uint64_t id = 0;

    request.on_done = note;
    request.user_data = w;
    assert_ok(hearth_embed_submit(model, &request, &id, &err), err);
    return id;
}

#define WATCHED                                                                             \
    {                                                                                       \
        .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .n_done = 0 \
    }

RUNTIME_TEST(a_request_with_few_inputs_does_not_wait_for_one_with_many)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=100", NULL);
    char *text = hth_test_prompt(200, 1);
    hearth_embed_input many[30] = { { .text = NULL } }, few = text_input("few");
    watched w = WATCHED;
    uint64_t ids[2];

    for (int i = 0; i < 30; i++)
        many[i] = text_input(text);
    ids[0] = submit(model, request_of(many, 30), &w);
    ids[1] = submit(model, request_of(&few, 1), &w);
    assert_int_equal(hearth_wait(model, ids[0], UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.n_done, 2);
    assert_int_equal(w.order[0], ids[1]);
    assert_int_equal(w.status[0], HEARTH_OK);
    assert_int_equal(w.status[1], HEARTH_OK);
    free(text);
    hearth_model_unref(model);
}

RUNTIME_TEST(requests_with_different_poolings_all_end)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=100", NULL);
    hearth_embed_input inputs[40] = { { .text = NULL } };
    watched w = WATCHED;
    uint64_t ids[6];

    for (int i = 0; i < 40; i++)
        inputs[i] = text_input("a text of some tokens");
    for (int i = 0; i < 6; i++) {
        hearth_embed_request request = request_of(inputs, 40);

        request.pooling = i % 2 ? HEARTH_POOLING_MEAN : HEARTH_POOLING_LAST;
        ids[i] = submit(model, request, &w);
    }
    for (int i = 0; i < 6; i++)
        assert_int_equal(hearth_wait(model, ids[i], UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.n_done, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(w.status[i], HEARTH_OK);
    hearth_model_unref(model);
}

RUNTIME_TEST(only_the_request_that_the_engine_fails_under_alone_fails)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=100", NULL);
    hearth_embed_input inputs[20] = { { .text = NULL } }, bad = text_input("\x01");
    watched w = WATCHED;
    uint64_t ids[3];

    for (int i = 0; i < 20; i++)
        inputs[i] = text_input("a text of some tokens");
    ids[0] = submit(model, request_of(inputs, 20), &w);
    ids[1] = submit(model, request_of(&bad, 1), &w);
    ids[2] = submit(model, request_of(inputs, 20), &w);
    for (int i = 0; i < 3; i++)
        assert_int_equal(hearth_wait(model, ids[i], UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.n_done, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(w.status[i], w.order[i] == ids[1] ? HEARTH_ENGINE : HEARTH_OK);
    hearth_model_unref(model);
}

RUNTIME_TEST(a_cancelled_request_ends_at_once_and_the_others_go_on)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=2000", NULL);
    char *text = hth_test_prompt(500, 1);
    hearth_embed_input slow = text_input(text), quick = text_input("x");
    watched w = WATCHED;
    uint64_t ids[2];

    ids[0] = submit(model, request_of(&slow, 1), &w); /* alone it would take a second */
    ids[1] = submit(model, request_of(&quick, 1), &w);
    assert_int_equal(hearth_cancel(model, ids[0], NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(model, ids[0], UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(model, ids[1], UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.status[w.order[0] == ids[0] ? 0 : 1], HEARTH_CANCELLED);
    assert_int_equal(w.status[w.order[0] == ids[1] ? 0 : 1], HEARTH_OK);
    assert_int_equal(hearth_cancel(model, ids[0], NULL), HEARTH_NOT_FOUND);
    free(text);
    hearth_model_unref(model);
}

/* A request with many inputs, which is cancelled when another has ended. */
typedef struct middle {
    hearth_model *model;
    uint64_t many_id;
    bool was_cancelled;
} middle;

static void cancel_many(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    middle *m = user_data;

    (void)id;
    (void)embeddings;
    m->was_cancelled = hearth_cancel(m->model, m->many_id, NULL) == HEARTH_OK;
}

RUNTIME_TEST(a_request_that_is_cancelled_amid_its_inputs_leaves_right_values_to_others)
{
    static const hearth_pooling poolings[] = { HEARTH_POOLING_MEAN, HEARTH_POOLING_LAST };
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=100", NULL);
    char *text = hth_test_prompt(200, 1);
    hearth_embed_input many[200] = { { .text = NULL } }, one = text_input("one");

    for (int i = 0; i < 200; i++)
        many[i] = text_input(text);
    for (int i = 0; i < 2; i++) {
        hearth_embed_request all = request_of(many, 200), first = request_of(&one, 1);
        middle m = { .model = model };
        watched w = WATCHED;
        float before[N_VALUES], after[N_VALUES];
        uint64_t first_id;

        alone(model, poolings[i], text, before);
        all.pooling = first.pooling = poolings[i];
        all.no_cache_read = true;
        first.on_done = cancel_many;
        first.user_data = &m;
        m.many_id = submit(model, all, &w);
        assert_int_equal(hearth_embed_submit(model, &first, &first_id, NULL), HEARTH_OK);
        assert_int_equal(hearth_wait(model, m.many_id, UINT32_MAX, NULL), HEARTH_OK);
        assert_int_equal(hearth_wait(model, first_id, UINT32_MAX, NULL), HEARTH_OK);
        assert_true(m.was_cancelled);
        assert_int_equal(w.status[0], HEARTH_CANCELLED);
        assert_true(w.n_evaluated[0] < 200 * 201);
        alone(model, poolings[i], text, after);
        assert_memory_equal(before, after, sizeof(before));
    }
    free(text);
    hearth_model_unref(model);
}

RUNTIME_TEST(a_full_queue_refuses_and_says_when_to_come_again)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_embed_input input = text_input("a text");
    hearth_embed_request request = request_of(&input, 1);
    hearth_error err = { .message = "" };
    hearth_model *model;
    watched w = WATCHED;
    uint64_t id;

    options.queue_max = 1;
    model = hth_test_model_load(f->runtime, "stub:delay_us=20000", &options);
    id = submit(model, request, &w);
    assert_int_equal(hearth_embed_submit(model, &request, NULL, &err), HEARTH_BUSY);
    assert_int_equal(err.retry_after_s, 1);
    (void)hearth_cancel(model, id, NULL);
    hth_test_model_end(f->runtime, model); /* the request is noted until then */
}

RUNTIME_TEST(the_last_reference_cancels_what_runs)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=20000", NULL);
    char *text = hth_test_prompt(500, 1);
    hearth_embed_input input = text_input(text);
    watched w = WATCHED;

    (void)submit(model, request_of(&input, 1), &w);
    hth_test_model_end(f->runtime, model);
    assert_int_equal(w.n_done, 1);
    assert_int_equal(w.status[0], HEARTH_CANCELLED);
    free(text);
}

RUNTIME_TEST(a_model_that_is_unloaded_finishes_what_runs_and_takes_nothing_new)
{
    hearth_model *model = hth_test_model_load(f->runtime, "stub:delay_us=1000", NULL);
    hearth_embed_input input = text_input("a text of some tokens");
    hearth_embed_request request = request_of(&input, 1);
    watched w = WATCHED;
    uint64_t id = submit(model, request, &w);

    hearth_model_unload(model);
    expect_refused(model, &request, HEARTH_CANCELLED, "unloaded");
    assert_int_equal(hearth_wait(model, id, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.status[0], HEARTH_OK);
    hearth_model_unref(model);
}

STUB_TEST(embeddings_are_made_beside_generation)
{
    hearth_request prompt = hth_test_greedy("Once upon a time", 200);
    hearth_embed_input input = text_input("a text");
    watched w = WATCHED;
    hearth_error err;
    uint64_t reply, id;

    prompt.ignore_eos = true;
    assert_int_equal(hearth_submit(f->model, &prompt, &reply, &err), HEARTH_OK);
    id = submit(f->model, request_of(&input, 1), &w);
    assert_int_equal(hearth_wait(f->model, id, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(f->model, reply, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(w.status[0], HEARTH_OK);
}
