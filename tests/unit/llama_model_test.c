/*
 * llama_model_test.c - whatever it is asked about a model, the llama.cpp backend answers with a status and never ends
 * the process
 *
 * Each wrong call here was measured to abort, throw, lie or corrupt when made on llama.cpp v0.5.0 itself.
 */
#include "support/llama_scene.h"

/* ---- model, vocabulary, text ---- */

TEST(the_model_describes_itself)
{
    assert_int_equal(info.kind, HTH_MODEL_PLAIN);
    assert_string_equal(info.architecture, "llama");
    assert_string_equal(info.quant_type, "q8_0");
    assert_string_equal(info.chat_template_kind, "model");
    assert_int_equal(info.n_vocab, 2048);
    assert_int_equal(info.n_layers, 6);
    assert_int_equal(info.n_ctx_train, 2048);
    assert_true(info.n_params > 1000000);
    assert_true(info.weight_bytes > 1000000);
    assert_non_null(strstr(llama->build(), "0.5.0"));
}

TEST(parameters_name_what_changes_the_state_and_nothing_else)
{
    static const char *const named[] = { "k=f16", "v=f16", "fa=1", "unified=1", "rows=1", "block=256", "rope_type=" };
    hth_engine_context_params params = context_params();
    hth_engine_context_info own_info, other_info;
    hth_engine_context *other = NULL;
    hearth_error err;

    llama->context_info(context, &own_info);
    assert_int_equal(own_info.n_ctx, N_CTX);
    assert_int_equal(own_info.n_batch, N_BATCH);
    assert_int_equal(own_info.n_seq_max, N_SEQ_MAX);
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        assert_non_null(strstr(own_info.params_text, named[i]));

    params = (hth_engine_context_params){ .n_ctx = 1024, .n_batch = 256, .n_seq_max = 9, .n_threads = 2 };
    assert_int_equal(llama->context_new(model, &params, &other, &err), HEARTH_OK);
    llama->context_info(other, &other_info);
    assert_string_equal(other_info.params_text, own_info.params_text);
    llama->context_free(other);

    params.type_k = "q8_0";
    assert_int_equal(llama->context_new(model, &params, &other, &err), HEARTH_OK);
    llama->context_info(other, &other_info);
    assert_string_not_equal(other_info.params_text, own_info.params_text);
    llama->context_free(other);
}

TEST(portable_parameters_name_neither_build_nor_cpu)
{
    hth_engine_context_params params = context_params();
    hth_engine_context_info own_info, other_info;
    hth_engine_context *other = NULL;
    const char *rest;
    hearth_error err;

    llama->context_info(context, &own_info);
    params.portable = true;
    assert_int_equal(llama->context_new(model, &params, &other, &err), HEARTH_OK);
    llama->context_info(other, &other_info);
    llama->context_free(other);
    assert_null(strstr(other_info.params_text, "build="));
    assert_null(strstr(other_info.params_text, "features="));
    assert_non_null(strstr(other_info.params_text, " portable gpu="));
    rest = strstr(own_info.params_text, " gpu=");
    assert_non_null(rest);
    assert_string_equal(strstr(other_info.params_text, " gpu="), rest);
}

TEST(only_cells_that_others_look_at_cost_them_anything)
{
    static const char *const shapes[] = { "tiny-llama", "tiny-recurrent", "tiny-hybrid" };
    hth_engine_context_params params = context_params();

    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        hth_engine_context *other = NULL;
        hth_engine_context_info other_info;
        hth_engine_model *shape;
        char path[4096];
        hearth_error err;

        hth_test_model(shapes[i], path, sizeof(path));
        if (load(path, &shape, &err) != HEARTH_OK || llama->context_new(shape, &params, &other, &err) != HEARTH_OK)
            fail_msg("%s", err.message);
        llama->context_info(other, &other_info);
        assert_int_equal(other_info.idle_cost.cells_max == UINT32_MAX, strcmp(shapes[i], "tiny-recurrent") == 0);
        if (other_info.idle_cost.cells_max == UINT32_MAX)
            assert_int_equal(other_info.idle_cost.row_ps + other_info.idle_cost.sequence_ps, 0);
        llama->context_free(other);
        llama->model_free(shape);
    }
}

