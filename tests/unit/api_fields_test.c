/*
 * api_fields_test.c - every field of docs/api.md takes what it says, up to its bounds, and refuses everything else by
 * name
 *
 * A table has a row a field: its kind and its bounds. Values are made from that: those it must take, at the edges too,
 * and those it must not, of every other type and just beyond the edges.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialects/request_parse.h"
#include "support/api_run.h"
#include "support/cmocka_all.h"

typedef enum field_kind {
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT, /* low to high bytes */
    OBJECT,
    ARRAY,
    ANYTHING,    /* accepted, without effect */
    UNSUPPORTED, /* whatever it is */
    UNKNOWN,     /* likewise */
} field_kind;

typedef struct field {
    const char *name;
    field_kind kind;
    double low, high;
    const char *with; /* further members that it needs */
} field;

typedef struct endpoint {
    hth_api_kind kind;
    const char *members; /* that every request needs */
    const field *fields;
    size_t n_fields;
} endpoint;

#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"
#define HIGH 2147483647.0

/* clang-format off */
static const field chat_fields[] = {
    { "model", TEXT, 0, 256, NULL },
    { "stream", BOOLEAN, 0, 0, NULL },
    { "stream_options", OBJECT, 0, 0, "\"stream\":true" },
    { "max_completion_tokens", INTEGER, -2, HIGH, NULL },
    { "max_tokens", INTEGER, -2, HIGH, NULL },
    { "temperature", NUMBER, -1e9, 2, NULL },
    { "top_p", NUMBER, 0, 1, NULL },
    { "frequency_penalty", NUMBER, -2, 2, NULL },
    { "presence_penalty", NUMBER, -2, 2, NULL },
    { "top_k", INTEGER, -1, HIGH, NULL },
    { "min_p", NUMBER, 0, 1, NULL },
    { "repeat_penalty", NUMBER, 0.01, 1000, NULL },
    { "logprobs", BOOLEAN, 0, 0, NULL },
    { "top_logprobs", INTEGER, 0, 20, "\"logprobs\":true" },
    { "n", INTEGER, 1, 128, NULL },
    { "tools", ARRAY, 0, 0, NULL },
    { "parallel_tool_calls", BOOLEAN, 0, 0, NULL },
    { "chat_template_kwargs", OBJECT, 0, 0, NULL },
    { "modalities", ARRAY, 0, 0, NULL },
    { "session_id", TEXT, 1, 128, NULL },
    { "priority", INTEGER, -100, 100, NULL },
    { "cache_salt", TEXT, 0, 256, NULL },
    { "user", ANYTHING, 0, 0, NULL },
    { "store", ANYTHING, 0, 0, NULL },
    { "metadata", ANYTHING, 0, 0, NULL },
    { "service_tier", ANYTHING, 0, 0, NULL },
    { "safety_identifier", ANYTHING, 0, 0, NULL },
    { "prompt_cache_key", ANYTHING, 0, 0, NULL },
    { "prompt_cache_retention", ANYTHING, 0, 0, NULL },
    { "verbosity", ANYTHING, 0, 0, NULL },
    { "prompt_cache_options", ANYTHING, 0, 0, NULL },
    { "moderation", ANYTHING, 0, 0, NULL },
    { "audio", UNKNOWN, 0, 0, NULL },
    { "web_search_options", UNKNOWN, 0, 0, NULL },
    { "functions", ARRAY, 0, 0, NULL },
    { "add_generation_prompt", BOOLEAN, 0, 0, NULL },
    { "typical_p", NUMBER, 0, 1, NULL },
    { "cache_prompt", BOOLEAN, 0, 0, NULL },
    { "n_predict", INTEGER, -2, HIGH, NULL },
    { "prompt", UNKNOWN, 0, 0, NULL },
    { "Temperature", UNKNOWN, 0, 0, NULL },
    { "", UNKNOWN, 0, 0, NULL },
};

