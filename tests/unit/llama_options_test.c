/*
 * llama_options_test.c - options of the engine: those that change the cells, those that do not, and what is refused
 */
#include <math.h>

#include "support/llama_scene.h"

/* The parameters that rows of such a model have; the caller frees them. */
static char *params_of(const hearth_engine_options *options)
{
    hth_engine_model_params params = { .log = &counting, .options = options };
    hth_engine_context_params context_of = context_params();
    hth_engine_model *other = NULL;
    hth_engine_context *made = NULL;
    hth_engine_context_info about;
    hearth_error err = { .message = "" };

    if (llama->model_load(MODEL, &params, &other, &err) != HEARTH_OK ||
        llama->context_new(other, &context_of, &made, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    llama->context_info(made, &about);
    llama->context_free(made);
    llama->model_free(other);
    return strdup(about.params_text);
}

static void expect_same(const hearth_engine_options *a, const hearth_engine_options *b, bool same)
{
    char *of_a = params_of(a), *of_b = params_of(b);

    if ((strcmp(of_a, of_b) == 0) != same)
        fail_msg("'%s' and '%s'", of_a, of_b);
    free(of_a);
    free(of_b);
}

TEST(other_positions_have_rows_of_their_own)
{
    const hearth_engine_options usual = hearth_engine_options_default();
    hearth_engine_options options[8], again;
    const size_t n = sizeof(options) / sizeof(options[0]);
    char *texts[8];

    for (size_t i = 0; i < n; i++)
        options[i] = usual;
    options[1].rope_freq_base = 20000;
    options[2].rope_freq_scale = 0.5;
    options[3].rope_scaling = HEARTH_ROPE_SCALING_YARN;
    options[4].rope_scaling = HEARTH_ROPE_SCALING_YARN;
    options[4].yarn_orig_ctx = 256;
    options[5].yarn_ext_factor = 0.5;
    options[6].yarn_beta_fast = 16;
    options[7].flash_attention = HEARTH_FLASH_ATTENTION_OFF;
    for (size_t i = 0; i < n; i++) {
        texts[i] = params_of(&options[i]);
        for (size_t j = 0; j < i; j++)
            if (strcmp(texts[i], texts[j]) == 0)
                fail_msg("options %zu and %zu have the same rows: %s", j, i, texts[i]);
    }
    again = options[1];
    expect_same(&options[1], &again, true);
    again.rope_freq_base = 20001;
    expect_same(&options[1], &again, false);
    for (size_t i = 0; i < n; i++)
        free(texts[i]);
}

TEST(options_of_place_and_speed_share_rows)
{
    const char *overrides[] = { "ffn_.*=CPU" };
    hearth_engine_options options = hearth_engine_options_default();

    options.n_ubatch = 32;
    options.n_threads_batch = 2;
    options.flash_attention = HEARTH_FLASH_ATTENTION_ON;
    options.mlock = true;
    options.numa = HEARTH_NUMA_DISTRIBUTE;
    options.devices = "none";
    options.split_mode = HEARTH_SPLIT_MODE_ROW;
    options.tensor_split = "3,1";
    options.main_gpu = 1;
    options.cpu_moe = true;
    options.no_kv_offload = true;
    options.tensor_overrides = overrides;
    options.n_tensor_overrides = 1;
    expect_same(&options, NULL, true);
}

/* The last logits of a text. */
static void logits_of(const hearth_engine_options *options, uint32_t n_ubatch, float *out)
{
    hearth_engine_options with = *options;
    hth_engine_model_params params = { .log = &counting, .options = &with };
    hth_engine_context_params context_of = context_params();
    hth_engine_context *made = NULL;
    hth_engine_model *other = NULL;
    hth_batch_row rows[40];
    hth_decode_result result;
    hearth_error err;

    with.n_ubatch = n_ubatch;
    for (uint32_t i = 0; i < 40; i++)
        rows[i] = (hth_batch_row){ .token = (hearth_token)(i + 5), .position = i, .wants_logits = i == 39 };
    assert_ok(llama->model_load(MODEL, &params, &other, &err), err);
    assert_ok(llama->context_new(other, &context_of, &made, &err), err);
    assert_ok(llama->decode(made, rows, 40, &result, &err), err);
    memcpy(out, llama->logits(made, 39), info.n_vocab * sizeof(float));
    llama->context_free(made);
    llama->model_free(other);
}

static float distance(const float *a, const float *b)
{
    float most = 0;

    for (uint32_t i = 0; i < info.n_vocab; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

TEST(the_engine_heeds_its_options)
{
    float *usual = calloc(4 * (size_t)info.n_vocab, sizeof(float)), *small = usual + info.n_vocab,
          *turned = small + info.n_vocab, *overridden = turned + info.n_vocab;
    const char *overrides[] = { "llama.rope.freq_base=float:100" };
    hearth_engine_options options = hearth_engine_options_default();

    assert_non_null(usual);
    logits_of(&options, 0, usual);
    logits_of(&options, 8, small);
    assert_true(distance(usual, small) < 0.01f);
    options.rope_freq_base = 100;
    logits_of(&options, 0, turned);
    assert_true(distance(usual, turned) > 0.1f);
    options.rope_freq_base = NAN;
    options.metadata_overrides = overrides;
    options.n_metadata_overrides = 1;
    logits_of(&options, 0, overridden);
    assert_true(distance(turned, overridden) == 0);
    free(usual);
}

TEST(a_smaller_ubatch_needs_less_memory)
{
    hearth_engine_options options = hearth_engine_options_default();
    hth_engine_context_params params = { .n_ctx = 1024, .n_batch = 512, .n_seq_max = 4, .n_threads = 1 };
    hth_engine_needs needs[2];
    hearth_error err;

    for (size_t i = 0; i < 2; i++) {
        hth_engine_model_params with = { .log = &counting, .options = &options, .no_weights = true };
        hth_engine_model *other = NULL;

        options.n_ubatch = i == 0 ? 0 : 64;
        assert_ok(llama->model_load(MODEL, &with, &other, &err), err);
        assert_ok(llama->needs(other, &params, &needs[i], &err), err);
        llama->model_free(other);
    }
    assert_true(needs[1].host.compute_bytes < needs[0].host.compute_bytes);
}

static void expect_refused(const hearth_engine_options *options, hearth_status expected, const char *words)
{
    hth_engine_model_params params = { .log = &counting, .options = options };
    hth_engine_model *none = NULL;
    hearth_error err = { .message = "" };

    assert_int_equal(llama->model_load(MODEL, &params, &none, &err), expected);
    assert_null(none);
    if (!strstr(err.message, words))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

TEST(devices_and_buffers_that_are_not_there_are_refused_with_those_that_are)
{
    const hearth_engine_options usual = hearth_engine_options_default();
    const char *texts[] = { "ffn_.*=MOON0" };
    hearth_engine_options options = usual;
    hth_engine_model_params params = { .log = &counting, .options = &options, .n_gpu_layers = -1 };
    hth_engine_model *none = NULL;
    hearth_error err;

    options.devices = "MOON0";
    assert_int_equal(llama->model_load(MODEL, &params, &none, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "'MOON0' is no device for a model's layers; this machine has"));
    options = usual;
    options.tensor_overrides = texts;
    options.n_tensor_overrides = 1;
    expect_refused(&options, HEARTH_MISUSE, "cannot lie in 'MOON0': the buffers of this model are");
    texts[0] = "ffn_(=CPU";
    expect_refused(&options, HEARTH_MISUSE, "'ffn_(' of tensors is no regular expression");
}

TEST(metadata_that_the_model_would_not_survive_are_refused)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        { "llama.rope.freq_base=int:7", "is float in the model's file, so int cannot" },
        { "tokenizer.ggml.tokens=str:x", "is a list in the model's file" },
        { "general.architecture=str:gpt2", "cannot be overridden" },
        { "split.count=int:2", "cannot be overridden" },
        { "llama.block_count=int:0", "cannot be overridden" },
        { "llama.nextn_predict_layers=int:1000", "cannot be overridden" },
        { "llama.expert_count=int:5000", "cannot be overridden" },
        { "tokenizer.ggml.model=str:bert", "cannot be overridden" },
        { "llama.expert_group_count=int:2", "cannot be overridden" },
        { "llama.expert_used_count=int:3", "impossible value" },
        { "llama.rope.scaling.type=str:foo", "impossible value" },
        { "llama.attention.layer_norm_rms_epsilon=float:-1", "impossible value" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *texts[] = { cases[i].text };
        hearth_engine_options options = hearth_engine_options_default();

        options.metadata_overrides = texts;
        options.n_metadata_overrides = 1;
        expect_refused(&options, HEARTH_MISUSE, cases[i].words);
    }
}

static hearth_status load_with(const char *path, const hearth_engine_options *options, hearth_error *err)
{
    hth_engine_model_params params = { .log = &counting, .options = options };
    hth_engine_model *other = NULL;
    hearth_status status = llama->model_load(path, &params, &other, err);

    llama->model_free(other);
    return status;
}

TEST(a_model_of_experts_takes_as_many_as_its_file_has)
{
    const char *texts[] = { "llama.expert_used_count=int:1" };
    hearth_engine_options options = hearth_engine_options_default();
    hearth_error err = { .message = "" };
    char path[4096];

    options.metadata_overrides = texts;
    options.n_metadata_overrides = 1;
    hth_test_model("tiny-experts", path, sizeof(path));
    assert_ok(load_with(path, &options, &err), err);
    texts[0] = "llama.expert_used_count=int:0";
    assert_int_equal(load_with(path, &options, &err), HEARTH_MISUSE);
    texts[0] = "llama.expert_used_count=int:99";
    assert_int_equal(load_with(path, &options, &err), HEARTH_MISUSE);
}

TEST(flash_attention_that_the_architecture_lacks_is_refused_with_the_model)
{
    hearth_engine_options options = hearth_engine_options_default();
    hearth_error err = { .message = "" };
    char path[4096];

    hth_test_model("tiny-grok", path, sizeof(path));
    assert_ok(load_with(path, &options, &err), err);
    options.flash_attention = HEARTH_FLASH_ATTENTION_ON;
    assert_int_equal(load_with(path, &options, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'grok' have no flash attention"));
}

TEST(quantized_v_needs_flash_attention)
{
    hearth_engine_options options = hearth_engine_options_default();
    hth_engine_model_params params = { .log = &counting, .options = &options };
    hth_engine_context_params context_of = context_params();
    hth_engine_context *none = NULL;
    hth_engine_model *other = NULL;
    hearth_error err;

    options.flash_attention = HEARTH_FLASH_ATTENTION_OFF;
    assert_ok(llama->model_load(MODEL, &params, &other, &err), err);
    context_of.type_v = "q8_0";
    assert_int_equal(llama->context_new(other, &context_of, &none, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "V of type 'q8_0' needs flash attention"));
    context_of.type_v = NULL;
    context_of.deterministic = true;
    assert_int_equal(llama->context_new(other, &context_of, &none, &err), HEARTH_UNSUPPORTED);
    llama->model_free(other);
}

TEST(a_deterministic_context_takes_any_ubatch)
{
    hearth_engine_options options = hearth_engine_options_default();
    hth_engine_model_params params = { .log = &counting, .options = &options };
    hth_engine_context_params context_of = context_params();
    hth_engine_context *made = NULL;
    hth_engine_model *other = NULL;
    hearth_status status;
    hearth_error err;

    options.n_ubatch = 7;
    context_of.deterministic = true;
    assert_ok(llama->model_load(MODEL, &params, &other, &err), err);
    status = llama->context_new(other, &context_of, &made, &err);
    if (status != HEARTH_UNSUPPORTED) /* without attention of our own */
        assert_ok(status, err);
    llama->context_free(made);
    llama->model_free(other);
}

GROUP(with_the_engine, open_engine, close_engine)
