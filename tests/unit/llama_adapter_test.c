/*
 * llama_adapter_test.c - LoRA adapters in the llama.cpp backend: what they change, and the files that are refused
 */
#include "support/llama_scene.h"

#include <pthread.h>

static char *directory;

static const char *path_of(const char *name)
{
    static char path[512];

    (void)snprintf(path, sizeof(path), "%s/%s.gguf", directory, name); /* else not found */
    return path;
}

static hth_engine_adapter *loaded(const char *options)
{
    hth_engine_adapter *adapter = NULL;
    hearth_error err = { .message = "" };

    hth_test_adapter(options, MODEL, path_of("adapter"));
    if (llama->adapter_load(model, path_of("adapter"), &adapter, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return adapter;
}

static void apply(hth_engine_adapter *adapter, float scale)
{
    hth_engine_adapter_use use = { adapter, scale };
    hearth_error err;

    assert_int_equal(llama->adapters_apply(context, &use, adapter ? 1 : 0, &err), HEARTH_OK);
}

/* The logits after 40 tokens in an empty sequence; n_vocab of them, released with free. */
static float *logits_now(void)
{
    float *copy = malloc(info.n_vocab * sizeof(*copy));
    hth_decode_result result = HTH_DECODE_ABORTED;

    assert_non_null(copy);
    assert_true(llama->seq_remove(context, 0, 0, UINT32_MAX));
    assert_int_equal(evaluate(0, 0, 40, &result), HEARTH_OK);
    assert_int_equal(result, HTH_DECODE_OK);
    memcpy(copy, llama->logits(context, 39), info.n_vocab * sizeof(*copy));
    return copy;
}

static bool are_equal(float *a_take, float *b_take)
{
    bool equal = memcmp(a_take, b_take, info.n_vocab * sizeof(*a_take)) == 0;

    free(a_take);
    free(b_take);
    return equal;
}

FIXTURE_TEST(an_adapter_that_changes_nothing_leaves_the_bits_as_they_are)
{
    hth_engine_adapter *adapter = loaded("-g 0");
    float *plain = logits_now();

    apply(adapter, 1);
    assert_true(are_equal(plain, logits_now()));
    llama->adapter_free(adapter);
}

FIXTURE_TEST(an_adapter_changes_replies_by_its_scale_until_it_is_taken_away)
{
    hth_engine_adapter *adapter = loaded("-g 1");
    float *plain = logits_now(), *half, *whole;

    apply(adapter, 0.5f);
    half = logits_now();
    apply(adapter, 1);
    whole = logits_now();
    assert_true(memcmp(plain, half, info.n_vocab * sizeof(*plain)) != 0);
    assert_false(are_equal(half, whole));
    apply(NULL, 0);
    assert_true(are_equal(plain, logits_now()));
    llama->adapter_free(adapter);
}

FIXTURE_TEST(an_adapter_that_is_freed_is_applied_no_more)
{
    hth_engine_adapter *adapter = loaded("-g 1");
    float *plain = logits_now();

    apply(adapter, 1);
    free(logits_now());
    llama->adapter_free(adapter);
    assert_true(are_equal(plain, logits_now()));
}

FIXTURE_TEST(two_adapters_add_their_changes)
{
    hth_engine_adapter *one = loaded("-g 1 -s 1"), *other = loaded("-g 1 -s 2");
    hth_engine_adapter_use both[] = { { one, 1 }, { other, 1 } };
    hearth_error err;
    float *alone, *together;

    apply(one, 1);
    alone = logits_now();
    assert_int_equal(llama->adapters_apply(context, both, 2, &err), HEARTH_OK);
    together = logits_now();
    assert_true(memcmp(alone, together, info.n_vocab * sizeof(*alone)) != 0);
    assert_true(are_equal(together, logits_now()));
    llama->adapter_free(other);
    apply(one, 1);
    assert_true(are_equal(alone, logits_now()));
    llama->adapter_free(one);
}

/* ---- while others evaluate ---- */

static void *load_and_free(void *user_data)
{
    bool *ok = user_data;

    for (int i = 0; i < 20 && *ok; i++) {
        hth_engine_adapter *adapter = NULL;

        *ok = llama->adapter_load(model, path_of("beside"), &adapter, NULL) == HEARTH_OK;
        llama->adapter_free(adapter);
    }
    return NULL;
}

FIXTURE_TEST(adapters_come_and_go_while_a_context_evaluates)
{
    hth_engine_adapter *adapter = loaded("-g 1");
    float *first;
    bool ok = true;
    pthread_t thread;

    hth_test_adapter("-g 1 -s 9", MODEL, path_of("beside"));
    apply(adapter, 1);
    first = logits_now();
    assert_int_equal(pthread_create(&thread, NULL, load_and_free, &ok), 0);
    for (int i = 0; i < 50; i++) {
        float *now = logits_now();

        assert_memory_equal(first, now, info.n_vocab * sizeof(*now));
        free(now);
        apply(NULL, 0);
        apply(adapter, 1);
    }
    pthread_join(thread, NULL);
    assert_true(ok);
    free(first);
    llama->adapter_free(adapter);
}

static void *embed_and_free(void *user_data)
{
    hth_embedder_params params = {
        .pooling = HEARTH_POOLING_LAST, .n_tokens_max = 16, .n_inputs_max = 1, .n_threads = 1
    };
    bool *ok = user_data;

    for (int i = 0; i < 20 && *ok; i++) {
        hth_engine_embedder *embedder = NULL;

        *ok = llama->embedder_new(model, &params, &embedder, NULL) == HEARTH_OK;
        llama->embedder_free(embedder);
    }
    return NULL;
}

FIXTURE_TEST(adapters_come_and_go_while_embedders_are_made)
{
    pthread_t threads[2];
    bool ok[2] = { true, true };

    hth_test_adapter("-g 1 -s 9", MODEL, path_of("beside"));
    assert_int_equal(pthread_create(&threads[0], NULL, load_and_free, &ok[0]), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, embed_and_free, &ok[1]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

/* Frees an adapter while the engine evaluates. */
typedef struct freeing {
    hth_engine_adapter *adapter; /* NULL: freed */
    pthread_t thread;
} freeing;

static void *free_adapter(void *user_data)
{
    llama->adapter_free(user_data);
    return NULL;
}

static bool free_beside(void *user_data)
{
    freeing *f = user_data;

    if (f->adapter && pthread_create(&f->thread, NULL, free_adapter, f->adapter) == 0)
        pthread_join(f->thread, NULL); /* it would wait for ever if freeing waited for this evaluation */
    f->adapter = NULL;
    return false;
}

FIXTURE_TEST(freeing_an_adapter_does_not_wait_for_evaluations)
{
    hth_engine_context_params params = context_params();
    hth_engine_context *own, *shared = context;
    freeing f = { .adapter = loaded("-g 1") };
    hearth_error err = { .message = "" };
    float *plain, *now;

    params.abort = free_beside;
    params.abort_user_data = &f;
    assert_int_equal(llama->context_new(model, &params, &own, &err), HEARTH_OK);
    plain = logits_now();
    context = own;
    now = logits_now();
    assert_null(f.adapter);
    assert_true(are_equal(plain, now));
    context = shared;
    llama->context_free(own);
}

TEST(architectures_without_room_for_all_adapters_bound_them)
{
    enum { PAIRS_MAX = HTH_ADAPTERS_MAX };
    hth_engine_adapter *adapters[PAIRS_MAX] = { NULL };
    hth_engine_adapter_use uses[PAIRS_MAX];
    hth_engine_context_params params = context_params();
    hth_engine_context *shared = context, *own = NULL;
    hth_engine_model *other = NULL;
    hearth_error err = { .message = "" };
    char path[512];
    size_t n = 0;

    hth_test_model("tiny-qwen35", path, sizeof(path));
    hth_test_adapter("-g 1", path, path_of("qwen35"));
    assert_int_equal(load(path, &other, &err), HEARTH_OK);
    params.n_ctx = 2 * N_CTX;
    params.n_batch = N_CTX;
    assert_int_equal(llama->context_new(other, &params, &own, &err), HEARTH_OK);
    while (n < PAIRS_MAX && llama->adapter_load(other, path_of("qwen35"), &adapters[n], &err) == HEARTH_OK) {
        uses[n] = (hth_engine_adapter_use){ adapters[n], 1 };
        n++;
    }
    assert_in_range(n, 3, PAIRS_MAX - 1);
    assert_non_null(strstr(err.message, "unload another one first"));
    assert_int_equal(llama->adapters_apply(own, uses, n, &err), HEARTH_OK);
    context = own;
    fill(0, N_CTX);
    context = shared;
    llama->adapter_free(adapters[--n]);
    assert_int_equal(llama->adapter_load(other, path_of("qwen35"), &adapters[n++], &err), HEARTH_OK);
    while (n > 0)
        llama->adapter_free(adapters[--n]);
    llama->context_free(own);
    llama->model_free(other);
}

/* ---- refusals ---- */

static void expect_refused(const char *path, hearth_status status, const char *part)
{
    hth_engine_adapter *adapter = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(llama->adapter_load(model, path, &adapter, &err), status);
    assert_null(adapter);
    if (!strstr(err.message, part))
        fail_msg("'%s' does not say '%s'", err.message, part);
}

FIXTURE_TEST(a_file_that_is_no_adapter_of_the_model_is_refused_with_the_difference)
{
    expect_refused("/nowhere/a.gguf", HEARTH_NOT_FOUND, "/nowhere/a.gguf");
    expect_refused(MODEL, HEARTH_MISUSE, "is no adapter: its general.type is");
    hth_test_adapter("-A gpt2", MODEL, path_of("bad"));
    expect_refused(path_of("bad"), HEARTH_MISUSE, "made for the architecture 'gpt2', and the model's is 'llama'");
    hth_test_adapter("-x 32", MODEL, path_of("bad"));
    expect_refused(path_of("bad"), HEARTH_MISUSE, "160x8 and 8x64, and the model's matrix is 128x64");
}

/* The rest of its matrices is in the other parts. */
FIXTURE_TEST(a_part_of_a_split_adapter_is_refused_with_the_remedy)
{
    hth_test_adapter("-g 1 -p 2", MODEL, path_of("part"));
    expect_refused(path_of("part"), HEARTH_UNSUPPORTED,
                   "is part 2 of 2 of an adapter, and only a whole file is used; join the parts");
}

FIXTURE_TEST(an_adapter_cut_short_is_refused)
{
    struct stat st;

    hth_test_adapter("-g 1", MODEL, path_of("short"));
    assert_int_equal(stat(path_of("short"), &st), 0);
    assert_int_equal(truncate(path_of("short"), st.st_size / 2), 0);
    expect_refused(path_of("short"), HEARTH_CORRUPT, "is incomplete");
    assert_int_equal(truncate(path_of("short"), 100), 0);
    expect_refused(path_of("short"), HEARTH_CORRUPT, "short.gguf");
}

FIXTURE_TEST(wrong_arguments_are_misuse)
{
    hth_engine_adapter_use uses[HTH_ADAPTERS_MAX + 1] = { { NULL, 0 } };
    hearth_error err;

    assert_int_equal(llama->adapter_load(NULL, "x", &uses[0].adapter, &err), HEARTH_MISUSE);
    assert_int_equal(llama->adapters_apply(NULL, NULL, 0, &err), HEARTH_MISUSE);
    assert_int_equal(llama->adapters_apply(context, uses, HTH_ADAPTERS_MAX + 1, &err), HEARTH_MISUSE);
    llama->adapter_free(NULL);
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
