/*
 * adapters_test.c - adapters in the library: load, scale, unload, list, and the requests that run with them
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "models/model.h"
#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct scene {
    char *directory;
    hearth_runtime *runtime;
    hearth_model *model;
} scene;

static void set_up(scene *s)
{
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_model_options load = hearth_model_options_default();
    hearth_error err = { .message = "" };

    s->directory = hth_test_directory_new();
    options.engine_directory = HTH_TEST_ENGINE_DIR;
    options.cache_directory = s->directory;
    load.n_ctx = 1024;
    if (hearth_runtime_open(&options, &s->runtime, &err) != HEARTH_OK ||
        hearth_model_load(s->runtime, "stub:", &load, &s->model, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
}

static void tear_down(scene *s)
{
    hearth_model_unref(s->model);
    hearth_runtime_close(s->runtime);
    hth_test_directory_remove(s->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

static const char *file_of(const scene *s, const char *name, unsigned number)
{
    static char path[512];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s.gguf", s->directory, name); /* else not opened */
    file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fprintf(file, "stub-adapter %u", number) > 0);
    assert_int_equal(fclose(file), 0);
    return path;
}

static uint32_t loaded(const scene *s, const char *name, unsigned number, float scale)
{
    hearth_adapter_options options = hearth_adapter_options_default();
    hearth_error err = { .message = "" };
    uint32_t id = UINT32_MAX;

    options.scale = scale;
    if (hearth_adapter_load(s->model, file_of(s, name, number), &options, &id, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return id;
}

/* A request about 300 tokens, so that blocks of its prompt are kept. */
static hearth_request request_of(const hearth_sampling *sampling)
{
    static hearth_token tokens[300];
    hearth_request request = hearth_request_default();

    for (size_t i = 0; i < 300; i++)
        tokens[i] = (hearth_token)('a' + i * i % 26);
    request.tokens = tokens;
    request.n_tokens = 300;
    request.n_predict = 20;
    request.ignore_eos = true;
    request.sampling = sampling;
    return request;
}

/* The reply, with these adapters; released with free. *cached_out may be NULL. */
static char *reply_with(const scene *s, const hearth_adapter_scale *adapters, size_t n, uint32_t *cached_out)
{
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    const hearth_result *result;
    hearth_error err = { .message = "" };
    char *text;

    sampling.temperature = 0;
    request.adapters = adapters;
    request.n_adapters = n;
    if (hearth_complete(s->model, &request, &result, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    if (cached_out)
        *cached_out = result->stats->cached_tokens;
    text = strdup(result->text);
    hearth_result_unref(result);
    assert_non_null(text);
    return text;
}

/* The prompt was computed for this reason. */
static void expect_miss(const scene *s, const hearth_adapter_scale *adapters, size_t n, hearth_miss miss)
{
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    hearth_explanation why = { .struct_size = sizeof(why) };

    request.adapters = adapters;
    request.n_adapters = n;
    assert_int_equal(hearth_explain(s->model, &request, &why, NULL), HEARTH_OK);
    assert_int_equal(why.miss, miss);
}

static void expect_same(char *a_take, char *b_take, bool same)
{
    if ((strcmp(a_take, b_take) == 0) != same)
        fail_msg("'%s' and '%s'", a_take, b_take);
    free(a_take);
    free(b_take);
}

FIXTURE_TEST(an_adapter_may_be_given_an_id_that_none_had)
{
    const hth_adapter_identity high = { .id = 64 }, low = { .id = 3 };
    hearth_error err = { .message = "" };
    uint32_t id = 0;

    assert_int_equal(loaded(s, "first", 1, 1), 0);
    assert_ok(hth_model_adapter_load(s->model, file_of(s, "x", 2), NULL, &high, &id, &err), err);
    assert_int_equal(id, 64);
    assert_int_equal(hearth_adapter_unload(s->model, 64, NULL), HEARTH_OK);
    assert_int_equal(hth_model_adapter_load(s->model, file_of(s, "x", 2), NULL, &high, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "64"));
    assert_int_equal(hth_model_adapter_load(s->model, file_of(s, "x", 2), NULL, &low, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(loaded(s, "y", 2, 1), 65);
}

FIXTURE_TEST(an_adapter_changes_requests_that_name_none_by_its_own_scale)
{
    char *plain = reply_with(s, NULL, 0, NULL);
    uint32_t id = loaded(s, "all", 7, 1);
    hearth_adapter_scale off = { id, 0 };

    expect_same(strdup(plain), reply_with(s, NULL, 0, NULL), false);
    assert_int_equal(hearth_adapters_scale(s->model, &off, 1, NULL), HEARTH_OK);
    expect_same(strdup(plain), reply_with(s, NULL, 0, NULL), true);
    assert_int_equal(hearth_adapters_scale(s->model, &(hearth_adapter_scale){ id, 1 }, 1, NULL), HEARTH_OK);
    expect_same(strdup(plain), reply_with(s, NULL, 0, NULL), false);
    assert_int_equal(hearth_adapter_unload(s->model, id, NULL), HEARTH_OK);
    expect_same(plain, reply_with(s, NULL, 0, NULL), true);
}

FIXTURE_TEST(a_request_may_name_its_adapters)
{
    char *plain = reply_with(s, NULL, 0, NULL);
    hearth_adapter_scale one = { loaded(s, "one", 7, 1), 1 }, other = { loaded(s, "other", 8, 0), 1 };
    hearth_adapter_scale both[] = { one, other }, turned[] = { other, one };

    expect_same(strdup(plain), reply_with(s, &one, 0, NULL), true); /* it names none */
    expect_same(reply_with(s, NULL, 0, NULL), reply_with(s, &one, 1, NULL), true);
    expect_same(reply_with(s, &one, 1, NULL), reply_with(s, &other, 1, NULL), false);
    expect_same(reply_with(s, &one, 1, NULL), reply_with(s, both, 2, NULL), false);
    expect_same(reply_with(s, turned, 2, NULL), reply_with(s, both, 2, NULL), true);
    free(plain);
}

FIXTURE_TEST(requests_with_other_adapters_share_no_cells)
{
    hearth_adapter_scale all = { loaded(s, "all", 7, 0), 1 }, nothing = { loaded(s, "nothing", 0, 0), 1 };
    uint32_t n_cached;

    free(reply_with(s, NULL, 0, NULL));
    free(reply_with(s, NULL, 0, &n_cached));
    assert_true(n_cached > 0);
    expect_miss(s, &all, 1, HEARTH_MISS_OTHER_ADAPTER);
    free(reply_with(s, &all, 1, &n_cached));
    assert_int_equal(n_cached, 0);
    free(reply_with(s, &all, 1, &n_cached));
    assert_true(n_cached > 0);
    expect_miss(s, &all, 1, HEARTH_MISS_NONE);
    all.scale = 0.5f;
    free(reply_with(s, &all, 1, &n_cached));
    assert_int_equal(n_cached, 0);
    expect_same(reply_with(s, NULL, 0, NULL), reply_with(s, &nothing, 1, &n_cached), true);
    assert_int_equal(n_cached, 0); /* its file says so, and not its name */
    nothing.scale = 0;
    free(reply_with(s, &nothing, 1, &n_cached));
    assert_true(n_cached > 0);
}

static bool unload_once(uint64_t id, const char *text, size_t n, void *user_data)
{
    (void)id, (void)text, (void)n;
    *(bool *)user_data = true;
    return true;
}

FIXTURE_TEST(a_running_request_keeps_the_adapters_that_it_began_with)
{
    hearth_adapter_scale all = { loaded(s, "all", 7, 0), 1 };
    char *expected = reply_with(s, &all, 1, NULL);
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    bool has_begun = false;
    uint64_t id;

    sampling.temperature = 0;
    request.adapters = &all;
    request.n_adapters = 1;
    request.n_predict = 200;
    request.no_cache_read = true;
    request.on_text = unload_once;
    request.user_data = &has_begun;
    assert_int_equal(hearth_submit(s->model, &request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_adapter_unload(s->model, all.id, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(s->model, id, UINT32_MAX, NULL), HEARTH_OK);
    assert_true(has_begun);
    assert_int_equal(hearth_adapter_unload(s->model, all.id, NULL), HEARTH_NOT_FOUND);
    all.id = loaded(s, "all", 7, 0);
    expect_same(expected, reply_with(s, &all, 1, NULL), true);
}

FIXTURE_TEST(rows_of_a_prompt_are_those_of_its_adapters)
{
    hearth_adapter_scale all = { loaded(s, "all", 7, 0), 1 };
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    hearth_explanation why = { .struct_size = sizeof(why) };
    uint32_t n_tokens = 0;

    free(reply_with(s, NULL, 0, NULL));
    free(reply_with(s, &all, 1, NULL));
    request.adapters = &all;
    request.n_adapters = 1;
    assert_int_equal(hearth_prompt_remove(s->model, &request, &n_tokens, NULL), HEARTH_OK);
    assert_true(n_tokens > 0);
    assert_int_equal(hearth_explain(s->model, &request, &why, NULL), HEARTH_OK);
    assert_int_equal(why.known_tokens, 0);
    request.adapters = NULL;
    assert_int_equal(hearth_explain(s->model, &request, &why, NULL), HEARTH_OK);
    assert_true(why.known_tokens > 0);
}

/* The first value of the embedding of a text with these adapters. */
static float embedded(const scene *s, const hearth_adapter_scale *adapters, size_t n)
{
    hearth_embed_input input = { .struct_size = sizeof(input), .text = "a fox" };
    hearth_embed_request request = hearth_embed_request_default();
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };
    float value;

    request.inputs = &input;
    request.n_inputs = 1;
    request.adapters = adapters;
    request.n_adapters = n;
    if (hearth_embed(s->model, &request, &embeddings, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    value = embeddings->vectors[0][0];
    hearth_embeddings_unref(embeddings);
    return value;
}

FIXTURE_TEST(adapters_change_embeddings)
{
    float plain = embedded(s, NULL, 0);
    hearth_adapter_scale all = { loaded(s, "all", 7, 0.5f), 1 }, nothing = { loaded(s, "nothing", 0, 0), 1 };
    hearth_adapter_scale unknown = { 9, 1 };
    hearth_embed_input input = { .struct_size = sizeof(input), .text = "a fox" };
    hearth_embed_request request = hearth_embed_request_default();
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };
    float whole = embedded(s, &all, 1);

    assert_true(whole != plain);
    assert_true(embedded(s, NULL, 0) != plain); /* by its own scale */
    assert_true(embedded(s, NULL, 0) != whole);
    assert_true(embedded(s, &all, 0) == plain);
    assert_true(embedded(s, &nothing, 1) == plain);
    assert_true(embedded(s, &all, 1) == whole);
    request.inputs = &input;
    request.n_inputs = 1;
    request.adapters = &unknown;
    request.n_adapters = 1;
    assert_int_equal(hearth_embed(s->model, &request, &embeddings, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "there is no adapter 9"));
}

enum { N_TEXTS = 12, N_TEXT_BYTES = 150 };

/* A request for the embeddings of the texts; the result has a reference. */
static const hearth_embeddings *embed_texts(const scene *s, char texts[N_TEXTS][N_TEXT_BYTES + 1],
                                            hearth_embed_request request, uint64_t *id_out)
{
    hearth_embed_input inputs[N_TEXTS];
    const hearth_embeddings *embeddings = NULL;
    hearth_error err = { .message = "" };

    for (size_t i = 0; i < N_TEXTS; i++)
        inputs[i] = (hearth_embed_input){ .struct_size = sizeof(inputs[i]), .text = texts[i] };
    request.inputs = inputs;
    request.n_inputs = N_TEXTS;
    if ((id_out ? hearth_embed_submit(s->model, &request, id_out, &err)
                : hearth_embed(s->model, &request, &embeddings, &err)) != HEARTH_OK)
        fail_msg("%s", err.message);
    return embeddings;
}

static void keep_embeddings(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    (void)id;
    *(const hearth_embeddings **)user_data = hearth_embeddings_ref(embeddings);
}

FIXTURE_TEST(embeddings_of_different_adapters_at_once_are_those_of_each_alone)
{
    hearth_adapter_scale one = { loaded(s, "one", 7, 0), 1 }, two = { loaded(s, "two", 9, 0), 0.5f };
    const hearth_adapter_scale *uses[] = { NULL, &one, &two };
    char texts[N_TEXTS][N_TEXT_BYTES + 1];

    for (size_t i = 0; i < N_TEXTS; i++) {
        memset(texts[i], 'a' + (int)i, N_TEXT_BYTES);
        texts[i][N_TEXT_BYTES] = '\0';
    }
    for (hearth_pooling pooling = HEARTH_POOLING_MEAN; pooling <= HEARTH_POOLING_LAST; pooling++) {
        const hearth_embeddings *alone[3], *beside[3] = { NULL };
        hearth_embed_request request = hearth_embed_request_default();
        uint64_t ids[3];

        request.pooling = pooling;
        request.no_cache_read = true;
        for (size_t i = 0; i < 3; i++) {
            request.adapters = uses[i];
            request.n_adapters = uses[i] != NULL;
            alone[i] = embed_texts(s, texts, request, NULL);
        }
        for (size_t i = 0; i < 3; i++) {
            request.adapters = uses[i];
            request.n_adapters = uses[i] != NULL;
            request.on_done = keep_embeddings;
            request.user_data = (void *)&beside[i];
            (void)embed_texts(s, texts, request, &ids[i]);
        }
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(hearth_wait(s->model, ids[i], UINT32_MAX, NULL), HEARTH_OK);
        for (size_t i = 0; i < 3; i++) {
            size_t n_bytes = alone[i]->n_values * sizeof(float);

            for (size_t k = 0; k < N_TEXTS; k++) {
                assert_memory_equal(beside[i]->vectors[k], alone[i]->vectors[k], n_bytes);
                assert_true(i == 0 || memcmp(alone[i]->vectors[k], alone[i - 1]->vectors[k], n_bytes) != 0);
            }
        }
        for (size_t i = 0; i < 3; i++) {
            hearth_embeddings_unref(alone[i]);
            hearth_embeddings_unref(beside[i]);
        }
    }
}

FIXTURE_TEST(a_session_ends_with_all_adapters_of_its_requests)
{
    hearth_adapter_scale all = { loaded(s, "all", 7, 0), 1 };
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    const hearth_result *result;

    request.session_id = "talk";
    for (size_t n = 0; n < 2; n++) { /* without and with the adapter */
        request.adapters = &all;
        request.n_adapters = n;
        assert_int_equal(hearth_complete(s->model, &request, &result, NULL), HEARTH_OK);
        hearth_result_unref(result);
    }
    assert_int_equal(hearth_session_end(s->model, "talk", "another's", NULL), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_session_end(s->model, "talk", NULL, NULL), HEARTH_OK);
    assert_int_equal(hearth_session_end(s->model, "talk", NULL, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_complete(s->model, &request, &result, NULL), HEARTH_OK); /* only with the adapter */
    hearth_result_unref(result);
    assert_int_equal(hearth_session_end(s->model, "talk", NULL, NULL), HEARTH_OK);
}

static _Thread_local bool is_loader, was_told;

static void note_work(const hearth_work *work, void *user_data)
{
    (void)work, (void)user_data;
    was_told |= is_loader;
}

FIXTURE_TEST(to_load_an_adapter_is_no_work_that_a_supervisor_watches)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = NULL;

    options.on_work = note_work;
    assert_int_equal(hearth_model_load(s->runtime, "stub:n_ctx_train=512", &options, &model, NULL), HEARTH_OK);
    is_loader = true;
    assert_int_equal(hearth_adapter_load(model, file_of(s, "one", 1), NULL, NULL, NULL), HEARTH_OK);
    is_loader = false;
    assert_false(was_told); /* hearth.h promises another thread */
    hearth_model_unref(model);
}

FIXTURE_TEST(adapters_are_listed_by_ids_that_are_given_once)
{
    hearth_adapter list[3] = { { .struct_size = sizeof(list[0]) } };
    size_t n;

    assert_int_equal(loaded(s, "one", 1, 1), 0);
    assert_int_equal(loaded(s, "two", 2, 0.5f), 1);
    assert_int_equal(hearth_adapter_unload(s->model, 0, NULL), HEARTH_OK);
    assert_int_equal(loaded(s, "three", 3, 0), 2);
    assert_int_equal(hearth_adapters_list(s->model, list, 3, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 2);
    assert_string_equal(list[0].name, "two");
    assert_int_equal(list[0].id, 1);
    assert_true(list[0].scale == 0.5f);
    assert_non_null(strstr(list[0].path, "/two.gguf"));
    assert_string_equal(list[1].name, "three");
    assert_memory_not_equal(list[0].sha256, list[1].sha256, 32);
    assert_int_equal(hearth_adapters_list(s->model, NULL, 0, &n, NULL), HEARTH_OK);
    assert_int_equal(n, 2);
}

static void expect_refused(const scene *s, const hearth_adapter_scale *named, size_t n, hearth_status status,
                           const char *part)
{
    hearth_sampling sampling = hearth_sampling_default();
    hearth_request request = request_of(&sampling);
    const hearth_result *result;
    hearth_error err = { .message = "" };

    request.adapters = named;
    request.n_adapters = n;
    assert_int_equal(hearth_complete(s->model, &request, &result, &err), status);
    if (!strstr(err.message, part))
        fail_msg("'%s' does not say '%s'", err.message, part);
    if (n > 0) {
        assert_int_equal(hearth_adapters_scale(s->model, named, n, &err), status);
        assert_non_null(strstr(err.message, part));
    }
}

FIXTURE_TEST(what_cannot_be_is_refused_with_its_name)
{
    uint32_t id = loaded(s, "one", 1, 1);
    hearth_adapter_options options = hearth_adapter_options_default();
    hearth_error err;

    expect_refused(s, &(hearth_adapter_scale){ 9, 1 }, 1, HEARTH_NOT_FOUND, "there is no adapter 9; 1 are loaded");
    expect_refused(s, &(hearth_adapter_scale){ id, NAN }, 1, HEARTH_MISUSE, "must be a finite number");
    expect_refused(s, &(hearth_adapter_scale){ id, INFINITY }, 1, HEARTH_MISUSE, "must be a finite number");
    expect_refused(s, &(hearth_adapter_scale){ id, 3e9f }, 1, HEARTH_MISUSE, "below 2^31");
    expect_refused(s, (hearth_adapter_scale[]){ { id, 1 }, { id, 2 } }, 2, HEARTH_MISUSE, "named twice");

    assert_int_equal(hearth_adapter_load(s->model, "/nowhere.gguf", NULL, NULL, &err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_adapter_load(s->model, file_of(s, "one", 1), NULL, NULL, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "has the name 'one'"));
    options.scale = NAN;
    assert_int_equal(hearth_adapter_load(s->model, file_of(s, "two", 1), &options, NULL, &err), HEARTH_MISUSE);
    options.scale = 1;
    options.name = "";
    assert_int_equal(hearth_adapter_load(s->model, file_of(s, "two", 1), &options, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_adapter_load(s->model, file_of(s, "t\xffo", 1), NULL, NULL, &err), HEARTH_INVALID_TEXT);
    assert_int_equal(hearth_adapter_load(s->model, NULL, NULL, NULL, &err), HEARTH_MISUSE);
    assert_int_equal(hearth_adapter_load(s->model, HTH_TEST_MODELS "/hearth-tiny.gguf", NULL, NULL, &err),
                     HEARTH_MISUSE);
}

FIXTURE_TEST(at_most_64_adapters_are_loaded)
{
    hearth_error err;

    for (unsigned i = 0; i < 64; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "a%u", i); /* fits */
        (void)loaded(s, name, i, 0.25f);
    }
    assert_int_equal(hearth_adapter_load(s->model, file_of(s, "more", 1), NULL, NULL, &err), HEARTH_BUSY);
    free(reply_with(s, NULL, 0, NULL));
}