static const field completion_fields[] = {
    { "model", TEXT, 0, 256, NULL },
    { "stream", BOOLEAN, 0, 0, NULL },
    { "stream_options", OBJECT, 0, 0, "\"stream\":true" },
    { "max_tokens", INTEGER, -2, HIGH, NULL },
    { "max_tokens", INTEGER, -2, HIGH, "\"echo\":true" },
    { "temperature", NUMBER, -1e9, 2, NULL },
    { "top_p", NUMBER, 0, 1, NULL },
    { "frequency_penalty", NUMBER, -2, 2, NULL },
    { "presence_penalty", NUMBER, -2, 2, NULL },
    { "top_k", INTEGER, -1, HIGH, NULL },
    { "min_p", NUMBER, 0, 1, NULL },
    { "repeat_penalty", NUMBER, 0.01, 1000, NULL },
    { "logprobs", INTEGER, 0, 5, NULL },
    { "n", INTEGER, 1, 128, NULL },
    { "echo", BOOLEAN, 0, 0, NULL },
    { "session_id", TEXT, 1, 128, NULL },
    { "priority", INTEGER, -100, 100, NULL },
    { "cache_salt", TEXT, 0, 256, NULL },
    { "user", ANYTHING, 0, 0, NULL },
    { "messages", UNKNOWN, 0, 0, NULL },
    { "max_completion_tokens", UNKNOWN, 0, 0, NULL },
    { "tools", UNKNOWN, 0, 0, NULL },
};

static const field message_fields[] = {
    { "stream", BOOLEAN, 0, 0, NULL },
    { "temperature", NUMBER, -1e9, 2, NULL },
    { "top_p", NUMBER, 0, 1, NULL },
    { "top_k", INTEGER, -1, HIGH, NULL },
    { "tools", ARRAY, 0, 0, NULL },
    { "stop_sequences", ARRAY, 0, 0, NULL },
    { "session_id", TEXT, 1, 128, NULL },
    { "priority", INTEGER, -100, 100, NULL },
    { "cache_salt", TEXT, 0, 256, NULL },
    { "metadata", ANYTHING, 0, 0, NULL },
    { "service_tier", ANYTHING, 0, 0, NULL },
    { "inference_geo", ANYTHING, 0, 0, NULL },
    { "speed", ANYTHING, 0, 0, NULL },
    { "diagnostics", ANYTHING, 0, 0, NULL },
    { "user_profile_id", ANYTHING, 0, 0, NULL },
    { "workspace_id", ANYTHING, 0, 0, NULL },
    { "container", UNKNOWN, 0, 0, NULL },
    { "mcp_servers", UNKNOWN, 0, 0, NULL },
    { "context_management", OBJECT, 0, 0, NULL },
    { "seed", UNKNOWN, 0, 0, NULL },
    { "n", UNKNOWN, 0, 0, NULL },
    { "stop", UNKNOWN, 0, 0, NULL },
};

