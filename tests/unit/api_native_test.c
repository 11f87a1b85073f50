/*
 * api_native_test.c - llama.cpp's own endpoints
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/answers.h"
#include "api/prepare.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static void every_option_of_sampling_arrives(void **state)
{
    static const char body[] =
        "{\"prompt\":[\"a\",1,2,\"b\"],\"n_predict\":7,\"temperature\":0.25,\"top_k\":-1,\"top_p\":0.5,\"min_p\":0.125,"
        "\"typical_p\":0.5,\"repeat_penalty\":1.25,\"repeat_last_n\":9,\"frequency_penalty\":0.5,\"presence_penalty\":-"
        "0.5,"
        "\"dry_multiplier\":0.5,\"dry_base\":2,\"dry_allowed_length\":3,\"dry_penalty_last_n\":5,"
        "\"dry_sequence_breakers\":[\"x\"],\"xtc_probability\":0.5,\"xtc_threshold\":0.25,\"seed\":42,\"stop\":[\"x\"],"
        "\"ignore_eos\":true,\"min_tokens\":2,\"n_probs\":3,\"logit_bias\":[[5,1.5],[6,false]],"
        "\"grammar\":\"root ::= \\\"a\\\"\",\"grammar_lazy\":true,\"grammar_triggers\":[{\"type\":1,\"value\":\"w\"},"
        "{\"type\":0,\"token\":4}],\"cache_prompt\":false,\"return_tokens\":true,\"t_max_predict_ms\":50,"
        "\"something_else\":{\"x\":[]},\"mirostat\":0,\"id_slot\":-1}";
    hth_api_error error;
    hth_api_request *r = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error);
    const hearth_sampling *s;

    (void)state;
    if (!r)
        fail_msg("%s", error.message);
    s = &r->options.sampling;
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_pieces, 3);
    assert_int_equal(r->prompts[0].pieces[1].n_tokens, 2);
    assert_string_equal(r->prompts[0].pieces[2].text, "b");
    assert_int_equal(r->options.n_predict, 7);
    assert_true(s->temperature == 0.25f && s->top_k == 0 && s->top_p == 0.5f && s->min_p == 0.125f);
    assert_true(s->typical_p == 0.5f && s->repeat_penalty == 1.25f && s->repeat_last_n == 9);
    assert_true(s->frequency_penalty == 0.5f && s->presence_penalty == -0.5f && s->dry_multiplier == 0.5f);
    assert_true(s->dry_base == 2 && s->dry_allowed_length == 3 && s->dry_last_n == 5 && s->n_dry_breakers == 1);
    assert_true(s->xtc_probability == 0.5f && s->xtc_threshold == 0.25f && s->seed == 42 && r->has_seed);
    assert_true(r->options.ignore_eos && r->options.min_tokens == 2 && r->options.n_top_logprobs == 3);
    assert_true(s->logit_bias[0].bias == 1.5f && s->logit_bias[1].bias == -INFINITY);
    assert_string_equal(s->grammar, "root ::= \"a\"");
    assert_true(s->grammar_is_lazy && s->n_triggers == 2 && s->triggers[1].token == 4);
    assert_true(r->options.no_cache_read && r->wants_tokens && r->options.run_timeout_ms == 50);
    hth_api_request_free(r);
}

static void what_is_wrong_is_an_error_of_llama_cpps_shape(void **state)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *type;
        int status;
    } rows[] = {
        { HTH_API_NATIVE_COMPLETION, "", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":{}}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":[[]]}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"temperature\":-1}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"stream\":1}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"logit_bias\":[[1]]}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"mirostat\":2}", "not_supported_error", 501 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"grammar\":\"g\",\"json_schema\":{\"a\":1}}",
          "invalid_request_error", 400 },
        { HTH_API_TOKENIZE, "{}", "invalid_request_error", 400 },
        { HTH_API_TOKENIZE, "{\"content\":1}", "invalid_request_error", 400 },
        { HTH_API_DETOKENIZE, "{\"tokens\":[\"a\"]}", "invalid_request_error", 400 },
        { HTH_API_APPLY_TEMPLATE, "{\"messages\":[]}", "invalid_request_error", 400 },
    };
    const hth_test_stub *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        if (answer.status != rows[i].status || strcmp(hth_test_text_at(body, "error.type"), rows[i].type) != 0 ||
            json_integer_value(hth_test_at(body, "error.code")) != rows[i].status)
            fail_msg("row %zu: %s gives %d %s", i, rows[i].body, answer.status, hth_buffer_text(&answer.text));
        json_decref(body);
        hth_buffer_deinit(&answer.text);
    }
}

static void a_completion_tells_what_it_did_streamed_or_not(void **state)
{
    const hth_test_stub *f = *state;
    const char *request = "{\"prompt\":\"A prompt that is long enough to be kept in the cache.\",\"n_predict\":30,"
                          "\"seed\":4,\"return_tokens\":true,\"n_probs\":1,\"ignore_eos\":true%s}";
    char text[512];
    hth_test_answer whole, stream;
    json_t *body, *events, *event, *last, *tokens = json_array();
    hth_buffer said = { .text = NULL };
    size_t i;

    snprintf(text, sizeof(text), request, "");
    whole = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
    snprintf(text, sizeof(text), request, ",\"stream\":true");
    stream = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
    body = hth_test_json(hth_buffer_text(&whole.text));
    events = hth_test_events(hth_buffer_text(&stream.text));
    json_array_foreach(events, i, event)
    {
        hth_buffer_add_text(&said, hth_test_text_at(event, "content"));
        json_array_extend(tokens, hth_test_at(event, "tokens"));
        assert_int_equal(json_is_true(hth_test_at(event, "stop")), i + 1 == json_array_size(events));
        assert_true(json_equal(hth_test_at(event, "tokens_evaluated"), hth_test_at(body, "tokens_evaluated")));
    }
    last = json_array_get(events, json_array_size(events) - 1);
    assert_string_equal(hth_buffer_text(&said), hth_test_text_at(body, "content"));
    assert_true(json_equal(tokens, hth_test_at(body, "tokens")));
    assert_int_equal(json_array_size(tokens), 30);
    assert_string_equal(hth_test_text_at(body, "stop_type"), "limit");
    assert_int_equal(json_integer_value(hth_test_at(body, "timings.cache_n")), 0);
    assert_int_equal(json_integer_value(hth_test_at(body, "timings.predicted_n")), 30);
    assert_int_equal(json_integer_value(hth_test_at(last, "timings.prompt_n")), 0);
    assert_true(json_equal(hth_test_at(last, "timings.cache_n"), hth_test_at(body, "tokens_evaluated")));
    assert_int_equal(json_array_size(hth_test_at(body, "completion_probabilities")), 30);
    assert_int_equal(json_integer_value(hth_test_at(body, "generation_settings.seed")), 4);
    hth_buffer_deinit(&said);
    json_decref(tokens);
    json_decref(body);
    json_decref(events);
    hth_buffer_deinit(&whole.text);
    hth_buffer_deinit(&stream.text);
}

static void values_that_llama_cpp_gives_a_meaning_have_it(void **state)
{
    static const char body[] = "{\"prompt\":\"\",\"n_predict\":1,\"repeat_last_n\":-1,\"dry_penalty_last_n\":-1,"
                               "\"stop\":[\"\",\"x\",\"\"]}";
    const hth_test_stub *f = *state;
    hth_api_error error;
    hth_api_prepared prepared;
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_request *r = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error);

    assert_non_null(r);
    assert_true(hth_api_prepare(f->model, r, 1, NULL, &prepared, &error));
    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    assert_int_equal(prepared.requests[0].sampling.repeat_last_n, info.n_ctx);
    assert_int_equal(prepared.requests[0].sampling.dry_last_n, info.n_ctx);
    assert_int_equal(prepared.requests[0].n_stop, 1);
    assert_string_equal(prepared.requests[0].stop[0], "x");
    assert_int_equal(prepared.requests[0].n_tokens, 1); /* the one that begins every text */
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(r);

    r = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"json_schema\":{}}", 31, NULL, &error);
    assert_non_null(r);
    assert_string_equal(r->options.sampling.json_schema, "{}");
    hth_api_request_free(r);
}