TEST(a_bad_context_parameter_is_a_status)
{
    static const struct {
        hth_engine_context_params params;
        hearth_status status;
    } cases[] = {
        { { .n_ctx = 512, .n_batch = 0, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 1u << 30, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 0 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 257 }, HEARTH_MISUSE },
        { { .n_ctx = UINT32_MAX, .n_batch = 64, .n_seq_max = 1 }, HEARTH_MISUSE },
        { { .n_ctx = 1000000000, .n_batch = 64, .n_seq_max = 1 }, HEARTH_NO_MEMORY },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .n_threads = 100000 }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .type_k = "q9_9" }, HEARTH_MISUSE },
        { { .n_ctx = 512, .n_batch = 64, .n_seq_max = 1, .type_v = "" }, HEARTH_MISUSE },
    };
    hth_engine_context *other = NULL;
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(llama->context_new(model, &cases[i].params, &other, &err), cases[i].status);
    assert_null(other);
}

TEST(text_comes_back_from_its_tokens)
{
    static const char text[] = "The captain looked at the sea.\nÆble, 東京 🙂";
    hearth_token tokens[256];
    hth_tokenize_result result;
    char back[512];
    size_t n_tokens, n_bytes = 0, n;
    hearth_error err;

    assert_int_equal(llama->tokenize(model, text, strlen(text), 0, tokens, 256, &n_tokens, &result, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_OK);
    for (size_t i = 0; i < n_tokens; i++) {
        assert_int_equal(llama->piece(model, tokens[i], false, back + n_bytes, sizeof(back) - n_bytes, &n, &err),
                         HEARTH_OK);
        n_bytes += n;
    }
    assert_int_equal(n_bytes, strlen(text));
    assert_memory_equal(back, text, n_bytes);
}

TEST(too_many_tokens_are_counted)
{
    hearth_token tokens[4];
    hth_tokenize_result result;
    size_t n_with, n_without;
    hearth_error err;

    assert_int_equal(llama->tokenize(model, "one two three four", 18, 0, NULL, 0, &n_without, &result, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_MORE_ROOM);
    assert_true(n_without > 2);
    assert_int_equal(
        llama->tokenize(model, "one two three four", 18, HEARTH_TOKENIZE_BOS, tokens, 1, &n_with, &result, NULL, &err),
        HEARTH_OK);
    assert_int_equal(result, HTH_TOKENIZE_MORE_ROOM);
    assert_int_equal(n_with, n_without + 1);
    assert_int_equal(llama->tokenize(model, "", 0, 0, tokens, 4, &n_without, &result, NULL, &err), HEARTH_OK);
    assert_int_equal(n_without, 0);
    assert_int_equal(llama->tokenize(model, NULL, 0, HEARTH_TOKENIZE_BOS, tokens, 4, &n_with, &result, NULL, &err),
                     HEARTH_OK);
    assert_int_equal(n_with, 1);
}

TEST(control_tokens_are_read_and_written_only_when_asked_for)
{
    hearth_token tokens[64];
    hth_tokenize_result result;
    char bytes[64];
    size_t n;
    hearth_error err;

    assert_int_equal(
        llama->tokenize(model, "<|im_end|>", 10, HEARTH_TOKENIZE_SPECIAL, tokens, 64, &n, &result, NULL, &err),
        HEARTH_OK);
    assert_int_equal(n, 1);
    assert_true(llama->is_end(model, tokens[0]));
    assert_int_equal(llama->piece(model, tokens[0], true, bytes, sizeof(bytes), &n, &err), HEARTH_OK);
    assert_int_equal(n, 10);
    assert_memory_equal(bytes, "<|im_end|>", 10);
    assert_int_equal(llama->piece(model, tokens[0], false, bytes, sizeof(bytes), &n, &err), HEARTH_OK);
    assert_int_equal(n, 0);
    assert_int_equal(llama->piece(model, tokens[0], true, bytes, 3, &n, &err), HEARTH_MISUSE);
    assert_int_equal(llama->tokenize(model, "<|im_end|>", 10, 0, tokens, 64, &n, &result, NULL, &err), HEARTH_OK);
    assert_true(n > 1);
}

TEST(tokens_outside_the_vocabulary_are_misuse)
{
    static const hearth_token tokens[] = { -1, INT32_MIN, 2048, INT32_MAX };
    hearth_sampling sampling = hearth_sampling_default();
    hth_engine_sampler *sampler = NULL;
    char bytes[16];
    size_t n;
    hearth_error err;

    assert_int_equal(llama->sampler_new(model, &sampling, &sampler, &err), HEARTH_OK);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        assert_int_equal(llama->piece(model, tokens[i], true, bytes, sizeof(bytes), &n, &err), HEARTH_MISUSE);
        assert_int_equal(llama->sampler_accept(sampler, tokens[i], true, &err), HEARTH_MISUSE);
        assert_false(llama->is_end(model, tokens[i]));
    }
    llama->sampler_free(sampler);
}

TEST(chat_goes_through_the_model_s_template)
{
    const hearth_chat_turn turn = { .role = "user", .content = "Hello!" };
    const hearth_conversation conversation = { .turns = &turn, .n_turns = 1 };
    hearth_chat_prompt prompt = { 0 };
    hearth_error err;

    assert_int_equal(llama->chat_prompt(model, &conversation, &prompt, &err), HEARTH_OK);
    assert_non_null(strstr(prompt.text, "<|im_start|>user\nHello!<|im_end|>\n<|im_start|>assistant\n"));
    hth_chat_prompt_clear(&prompt);
    assert_int_equal(llama->chat_prompt(model, NULL, &prompt, &err), HEARTH_MISUSE);
}

TEST(a_given_template_is_used_and_a_broken_one_refused)
{
    const hearth_chat_turn turns[] = { { .role = "user", .content = "Hello!" },
                                       { .role = "assistant", .content = "Yes?" } };
    const hearth_conversation conversation = { .turns = turns, .n_turns = 2 };
    hth_engine_model_params params = { .log = &counting };
    hth_engine_model *own = NULL;
    hth_engine_model_info own_info;
    hearth_chat_prompt prompt = { 0 };
    hearth_error err;

    params.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_OK);
    llama->model_info(own, &own_info);
    assert_string_equal(own_info.chat_template_kind, "given");
    assert_ok(llama->chat_prompt(own, &conversation, &prompt, &err), err);
    assert_string_equal(prompt.text, "[user] Hello!\n[assistant] Yes?\n[assistant]");
    hth_chat_prompt_clear(&prompt);
    llama->model_free(own);

    params.chat_template = "{% for m in messages %}{{ m.content }}";
    own = NULL;
    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_MISUSE);
    assert_null(own);

    params.chat_template = "{{ raise_exception('no thanks') }}";
    if (llama->model_load(MODEL, &params, &own, &err) == HEARTH_OK) {
        assert_int_equal(llama->chat_prompt(own, &conversation, &prompt, &err), HEARTH_ENGINE);
        assert_non_null(strstr(err.message, "no thanks"));
        llama->model_free(own);
    }
}