static const field native_fields[] = {
    { "stream", BOOLEAN, 0, 0, NULL },
    { "n_predict", INTEGER, -2, HIGH, NULL },
    { "max_tokens", INTEGER, -2, HIGH, NULL },
    { "temperature", NUMBER, -1e9, 1000, NULL },
    { "top_k", INTEGER, -1, HIGH, NULL },
    { "top_p", NUMBER, 0, 1, NULL },
    { "min_p", NUMBER, 0, 1, NULL },
    { "typical_p", NUMBER, 0, 1, NULL },
    { "repeat_penalty", NUMBER, 0.01, 1000, NULL },
    { "repeat_last_n", INTEGER, -1, 65536, NULL },
    { "frequency_penalty", NUMBER, -2, 2, NULL },
    { "presence_penalty", NUMBER, -2, 2, NULL },
    { "dry_multiplier", NUMBER, 0, 1000, NULL },
    { "dry_base", NUMBER, 0, 1000, NULL },
    { "dry_allowed_length", INTEGER, 0, 65536, NULL },
    { "dry_penalty_last_n", INTEGER, -1, 65536, NULL },
    { "xtc_probability", NUMBER, 0, 1, NULL },
    { "xtc_threshold", NUMBER, 0, 1, NULL },
    { "seed", INTEGER, -1, HIGH, NULL },
    { "ignore_eos", BOOLEAN, 0, 0, NULL },
    { "min_tokens", INTEGER, 0, HIGH, NULL },
    { "n_probs", INTEGER, 0, 64, NULL },
    { "grammar", TEXT, 0, 256 << 10, NULL },
    { "json_schema", OBJECT, 0, 0, NULL },
    { "grammar_lazy", BOOLEAN, 0, 0, NULL },
    { "grammar_triggers", ARRAY, 0, 0, NULL },
    { "cache_prompt", BOOLEAN, 0, 0, NULL },
    { "return_tokens", BOOLEAN, 0, 0, NULL },
    { "timings_per_token", BOOLEAN, 0, 0, NULL },
    { "verbose", BOOLEAN, 0, 0, NULL },
    { "n", INTEGER, 1, 128, NULL },
    { "t_max_predict_ms", INTEGER, 0, HIGH, NULL },
    { "session_id", TEXT, 1, 128, NULL },
    { "priority", INTEGER, -100, 100, NULL },
    { "id_slot", INTEGER, -1, HIGH, NULL },
    { "top_n_sigma", NUMBER, -1e9, 1000, NULL },
    { "dynatemp_range", NUMBER, -1e9, 1000, NULL },
    { "dynatemp_exponent", NUMBER, 0, 10, NULL },
    { "mirostat", INTEGER, -1, 2, NULL },
    { "mirostat_tau", NUMBER, 0, 100, NULL },
    { "mirostat_eta", NUMBER, 0, 1, NULL },
    { "adaptive_target", NUMBER, -1e9, 1, NULL },
    { "adaptive_decay", NUMBER, 0, 0.99, NULL },
    { "response_fields", ARRAY, 0, 0, NULL },
    { "post_sampling_probs", BOOLEAN, 0, 0, NULL },
    { "n_cache_reuse", INTEGER, 0, HIGH, NULL },
    { "speculative.n_max", INTEGER, -1, HIGH, NULL },
    { "speculative.n_min", INTEGER, -1, HIGH, NULL },
    { "what_nobody_knows", UNKNOWN, 0, 0, NULL },
};

static const field tokenize_fields[] = {
    { "add_special", BOOLEAN, 0, 0, NULL },
    { "parse_special", BOOLEAN, 0, 0, NULL },
    { "with_pieces", BOOLEAN, 0, 0, NULL },
    { "what_nobody_knows", UNKNOWN, 0, 0, NULL },
};

static const endpoint endpoints[] = {
    { HTH_API_CHAT, MESSAGES, chat_fields, sizeof(chat_fields) / sizeof(field) },
    { HTH_API_COMPLETION, "\"prompt\":\"Hi\"", completion_fields, sizeof(completion_fields) / sizeof(field) },
    { HTH_API_MESSAGES, "\"model\":\"m\",\"max_tokens\":9," MESSAGES, message_fields,
      sizeof(message_fields) / sizeof(field) },
    { HTH_API_NATIVE_COMPLETION, "\"prompt\":\"Hi\"", native_fields, sizeof(native_fields) / sizeof(field) },
    { HTH_API_TOKENIZE, "\"content\":\"Hi\"", tokenize_fields, sizeof(tokenize_fields) / sizeof(field) },
};
/* clang-format on */

/* A value of each type of JSON. */
static const char *const values[] = { "true", "false", "1", "1.5", "\"x\"", "[]", "{}" };

static hth_api_error parse(hth_api_kind kind, const char *body)
{
    hth_api_error error;
    hth_api_limits limits = hth_api_limits_default();
    hth_api_request *request;

    limits.refuses_unknown = true; /* tests/unit/api_notes_test.c has what becomes of these otherwise */
    request = hth_api_request_parse(kind, body, strlen(body), &limits, &error);

    assert_int_equal(request == NULL, error.kind != HTH_API_NO_ERROR);
    hth_api_request_free(request);
    return error;
}

/* A body with this value of the field; released with free. */
static char *body_with(const endpoint *e, const field *f, const char *value)
{
    char *body = NULL;

    assert_true(asprintf(&body, "{%s%s%s,\"%s\":%s}", e->members, f->with ? "," : "", f->with ? f->with : "", f->name,
                         value) > 0);
    return body;
}

