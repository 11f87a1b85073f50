/*
 * embed_cache_test.c - the embedding of a known prefix uses the cache, and is the same as without
 *
 * The stub's vectors are functions of everything that the last token depends on, so a wrong cell shows. With a real
 * model, vectors of a warm and of a cold cache must have the same bits where the known prefix ends with a block.
 */
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_VALUES_MAX = 1024, N_INPUTS_MAX = 16, HEAD = 300, TAIL = 100 };

/* A text with a common head of n_head bytes, and an own end of n_own. Released with free. */
static char *text_of(size_t n_head, size_t n_own, unsigned variant)
{
    char *head = hth_test_prompt(n_head, 0), *own = hth_test_prompt(n_own, variant + 1);
    char *text = malloc(n_head + n_own + 1);

    assert_non_null(text);
    memcpy(text, head, n_head);
    memcpy(text + n_head, own, n_own + 1);
    text[n_head] = (char)('A' + variant); /* so that no two agree in more than the head */
    free(head);
    free(own);
    return text;
}

typedef struct vector {
    float values[N_VALUES_MAX];
    uint32_t n;
    uint64_t n_cached, n_evaluated, n_tokens;
} vector;

static vector embed(hearth_model *model, const char *text, const char *salt)
{
    hearth_embed_input input = { .struct_size = sizeof(input), .text = text };
    hearth_embed_request request = hearth_embed_request_default();
    const hearth_embeddings *found = NULL;
    hearth_error err = { .message = "" };
    vector v;

    request.inputs = &input;
    request.n_inputs = 1;
    request.pooling = HEARTH_POOLING_LAST;
    request.cache_salt = salt;
    assert_ok(hearth_embed(model, &request, &found, &err), err);
    assert_in_range(found->n_values, 1, N_VALUES_MAX);
    v = (vector){ .n = found->n_values,
                  .n_cached = found->n_tokens_cached,
                  .n_evaluated = found->n_tokens_evaluated,
                  .n_tokens = found->n_tokens_total };
    memcpy(v.values, found->vectors[0], v.n * sizeof(float));
    hearth_embeddings_unref(found);
    return v;
}

static void expect_same(const vector *a, const vector *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->values, b->values, a->n * sizeof(float));
}

STUB_TEST(a_known_prefix_is_not_evaluated_again)
{
    char *first = text_of(HEAD, TAIL, 0), *second = text_of(HEAD, TAIL, 1);
    vector cold = embed(f->model, first, NULL), other = embed(f->model, second, NULL), alone, warm;

    assert_int_equal(cold.n_cached, 0);
    assert_int_equal(cold.n_evaluated, 1 + HEAD + TAIL); /* with the token that begins every text */
    assert_int_equal(other.n_cached, 1 + HEAD);
    assert_int_equal(other.n_evaluated, TAIL);
    alone = embed(f->model, second, "alone");
    assert_int_equal(alone.n_cached, 0);
    expect_same(&alone, &other);

    /* All of it is known. Its last block is evaluated again, as in a reply without known logits. */
    warm = embed(f->model, first, NULL);
    assert_int_equal(warm.n_cached, 256);
    assert_int_equal(warm.n_evaluated, 1 + HEAD + TAIL - 256);
    expect_same(&warm, &cold);
    free(first);
    free(second);
}

STUB_TEST(prompts_and_embeddings_share_their_rows)
{
    char *text = text_of(HEAD, TAIL, 0), *other = text_of(HEAD, TAIL, 1);
    hearth_request prompt = hth_test_greedy(text, 1);
    hearth_explanation about = { .struct_size = sizeof(about) };
    const hearth_result *result = hth_test_complete(f->model, &prompt);

    hearth_result_unref(result);
    assert_int_equal(embed(f->model, text, NULL).n_cached, 256);
    assert_int_equal(embed(f->model, other, NULL).n_cached, 1 + HEAD);
    prompt.prompt = other;
    assert_int_equal(hearth_explain(f->model, &prompt, &about, NULL), HEARTH_OK);
    assert_int_equal(about.known_tokens, 1 + HEAD + TAIL);
    result = hth_test_complete(f->model, &prompt);
    assert_int_equal(result->stats->cached_tokens, 256); /* no logits of it are known */
    hearth_result_unref(result);
    free(text);
    free(other);
}

