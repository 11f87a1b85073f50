/*
 * api_native_test.c - llama.cpp's own endpoints
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/model_pages.h"
#include "api/prepare.h"
#include "api/writer.h"
#include "dialects/answers.h"
#include "dialects/request_parse.h"
#include "sampling/numbers.h"
#include "support/api.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"
#include "support/support.h"

TEST(every_option_of_sampling_arrives)
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
        "\"something_else\":{\"x\":[]},\"mirostat\":2,\"mirostat_tau\":3,\"mirostat_eta\":0.25,\"top_n_sigma\":1.5,"
        "\"dynatemp_range\":0.5,\"dynatemp_exponent\":2,\"adaptive_target\":-1,\"adaptive_decay\":0.5,"
        "\"samplers\":[\"top_k\",\"Temperature\",\"infill\"],\"id_slot\":-1}";
    hth_api_request *r = hth_test_parsed(HTH_API_NATIVE_COMPLETION, body);
    const hearth_sampling *s;

    s = &r->sampling;
    assert_int_equal(r->n_prompts, 1);
    assert_int_equal(r->prompts[0].n_pieces, 3);
    assert_int_equal(r->prompts[0].pieces[1].n_tokens, 2);
    assert_string_equal(r->prompts[0].pieces[2].text, "b");
    assert_int_equal(r->options.n_predict, 7);
    assert_true(s->temperature == 0.25f && s->top_k == 0 && s->top_p == 0.5f && s->min_p == 0.125f);
    assert_true(s->typical_p == 0.5f && s->repeat_penalty == 1.25f && s->repeat_last_n == 9);
    assert_true(s->frequency_penalty == 0.5f && s->presence_penalty == -0.5f && s->dry_multiplier == 0.5f);
    assert_true(s->dry_base == 2 && s->dry_allowed_length == 3 && s->dry_last_n == 5 && s->n_dry_breakers == 1);
    assert_true(s->xtc_probability == 0.5f && s->xtc_threshold == 0.25f && s->seed == 42);
    assert_true(s->mirostat == 2 && s->mirostat_tau == 3 && s->mirostat_eta == 0.25f && s->top_n_sigma == 1.5f);
    assert_true(s->dynatemp_range == 0.5f && s->dynatemp_exponent == 2 && s->adaptive_target == 0);
    assert_true(s->adaptive_decay == 0.5f && s->n_samplers == 2 && s->samplers[0] == HEARTH_SAMPLER_TOP_K);
    assert_true(s->samplers[1] == HEARTH_SAMPLER_TEMPERATURE);
    assert_true(r->options.ignore_eos && r->options.min_tokens == 2 && r->options.n_top_logprobs == 3);
    assert_true(s->logit_bias[0].bias == 1.5f && s->logit_bias[1].bias == -INFINITY);
    assert_string_equal(s->grammar, "root ::= \"a\"");
    assert_true(s->grammar_is_lazy && s->n_triggers == 2 && s->triggers[1].token == 4);
    assert_true(r->options.no_cache_read && r->wants_tokens && r->options.run_timeout_ms == 50);
}

STUB_TEST(settings_come_back_as_they_were_sent)
{
    enum { DRY_BASE = offsetof(hth_sampling_values, dry_base) / sizeof(double) }; /* it must be at least 1 */

    for (int is_off = 0; is_off < 2; is_off++) {
        hth_buffer body = { .text = NULL };
        hth_test_answer answer;
        const json_t *settings;

        hth_buffer_add_text(&body, "{\"prompt\":\"a\",\"n_predict\":1");
        for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
            const hth_sampling_number *number = &hth_sampling_numbers[i];
            const bool switches = number->kind == HTH_NUMBER_OFF || number->kind == HTH_NUMBER_MINUS;
            char member[64];

            (void)snprintf(member, sizeof(member), ",\"%s\":%s", number->name,
                           is_off && switches                    ? "-3"
                           : i == DRY_BASE                       ? "1.5"
                           : hth_sampling_number_is_real(number) ? "0.5"
                                                                 : "2");
            hth_buffer_add_text(&body, member);
        }
        hth_buffer_add_text(&body, "}");
        answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, hth_buffer_text(&body));
        if (answer.status != 200)
            fail_msg("%s: %s", hth_buffer_text(&body), hth_buffer_text(&answer.text));
        settings = hth_test_at(hth_test_json(hth_buffer_text(&answer.text)), "generation_settings");
        for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
            const hth_sampling_number *number = &hth_sampling_numbers[i];
            const double wanted = is_off && number->kind == HTH_NUMBER_MINUS ? -1
                                : is_off && number->kind == HTH_NUMBER_OFF   ? 0
                                : i == DRY_BASE                              ? 1.5
                                : hth_sampling_number_is_real(number)        ? 0.5
                                                                             : 2;

            if (json_number_value(json_object_get(settings, number->name)) != wanted)
                fail_msg("%s is %g, not %g", number->name, json_number_value(json_object_get(settings, number->name)),
                         wanted);
        }
        hth_buffer_deinit(&body);
    }
}