/* ---- sampling ---- */

static float *logits_with(size_t n, const float *values)
{
    float *logits = malloc(info.n_vocab * sizeof(float));

    assert_non_null(logits);
    for (size_t i = 0; i < info.n_vocab; i++)
        logits[i] = -10;
    memcpy(logits, values, n * sizeof(float));
    return logits;
}

static size_t sample(hearth_sampling sampling, const float *logits, hearth_token accepted, const hth_candidate **out,
                     hth_engine_sampler **sampler)
{
    hearth_error err;
    size_t n = 0;

    assert_int_equal(llama->sampler_new(model, &sampling, sampler, &err), HEARTH_OK);
    if (accepted >= 0)
        assert_int_equal(llama->sampler_accept(*sampler, accepted, true, &err), HEARTH_OK);
    assert_int_equal(llama->sampler_apply(*sampler, logits, &(hth_sample_at){ .position = 0 }, out, &n, &err),
                     HEARTH_OK);
    return n;
}

TEST(candidates_come_likeliest_first_and_sum_to_one)
{
    float *logits = logits_with(5, (float[]){ 1, 3, 2, 3, 0 });
    hearth_sampling sampling = { .temperature = 1, .top_k = 4, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    double total = 0;
    size_t n = sample(sampling, logits, -1, &candidates, &sampler);

    assert_int_equal(n, 4);
    assert_int_equal(candidates[0].token, 1);
    assert_int_equal(candidates[1].token, 3);
    assert_int_equal(candidates[2].token, 2);
    assert_int_equal(candidates[3].token, 0);
    for (size_t i = 0; i < n; i++)
        total += candidates[i].probability;
    assert_true(total > 0.99999 && total < 1.00001);
    llama->sampler_free(sampler);
    free(logits);
}

TEST(temperature_zero_takes_the_likeliest_and_of_equals_the_lowest_id)
{
    float *logits = logits_with(5, (float[]){ 1, 3, 2, 3, 0 });
    hearth_sampling sampling = {
        .temperature = 0, .top_p = 1, .repeat_penalty = 1, .typical_p = 1, .repeat_last_n = 64
    };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;

    assert_int_equal(sample(sampling, logits, -1, &candidates, &sampler), 1);
    assert_int_equal(candidates[0].token, 1);
    assert_true(candidates[0].probability == 1);
    llama->sampler_free(sampler);

    sampling.repeat_penalty = 2;
    assert_int_equal(sample(sampling, logits, 1, &candidates, &sampler), 1);
    assert_int_equal(candidates[0].token, 3);
    llama->sampler_free(sampler);
    free(logits);
}

TEST(filters_keep_at_least_one_candidate_at_any_temperature)
{
    static const hearth_sampling cases[] = {
        { .temperature = 1e-30f, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1000, .top_p = 0, .min_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 0.8f, .top_k = 1, .top_p = 0.5f, .min_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 0.8f,
          .top_k = INT32_MAX,
          .top_p = 1,
          .repeat_penalty = 1000,
          .typical_p = 1,
          .repeat_last_n = 65536 },
    };
    float *logits = logits_with(3, (float[]){ 1e30f, -1e30f, 5 });

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const hth_candidate *candidates;
        hth_engine_sampler *sampler;

        assert_true(sample(cases[i], logits, 0, &candidates, &sampler) >= 1);
        assert_true(candidates[0].probability > 0);
        llama->sampler_free(sampler);
    }
    free(logits);
}

