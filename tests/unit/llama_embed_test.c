/*
 * llama_embed_test.c - embeddings of real models are those that the engine makes of one input alone
 *
 * tests/helpers/engine_embed.c makes the expected vectors. Hearth's own attention and the inputs beside an input change
 * last bits only.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { VALUES_MAX = 1 << 20, N_TEXTS = 5 };

static const char *const texts[N_TEXTS] = {
    "a fox ran over the hill",
    "the quick brown dog sleeps in the sun and dreams of a bone that it has lost in the garden behind the house, where "
    "roses grow beside the wall and nobody digs any more",
    "x",
    "shall we compare two vectors, or three",
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
};

/* The numbers that the engine's own program prints. */
static size_t by_engine(const char *path, const char *pooling, const char *text, float *out)
{
    char command[8192];
    size_t n = 0;
    FILE *pipe;

    (void)snprintf(command, sizeof(command), "'%s' '%s' %s '%s'", HTH_TEST_ENGINE_EMBED, path, pooling, text);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    while (n < VALUES_MAX && fscanf(pipe, "%f", &out[n]) == 1)
        n++;
    assert_int_equal(pclose(pipe), 0);
    return n;
}

/* Random weights make much of rounding: 0.003 was measured. A wrong neighbour or position makes a difference of 1. */
static void expect_alike(const float *found, const float *expected, size_t n)
{
    double difference = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        difference += (double)(found[i] - expected[i]) * (double)(found[i] - expected[i]);
        size += (double)expected[i] * (double)expected[i];
    }
    if (!(sqrt(difference) <= 1e-2 * sqrt(size)))
        fail_msg("the vectors differ by %g of %g", sqrt(difference), sqrt(size));
}

static const hearth_embeddings *embed(hearth_model *model, const hearth_embed_request *request)
{
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };

    assert_ok(hearth_embed(model, request, &embeddings, &err), err);
    return embeddings;
}

static hearth_embed_request request_of(hearth_embed_input inputs[N_TEXTS], hearth_pooling pooling)
{
    hearth_embed_request request = hearth_embed_request_default();

    for (int i = 0; i < N_TEXTS; i++)
        inputs[i] = (hearth_embed_input){ .struct_size = sizeof(inputs[i]), .text = texts[i] };
    request.inputs = inputs;
    request.n_inputs = N_TEXTS;
    request.pooling = pooling;
    request.norm = -1;
    return request;
}

static hearth_model *load(hearth_runtime *runtime, const char *shape, char path[4096])
{
    hearth_model_options options = hearth_model_options_default();

    hth_test_model(shape, path, 4096);
    options.n_threads = 1;
    options.n_ctx = 512;
    return hth_test_model_load(runtime, path, &options);
}

static void expect_as_engine(hearth_runtime *runtime, const char *shape, const hearth_pooling *poolings, size_t n)
{
    float *expected = malloc(VALUES_MAX * sizeof(*expected));
    char path[4096];
    hearth_model *model = load(runtime, shape, path);

    for (size_t p = 0; p < n; p++) {
        hearth_embed_input inputs[N_TEXTS];
        hearth_embed_request request = request_of(inputs, poolings[p]);
        const hearth_embeddings *embeddings = embed(model, &request);

        for (int i = 0; i < N_TEXTS; i++) {
            size_t n_values = (size_t)embeddings->n_vectors[i] * embeddings->n_values;

            assert_int_equal(by_engine(path, hearth_pooling_name(poolings[p]), texts[i], expected), n_values);
            expect_alike(embeddings->vectors[i], expected, n_values);
        }
        hearth_embeddings_unref(embeddings);
    }
    free(expected);
    hearth_model_unref(model);
}

static const hearth_pooling all[] = { HEARTH_POOLING_NONE, HEARTH_POOLING_MEAN, HEARTH_POOLING_CLS, HEARTH_POOLING_LAST,
                                      HEARTH_POOLING_RANK };