static void a_reply_has_the_key_to_go_on_from(void **state)
{
    const hth_test_stub *f = *state;
    char text[512];
    hth_test_answer answer = hth_test_api_run(
        f->model, HTH_API_NATIVE_COMPLETION,
        "{\"prompt\":[65,66,67],\"n_predict\":1,\"return_tokens\":true,\"ignore_eos\":true,\"temperature\":0}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text)), *second;
    const char *key = hth_test_text_at(body, "finish_key");

    assert_int_equal(strlen(key), 64);
    assert_int_equal(json_integer_value(hth_test_at(body, "tokens_cached")), 3);
    hth_buffer_deinit(&answer.text);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "{\"prompt\":[65,66,%d,68],\"n_predict\":1,\"parent_key\":\"%s\"}", i ? 1 : 67,
                 key);
        answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
        second = hth_test_json(hth_buffer_text(&answer.text));
        assert_int_equal(answer.status, i ? 404 : 200);
        json_decref(second);
        hth_buffer_deinit(&answer.text);
    }
    json_decref(body);
}

static void a_prompt_that_does_not_fit_is_told_in_numbers(void **state)
{
    const hth_test_stub *f = *state;
    hearth_model_info info = { .struct_size = sizeof(info) };
    char *text = calloc(1, 100100);
    hth_test_answer answer;
    json_t *body;

    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    strcpy(text, "{\"prompt\":\"");
    memset(text + 11, 'a', 100000);
    strcpy(text + 100011, "\"}");
    answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
    body = hth_test_json(hth_buffer_text(&answer.text));
    assert_int_equal(answer.status, 400);
    assert_string_equal(hth_test_text_at(body, "error.type"), "exceed_context_size_error");
    assert_int_equal(json_integer_value(hth_test_at(body, "error.n_prompt_tokens")), 100001);
    assert_int_equal(json_integer_value(hth_test_at(body, "error.n_ctx")), info.n_ctx);
    json_decref(body);
    hth_buffer_deinit(&answer.text);
    free(text);
}