TEST(logits_that_are_no_numbers_are_never_chosen)
{
    float *logits = logits_with(4, (float[]){ (float)(0.0 / 0.0), (float)(1.0 / 0.0), 5, (float)(-1.0 / 0.0) });
    hearth_sampling sampling = { .temperature = 1, .top_k = 2, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 };
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_error err;
    size_t n;

    assert_true(sample(sampling, logits, -1, &candidates, &sampler) >= 1);
    assert_int_equal(candidates[0].token, 2);
    for (size_t i = 0; i < info.n_vocab; i++)
        logits[i] = (float)(0.0 / 0.0);
    assert_int_equal(llama->sampler_apply(sampler, logits, &(hth_sample_at){ .position = 0 }, &candidates, &n, &err),
                     HEARTH_ENGINE);
    llama->sampler_free(sampler);
    free(logits);
}

TEST(bad_sampling_values_are_misuse)
{
    static const hearth_sampling cases[] = {
        { .temperature = -1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = (float)(0.0 / 0.0), .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_k = -1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1.5f, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .min_p = -0.5f, .repeat_penalty = 1, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .repeat_penalty = 0, .typical_p = 1 },
        { .temperature = 1, .top_p = 1, .repeat_penalty = 1, .typical_p = 1, .repeat_last_n = UINT32_MAX },
    };
    hth_engine_sampler *sampler = NULL;
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(llama->sampler_new(model, &cases[i], &sampler, &err), HEARTH_MISUSE);
    assert_null(sampler);
}

/* ---- files ---- */