RUNTIME_TEST(an_encoder_gives_the_engines_vectors)
{
    expect_as_engine(f->runtime, "tiny-bert", all, 4);
}

RUNTIME_TEST(a_reranker_gives_the_engines_scores)
{
    expect_as_engine(f->runtime, "tiny-reranker", all + 4, 1);
}

RUNTIME_TEST(a_decoder_gives_the_engines_vectors)
{
    expect_as_engine(f->runtime, "tiny-llama", all, 4);
}

RUNTIME_TEST(models_with_windows_and_states_give_the_engines_vectors)
{
    static const char *const shapes[] = { "tiny-window", "tiny-recurrent", "tiny-hybrid" };
    static const hearth_pooling poolings[] = { HEARTH_POOLING_MEAN, HEARTH_POOLING_LAST };

    for (int i = 0; i < 3; i++)
        expect_as_engine(f->runtime, shapes[i], poolings, 2);
}

RUNTIME_TEST(query_and_document_are_joined_by_the_models_separators)
{
    hearth_embed_input documents[N_TEXTS], one = { .struct_size = sizeof(one) };
    char path[4096];
    hearth_model *model = load(f->runtime, "tiny-reranker", path);
    hearth_embed_request request = request_of(documents, HEARTH_POOLING_MODEL), joined;
    const hearth_embeddings *scores;
    hearth_token tokens[256], eos = 2, bos = 1;

    request.query = "what does a fox do";
    scores = embed(model, &request);
    for (int i = 0; i < N_TEXTS; i++) {
        const hearth_embeddings *alone;
        size_t n = 0, n_part;

        tokens[n++] = bos;
        assert_int_equal(
            hearth_tokenize(model, request.query, strlen(request.query), 0, tokens + n, 128, &n_part, NULL), HEARTH_OK);
        n += n_part;
        tokens[n++] = eos;
        tokens[n++] = eos; /* the separator */
        assert_int_equal(hearth_tokenize(model, texts[i], strlen(texts[i]), 0, tokens + n, 120, &n_part, NULL),
                         HEARTH_OK);
        n += n_part;
        tokens[n++] = eos;
        one.tokens = tokens;
        one.n_tokens = n;
        joined = request_of(documents, HEARTH_POOLING_RANK);
        joined.inputs = &one;
        joined.n_inputs = 1;
        alone = embed(model, &joined);
        assert_int_equal(scores->n_tokens[i], n);
        expect_alike(scores->vectors[i], alone->vectors[0], 1);
        hearth_embeddings_unref(alone);
    }
    hearth_embeddings_unref(scores);
    hearth_model_unref(model);
}

RUNTIME_TEST(an_input_may_be_as_long_as_the_encoder_was_trained_for)
{
    hearth_embed_input input = { .struct_size = sizeof(input) };
    hearth_embed_request request = hearth_embed_request_default();
    hearth_model_info info = { .struct_size = sizeof(info) };
    const hearth_embeddings *embeddings;
    hearth_error err = { .message = "" };
    hearth_token tokens[601];
    char path[4096];
    hearth_model *model = load(f->runtime, "tiny-bert", path);

    assert_int_equal(hearth_model_info_get(model, &info, NULL), HEARTH_OK);
    assert_int_equal(info.embed_tokens_max, 600);
    assert_false(info.generates);
    for (int i = 0; i < 601; i++)
        tokens[i] = 300 + i;
    request.inputs = &input;
    request.n_inputs = 1;
    input.tokens = tokens;
    input.n_tokens = 601;
    assert_int_equal(hearth_embed(model, &request, &embeddings, &err), HEARTH_TOO_LONG);
    assert_non_null(strstr(err.message, "at most 600"));
    input.n_tokens = 600;
    embeddings = embed(model, &request);
    assert_int_equal(embeddings->n_tokens[0], 600);
    hearth_embeddings_unref(embeddings);
    hearth_model_unref(model);
}