STUB_TEST(another_salt_has_no_hit_and_no_cache_read_computes_anew)
{
    char *text = text_of(HEAD, TAIL, 0);
    hearth_embed_input input = { .struct_size = sizeof(input), .text = text };
    hearth_embed_request request = hearth_embed_request_default();
    const hearth_embeddings *found = NULL;
    vector ours = embed(f->model, text, "ours"), theirs = embed(f->model, text, "theirs");

    assert_int_equal(theirs.n_cached, 0);
    expect_same(&ours, &theirs);
    assert_int_equal(embed(f->model, text, "ours").n_cached, 256);
    request.inputs = &input;
    request.n_inputs = 1;
    request.cache_salt = "ours";
    request.no_cache_read = true;
    assert_int_equal(hearth_embed(f->model, &request, &found, NULL), HEARTH_OK);
    assert_int_equal(found->n_tokens_cached, 0);
    assert_int_equal(found->n_tokens_evaluated, found->n_tokens_total);
    hearth_embeddings_unref(found);
    free(text);
}

STUB_TEST(inputs_of_one_request_share_the_prefix_that_one_of_them_computes)
{
    hearth_embed_input inputs[N_INPUTS_MAX];
    hearth_embed_request request = hearth_embed_request_default();
    const hearth_embeddings *found = NULL;
    char *texts[N_INPUTS_MAX];

    for (unsigned i = 0; i < N_INPUTS_MAX; i++) {
        texts[i] = text_of(HEAD, 20, i);
        inputs[i] = (hearth_embed_input){ .struct_size = sizeof(inputs[i]), .text = texts[i] };
    }
    request.inputs = inputs;
    request.n_inputs = N_INPUTS_MAX;
    assert_int_equal(hearth_embed(f->model, &request, &found, NULL), HEARTH_OK);
    assert_int_equal(found->n_tokens_evaluated, 1 + HEAD + 20 * N_INPUTS_MAX);
    assert_int_equal(found->n_tokens_cached, (N_INPUTS_MAX - 1) * (1 + HEAD));
    for (unsigned i = 0; i < N_INPUTS_MAX; i++) {
        vector alone = embed(f->model, texts[i], texts[i]); /* a salt of its own */

        assert_int_equal(alone.n_cached, 0);
        assert_memory_equal(alone.values, found->vectors[i], alone.n * sizeof(float));
        free(texts[i]);
    }
    hearth_embeddings_unref(found);
}

STUB_TEST(inputs_count_as_prompts_in_the_statistics)
{
    char *text = text_of(HEAD, TAIL, 0);
    hearth_counters before, after;

    (void)embed(f->model, text, NULL);
    before = hth_test_counters(f->runtime);
    (void)embed(f->model, text, NULL);
    after = hth_test_counters(f->runtime);
    assert_int_equal(after.requests - before.requests, 1);
    assert_int_equal(after.tokens_cached - before.tokens_cached, 256);
    free(text);
}

RUNTIME_TEST(kinds_of_models_that_cannot_share_cells_find_their_rows)
{
    static const char *const kinds[] = { "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };
    char *first = text_of(HEAD, TAIL, 0);

    for (int i = 0; i < 3; i++) {
        hearth_model *model = hth_test_model_load(f->runtime, kinds[i], NULL);
        vector cold = embed(model, first, NULL), warm = embed(model, first, NULL);

        assert_int_equal(cold.n_evaluated, 1 + HEAD + TAIL);
        assert_int_equal(warm.n_cached, i == 0 ? 256 : 0); /* a recurrent state is kept at ends and every 1024 tokens */
        assert_int_equal(warm.n_cached + warm.n_evaluated, 1 + HEAD + TAIL);
        expect_same(&warm, &cold);
        hearth_model_unref(model);
    }
    free(first);
}

RUNTIME_TEST(the_size_of_the_context_decides_between_two_sets_of_factors_as_for_prompts)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model = hth_test_model_load(f->runtime, "stub:short=3000", NULL); /* a context of 4096 tokens */
    char *text = text_of(HEAD, TAIL, 0);
    hearth_request prompt = hth_test_greedy(text, 1);

    hearth_result_unref(hth_test_complete(model, &prompt));
    assert_int_equal(embed(model, text, NULL).n_cached, 256);
    hearth_model_unref(model);

    /* Inputs may be longer than the model's context, and theirs has other factors: their rows are not kept. */
    options.n_ctx = 1024;
    options.n_batch = 2048;
    model = hth_test_model_load(f->runtime, "stub:short=1500", &options);
    (void)embed(model, text, NULL);
    assert_int_equal(embed(model, text, NULL).n_cached, 0);
    hearth_model_unref(model);
    free(text);
}