static void write_file(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static void assert_load_fails(const char *path, hearth_status expected)
{
    hth_engine_model *own = NULL;
    hearth_error err = { .message = "" };
    hearth_status status = load(path, &own, &err);

    if (status != expected)
        fail_msg("'%s': status %s (%s) instead of %s", path, hearth_status_name(status), err.message,
                 hearth_status_name(expected));
    assert_null(own);
    assert_non_null(strstr(err.message, path));
    assert_null(strchr(err.message, '\n'));
}

TEST(a_file_that_is_no_model_is_named_with_what_is_wrong)
{
    char *directory = hth_test_directory_new();
    char path[4096], fifo[4096];
    uint8_t noise[4096];
    uint64_t seed = hth_test_seed();

    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    (void)snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
    assert_load_fails(path, HEARTH_NOT_FOUND);
    assert_load_fails(directory, HEARTH_IO);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_load_fails(fifo, HEARTH_IO);
    write_file(path, "", 0);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GG", 2);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GGUF", 4);
    assert_load_fails(path, HEARTH_CORRUPT);
    write_file(path, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    assert_load_fails(path, HEARTH_UNSUPPORTED); /* a whole GGUF, of no architecture */
    for (int i = 0; i < 50; i++) {
        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)hth_test_random(&seed, 256);
        write_file(path, noise, sizeof(noise));
        assert_load_fails(path, HEARTH_CORRUPT);
        memcpy(noise, "GGUF\3\0\0\0", 8);
        write_file(path, noise, sizeof(noise));
        assert_load_fails(path, HEARTH_CORRUPT);
    }
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_load_fails(path, HEARTH_PERMISSION);
    }
    hth_test_directory_remove(directory);
}

/* The whole model file, malloc'ed. */
static uint8_t *read_model(size_t *n_bytes)
{
    struct stat st;
    uint8_t *bytes;
    FILE *file = fopen(MODEL, "rb");

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    *n_bytes = (size_t)st.st_size;
    bytes = malloc(*n_bytes);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *n_bytes, file), *n_bytes);
    assert_int_equal(fclose(file), 0);
    return bytes;
}

TEST(a_model_cut_short_is_corrupt_at_every_length)
{
    char *directory = hth_test_directory_new();
    char path[4096];
    size_t n_bytes;
    uint8_t *bytes = read_model(&n_bytes);

    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    for (size_t n = 1; n < n_bytes; n += 1 + n / 12) {
        write_file(path, bytes, n);
        assert_load_fails(path, HEARTH_CORRUPT);
    }
    write_file(path, bytes, n_bytes - 1);
    assert_load_fails(path, HEARTH_CORRUPT);
    free(bytes);
    hth_test_directory_remove(directory);
}

/* Each of these ended the process when the engine read it. */
TEST(a_model_with_impossible_metadata_is_corrupt)
{
    static const struct {
        const char *key;
        uint32_t value;
    } cases[] = {
        { "llama.block_count", 0 },
        { "llama.block_count", 513 },
        { "llama.attention.layer_norm_rms_epsilon", 0xbf800000 /* -1 */ },
        { "llama.attention.layer_norm_rms_epsilon", 0x7fc00000 /* not a number */ },
    };
    char *directory = hth_test_directory_new();
    char path[4096];
    size_t n_bytes;
    uint8_t *bytes = read_model(&n_bytes);

    (void)snprintf(path, sizeof(path), "%s/model.gguf", directory);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *at = memmem(bytes, n_bytes, cases[i].key, strlen(cases[i].key));
        uint32_t before;

        assert_non_null(at);
        at += strlen(cases[i].key) + 4; /* after the type */
        before = hth_get_u32(at);
        hth_put_u32(at, cases[i].value);
        write_file(path, bytes, n_bytes);
        assert_load_fails(path, HEARTH_CORRUPT);
        hth_put_u32(at, before);
    }
    memcpy(memmem(bytes, n_bytes, "<0x41>", 6), "<0x42>", 6); /* two tokens of one name */
    write_file(path, bytes, n_bytes);
    assert_load_fails(path, HEARTH_CORRUPT);
    free(bytes);
    hth_test_directory_remove(directory);
}

static bool stop_loading(float fraction, void *user_data)
{
    (*(int *)user_data)++;
    return fraction < 0.5f;
}

TEST(loading_can_be_cancelled)
{
    int n_reports = 0;
    hth_engine_model_params params = { .log = &counting, .progress = stop_loading, .progress_user_data = &n_reports };
    hth_engine_model *own = NULL;
    hearth_error err;

    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_CANCELLED);
    assert_null(own);
    assert_true(n_reports > 0);
}

TEST(a_model_loads_without_mapping_the_file)
{
    hth_engine_model_params params = { .log = &counting, .no_mmap = true };
    hth_engine_model *own = NULL;
    hearth_error err;

    assert_int_equal(llama->model_load(MODEL, &params, &own, &err), HEARTH_OK);
    llama->model_free(own);
}

GROUP(with_the_engine, open_engine, close_engine)