static void assert_taken(const endpoint *e, const field *f, const char *value)
{
    char *body = body_with(e, f, value);
    hth_api_error error = parse(e->kind, body);

    if (error.kind != HTH_API_NO_ERROR)
        fail_msg("%.200s: %s", body, error.message);
    free(body);
}

/* Refused with one of two kinds, and the field named. */
static void assert_refused(const endpoint *e, const field *f, const char *value, hth_api_error_kind kind)
{
    char *body = body_with(e, f, value);
    hth_api_error error = parse(e->kind, body);

    if (error.kind != kind || strcmp(error.param, f->name) != 0 || !strstr(error.message, f->name))
        fail_msg("%.200s: kind %d (not %d), param '%s': %s", body, error.kind, kind, error.param, error.message);
    free(body);
}

/* Of these types it must take none. */
static void refuse_other_types(const endpoint *e, const field *f)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        bool fits = (f->kind == BOOLEAN && i <= 1) || (f->kind == INTEGER && i == 2) ||
                    (f->kind == NUMBER && (i == 2 || i == 3)) || (f->kind == TEXT && i == 4) ||
                    (f->kind == ARRAY && i == 5) || (f->kind == OBJECT && i == 6);

        if (!fits)
            assert_refused(e, f, values[i], HTH_API_INVALID_TYPE);
    }
}

static void check_number(const endpoint *e, const field *f)
{
    double step = f->kind == INTEGER ? 1 : 0.001;
    const bool has_open_end = f->high >= HIGH; /* as many as there is room for */
    const double good[] = { f->low, f->high }, bad[] = { f->low - step, f->high + step, -1e15, 1e15 };
    char text[64];

    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(text, sizeof(text), "%.15g", good[i]);
        assert_taken(e, f, text);
    }
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(text, sizeof(text), "%.15g", bad[i]);
        if (i % 2 == 1 && has_open_end)
            assert_taken(e, f, text);
        else
            assert_refused(e, f, text, HTH_API_INVALID_VALUE);
    }
    if (f->kind == INTEGER) {
        (void)snprintf(text, sizeof(text), "%.1f", f->low); /* what some clients make of an integer */
        assert_taken(e, f, text);
        if (has_open_end)
            assert_taken(e, f, "1e300");
        else
            assert_refused(e, f, "1e300", HTH_API_INVALID_VALUE);
        assert_refused(e, f, "-9223372036854775807", HTH_API_INVALID_VALUE);
    }
}

/* A text of n bytes in quotes; released with free. */
static char *quoted(size_t n)
{
    char *text = malloc(n + 3);

    memset(text, 'x', n + 2);
    text[0] = text[n + 1] = '"';
    text[n + 2] = '\0';
    return text;
}

static void check_text(const endpoint *e, const field *f)
{
    const size_t good[] = { (size_t)f->low, (size_t)f->high }, bad[] = { (size_t)f->low - 1, (size_t)f->high + 1 };

    for (size_t i = 0; i < 2; i++) {
        char *text = quoted(good[i]);

        assert_taken(e, f, text);
        free(text);
        if (i == 0 && f->low == 0)
            continue;
        text = quoted(bad[i]);
        assert_refused(e, f, text, HTH_API_INVALID_VALUE);
        free(text);
    }
}

static void check_whatever(const endpoint *e, const field *f)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        if (f->kind == ANYTHING)
            assert_taken(e, f, values[i]);
        else
            assert_refused(e, f, values[i], f->kind == UNKNOWN ? HTH_API_UNKNOWN_FIELD : HTH_API_UNSUPPORTED);
    }
}

TEST(every_field_takes_what_it_says_and_nothing_else)
{
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]); i++) {
        for (size_t j = 0; j < endpoints[i].n_fields; j++) {
            const endpoint *e = &endpoints[i];
            const field *f = &e->fields[j];

            assert_taken(e, f, "null"); /* as if it were absent */
            if (f->kind < ANYTHING)
                refuse_other_types(e, f);
            switch (f->kind) {
            case BOOLEAN:
                assert_taken(e, f, "true");
                assert_taken(e, f, "false");
                break;
            case INTEGER:
            case NUMBER: check_number(e, f); break;
            case TEXT: check_text(e, f); break;
            case OBJECT: assert_taken(e, f, "{}"); break;
            case ARRAY: assert_taken(e, f, "[]"); break;
            default: check_whatever(e, f);
            }
        }
    }
}