/* Embed the text in a process of its own, as far as the cache can tell. is_prompt: only evaluate it, as a prompt. */
static vector embed_in_new_runtime(const char *directory, const char *path, const char *text, const char *salt,
                                   bool is_prompt)
{
    hearth_request prompt = hth_test_greedy(text, 0);
    hearth_runtime_options runtime_options = hth_test_runtime_options(directory);
    hearth_model_options options = hearth_model_options_default();
    hearth_runtime *runtime = hth_test_runtime_open(&runtime_options);
    hearth_model *model;
    vector v = { .n = 0 };

    options.n_threads = 1;
    options.n_ctx = 1024;
    model = hth_test_model_load(runtime, path, &options);
    prompt.prefill_only = true;
    if (is_prompt)
        hearth_result_unref(hth_test_complete(model, &prompt));
    else
        v = embed(model, text, salt);
    hearth_model_unref(model);
    hearth_runtime_close(runtime);
    return v;
}

RUNTIME_TEST(real_models_give_the_same_bits_warm_and_cold_also_after_a_restart)
{
    static const char *const shapes[] = { "tiny-llama", "tiny-window", "tiny-hybrid" };
    char *text = text_of(400, 150, 0);

    for (int i = 0; i < 3; i++) {
        char path[4096], *directory = hth_test_directory_new(), *prompted = hth_test_directory_new();
        vector cold, warm, other;

        hth_test_model(shapes[i], path, sizeof(path));
        cold = embed_in_new_runtime(directory, path, text, NULL, false);
        warm = embed_in_new_runtime(directory, path, text, NULL, false);
        other = embed_in_new_runtime(directory, path, text, "other", false);
        assert_int_equal(cold.n_cached, 0);
        assert_in_range(cold.n_tokens, 257, 512);
        assert_int_equal(cold.n_evaluated, cold.n_tokens);
        assert_int_equal(other.n_cached, 0);
        expect_same(&cold, &other);
        if (i < 2) {
            assert_int_equal(warm.n_cached, 256);
            assert_int_equal(warm.n_evaluated, cold.n_tokens - 256);
        }
        expect_same(&cold, &warm);

        /* The rows of a prompt have the bits of an input's. */
        (void)embed_in_new_runtime(prompted, path, text, NULL, true);
        warm = embed_in_new_runtime(prompted, path, text, NULL, false);
        assert_int_equal(warm.n_cached, i < 2 ? 256 : 0);
        expect_same(&cold, &warm);
        hth_test_directory_remove(directory);
        hth_test_directory_remove(prompted);
    }
    free(text);
}

RUNTIME_TEST(a_deterministic_model_makes_embeddings_too)
{
    hearth_model_options options = hearth_model_options_default();
    char *text = text_of(400, 150, 0), path[4096];
    vector cold, warm;

    options.deterministic = true;
    options.n_gpu_layers = 0;
    options.n_threads = 1;
    options.n_ctx = 1024;
    hth_test_model("tiny-llama", path, sizeof(path));
    f->model = hth_test_model_load(f->runtime, path, &options);
    cold = embed(f->model, text, NULL);
    warm = embed(f->model, text, NULL);
    assert_int_equal(cold.n_cached, 0);
    assert_true(warm.n_cached > 0);
    expect_same(&cold, &warm);
    free(text);
}

/* ---- beside other inputs ---- */

/* A request of n inputs of n_bytes, none of which the cache knows or others share. */
typedef struct batch {
    hearth_embed_input inputs[64];
    hearth_embed_request request;
} batch;

