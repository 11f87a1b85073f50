/*
 * interface_test.c - programs that were compiled against an older or a newer hearth.h
 *
 * Each struct is given as such a program gives it: in memory of just its size, so that AddressSanitizer sees a look
 * behind it.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hearth.h"
#include "support/api.h"
#include "support/cmocka_all.h"

enum { POISON = 0xA5 };

/* The struct as a program with an older header has it; released with free. */
static void *older(const void *whole, size_t size)
{
    unsigned char *one = malloc(size);

    assert_non_null(one);
    memcpy(one, whole, size);
    memcpy(one, &size, sizeof(size));
    return one;
}

/* As one with a newer header has it, whose further fields have that byte. */
static void *newer(const void *whole, size_t size, unsigned char byte)
{
    size_t more = size + 24;
    unsigned char *one = malloc(more);

    assert_non_null(one);
    memset(one, byte, more);
    memcpy(one, whole, size);
    memcpy(one, &more, sizeof(more));
    return one;
}

SHARED_STUB_TEST(defaults_end_where_the_struct_of_the_program_ends)
{
    typedef void (*init_fn)(void *, size_t);
    static const struct {
        init_fn init;
        size_t size;
    } rows[] = {
        { (init_fn)hearth_runtime_options_init, sizeof(hearth_runtime_options) },
        { (init_fn)hearth_cache_policy_init, sizeof(hearth_cache_policy) },
        { (init_fn)hearth_engine_options_init, sizeof(hearth_engine_options) },
        { (init_fn)hearth_model_options_init, sizeof(hearth_model_options) },
        { (init_fn)hearth_sampling_init, sizeof(hearth_sampling) },
        { (init_fn)hearth_request_init, sizeof(hearth_request) },
        { (init_fn)hearth_conversation_init, sizeof(hearth_conversation) },
        { (init_fn)hearth_events_options_init, sizeof(hearth_events_options) },
    };
    unsigned char whole[2048], one[2048];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rows[i].init(whole, rows[i].size);
        for (size_t size = sizeof(size_t); size <= rows[i].size + 16; size += sizeof(size_t)) {
            size_t known = size < rows[i].size ? size : rows[i].size, told;

            memset(one, POISON, sizeof(one));
            rows[i].init(one, size);
            memcpy(&told, one, sizeof(told));
            assert_int_equal(told, size);
            assert_memory_equal(one + sizeof(told), whole + sizeof(told), known - sizeof(told));
            for (size_t at = known; at < size; at++)
                assert_int_equal(one[at], 0);
            assert_int_equal(one[size], POISON);
        }
    }
}

SHARED_STUB_TEST(a_request_of_an_older_program_has_the_defaults_of_later_fields)
{
    hearth_request request = hth_test_greedy("An old program asks for a reply", 8);
    void *sampling = older(request.sampling, offsetof(hearth_sampling, repeat_last_n));
    const hearth_result *now = hth_test_complete(f->model, &request), *then;
    void *old;

    request.sampling = sampling;
    old = older(&request, offsetof(hearth_request, on_token));
    assert_int_equal(hearth_complete(f->model, old, &then, NULL), HEARTH_OK);
    assert_string_equal(then->text, now->text);
    assert_true(then->stats->struct_size >= sizeof(size_t));
    hearth_result_unref(now);
    hearth_result_unref(then);
    free(old);
    free(sampling);
}