STUB_TEST(settings_tell_the_whole_request)
{
    hth_test_answer answer = hth_test_api_run(
        f->model, HTH_API_NATIVE_COMPLETION,
        "{\"prompt\":\"a\",\"n_predict\":3,\"timings_per_token\":true,\"logit_bias\":[[97,false],[98,0.5]],"
        "\"stop\":[\"x\"],\"n_probs\":1,\"post_sampling_probs\":true,\"grammar\":\"root ::= "
        "[a-z]+\",\"grammar_lazy\":true,"
        "\"grammar_triggers\":[{\"type\":1,\"value\":\"q\"},{\"type\":0,\"value\":\"z\",\"token\":122}]}");
    json_t *settings = hth_test_at(hth_test_json(hth_buffer_text(&answer.text)), "generation_settings");
    char *text;

    assert_int_equal(answer.status, 200);
    assert_int_equal(json_integer_value(hth_test_at(settings, "max_tokens")), 3);
    assert_true(json_is_false(hth_test_at(settings, "stream")));
    assert_true(json_is_true(hth_test_at(settings, "timings_per_token")));
    assert_true(json_is_true(hth_test_at(settings, "post_sampling_probs")));
    assert_true(json_is_true(hth_test_at(settings, "grammar_lazy")));
    text = json_dumps(hth_test_at(settings, "grammar_triggers"), JSON_COMPACT);
    assert_string_equal(text, "[{\"type\":1,\"value\":\"q\"},{\"type\":0,\"value\":\"z\",\"token\":122}]");
    free(text);
    text = json_dumps(hth_test_at(settings, "logit_bias"), JSON_COMPACT);
    assert_string_equal(text, "[{\"bias\":null,\"token\":97},{\"bias\":0.5,\"token\":98}]");
    free(text);
    assert_int_equal(json_array_size(hth_test_at(settings, "dry_sequence_breakers")), 4);
    assert_string_equal(hth_test_text_at(settings, "chat_format"), "Content-only");
    assert_string_equal(hth_test_text_at(settings, "reasoning_format"), "none");
    assert_int_equal(json_array_size(hth_test_at(settings, "lora")), 0);
}

STUB_TEST(what_is_wrong_is_an_error_of_llama_cpps_shape)
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
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"temperature\":\"hot\"}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"stream\":1}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"logit_bias\":[[1]]}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"mirostat\":3}", "invalid_request_error", 400 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"grammar\":\"g\",\"json_schema\":{\"a\":1}}",
          "invalid_request_error", 400 },
        { HTH_API_TOKENIZE, "{}", "invalid_request_error", 400 },
        { HTH_API_TOKENIZE, "{\"content\":1}", "invalid_request_error", 400 },
        { HTH_API_DETOKENIZE, "{\"tokens\":[\"a\"]}", "invalid_request_error", 400 },
        { HTH_API_APPLY_TEMPLATE, "{\"messages\":[]}", "invalid_request_error", 400 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        if (answer.status != rows[i].status || strcmp(hth_test_text_at(body, "error.type"), rows[i].type) != 0 ||
            json_integer_value(hth_test_at(body, "error.code")) != rows[i].status)
            fail_msg("row %zu: %s gives %d %s", i, rows[i].body, answer.status, hth_buffer_text(&answer.text));
    }
}

STUB_TEST(a_completion_tells_what_it_did_streamed_or_not)
{
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
}