static void a_stop_text_is_named(void **state)
{
    const hth_test_stub *f = *state;
    hth_test_answer answer = hth_test_api_run(
        f->model, HTH_API_NATIVE_COMPLETION,
        "{\"prompt\":\"abc\",\"seed\":1,\"ignore_eos\":true,\"n_predict\":2000,\"stop\":[\"zzzzzz\",\"e\"]}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "stop_type"), "word");
    assert_string_equal(hth_test_text_at(body, "stopping_word"), "e");
    assert_null(strchr(hth_test_text_at(body, "content"), 'e'));
    json_decref(body);
    hth_buffer_deinit(&answer.text);
}

static void several_prompts_are_answered_in_their_order(void **state)
{
    const hth_test_stub *f = *state;
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION,
                                              "{\"prompt\":[\"one\",\"two\",[116,104]],\"n_predict\":3,\"seed\":1}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(json_array_size(body), 3);
    assert_string_equal(hth_test_text_at(body, "0.prompt"), "one");
    assert_string_equal(hth_test_text_at(body, "1.prompt"), "two");
    assert_int_equal(json_integer_value(hth_test_at(body, "2.tokens_evaluated")), 2);
    json_decref(body);
    hth_buffer_deinit(&answer.text);
}

/* The body of an answer at once. */
static json_t *ask(const hth_test_stub *f, hth_api_kind kind, const char *body)
{
    hth_api_error error;
    hth_buffer out = { .text = NULL };
    hth_api_request *request = hth_api_request_parse(kind, body, strlen(body), NULL, &error);
    json_t *answer;

    if (!request || !hth_api_answer(f->model, request, &out, &error))
        fail_msg("%s: %s", body, error.message);
    answer = hth_test_json(hth_buffer_text(&out));
    hth_buffer_deinit(&out);
    hth_api_request_free(request);
    return answer;
}

static void texts_become_tokens_and_tokens_texts(void **state)
{
    const hth_test_stub *f = *state;
    json_t *got = ask(f, HTH_API_TOKENIZE, "{\"content\":\"ab\"}"), *wanted = hth_test_json("{\"tokens\":[97,98]}");

    assert_true(json_equal(got, wanted));
    json_decref(got);
    json_decref(wanted);
    got = ask(f, HTH_API_TOKENIZE, "{\"content\":\"a\xc3\xa9\",\"add_special\":true,\"with_pieces\":true}");
    assert_int_equal(json_array_size(hth_test_at(got, "tokens")), 4);
    assert_string_equal(hth_test_text_at(got, "tokens.1.piece"), "a");
    assert_true(json_is_null(hth_test_at(got, "tokens.2.piece")));
    json_decref(got);
    got = ask(f, HTH_API_DETOKENIZE, "{\"tokens\":[97,195,169]}");
    assert_string_equal(hth_test_text_at(got, "content"), "a\xc3\xa9");
    json_decref(got);
    got = ask(f, HTH_API_DETOKENIZE, "{\"tokens\":[]}");
    assert_string_equal(hth_test_text_at(got, "content"), "");
    json_decref(got);
    got = ask(f, HTH_API_APPLY_TEMPLATE, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"whatever\":1}");
    assert_string_equal(hth_test_text_at(got, "prompt"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    json_decref(got);
}

static void a_model_is_described_by_models_props_slots_and_health(void **state)
{
    const hth_test_stub *f = *state;
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_listed_model listed[] = { { .name = "a", .created_s = 5, .info = &info }, { .name = "b" } };
    hth_buffer out = { .text = NULL };
    json_t *got;

    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    hth_api_models_write(listed, 2, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(got, "object"), "list");
    assert_string_equal(hth_test_text_at(got, "data.1.id"), "b");
    assert_int_equal(json_integer_value(hth_test_at(got, "data.0.meta.n_ctx")), info.n_ctx);
    json_decref(got);
    hth_buffer_clear(&out);
    hth_api_props_write(&info, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_int_equal(json_integer_value(hth_test_at(got, "total_slots")), info.n_parallel);
    assert_int_equal(json_integer_value(hth_test_at(got, "default_generation_settings.params.top_k")), 40);
    json_decref(got);
    hth_buffer_clear(&out);
    hth_api_slots_write(&info, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_int_equal(json_array_size(got), info.n_parallel);
    json_decref(got);
    hth_buffer_clear(&out);
    assert_int_equal(hth_api_health_write(NULL, &out), 200);
    assert_string_equal(hth_buffer_text(&out), "{\"status\":\"ok\"}");
    hth_buffer_clear(&out);
    assert_int_equal(hth_api_health_write("loading", &out), 503);
    hth_buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_of_sampling_arrives),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_an_error_of_llama_cpps_shape, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_completion_tells_what_it_did_streamed_or_not, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(values_that_llama_cpp_gives_a_meaning_have_it, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_reply_has_the_key_to_go_on_from, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_prompt_that_does_not_fit_is_told_in_numbers, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_stop_text_is_named, hth_test_stub_set_up, hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(several_prompts_are_answered_in_their_order, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(texts_become_tokens_and_tokens_texts, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
        cmocka_unit_test_setup_teardown(a_model_is_described_by_models_props_slots_and_health, hth_test_stub_set_up,
                                        hth_test_stub_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