SHARED_STUB_TEST(an_older_program_opens_loads_and_counts)
{
    hearth_model_options options = hearth_model_options_default();
    hearth_cache_policy policy = hearth_cache_policy_default();
    hearth_runtime_options of_runtime = hearth_runtime_options_default();
    hearth_counters counters = { .struct_size = sizeof(counters) };
    hearth_model_info info = { .struct_size = sizeof(info) };
    void *old_runtime, *old_options;
    void *old_policy = older(&policy, offsetof(hearth_cache_policy, boundary_trim_tokens));
    void *old_counters = older(&counters, offsetof(hearth_counters, bytes_saved));
    void *old_info = older(&info, offsetof(hearth_model_info, n_layers));
    uint32_t n_vocab;
    hearth_runtime *runtime;
    hearth_model *model;

    of_runtime.cache_disabled = true;
    of_runtime.ram_bytes_max = 16 << 20;
    old_runtime = older(&of_runtime, offsetof(hearth_runtime_options, more_directories));
    assert_int_equal(hearth_runtime_open(old_runtime, &runtime, NULL), HEARTH_OK);
    hearth_runtime_close(runtime);

    options.cache_policy = old_policy;
    old_options = older(&options, offsetof(hearth_model_options, chat_template));
    assert_int_equal(hearth_model_load(f->runtime, "stub:", old_options, &model, NULL), HEARTH_OK);
    assert_int_equal(hearth_model_info_get(model, old_info, NULL), HEARTH_OK);
    memcpy(&n_vocab, (const char *)old_info + offsetof(hearth_model_info, n_vocab), sizeof(n_vocab));
    assert_true(n_vocab > 0);
    assert_int_equal(hearth_runtime_counters(f->runtime, old_counters, NULL), HEARTH_OK);
    hth_test_model_end(f->runtime, model);
    free(old_runtime);
    free(old_policy);
    free(old_options);
    free(old_counters);
    free(old_info);
}

SHARED_STUB_TEST(an_older_program_renders_a_conversation)
{
    enum { SIZE = offsetof(hearth_chat_turn, parts), N = 2 };
    const hearth_chat_turn whole[N] = {
        { .struct_size = sizeof(whole[0]), .role = "system", .content = "Be brief." },
        { .struct_size = sizeof(whole[0]), .role = "user", .content = "Hello" },
    };
    hearth_conversation conversation = hearth_conversation_default();
    unsigned char *turns = malloc(N * (size_t)SIZE);
    const hearth_chat_prompt *now, *then;
    void *old;

    assert_non_null(turns);
    for (size_t i = 0; i < N; i++) {
        void *turn = older(&whole[i], SIZE);

        memcpy(turns + i * SIZE, turn, SIZE);
        free(turn);
    }
    conversation.turns = whole;
    conversation.n_turns = N;
    assert_int_equal(hearth_conversation_render(f->model, &conversation, &now, NULL), HEARTH_OK);
    conversation.turns = (const hearth_chat_turn *)(void *)turns;
    old = older(&conversation, offsetof(hearth_conversation, json_schema));
    assert_int_equal(hearth_conversation_render(f->model, old, &then, NULL), HEARTH_OK);
    assert_string_equal(then->text, now->text);
    hearth_chat_prompt_free(now);
    hearth_chat_prompt_free(then);
    free(old);
    free(turns);
}

SHARED_STUB_TEST(a_newer_program_may_leave_new_fields_alone_and_not_set_them)
{
    hearth_request request = hth_test_greedy("A new program asks", 4);
    void *plain = newer(&request, sizeof(request), 0);
    void *with_more = newer(&request, sizeof(request), 1);
    const hearth_result *result;
    hearth_error err;

    assert_int_equal(hearth_complete(f->model, plain, &result, &err), HEARTH_OK);
    hearth_result_unref(result);
    assert_int_equal(hearth_complete(f->model, with_more, &result, &err), HEARTH_UNSUPPORTED);
    assert_non_null(strstr(err.message, "hearth_request"));
    free(plain);
    free(with_more);
}

SHARED_STUB_TEST(errors_and_versions_can_be_read_without_a_struct)
{
    hearth_error *err = malloc(hearth_error_size());
    const uint32_t zeros[sizeof(err->reserved) / sizeof(err->reserved[0])] = { 0 };
    hearth_model *model;

    assert_non_null(err);
    memset(err, POISON, hearth_error_size());
    assert_int_equal(hearth_model_load(f->runtime, "nowhere.gguf", NULL, &model, err), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_error_status(err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(hearth_error_message(err), "nowhere.gguf"));
    assert_int_equal(err->retry_after_s, 0);
    assert_int_equal(err->n_tokens, 0);
    assert_int_equal(err->n_tokens_max, 0);
    assert_memory_equal(err->reserved, zeros, sizeof(zeros));
    free(err);
    assert_int_equal(hearth_version_number(), HEARTH_VERSION_NUMBER);
    assert_true(HEARTH_VERSION_NUMBER >= 0x000100);
}

GROUP(with_a_stub, hth_test_shared_stub_set_up, hth_test_shared_stub_tear_down)