STUB_TEST(probabilities_after_sampling_are_those_of_the_draw)
{
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION,
                                              "{\"prompt\":\"abc\",\"n_predict\":8,\"ignore_eos\":true,\"seed\":4,"
                                              "\"top_k\":3,\"min_p\":0,\"top_p\":1,\"temperature\":2,\"n_probs\":5,"
                                              "\"post_sampling_probs\":true}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text)), *entry;
    size_t i, k;

    assert_int_equal(json_array_size(hth_test_at(body, "completion_probabilities")), 8);
    json_array_foreach(hth_test_at(body, "completion_probabilities"), i, entry)
    {
        json_t *top = json_object_get(entry, "top_probs"), *one;
        double sum = 0, drawn = 0;

        assert_null(json_object_get(entry, "logprob"));
        assert_int_equal(json_array_size(top), 3);
        json_array_foreach(top, k, one)
        {
            double p = json_real_value(json_object_get(one, "prob"));

            sum += p;
            if (json_equal(json_object_get(one, "id"), json_object_get(entry, "id")))
                drawn = p;
        }
        assert_true(fabs(sum - 1) < 1e-5);
        assert_true(drawn > 0 && drawn == json_real_value(json_object_get(entry, "prob")));
    }
}

STUB_TEST(a_reply_has_only_the_fields_that_were_asked_for)
{
    static const struct {
        const char *fields, *expected;
    } rows[] = {
        { "\"content\",\"generation_settings/seed\",\"nothing\",\"content/x\",\"\"",
          "{\"content\":\"ab\",\"generation_settings/seed\":4}" },
        { "\"nothing\"", "{}" },
        { "\"completion_probabilities\"", NULL },
        { "\"stop\",\"completion_probabilities\"", NULL },
    };

    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        bool is_stream = i % 2;
        char text[512];
        hth_test_answer answer;
        json_t *body, *last;

        snprintf(text, sizeof(text),
                 "{\"prompt\":\"abc\",\"grammar\":\"root ::= \\\"ab\\\"\",\"seed\":4,\"n_probs\":1,"
                 "\"response_fields\":[%s],\"stream\":%s}",
                 rows[i / 2].fields, is_stream ? "true" : "false");
        answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
        body =
            is_stream ? hth_test_events(hth_buffer_text(&answer.text)) : hth_test_json(hth_buffer_text(&answer.text));
        last = is_stream ? json_array_get(body, json_array_size(body) - 1) : body;
        if (rows[i / 2].expected && !is_stream) {
            json_t *expected = hth_test_json(rows[i / 2].expected);

            assert_true(json_equal(last, expected));
        } else {
            assert_null(json_object_get(last, "timings"));
            assert_int_equal(json_object_get(last, "completion_probabilities") != NULL, !rows[i / 2].expected);
        }
    }
}

STUB_TEST(events_have_their_tokens_and_probabilities_the_bytes_of_theirs)
{
    /* Bytes: the first token is the first of two of a character. */
    hth_test_answer stream =
        hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION,
                         "{\"prompt\":\"abc\",\"grammar\":\"root ::= \\\"\u00e9x\\\"\",\"n_probs\":1,"
                         "\"stream\":true}");
    json_t *events = hth_test_events(hth_buffer_text(&stream.text));
    json_t *tokens = hth_test_json("[195,169]"), *first = hth_test_json("[195]");

    assert_true(json_equal(hth_test_at(events, "0.tokens"), tokens));
    assert_true(json_equal(hth_test_at(events, "0.completion_probabilities.0.bytes"), first));
    assert_int_equal(json_integer_value(hth_test_at(events, "1.completion_probabilities.0.bytes.0")), 'x');
    assert_true(json_is_array(hth_test_at(events, "0.completion_probabilities.0.top_logprobs.0.bytes")));
}

STUB_TEST(timings_have_all_their_fields_in_every_event)
{
    static const char *const names[] = {
        "cache_n",     "prompt_n",     "prompt_ms", "prompt_per_token_ms",    "prompt_per_second",
        "predicted_n", "predicted_ms", "queue_ms",  "predicted_per_token_ms", "predicted_per_second",
        "restore_ms",  "ttft_ms",
    };
    hth_test_answer stream = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION,
                                              "{\"prompt\":\"abc\",\"seed\":1,\"ignore_eos\":true,\"n_predict\":20,"
                                              "\"stream\":true,\"timings_per_token\":true}");
    json_t *events = hth_test_events(hth_buffer_text(&stream.text)), *event;
    size_t i;

    assert_true(json_array_size(events) > 2);
    json_array_foreach(events, i, event)
    {
        json_t *timings = hth_test_at(event, "timings");

        assert_int_equal(json_object_size(timings), sizeof(names) / sizeof(names[0]));
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            assert_true(json_is_number(json_object_get(timings, names[k])));
        assert_true(json_equal(hth_test_at(event, "tokens_predicted"), hth_test_at(timings, "predicted_n")));
        assert_true(json_equal(hth_test_at(event, "tokens_evaluated"), hth_test_at(timings, "prompt_n")));
        assert_string_equal(hth_test_text_at(event, "cache.hit"), "none");
    }
}