/* ---- what a table of kinds does not say ---- */

TEST(values_are_checked_inside_of_fields_too)
{
    static const struct {
        hth_api_kind kind;
        const char *member, *param;
        hth_api_error_kind error; /* NO_ERROR: it is taken */
    } rows[] = {
        { HTH_API_CHAT, "\"seed\":-9223372036854775808", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"seed\":9223372036854775807", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"seed\":18446744073709551615", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"seed\":\"1\"", "seed", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"stop\":\"x\"", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"stop\":[]", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"stop\":[\"x\",null]", "stop", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"stop\":{\"x\":1}", "stop", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"stop\":true", "stop", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"stop\":[\"\"]", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"logit_bias\":{\"1\":\"2\"}", "logit_bias", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"logit_bias\":{\"1\":-100,\"2\":100}", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"logit_bias\":{\"-1\":1}", "logit_bias", HTH_API_INVALID_VALUE },
        { HTH_API_CHAT, "\"logit_bias\":{\"1e3\":1,\" river\":false}", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"logit_bias\":{\"12345678901234567890\":1}", "logit_bias", HTH_API_INVALID_VALUE },
        { HTH_API_CHAT, "\"stream\":true,\"stream_options\":{\"include_usage\":1}", "stream_options.include_usage",
          HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"stream\":true,\"stream_options\":{\"x\":1}", "stream_options.x", HTH_API_UNKNOWN_FIELD },
        { HTH_API_CHAT, "\"reasoning_effort\":\"none\"", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"reasoning_effort\":\"max\"", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"reasoning_effort\":\"xhigh\"", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"reasoning_effort\":\"a lot\"", "reasoning_effort", HTH_API_INVALID_VALUE },
        { HTH_API_CHAT, "\"reasoning_effort\":1", "reasoning_effort", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"modalities\":[\"text\"]", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"modalities\":[1]", "modalities", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"parent_key\":1", "parent_key", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"parent_key\":\"zz00000000000000000000000000000000000000000000000000000000000000\"",
          "parent_key", HTH_API_INVALID_VALUE },
        { HTH_API_CHAT, "\"response_format\":\"json\"", "response_format", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"response_format\":{}", "response_format.type", HTH_API_MISSING },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"text\"}", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"json_object\"}", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema",
          HTH_API_MISSING },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}", "", HTH_API_NO_ERROR },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"schema\":[]}}",
          "response_format.json_schema.schema", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\",\"x\":1}}",
          "response_format.json_schema.x", HTH_API_UNKNOWN_FIELD },
        { HTH_API_CHAT, "\"tools\":[1]", "tools[0]", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"tools\":[{}]", "tools[0].function", HTH_API_MISSING },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\"}]", "tools[0].function", HTH_API_MISSING },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{}}]", "tools[0].function.name",
          HTH_API_MISSING },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":[]}}]",
          "tools[0].function.parameters", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"strict\":1}}]",
          "tools[0].function.strict", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"x\":1}}]",
          "tools[0].function.x", HTH_API_UNKNOWN_FIELD },
        { HTH_API_CHAT, "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"},\"x\":1}]", "tools[0].x",
          HTH_API_UNKNOWN_FIELD },
        { HTH_API_CHAT, "\"tool_choice\":1", "tool_choice", HTH_API_INVALID_TYPE },
        { HTH_API_CHAT, "\"tool_choice\":\"some\"", "tool_choice", HTH_API_INVALID_VALUE },
        { HTH_API_CHAT, "\"tool_choice\":{}", "tool_choice.type", HTH_API_MISSING },
        { HTH_API_CHAT, "\"tool_choice\":{\"type\":\"allowed_tools\"}", "tool_choice.type", HTH_API_UNSUPPORTED },
        { HTH_API_CHAT, "\"tool_choice\":{\"type\":\"function\"}", "tool_choice.function", HTH_API_MISSING },

        { HTH_API_COMPLETION, "\"best_of\":2,\"n\":2", "", HTH_API_NO_ERROR },
        { HTH_API_COMPLETION, "\"best_of\":\"2\"", "best_of", HTH_API_INVALID_TYPE },
        { HTH_API_COMPLETION, "\"echo\":true,\"logprobs\":1", "", HTH_API_NO_ERROR },
        { HTH_API_COMPLETION, "\"echo\":true,\"logprobs\":1,\"n\":2", "logprobs", HTH_API_UNSUPPORTED },
        { HTH_API_COMPLETION, "\"echo\":true,\"logprobs\":1,\"stream\":true", "logprobs", HTH_API_UNSUPPORTED },

        { HTH_API_MESSAGES, "\"system\":1", "system", HTH_API_INVALID_TYPE },
        { HTH_API_MESSAGES, "\"system\":[{\"type\":\"image\"}]", "", HTH_API_NO_ERROR },
        { HTH_API_MESSAGES, "\"system\":[]", "", HTH_API_NO_ERROR },
        { HTH_API_MESSAGES, "\"stop_sequences\":\"x\"", "stop_sequences", HTH_API_INVALID_TYPE },
        { HTH_API_MESSAGES, "\"thinking\":1", "thinking", HTH_API_INVALID_TYPE },
        { HTH_API_MESSAGES, "\"thinking\":{}", "thinking.type", HTH_API_MISSING },
        { HTH_API_MESSAGES, "\"thinking\":{\"type\":\"disabled\"}", "", HTH_API_NO_ERROR },
        { HTH_API_MESSAGES, "\"thinking\":{\"type\":\"adaptive\",\"x\":1}", "thinking.x", HTH_API_UNKNOWN_FIELD },
        { HTH_API_MESSAGES, "\"tools\":[{\"input_schema\":{}}]", "tools[0].name", HTH_API_MISSING },
        { HTH_API_MESSAGES, "\"tools\":[{\"name\":\"a\",\"input_schema\":1}]", "tools[0].input_schema",
          HTH_API_INVALID_TYPE },
        { HTH_API_MESSAGES, "\"tools\":[{\"name\":\"a\",\"input_schema\":{},\"x\":1}]", "tools[0].x",
          HTH_API_UNKNOWN_FIELD },
        { HTH_API_MESSAGES, "\"tool_choice\":\"auto\"", "tool_choice", HTH_API_INVALID_TYPE },
        { HTH_API_MESSAGES, "\"tool_choice\":{\"type\":\"auto\",\"x\":1}", "tool_choice.x", HTH_API_UNKNOWN_FIELD },
        { HTH_API_MESSAGES, "\"tool_choice\":{\"type\":\"some\"}", "tool_choice.type", HTH_API_INVALID_VALUE },
        { HTH_API_MESSAGES, "\"tool_choice\":{\"type\":\"tool\"}", "tool_choice.name", HTH_API_MISSING },

        { HTH_API_NATIVE_COMPLETION, "\"grammar\":\"\"", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"mirostat\":0", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"mirostat\":1", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[1,2],[3,false]]", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[1,2],[\"text\",-1],[\"\",1]]", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[\"text\",\"much\"]]", "logit_bias", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[[],1]]", "logit_bias", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[1,true]]", "logit_bias", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":[[-1,1]]", "logit_bias", HTH_API_INVALID_VALUE },
        { HTH_API_NATIVE_COMPLETION, "\"logit_bias\":7", "logit_bias", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"stop\":\"x\"", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"stop\":\"\"", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"stop\":[\"\",\"x\"]", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"stop\":[7]", "stop", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"dry_sequence_breakers\":\"[\\\"x\\\"]\"", "", HTH_API_NO_ERROR },
        { HTH_API_NATIVE_COMPLETION, "\"dry_sequence_breakers\":[7]", "dry_sequence_breakers", HTH_API_INVALID_TYPE },
        { HTH_API_NATIVE_COMPLETION, "\"grammar_triggers\":[{}]", "grammar_triggers[0].type", HTH_API_MISSING },
        { HTH_API_NATIVE_COMPLETION, "\"grammar_triggers\":[{\"type\":0}]", "grammar_triggers[0].token",
          HTH_API_MISSING },
        { HTH_API_NATIVE_COMPLETION, "\"grammar_triggers\":[{\"type\":1}]", "grammar_triggers[0].value",
          HTH_API_MISSING },
        { HTH_API_NATIVE_COMPLETION, "\"grammar_triggers\":[{\"type\":3,\"value\":\"x\"}]", "grammar_triggers[0].type",
          HTH_API_INVALID_VALUE },
        { HTH_API_NATIVE_COMPLETION, "\"grammar_triggers\":[7]", "grammar_triggers[0]", HTH_API_INVALID_TYPE },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[1024];
        hth_api_error error;
        const endpoint *e = endpoints;

        while (e->kind != rows[i].kind)
            e++;
        (void)snprintf(body, sizeof(body), "{%s,%s}", e->members, rows[i].member);
        error = parse(rows[i].kind, body);
        if (error.kind != rows[i].error || (*rows[i].param && strcmp(error.param, rows[i].param) != 0))
            fail_msg("%s: kind %d (not %d), param '%s' (not '%s'): %s", body, error.kind, rows[i].error, error.param,
                     rows[i].param, error.message);
    }
}

