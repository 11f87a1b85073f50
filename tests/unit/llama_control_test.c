/*
 * llama_control_test.c - control vectors in the llama.cpp backend: what they change, and the files that are refused
 */
#include "support/llama_scene.h"

static char *directory;
static char warned[1024]; /* the last warning about control vectors */

static void keep_warning(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    (void)source;
    (void)user_data;
    if (level == HEARTH_LOG_WARNING && strstr(message, "control vector"))
        (void)snprintf(warned, sizeof(warned), "%s", message);
}

static const hth_log keeping = { .level = HEARTH_LOG_WARNING, .write = keep_warning };
static const char *path_of(const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s.gguf", directory, name); /* else not found */
    return path;
}

static hth_control_vector vector_of(const char *options, const char *name, float scale)
{
    hth_control_vector vector = { .scale = scale };

    hth_test_control(options, MODEL, path_of(name));
    (void)snprintf(vector.path, sizeof(vector.path), "%s", path_of(name));
    return vector;
}

/* ---- models with control vectors ---- */

typedef struct layers {
    uint32_t first, last;
} layers;

static hearth_status load_with(const char *path, const hth_control_vector *vectors, size_t n, layers range,
                               hth_engine_model **out, hearth_error *err)
{
    hth_engine_model_params params = {
        .log = &keeping,
        .control_vectors = vectors,
        .n_control_vectors = n,
        .control_layer_first = range.first,
        .control_layer_last = range.last,
    };

    return llama->model_load(path, &params, out, err);
}