static void fill(batch *b, size_t n, size_t n_bytes, unsigned variant)
{
    *b = (batch){ .request = hearth_embed_request_default() };
    for (size_t i = 0; i < n; i++) {
        char *text = hth_test_prompt(n_bytes, 0);

        text[0] = (char)(' ' + variant + i);
        b->inputs[i] = (hearth_embed_input){ .struct_size = sizeof(b->inputs[i]), .text = text };
    }
    b->request.inputs = b->inputs;
    b->request.n_inputs = n;
    b->request.pooling = HEARTH_POOLING_LAST;
}

static void clear(batch *b)
{
    for (size_t i = 0; i < b->request.n_inputs; i++)
        free((char *)b->inputs[i].text); /* made above */
}

/* Three requests that are submitted by the embedder's own thread, so that their order is certain. */
typedef struct turns {
    hearth_model *model;
    batch many, one, late;
    uint64_t n_ticks_before, n_ticks_after; /* when late was submitted, and when it had ended */
    uint64_t many_id, late_id;
} turns;

static uint64_t n_ticks(hearth_model *model)
{
    hearth_model_info info = { .struct_size = sizeof(info) };

    (void)hearth_model_info_get(model, &info, NULL);
    return info.n_embed_ticks;
}

static void late_has_ended(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    turns *t = user_data;

    (void)id;
    (void)embeddings;
    t->n_ticks_after = n_ticks(t->model);
}

static void submit_late(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    turns *t = user_data;

    (void)id;
    (void)embeddings;
    t->n_ticks_before = n_ticks(t->model);
    (void)hearth_embed_submit(t->model, &t->late.request, &t->late_id, NULL);
}

static void submit_two(uint64_t id, const hearth_embeddings *embeddings, void *user_data)
{
    turns *t = user_data;

    (void)id;
    (void)embeddings;
    (void)hearth_embed_submit(t->model, &t->many.request, &t->many_id, NULL);
    (void)hearth_embed_submit(t->model, &t->one.request, NULL, NULL);
}

STUB_TEST(a_late_request_does_not_wait_for_inputs_that_have_no_room_yet)
{
    turns t = { .model = f->model };
    batch first;
    uint64_t id;

    fill(&first, 1, 4, 0);
    fill(&t.one, 1, 4, 1);
    fill(&t.late, 1, 400, 2);
    fill(&t.many, 60, 500, 3);
    first.request.on_done = submit_two;
    t.one.request.on_done = submit_late;
    t.late.request.on_done = late_has_ended;
    first.request.user_data = t.one.request.user_data = t.late.request.user_data = &t;
    assert_int_equal(hearth_embed_submit(f->model, &first.request, &id, NULL), HEARTH_OK);
    (void)hearth_wait(f->model, id, UINT32_MAX, NULL);
    (void)hearth_wait(f->model, t.many_id, UINT32_MAX, NULL);
    (void)hearth_wait(f->model, t.late_id, UINT32_MAX, NULL);
    assert_in_range(t.n_ticks_after - t.n_ticks_before, 1, 8); /* 2048 cells have room for four of the many */
    clear(&first);
    clear(&t.one);
    clear(&t.late);
    clear(&t.many);
}

RUNTIME_TEST(a_removed_text_does_not_come_back_from_the_cells_of_finished_inputs)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_model *model;
    turns t;
    hearth_request prompt;
    uint64_t id;
    batch first;

    /* The text is evaluated with the others and ends before them; there are cells for all, and to come back. */
    options.n_batch = 4096;
    model = hth_test_model_load(f->runtime, "stub:delay_us=1000", &options);
    t = (turns){ .model = model };
    fill(&first, 1, 4, 0);
    fill(&t.many, 1, 400, 1);
    fill(&t.one, 7, 480, 2);
    first.request.on_done = submit_two;
    first.request.user_data = &t;
    prompt = hth_test_greedy(t.many.inputs[0].text, 1);
    assert_int_equal(hearth_embed_submit(model, &first.request, &id, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(model, id, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(hearth_wait(model, t.many_id, UINT32_MAX, NULL), HEARTH_OK);
    assert_int_equal(hearth_prompt_remove(model, &prompt, NULL, NULL), HEARTH_OK);
    assert_in_range(embed(model, t.many.inputs[0].text, NULL).n_cached, 0, 1); /* the token that begins all texts */
    hth_test_model_end(f->runtime, model);
    clear(&first);
    clear(&t.many);
    clear(&t.one);
}