TEST(prompts_have_the_forms_of_their_endpoint_and_no_others)
{
    static const struct {
        const char *prompt;
        hth_api_error_kind completion, native;
    } rows[] = {
        { "\"x\"", HTH_API_NO_ERROR, HTH_API_NO_ERROR },
        { "[\"x\",\"y\"]", HTH_API_NO_ERROR, HTH_API_NO_ERROR },
        { "[1,2]", HTH_API_NO_ERROR, HTH_API_NO_ERROR },
        { "[[1],[2,3]]", HTH_API_NO_ERROR, HTH_API_NO_ERROR },
        { "[1,\"x\"]", HTH_API_INVALID_TYPE, HTH_API_NO_ERROR },
        { "[[1,\"x\"]]", HTH_API_INVALID_TYPE, HTH_API_NO_ERROR },
        { "null", HTH_API_MISSING, HTH_API_MISSING },
        { "[]", HTH_API_INVALID_VALUE, HTH_API_INVALID_VALUE },
        { "[[]]", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
        { "7", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
        { "true", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
        { "[null]", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
        { "[1.5]", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
        { "[-1]", HTH_API_INVALID_VALUE, HTH_API_INVALID_VALUE },
        { "[2147483648]", HTH_API_INVALID_VALUE, HTH_API_INVALID_VALUE },
        { "[[[1]]]", HTH_API_INVALID_TYPE, HTH_API_INVALID_TYPE },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char body[128];
        hth_api_error_kind completion, native;

        (void)snprintf(body, sizeof(body), "{\"prompt\":%s}", rows[i].prompt);
        completion = parse(HTH_API_COMPLETION, body).kind;
        native = parse(HTH_API_NATIVE_COMPLETION, body).kind;
        if (completion != rows[i].completion || native != rows[i].native)
            fail_msg("%s: %d and %d, not %d and %d", body, completion, native, rows[i].completion, rows[i].native);
    }
}

/* ---- texts that are no JSON, or more than is read ---- */

/* A client that switches DRY off may write anything for its base, as in llama-server. */
TEST(the_base_of_dry_is_at_least_1_where_dry_is_on)
{
    static const char *const good[] = { "{\"prompt\":\"a\",\"dry_base\":0}",
                                        "{\"prompt\":\"a\",\"dry_base\":1,\"dry_multiplier\":0.5}" };
    hth_api_error error;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        (void)hth_test_parsed(HTH_API_NATIVE_COMPLETION, good[i]);
    error = parse(HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"a\",\"dry_base\":0.5,\"dry_multiplier\":0.5}");
    assert_int_equal(error.kind, HTH_API_INVALID_VALUE);
    assert_string_equal(error.param, "dry_base");
}

TEST(what_is_no_json_is_refused_in_every_api)
{
    static const char *const bodies[] = {
        "",
        " ",
        "{",
        "}",
        "{}}",
        "{} {}",
        "nul",
        "\"x\"",
        "1",
        "[{}]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{'a':1}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":NaN}",
        "{\"a\":Infinity}",
        "{\"a\":1e9999}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\n\"}",
        "{\"a\":\"\xc3\"}",
        "{\"a\":\"\xed\xa0\x80\"}",
        "{\"a\":\"x",
        "{\"a\":tru}",
        "{\"a\":1 \"b\":2}",
        "// x\n{}",
        "{\"a\":1}x",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":2}}",
    };

    for (hth_api_kind kind = HTH_API_CHAT; kind <= HTH_API_APPLY_TEMPLATE; kind++) {
        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
            hth_api_error error = parse(kind, bodies[i]);

            if (error.kind != HTH_API_INVALID_JSON && error.kind != HTH_API_INVALID_TYPE)
                fail_msg("kind %d: %s: %d %s", (int)kind, bodies[i], error.kind, error.message);
            assert_int_equal(hth_api_error_http_status(hth_api_kind_dialect(kind), &error), 400);
        }
        assert_null(hth_api_request_parse(kind, "{\"a\":1}\0", 8, NULL, &(hth_api_error){ .kind = 0 }));
    }
}

/* An item with its number where it has a mark for that. */
static void add_item(hth_buffer *body, const char *item, int number)
{
    const char *mark = strchr(item, '#');
    char text[128];

    if (mark)
        (void)snprintf(text, sizeof(text), "%.*s%d%s", (int)(mark - item), item, number, mark + 1);
    hth_buffer_add_text(body, mark ? text : item);
}

TEST(lists_have_an_end)
{
    static const struct {
        hth_api_kind kind;
        const char *begin, *item, *end, *param;
        int n; /* so many are too many */
    } rows[] = {
        { HTH_API_CHAT, "{" MESSAGES ",\"tools\":[", "{\"type\":\"function\",\"function\":{\"name\":\"a#\"}}", "]}",
          "tools", 4097 },
        { HTH_API_CHAT, "{" MESSAGES ",\"stop\":[", "\"x\"", "]}", "stop", 65 },
        { HTH_API_CHAT, "{\"messages\":[", "{\"role\":\"user\",\"content\":\"a\"}", "]}", "messages", 16385 },
        { HTH_API_COMPLETION, "{\"prompt\":[", "\"x\"", "]}", "prompt", 129 },
        { HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1," MESSAGES ",\"tools\":[",
          "{\"name\":\"a#\",\"input_schema\":{}}", "]}", "tools", 4097 },
        { HTH_API_MESSAGES, "{\"model\":\"m\",\"max_tokens\":1," MESSAGES ",\"stop_sequences\":[", "\"x\"", "]}",
          "stop_sequences", 65 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"x\",\"dry_sequence_breakers\":[", "\"x\"", "]}",
          "dry_sequence_breakers", 65 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"x\",\"grammar_triggers\":[", "{\"type\":0,\"token\":1}", "]}",
          "grammar_triggers", 65 },
        { HTH_API_NATIVE_COMPLETION, "{\"prompt\":\"x\",\"logit_bias\":[", "[1,1]", "]}", "logit_bias", 4097 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int n = rows[i].n - 1; n <= rows[i].n; n++) {
            hth_buffer body = { .text = NULL };
            hth_api_error error;

            hth_buffer_add_text(&body, rows[i].begin);
            for (int j = 0; j < n; j++) {
                hth_buffer_add_text(&body, j > 0 ? "," : "");
                add_item(&body, rows[i].item, j);
            }
            hth_buffer_add_text(&body, rows[i].end);
            error = parse(rows[i].kind, hth_buffer_text(&body));
            if (n < rows[i].n ? error.kind != HTH_API_NO_ERROR
                              : error.kind != HTH_API_INVALID_VALUE || strcmp(error.param, rows[i].param) != 0)
                fail_msg("%d items of %s: %d '%s' %s", n, rows[i].begin, error.kind, error.param, error.message);
            hth_buffer_deinit(&body);
        }
    }
}