/* The logits after 40 tokens; n_vocab of them, released with free. */
static float *logits_in(hth_engine_context *in)
{
    float *copy = malloc(info.n_vocab * sizeof(*copy));
    hth_decode_result result = HTH_DECODE_ABORTED;
    hearth_error err;
    hth_batch_row rows[40];

    assert_non_null(copy);
    for (uint32_t i = 0; i < 40; i++)
        rows[i] = (hth_batch_row){ .token = (hearth_token)(i + 5), .position = i, .wants_logits = i == 39 };
    assert_int_equal(llama->decode(in, rows, 40, &result, &err), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
    memcpy(copy, llama->logits(in, 39), info.n_vocab * sizeof(*copy));
    return copy;
}

typedef struct outcome {
    hth_engine_model_info info;
    float *logits;
} outcome;

static outcome outcome_of(const hth_control_vector *vectors, size_t n, layers range)
{
    hth_engine_context_params params = context_params();
    hth_engine_model *controlled = NULL;
    hth_engine_context *in = NULL;
    hearth_error err = { .message = "" };
    outcome result;

    if (load_with(MODEL, vectors, n, range, &controlled, &err) != HEARTH_OK ||
        llama->context_new(controlled, &params, &in, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    llama->model_info(controlled, &result.info);
    result.logits = logits_in(in);
    llama->context_free(in);
    llama->model_free(controlled);
    return result;
}

static bool are_equal(const float *a, const float *b)
{
    return memcmp(a, b, info.n_vocab * sizeof(*a)) == 0;
}

/* Equal logits, and equal digests? Both or none. */
static bool are_same(outcome *a_take, outcome *b_take)
{
    bool same = are_equal(a_take->logits, b_take->logits);

    assert_int_equal(same, a_take->info.has_control == b_take->info.has_control &&
                               memcmp(a_take->info.control_digest, b_take->info.control_digest, 32) == 0);
    free(a_take->logits);
    free(b_take->logits);
    return same;
}

static const layers all = { 0, 0 };

FIXTURE_TEST(a_control_vector_changes_the_logits_by_its_scale)
{
    hth_control_vector vector = vector_of("-g 1", "all", 1);
    float *plain = logits_in(context);
    outcome whole = outcome_of(&vector, 1, all), half;

    vector.scale = 0.5f;
    half = outcome_of(&vector, 1, all);
    assert_true(whole.info.has_control);
    assert_false(are_equal(plain, whole.logits));
    assert_false(are_equal(plain, half.logits));
    assert_false(are_same(&whole, &half));
    free(plain);
}

FIXTURE_TEST(a_control_vector_that_adds_nothing_counts_as_none)
{
    hth_control_vector zeros = vector_of("-g 0", "zeros", 1), unscaled = vector_of("-g 1", "all", 0);
    hth_control_vector both[] = { vector_of("-g 1", "all", 1), vector_of("-g 1", "all", -1) };
    float *plain = logits_in(context);
    outcome results[] = { outcome_of(&zeros, 1, all), outcome_of(&unscaled, 1, all), outcome_of(both, 2, all) };

    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        assert_false(results[i].info.has_control);
        assert_true(are_equal(plain, results[i].logits));
        free(results[i].logits);
    }
    free(plain);
}

FIXTURE_TEST(control_vectors_add_up_in_any_order)
{
    hth_control_vector one = vector_of("-g 1 -s 1", "one", 0.5f), other = vector_of("-g 1 -s 2", "other", -0.25f);
    hth_control_vector forth[] = { one, other }, back[] = { other, one };
    outcome first = outcome_of(forth, 2, all), second = outcome_of(back, 2, all);

    assert_true(are_same(&first, &second));
    first = outcome_of(&one, 1, all);
    second = outcome_of(forth, 2, all);
    assert_false(are_same(&first, &second));
}

FIXTURE_TEST(a_range_of_layers_is_as_good_as_a_file_with_these_layers)
{
    hth_control_vector whole = vector_of("-g 1", "all", 1), part = vector_of("-g 1 -f 2 -l 3", "part", 1);
    outcome cut = outcome_of(&whole, 1, (layers){ 2, 3 }), file = outcome_of(&part, 1, all), other;

    assert_true(are_same(&cut, &file));
    cut = outcome_of(&whole, 1, (layers){ 2, 3 });
    other = outcome_of(&whole, 1, (layers){ 3, 3 });
    assert_false(are_same(&cut, &other));
    file = outcome_of(&part, 1, (layers){ 0, 1 });
    assert_false(file.info.has_control);
    free(file.logits);
}

/* ---- refusals ---- */

static void expect_refusal_of(const char *path, const hth_control_vector *vector, layers range, hearth_status status,
                              const char *words)
{
    hearth_error err = { .message = "" };
    hth_engine_model *none = NULL;

    assert_int_equal(load_with(path, vector, 1, range, &none, &err), status);
    assert_null(none);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

FIXTURE_TEST(files_that_do_not_fit_the_model_are_refused_with_the_difference)
{
    hth_control_vector wide = vector_of("-x 8", "wide", 1), deep = vector_of("-l 99", "deep", 1);
    hth_control_vector other = vector_of("-n steering", "other", 1), first = vector_of("-n direction.0", "first", 1);
    hth_control_vector none = { .scale = 1 }, adapter = { .scale = 1 };

    (void)snprintf(none.path, sizeof(none.path), "%s", path_of("none"));
    (void)snprintf(adapter.path, sizeof(adapter.path), "%s", MODEL);
    expect_refusal_of(MODEL, &wide, all, HEARTH_MISUSE, "values, and the model's embeddings have");
    expect_refusal_of(MODEL, &deep, all, HEARTH_MISUSE, "the layers that can be changed are 1 to");
    expect_refusal_of(MODEL, &other, all, HEARTH_MISUSE, "'steering.1', which is no direction");
    expect_refusal_of(MODEL, &first, all, HEARTH_MISUSE, "'direction.0.1', which is no direction");
    expect_refusal_of(MODEL, &adapter, all, HEARTH_MISUSE, "is no control vector");
    expect_refusal_of(MODEL, &none, all, HEARTH_NOT_FOUND, "cannot open the control vector");
}

FIXTURE_TEST(a_damaged_file_and_values_that_are_no_numbers_are_refused)
{
    hth_control_vector vector = vector_of("-g 1", "all", 1);

    assert_int_equal(truncate(vector.path, 500), 0);
    expect_refusal_of(MODEL, &vector, all, HEARTH_CORRUPT, "all.gguf");
    vector = vector_of("-g 3e38", "huge", 3e38f);
    expect_refusal_of(MODEL, &vector, all, HEARTH_MISUSE, "no finite number, in layer 1");
    vector = vector_of("-g nan", "nan", 1);
    expect_refusal_of(MODEL, &vector, all, HEARTH_MISUSE, "no finite number, in layer 1");
}

/* The rest of its directions is in the other parts. */
FIXTURE_TEST(a_part_of_a_split_control_vector_is_refused_with_the_remedy)
{
    hth_control_vector vector = vector_of("-g 1 -p 3", "part", 1);

    expect_refusal_of(MODEL, &vector, all, HEARTH_UNSUPPORTED,
                      "is part 3 of 3 of a control vector, and only a whole file is used; join the parts");
}

FIXTURE_TEST(layers_that_the_model_does_not_have_are_refused)
{
    hth_control_vector vector = vector_of("-g 1", "all", 1);

    expect_refusal_of(MODEL, &vector, (layers){ 1, info.n_layers + 1 }, HEARTH_MISUSE, "the model's layers go from 1");
    expect_refusal_of(MODEL, &vector, (layers){ 3, 2 }, HEARTH_MISUSE, "cannot change the layers 3 to 2");
    free(outcome_of(&vector, 1, (layers){ 1, info.n_layers }).logits);
}

FIXTURE_TEST(a_vector_for_another_architecture_is_a_warning)
{
    hth_control_vector vector = vector_of("-H mistral", "mistral", 1);
    hth_engine_model *controlled = NULL;

    assert_int_equal(load_with(MODEL, &vector, 1, all, &controlled, NULL), HEARTH_OK);
    assert_non_null(strstr(warned, "names the architecture 'mistral', and the model's is 'llama'"));
    llama->model_free(controlled);
}

/* The engine's graph of BERT adds no control vector. */
FIXTURE_TEST(an_architecture_that_takes_no_control_vectors_is_refused_by_its_name)
{
    hth_control_vector vector = { .scale = 1 };
    char path[4096];

    hth_test_model("tiny-bert", path, sizeof(path));
    hth_test_control("-g 1", path, path_of("bert"));
    (void)snprintf(vector.path, sizeof(vector.path), "%s", path_of("bert"));
    expect_refusal_of(path, &vector, all, HEARTH_UNSUPPORTED,
                      "control vectors change nothing in models of architecture 'bert'");
}

/* ---- other kinds of models, and embedders ---- */

FIXTURE_TEST(windows_recurrent_and_hybrid_models_take_control_vectors)
{
    static const char *const shapes[] = { "tiny-window", "tiny-recurrent", "tiny-hybrid", "tiny-qwen35" };

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        hth_control_vector vector = { .scale = 1 };
        hth_engine_model *controlled = NULL;
        hth_engine_model_info its;
        hearth_error err = { .message = "" };
        char path[4096];

        hth_test_model(shapes[i], path, sizeof(path));
        hth_test_control("-g 1", path, path_of("kind"));
        (void)snprintf(vector.path, sizeof(vector.path), "%s", path_of("kind"));
        if (load_with(path, &vector, 1, all, &controlled, &err) != HEARTH_OK)
            fail_msg("%s: %s", shapes[i], err.message);
        llama->model_info(controlled, &its);
        assert_true(its.has_control);
        llama->model_free(controlled);
    }
}

/* [n_embedding], released with free. */
static float *embedding_of(hth_engine_model *of)
{
    static const hearth_token tokens[] = { 5, 6, 7 };
    hth_embedder_params params = { .pooling = HEARTH_POOLING_LAST, .n_tokens_max = 8, .n_inputs_max = 1 };
    hth_embedder_input input = { tokens, 3 };
    hth_engine_embedder *embedder = NULL;
    float *copy = malloc(info.n_embedding * sizeof(*copy));
    hth_decode_result result;

    assert_non_null(copy);
    assert_int_equal(llama->embedder_new(of, &params, &embedder, NULL), HEARTH_OK);
    assert_int_equal(llama->embed(embedder, &input, 1, &result, NULL), HEARTH_OK);
    memcpy(copy, llama->embedding(embedder, 0, 0), info.n_embedding * sizeof(*copy));
    llama->embedder_free(embedder);
    return copy;
}

FIXTURE_TEST(a_control_vector_changes_embeddings)
{
    hth_control_vector vector = vector_of("-g 1", "all", 1);
    hth_engine_model *controlled = NULL;
    float *without = embedding_of(model), *with;

    assert_int_equal(load_with(MODEL, &vector, 1, all, &controlled, NULL), HEARTH_OK);
    with = embedding_of(controlled);
    assert_true(memcmp(without, with, info.n_embedding * sizeof(*with)) != 0);
    llama->model_free(controlled);
    free(without);
    free(with);
}

FIXTURE_TEST(a_deterministic_context_takes_a_control_vector)
{
    hth_control_vector vector = vector_of("-g 1", "all", 1);
    hth_engine_context_params params = context_params();
    hth_engine_model *controlled = NULL;
    hth_engine_context *exact = NULL, *without = NULL;
    hearth_error err = { .message = "" };
    float *a, *b;

    params.deterministic = true;
    if (llama->context_new(model, &params, &without, &err) == HEARTH_UNSUPPORTED)
        skip(); /* this build has no attention of ours */
    assert_int_equal(load_with(MODEL, &vector, 1, all, &controlled, NULL), HEARTH_OK);
    if (llama->context_new(controlled, &params, &exact, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    a = logits_in(without);
    b = logits_in(exact);
    assert_false(are_equal(a, b));
    free(a);
    free(b);
    llama->context_free(without);
    llama->context_free(exact);
    llama->model_free(controlled);
}

static int set_up(void **state)
{
    directory = hth_test_directory_new();
    return open_engine(state);
}

static int tear_down(void **state)
{
    int result = close_engine(state);

    hth_test_directory_remove(directory);
    return result;
}

GROUP(with_the_engine, set_up, tear_down)