TEST(the_cache_tells_where_the_prompt_left_the_known_prefix)
{
    json_t *cold = hth_api_cache(&(hearth_stats){ .prompt_tokens = 9 });
    json_t *left = hth_api_cache(
        &(hearth_stats){ .prompt_tokens = 9, .left_at = 5, .left_text = " fox", .miss = HEARTH_MISS_EVICTED });
    json_t *whole = hth_api_cache(&(hearth_stats){ .prompt_tokens = 9, .left_at = 9 });

    assert_null(json_object_get(cold, "left_at"));
    assert_null(json_object_get(whole, "left_at"));
    assert_int_equal(json_integer_value(hth_test_at(left, "left_at")), 5);
    assert_string_equal(hth_test_text_at(left, "left_text"), " fox");
    assert_string_equal(hth_test_text_at(left, "miss"), "evicted");
    json_decref(cold);
    json_decref(left);
    json_decref(whole);
}

/* For debugging, as with llama-server. */
STUB_TEST(a_verbose_reply_has_the_native_form_beside_it)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *prompt;
        bool stream;
    } rows[] = {
        { HTH_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"verbose\":true}", NULL, false },
        { HTH_API_CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"verbose\":true,\"stream\":true}",
          NULL, true },
        { HTH_API_COMPLETION, "{\"prompt\":\"abc\",\"verbose\":true}", "abc", false },
        { HTH_API_COMPLETION, "{\"prompt\":\"abc\",\"verbose\":true,\"stream\":true}", "abc", true },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        hth_test_answer answer = hth_test_api_run(f->model, rows[i].kind, rows[i].body);
        json_t *body = rows[i].stream ? hth_test_events(hth_buffer_text(&answer.text))
                                      : hth_test_json(hth_buffer_text(&answer.text)),
               *whole = rows[i].stream ? json_array_get(body, json_array_size(body) - 2) : body;

        assert_true(json_is_object(hth_test_at(whole, "__verbose.generation_settings")));
        assert_int_equal(*hth_test_text_at(whole, "__verbose.content") == '\0', rows[i].stream);
        assert_true(*hth_test_text_at(whole, "__verbose.prompt") != '\0');
        if (rows[i].prompt)
            assert_string_equal(hth_test_text_at(whole, "__verbose.prompt"), rows[i].prompt);
        assert_true(json_equal(hth_test_at(whole, "__verbose.timings"), hth_test_at(whole, "timings")));
    }
}

/* The first token belongs to the prefill. */
TEST(tokens_a_second_are_the_inverse_of_the_time_a_token_takes)
{
    json_t *one = hth_api_timings(&(hearth_stats){ .completion_tokens = 1, .decode_ms = 4 });
    json_t *some = hth_api_timings(&(hearth_stats){ .completion_tokens = 5, .decode_ms = 10, .decode_tps = 400 });
    json_t *none = hth_api_timings(&(hearth_stats){ .completion_tokens = 1 });

    assert_true(json_real_value(hth_test_at(one, "predicted_per_token_ms")) == 0);
    assert_true(json_real_value(hth_test_at(one, "predicted_per_second")) == 0);
    assert_true(json_real_value(hth_test_at(some, "predicted_per_token_ms")) == 2.5);
    assert_true(json_real_value(hth_test_at(some, "predicted_per_second")) == 400);
    assert_true(json_real_value(hth_test_at(none, "predicted_per_second")) == 0);
    json_decref(one);
    json_decref(some);
    json_decref(none);
}

STUB_TEST(values_that_llama_cpp_gives_a_meaning_have_it)
{
    static const char body[] = "{\"prompt\":\"\",\"n_predict\":1,\"repeat_last_n\":-1,\"dry_penalty_last_n\":-1,"
                               "\"stop\":[\"\",\"x\",\"\"]}";
    hth_api_error error;
    hth_api_prepared prepared;
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_api_request *r = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, body, strlen(body), NULL, &error);

    assert_non_null(r);
    assert_true(hth_api_prepare(f->model, r, 1, NULL, &prepared, &error));
    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    assert_int_equal(prepared.samplings[0].repeat_last_n, info.n_ctx);
    assert_int_equal(prepared.samplings[0].dry_last_n, info.n_ctx);
    assert_int_equal(prepared.requests[0].n_stop, 1);
    assert_string_equal(prepared.requests[0].stop[0], "x");
    assert_int_equal(prepared.requests[0].n_tokens, 1); /* the one that begins every text */
    hth_api_prepared_deinit(&prepared);
    hth_api_request_free(r);

    r = hth_api_request_parse(HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"json_schema\":{}}", 31, NULL, &error);
    assert_non_null(r);
    assert_string_equal(r->sampling.json_schema, "{}");
    hth_api_request_free(r);
}

