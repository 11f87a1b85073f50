/*
 * api_defaults_test.c - what a request means where its client says nothing
 */
#include <math.h>
#include <string.h>

#include "dialects/request_parse.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

static hth_api_request *parsed(hth_api_kind kind, const char *body, const hth_api_defaults *defaults)
{
    return hth_test_parsed_with(kind, body, NULL, defaults);
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

/* A request that says nothing of sampling, in each API that generates. */
static const struct {
    hth_api_kind kind;
    const char *body; /* to be gone on with */
    const char *length;
    bool has_seed; /* a field of the API */
} apis[] = {
    { HTH_API_CHAT, "{" HI, "max_completion_tokens", true },
    { HTH_API_COMPLETION, "{\"prompt\":\"a\"", "max_tokens", true },
    { HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":7," HI, "max_tokens", false },
    { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\"", "n_predict", true },
};

enum { N_APIS = sizeof(apis) / sizeof(apis[0]) };

static hth_api_request *of_api(size_t i, const char *more, const hth_api_defaults *defaults)
{
    char body[1024];

    (void)snprintf(body, sizeof(body), "%s%s}", apis[i].body, more);
    return parsed(apis[i].kind, body, defaults);
}

TEST(one_set_holds_for_all_apis)
{
    const hearth_sampling usual = hearth_sampling_default();

    for (size_t i = 0; i < N_APIS; i++) {
        hth_api_request *r = of_api(i, "", NULL);
        const hearth_sampling *s = &r->sampling;

        assert_true(s->temperature == usual.temperature && s->top_p == usual.top_p && s->min_p == usual.min_p);
        assert_int_equal(s->top_k, usual.top_k);
        assert_true(s->repeat_penalty == usual.repeat_penalty);
        assert_int_equal(r->options.n_predict, apis[i].kind == HTH_API_MESSAGES ? 7 : -1);
        assert_true(r->sampling.seed == HEARTH_SEED_RANDOM);
    }
}

static hth_api_defaults some_defaults(void)
{
    hth_api_defaults d = hth_api_defaults_none();

    d.sampling.temperature = 0.5;
    d.sampling.top_k = 3;
    d.sampling.top_p = 0.25;
    d.sampling.min_p = 0.125;
    d.sampling.typical_p = 0.75;
    d.sampling.repeat_penalty = 1.5;
    d.sampling.repeat_last_n = -1;
    d.sampling.frequency_penalty = -1;
    d.sampling.presence_penalty = 2;
    d.sampling.dry_multiplier = 0.5;
    d.sampling.dry_base = 2;
    d.sampling.dry_allowed_length = 4;
    d.sampling.dry_last_n = 99;
    d.sampling.xtc_probability = 0.5;
    d.sampling.xtc_threshold = 0.25;
    d.sampling.top_n_sigma = 2;
    d.sampling.mirostat = 1;
    d.has_samplers = true;
    d.samplers[0] = HEARTH_SAMPLER_MIN_P;
    d.n_samplers = 1;
    d.n_predict = 11;
    d.seed = 9007199254740991.0;
    d.stop[0] = "END";
    d.n_stop = 1;
    d.priority = -5;
    return d;
}

TEST(defaults_stand_in_for_what_is_not_said)
{
    const hth_api_defaults d = some_defaults();

    for (size_t i = 0; i < N_APIS; i++) {
        hth_api_request *r = of_api(i, "", &d);
        const hearth_sampling *s = &r->sampling;

        assert_true(s->temperature == 0.5f && s->top_p == 0.25f && s->min_p == 0.125f && s->typical_p == 0.75f);
        assert_int_equal(s->top_k, 3);
        assert_true(s->repeat_penalty == 1.5f && s->frequency_penalty == -1 && s->presence_penalty == 2);
        assert_int_equal(s->repeat_last_n, HTH_WHOLE_CONTEXT);
        assert_true(s->dry_multiplier == 0.5f && s->dry_base == 2);
        assert_int_equal(s->dry_allowed_length, 4);
        assert_int_equal(s->dry_last_n, 99);
        assert_true(s->xtc_probability == 0.5f && s->xtc_threshold == 0.25f);
        assert_true(s->top_n_sigma == 2 && s->mirostat == 1);
        assert_true(s->n_samplers == 1 && s->samplers[0] == HEARTH_SAMPLER_MIN_P);
        assert_int_equal(r->options.n_predict, apis[i].kind == HTH_API_MESSAGES ? 7 : 11);
        assert_true(s->seed == UINT64_C(9007199254740991));
        assert_int_equal(r->options.n_stop, 1);
        assert_string_equal(r->options.stop[0], "END");
        assert_int_equal(r->options.priority, -5);
    }
}

TEST(options_of_ollama_without_a_length_have_the_default_one)
{
    hth_api_defaults d = hth_api_defaults_none();
    hth_api_request *r;

    d.n_predict = 11;
    r = parsed(HTH_API_OLLAMA_CHAT, "{" HI ",\"options\":{\"top_k\":3}}", &d);
    assert_int_equal(r->options.n_predict, 11);
    r = parsed(HTH_API_OLLAMA_CHAT, "{" HI ",\"options\":{\"num_predict\":-1}}", &d);
    assert_int_equal(r->options.n_predict, -1);
}

TEST(what_a_client_says_wins)
{
    const hth_api_defaults d = some_defaults();
    char more[512];

    for (size_t i = 0; i < N_APIS; i++) {
        const bool is_messages = apis[i].kind == HTH_API_MESSAGES;
        hth_api_request *r;

        (void)snprintf(more, sizeof(more), ",\"temperature\":0,\"top_k\":0,\"top_p\":1,\"%s\":[]%s%s%s%s",
                       is_messages ? "stop_sequences" : "stop", is_messages ? "" : ",\"min_p\":0,\"seed\":5,\"",
                       is_messages ? "" : apis[i].length, is_messages ? "" : "\":-1", "");
        r = of_api(i, more, &d);
        assert_true(r->sampling.temperature == 0 && r->sampling.top_p == 1);
        assert_int_equal(of_api(i, ",\"priority\":0", &d)->options.priority, 0);
        assert_int_equal(r->sampling.top_k, 0);
        assert_int_equal(r->options.n_stop, 0);
        if (!is_messages) {
            assert_true(r->sampling.min_p == 0);
            assert_int_equal(r->options.n_predict, -1);
            assert_int_equal(r->sampling.seed, 5);
        }
    }
}

TEST(no_limit_of_length_is_a_limit_of_nothing)
{
    hth_api_defaults d = hth_api_defaults_none();
    hth_api_request *r;

    for (int n = -1; n <= 0; n++) {
        d.n_predict = n;
        r = of_api(0, "", &d);
        assert_int_equal(r->options.n_predict, -1);
        assert_false(r->options.prefill_only);
    }
}

/* ---- conversations ---- */

TEST(a_system_prompt_stands_before_conversations_that_have_none)
{
    hth_api_defaults d = hth_api_defaults_none();
    hth_api_request *r;

    d.system = "Be brief.";
    r = parsed(HTH_API_CHAT, "{" HI "}", &d);
    assert_int_equal(r->conversation.n_turns, 2);
    assert_string_equal(r->conversation.turns[0].role, "system");
    assert_string_equal(r->conversation.turns[0].content, "Be brief.");
    assert_string_equal(r->conversation.turns[1].content, "Hi");
    r = parsed(HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1," HI "}", &d);
    assert_int_equal(r->conversation.n_turns, 2);
    assert_string_equal(r->conversation.turns[0].content, "Be brief.");
    r = parsed(HTH_API_COUNT_TOKENS, "{\"model\":\"m\"," HI "}", &d);
    assert_int_equal(r->conversation.n_turns, 2);
    r = parsed(HTH_API_APPLY_TEMPLATE, "{" HI "}", &d);
    assert_int_equal(r->conversation.n_turns, 2);

    r = parsed(HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1,\"system\":\"Sing.\"," HI "}", &d);
    assert_int_equal(r->conversation.n_turns, 2);
    assert_string_not_equal(r->conversation.turns[0].content ? r->conversation.turns[0].content : "", "Be brief.");
    r = parsed(HTH_API_CHAT,
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"developer\",\"content\":\"b\"}]}", &d);
    assert_int_equal(r->conversation.n_turns, 2);
    r = parsed(HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\"}", &d); /* no conversation */
    assert_int_equal(r->n_prompts, 1);
}

static bool thinks(hth_api_kind kind, const char *more, const hth_api_defaults *d)
{
    char body[512];
    hth_api_request *r;
    bool result;

    (void)snprintf(body, sizeof(body), "{%s" HI "%s}",
                   kind == HTH_API_MESSAGES ? "\"model\":\"m\",\"max_tokens\":2000," : "", more);
    r = parsed(kind, body, d);
    result = !r->conversation.no_thinking;
    return result;
}

TEST(reasoning_is_on_or_off_unless_the_client_says_it)
{
    static const char enabled[] = ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":1024}";
    hth_api_defaults d = hth_api_defaults_none();

    assert_true(thinks(HTH_API_CHAT, "", &d));
    assert_false(thinks(HTH_API_MESSAGES, "", &d));
    d.reasoning = HTH_API_REASONING_ON;
    assert_true(thinks(HTH_API_CHAT, "", &d));
    assert_true(thinks(HTH_API_MESSAGES, "", &d));
    assert_false(thinks(HTH_API_CHAT, ",\"reasoning_effort\":\"none\"", &d));
    assert_false(thinks(HTH_API_MESSAGES, ",\"thinking\":{\"type\":\"disabled\"}", &d));
    d.reasoning = HTH_API_REASONING_OFF;
    assert_false(thinks(HTH_API_CHAT, "", &d));
    assert_false(thinks(HTH_API_MESSAGES, "", &d));
    assert_true(thinks(HTH_API_CHAT, ",\"reasoning_effort\":\"high\"", &d));
    assert_true(thinks(HTH_API_CHAT, ",\"chat_template_kwargs\":{\"enable_thinking\":true}", &d));
    assert_true(thinks(HTH_API_MESSAGES, enabled, &d));
    /* The template's own word for it means the same. */
    d.reasoning = HTH_API_REASONING_AUTO;
    d.template_values = "{\"enable_thinking\":false}";
    assert_false(thinks(HTH_API_CHAT, "", &d));
    assert_true(thinks(HTH_API_CHAT, ",\"think\":true", &d));
}

TEST(a_client_s_variables_go_over_those_of_the_defaults)
{
    hth_api_defaults d = hth_api_defaults_none();
    hth_api_request *r;
    json_t *values;

    d.template_values = "{\"a\":1,\"b\":2,\"enable_thinking\":false}";
    r = parsed(HTH_API_CHAT, "{" HI ",\"chat_template_kwargs\":{\"b\":3,\"c\":4}}", &d);
    values = json_loads(r->conversation.template_values, 0, NULL);
    assert_int_equal(json_object_size(values), 3);
    assert_int_equal(json_integer_value(json_object_get(values, "a")), 1);
    assert_int_equal(json_integer_value(json_object_get(values, "b")), 3);
    assert_int_equal(json_integer_value(json_object_get(values, "c")), 4);
    json_decref(values);
    r = parsed(HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1," HI "}", &d);
    assert_string_equal(r->conversation.template_values, "{\"a\":1,\"b\":2}");
    d.template_values = "{\"enable_thinking\":false}";
    r = parsed(HTH_API_CHAT, "{" HI "}", &d);
    assert_null(r->conversation.template_values);
}

TEST(variables_that_are_the_server_s_are_no_defaults)
{
    hearth_error err;

    assert_true(hth_api_template_values_check("{\"a\":[1]}", &err));
    assert_false(hth_api_template_values_check("{\"messages\":[]}", &err));
    assert_non_null(strstr(err.message, "'messages'"));
    assert_false(hth_api_template_values_check("[1]", &err));
    assert_false(hth_api_template_values_check("{", &err));
    assert_false(hth_api_template_values_check("", &err));
}

/* ---- where they come from ---- */

TEST(what_is_said_first_counts)
{
    hth_api_defaults to = hth_api_defaults_none(), more = some_defaults(), none = hth_api_defaults_none();

    to.sampling.temperature = 0.75;
    to.reasoning = HTH_API_REASONING_OFF;
    more.reasoning = HTH_API_REASONING_ON;
    more.system = "s";
    hth_api_defaults_add(&to, &more);
    assert_true(to.sampling.temperature == 0.75 && to.sampling.top_k == 3 && to.seed == more.seed &&
                to.n_predict == 11);
    assert_int_equal(to.reasoning, HTH_API_REASONING_OFF);
    assert_string_equal(to.system, "s");
    assert_int_equal(to.n_stop, 1);
    hth_api_defaults_add(&to, &none);
    assert_true(to.sampling.temperature == 0.75 && to.sampling.top_k == 3);
}

TEST(a_model_s_numbers_are_taken_if_they_may_be)
{
    const hth_sampling_advice good = { 0.6f, 20, 0.95f, NAN, 1.05f, -1, NAN, NAN };
    const hth_sampling_advice bad = { -1, 1.5f, 2, INFINITY, 0, 1e9f, -0.5f, -INFINITY };
    hth_api_defaults d = hth_api_defaults_of_model(&good);

    assert_true((float)d.sampling.temperature == 0.6f && d.sampling.top_k == 20 && d.sampling.repeat_last_n == -1 &&
                isnan(d.sampling.min_p));
    assert_true(isnan(d.sampling.typical_p) && isnan(d.seed) && isnan(d.n_predict));
    d = hth_api_defaults_of_model(&bad);
    assert_true(isnan(d.sampling.temperature) && isnan(d.sampling.top_k) && isnan(d.sampling.top_p) &&
                isnan(d.sampling.min_p));
    assert_true(isnan(d.sampling.repeat_penalty) && isnan(d.sampling.repeat_last_n) &&
                isnan(d.sampling.xtc_probability) && isnan(d.sampling.xtc_threshold));
}

static hth_api_defaults of_config(const char *text)
{
    return hth_api_defaults_of_config(text, strlen(text));
}

TEST(a_generation_config_says_what_it_can)
{
    hth_api_defaults d = of_config("{\"do_sample\":true,\"eos_token_id\":[1,2],\"temperature\":0.7,\"top_p\":0.8,"
                                   "\"top_k\":-1,\"repetition_penalty\":1.05,\"transformers_version\":\"4.37.0\"}");
    static const char *const nothing[] = {
        "", "[]", "{", "null", "{\"temperature\":\"hot\",\"top_k\":1.5,\"top_p\":7}", "{\"temperature\":null}", "\xff"
    };

    assert_true(d.sampling.temperature == 0.7 && d.sampling.top_p == 0.8 && d.sampling.top_k == 0 &&
                d.sampling.repeat_penalty == 1.05);
    assert_true(isnan(d.sampling.min_p) && isnan(d.sampling.repeat_last_n));
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
        d = of_config(nothing[i]);
        assert_true(isnan(d.sampling.temperature) && isnan(d.sampling.top_k) && isnan(d.sampling.top_p));
    }
}