STUB_TEST(a_reply_has_the_key_to_go_on_from)
{
    char text[512];
    hth_test_answer answer = hth_test_api_run(
        f->model, HTH_API_NATIVE_COMPLETION,
        "{\"prompt\":[65,66,67],\"n_predict\":1,\"return_tokens\":true,\"ignore_eos\":true,\"temperature\":0}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));
    const char *key = hth_test_text_at(body, "finish_key");

    assert_int_equal(strlen(key), 64);
    assert_int_equal(json_integer_value(hth_test_at(body, "tokens_cached")), 3);
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), "{\"prompt\":[65,66,%d,68],\"n_predict\":1,\"parent_key\":\"%s\"}", i ? 1 : 67,
                 key);
        answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
        (void)hth_test_json(hth_buffer_text(&answer.text));
        assert_int_equal(answer.status, i ? 404 : 200);
    }
}

STUB_TEST(the_first_digits_of_a_key_to_go_on_from_are_enough_where_they_name_one_beginning)
{
    char text[1024], prompt[512] = "65";
    hth_test_answer answer;
    json_t *body;

    for (unsigned i = 0; i < 16; i++) /* of 17 beginnings, two or more have the same first digit */
        strcat(prompt, ",66");
    (void)snprintf(text, sizeof(text), "{\"prompt\":[%s],\"n_predict\":1,\"ignore_eos\":true}", prompt);
    answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
    (void)snprintf(text, sizeof(text), "{\"prompt\":[%s,67],\"n_predict\":1,\"parent_key\":\"%.20s\"}", prompt,
                   hth_test_text_at(hth_test_json(hth_buffer_text(&answer.text)), "finish_key"));
    answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
    (void)hth_test_json(hth_buffer_text(&answer.text));
    assert_int_equal(answer.status, 200);
    for (unsigned digit = 0, n = 0; n == 0; digit++) {
        assert_in_range(digit, 0, 15);
        (void)snprintf(text, sizeof(text), "{\"prompt\":[%s],\"parent_key\":\"%x\"}", prompt, digit);
        answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION, text);
        body = hth_test_json(hth_buffer_text(&answer.text));
        n = answer.status == 400;
        if (n)
            assert_non_null(strstr(hth_test_text_at(body, "error.message"), "several beginnings of this prompt"));
    }
}

STUB_TEST(a_prompt_that_does_not_fit_is_told_in_numbers)
{
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
    assert_non_null(
        strstr(hth_test_text_at(body, "error.message"), "shorten it: the model was trained with 4096 tokens"));
    assert_int_equal(json_integer_value(hth_test_at(body, "error.n_ctx")), info.n_ctx);
    free(text);
}

STUB_TEST(a_stop_text_is_named)
{
    hth_test_answer answer = hth_test_api_run(
        f->model, HTH_API_NATIVE_COMPLETION,
        "{\"prompt\":\"abc\",\"seed\":1,\"ignore_eos\":true,\"n_predict\":2000,\"stop\":[\"zzzzzz\",\"e\"]}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_string_equal(hth_test_text_at(body, "stop_type"), "word");
    assert_string_equal(hth_test_text_at(body, "stopping_word"), "e");
    assert_null(strchr(hth_test_text_at(body, "content"), 'e'));
}

STUB_TEST(a_stop_text_of_nobody_elses_is_named)
{
    static const char *const types[] = { "eos", "word", "word", "eos" }, *const words[] = { "", "zz", "text", "" };

    for (uint32_t number = 0; number < 4; number++) {
        hth_test_answer answer = hth_test_api_stopped(f->model, HTH_API_NATIVE_COMPLETION,
                                                      "{\"prompt\":\"abc\",\"stop\":[\"zz\",\"text\"]}", number);
        json_t *body = hth_test_json(hth_buffer_text(&answer.text));

        assert_string_equal(hth_test_text_at(body, "stop_type"), types[number]);
        assert_string_equal(hth_test_text_at(body, "stopping_word"), words[number]);
    }
}

/* The string at a path of each event, joined. */
static json_t *joined(json_t *events, const char *path)
{
    hth_buffer said = { .text = NULL };
    json_t *event, *text;
    size_t i;

    json_array_foreach(events, i, event)
    {
        const json_t *piece = hth_test_at(event, path);

        hth_buffer_add(&said, json_string_length(piece) > 0 ? json_string_value(piece) : "", json_string_length(piece));
    }
    text = json_stringn(hth_buffer_text(&said), said.n);
    hth_buffer_deinit(&said);
    return text;
}

STUB_TEST(a_nul_byte_in_a_reply_ends_nothing)
{
    static const struct {
        hth_api_kind kind;
        const char *body, *at, *delta_at, *wanted;
        size_t n_wanted;
    } rows[] = {
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"x\",\"grammar\":\"root ::= \\\"ab\\\" [\\\\x00] \\\"cd\\\"\"%s}",
          "content", "content", "ab\0cd", 5 },
        { HTH_API_NATIVE_COMPLETION,
          "{\"prompt\":\"x\",\"grammar\":\"root ::= \\\"ab\\\" [\\\\x00] \\\"cd\\\"\",\"stop\":[\"cd\"]%s}", "content",
          "content", "ab\0", 3 },
        { HTH_API_COMPLETION,
          "{\"prompt\":[120,0,121],\"echo\":true,\"logit_bias\":{\"0\":100},\"temperature\":0,\"max_tokens\":2%s}",
          "choices.0.text", "choices.0.text", "x\0y\0\0", 5 },
        { HTH_API_CHAT,
          "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"logit_bias\":{\"0\":100},\"temperature\":0,\"max_"
          "tokens\":3%s"
          "}",
          "choices.0.message.content", "choices.0.delta.content", "\0\0\0", 3 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *wanted = json_stringn(rows[i].wanted, rows[i].n_wanted), *body, *events, *said;
        hth_test_answer whole, stream;
        char text[512];

        snprintf(text, sizeof(text), rows[i].body, "");
        whole = hth_test_api_run(f->model, rows[i].kind, text);
        snprintf(text, sizeof(text), rows[i].body, ",\"stream\":true");
        stream = hth_test_api_run(f->model, rows[i].kind, text);
        body = hth_test_json(hth_buffer_text(&whole.text));
        events = hth_test_events(hth_buffer_text(&stream.text));
        said = joined(events, rows[i].delta_at);
        if (!json_equal(hth_test_at(body, rows[i].at), wanted) || !json_equal(said, wanted))
            fail_msg("row %zu: %s and %s", i, hth_buffer_text(&whole.text), hth_buffer_text(&stream.text));
        if (strstr(text, "stop\""))
            assert_string_equal(hth_test_text_at(body, "stopping_word"), "cd");
        json_decref(wanted);
        json_decref(said);
    }
}

STUB_TEST(several_prompts_are_answered_in_their_order)
{
    hth_test_answer answer = hth_test_api_run(f->model, HTH_API_NATIVE_COMPLETION,
                                              "{\"prompt\":[\"one\",\"two\",[116,104]],\"n_predict\":3,\"seed\":1}");
    json_t *body = hth_test_json(hth_buffer_text(&answer.text));

    assert_int_equal(json_array_size(body), 3);
    assert_string_equal(hth_test_text_at(body, "0.prompt"), "one");
    assert_string_equal(hth_test_text_at(body, "1.prompt"), "two");
    assert_int_equal(json_integer_value(hth_test_at(body, "2.tokens_evaluated")), 2);
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

STUB_TEST(texts_become_tokens_and_tokens_texts)
{
    json_t *got = ask(f, HTH_API_TOKENIZE, "{\"content\":\"ab\"}"), *wanted = hth_test_json("{\"tokens\":[97,98]}");

    assert_true(json_equal(got, wanted));
    got = ask(f, HTH_API_TOKENIZE, "{\"content\":\"a\xc3\xa9\",\"add_special\":true,\"with_pieces\":true}");
    assert_int_equal(json_array_size(hth_test_at(got, "tokens")), 4);
    assert_string_equal(hth_test_text_at(got, "tokens.1.piece"), "a");
    assert_int_equal(json_integer_value(hth_test_at(got, "tokens.2.piece.0")), 0xc3);
    got = ask(f, HTH_API_DETOKENIZE, "{\"tokens\":[97,195,169]}");
    assert_string_equal(hth_test_text_at(got, "content"), "a\xc3\xa9");
    got = ask(f, HTH_API_DETOKENIZE, "{\"tokens\":[]}");
    assert_string_equal(hth_test_text_at(got, "content"), "");
    got = ask(f, HTH_API_APPLY_TEMPLATE, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"whatever\":1}");
    assert_string_equal(hth_test_text_at(got, "prompt"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    got = ask(f, HTH_API_APPLY_TEMPLATE,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":false}");
    assert_string_equal(hth_test_text_at(got, "prompt"), "<|im_start|>user\nHi<|im_end|>\n");
    got = ask(f, HTH_API_APPLY_TEMPLATE,
              "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"add_generation_prompt\":true}");
    assert_string_equal(hth_test_text_at(got, "prompt"), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

STUB_TEST(a_template_renders_what_is_longer_than_the_context)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    hth_buffer body = { .text = NULL };
    json_t *got;

    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    hth_buffer_add_text(&body, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
    for (uint32_t i = 0; i < 2 * info.n_ctx; i++)
        hth_buffer_add_text(&body, "a");
    hth_buffer_add_text(&body, "\"}]}");
    got = ask(f, HTH_API_APPLY_TEMPLATE, hth_buffer_text(&body));
    assert_true(strlen(hth_test_text_at(got, "prompt")) > 2 * (size_t)info.n_ctx);
    hth_buffer_deinit(&body);
}

/* Ask for the tokens of n letters; the status, or 0 with the body in out. */
static int tokenize_letters(const hth_test_stub *f, size_t n, const atomic_bool *is_gone, hth_buffer *out)
{
    hth_buffer body = { .text = NULL };
    hth_api_error error;
    hth_api_request *request;
    int status = 0;

    hth_buffer_add_text(&body, "{\"with_pieces\":true,\"content\":\"");
    for (size_t i = 0; i < n; i++)
        hth_buffer_add(&body, "a", 1);
    hth_buffer_add_text(&body, "\"}");
    request = hth_api_request_parse(HTH_API_TOKENIZE, body.text, body.n, NULL, &error);
    assert_non_null(request);
    request->is_gone = is_gone;
    if (!hth_api_answer(f->model, request, out, &error))
        status = hth_api_error_http_status(HTH_API_NATIVE, &error);
    hth_api_request_free(request);
    hth_buffer_deinit(&body);
    return status;
}

STUB_TEST(tokens_of_a_text_are_answered_up_to_a_million)
{
    static const char first[] = "{\"tokens\":[{\"id\":97,\"piece\":\"a\"},";
    hth_buffer out = { .text = NULL };

    assert_int_equal(tokenize_letters(f, 1000000, NULL, &out), 0);
    assert_memory_equal(out.text, first, strlen(first));
    assert_int_equal(out.n, strlen("{\"tokens\":[]}") + 1000000 * strlen("{\"id\":97,\"piece\":\"a\"},") - 1);
    hth_buffer_clear(&out);
    assert_int_equal(tokenize_letters(f, 1000001, NULL, &out), 400);
    assert_int_equal(out.n, 0);
    hth_buffer_deinit(&out);
}

STUB_TEST(tokens_that_nobody_waits_for_are_not_written)
{
    hth_buffer out = { .text = NULL };
    atomic_bool is_gone;

    atomic_init(&is_gone, true);
    assert_int_equal(tokenize_letters(f, 100000, &is_gone, &out), 503);
    assert_true(out.n < 100);
    hth_buffer_deinit(&out);
}

STUB_TEST(a_model_is_described_by_models_props_slots_and_health)
{
    hearth_model_info info = { .struct_size = sizeof(info) };
    static const char *const aliases[] = { "gpt-4o", "claude-*" }, *const tags[] = { "fast" };
    hth_api_listed_model listed[] = {
        { .name = "a", .created_s = 5, .info = &info, .aliases = aliases, .n_aliases = 2, .tags = tags, .n_tags = 1 },
        { .name = "b" },
    };
    hth_buffer out = { .text = NULL };
    json_t *got;
    hth_api_slot *slots;

    assert_int_equal(hearth_model_info_get(f->model, &info, NULL), HEARTH_OK);
    info.vocabulary_type = HEARTH_VOCABULARY_BPE;
    hth_api_models_write(listed, 2, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(got, "object"), "list");
    assert_string_equal(hth_test_text_at(got, "data.1.id"), "b");
    assert_int_equal(json_integer_value(hth_test_at(got, "data.0.meta.n_ctx")), info.n_ctx);
    assert_int_equal(json_integer_value(hth_test_at(got, "data.0.context_length")), info.n_ctx);
    assert_string_equal(hth_test_text_at(got, "data.0.kind"), "chat");
    assert_string_equal(hth_test_text_at(got, "data.0.aliases.1"), "claude-*");
    assert_string_equal(hth_test_text_at(got, "data.0.tags.0"), "fast");
    assert_null(hth_test_at(got, "data.0.root"));
    assert_int_equal(json_array_size(hth_test_at(got, "data.1.aliases")), 0);
    assert_null(hth_test_at(got, "data.1.kind")); /* it is not known before it is loaded */
    assert_int_equal(json_integer_value(hth_test_at(got, "data.0.meta.vocab_type")), info.vocabulary_type);
    assert_int_equal(json_integer_value(hth_test_at(got, "data.0.meta.n_embd")), info.n_embedding);
    assert_string_equal(hth_test_text_at(got, "models.0.name"), "a");
    assert_string_equal(hth_test_text_at(got, "models.0.model"), "a");
    assert_string_equal(hth_test_text_at(got, "models.0.capabilities.0"), "completion");
    assert_string_equal(hth_test_text_at(got, "models.0.details.format"), "gguf");
    assert_string_equal(hth_test_text_at(got, "models.1.details.family"), "");
    hth_buffer_clear(&out);
    listed[0].shown = "gpt-4o";
    (void)strcpy(info.quant_type, "q4_k_m");
    hth_api_models_write(listed, 2, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(got, "data.0.id"), "gpt-4o");
    assert_null(hth_test_at(got, "data.0.root"));
    assert_string_equal(hth_test_text_at(got, "data.0.meta.ftype"), "Q4_K_M");
    assert_string_equal(hth_test_text_at(got, "models.0.name"), "gpt-4o");
    listed[0].shown = NULL;
    hth_buffer_clear(&out);
    listed[0].asked = "gpt-4o";
    (void)strcpy(info.chat_template_kind, "none");
    hth_api_model_write(&listed[0], &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(got, "id"), "gpt-4o");
    assert_string_equal(hth_test_text_at(got, "root"), "a");
    assert_string_equal(hth_test_text_at(got, "kind"), "completion");
    hth_buffer_clear(&out);
    hth_api_props_write(f->model, &info, "alias", "/home/me/models/tiny-Q4.gguf", NULL, &out);
    got = hth_test_json(hth_buffer_text(&out));
    assert_string_equal(hth_test_text_at(got, "model_path"), "tiny-Q4.gguf");
    assert_string_equal(hth_test_text_at(got, "model_alias"), "alias");
    assert_null(strstr(hth_buffer_text(&out), "/home"));
    assert_int_equal(json_integer_value(hth_test_at(got, "total_slots")), info.n_parallel);
    assert_string_equal(hth_test_text_at(got, "model_ftype"), "Q4_K_M");
    assert_string_equal(hth_test_text_at(got, "chat_template"), "a stub's, in C\xEF\xBF\xBD");
    assert_true(json_is_true(hth_test_at(got, "chat_template_caps.supports_tools")));
    assert_true(json_is_string(hth_test_at(got, "bos_token")) && json_is_string(hth_test_at(got, "eos_token")));
    assert_true(json_is_false(hth_test_at(got, "modalities.vision")));
    assert_int_equal(json_integer_value(hth_test_at(got, "default_generation_settings.params.top_k")), 40);
    assert_int_equal(json_integer_value(hth_test_at(got, "default_generation_settings.params.dry_penalty_last_n")), 64);
    hth_buffer_clear(&out);
    hth_api_props_write(f->model, &info, info.name, "tiny.gguf", NULL, &out);
    assert_non_null(strstr(hth_buffer_text(&out), "\"tiny.gguf\""));
    hth_buffer_clear(&out);
    slots = calloc(info.n_parallel, sizeof(*slots));
    hth_api_slots_write(&info, slots, true, &out);
    free(slots);
    got = hth_test_json(hth_buffer_text(&out));
    assert_int_equal(json_array_size(got), info.n_parallel);
    assert_true(json_is_true(hth_test_at(got, "0.speculative")));
    hth_buffer_clear(&out);
    assert_int_equal(hth_api_health_write(NULL, &out), 200);
    assert_string_equal(hth_buffer_text(&out), "{\"status\":\"ok\"}");
    hth_buffer_clear(&out);
    assert_int_equal(hth_api_health_write("loading", &out), 503);
    hth_buffer_deinit(&out);
}
