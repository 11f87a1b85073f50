/*
 * llama_sampler_schemas_test.c - replies of a real vocabulary follow their JSON schema, and several threads share one
 * model
 */
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>

#include "support/sampler_scene.h"

/* ---- schemas ---- */

static size_t n_characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((uint8_t)*text & 0xC0) != 0x80;
    return n;
}

TEST(replies_follow_the_schema)
{
    static const char schema[] =
        "{\"$defs\":{\"p\":{\"type\":\"string\",\"pattern\":\"^[^a]{2}.$\"}},\"type\":\"object\",\"properties\":{"
        "\"n\":{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120},\"p\":{\"$ref\":\"#/$defs/p\"},"
        "\"e\":{\"enum\":[\"x\",2,null]},\"l\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,"
        "\"maxItems\":3},\"s\":{\"type\":\"string\",\"maxLength\":4}},\"required\":[\"n\",\"p\",\"e\",\"l\"],"
        "\"additionalProperties\":{\"type\":\"null\"}}";
    hearth_sampling s = plain();
    static char text[65536];
    int n_replies = 0;

    s.json_schema = schema;
    for (int i = 0; i < 40; i++) {
        json_error_t error;
        json_t *root, *value;
        const char *key;

        s.top_k = i % 2 ? 10 : 0;
        if (reply(&s, text, sizeof(text), 600) == 0)
            continue;
        n_replies++;
        root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
        if (!root)
            fail_msg("%s: %s", error.text, text);
        assert_in_range(json_integer_value(json_object_get(root, "n")) + 5, 0, 125);
        assert_true(json_is_string(json_object_get(root, "p")));
        key = json_string_value(json_object_get(root, "p"));
        assert_true(key[0] != 'a' && key[1] != 'a');
        assert_int_equal(n_characters(key), 3);
        value = json_object_get(root, "e");
        assert_true(json_is_null(value) || json_integer_value(value) == 2 ||
                    (json_is_string(value) && strcmp(json_string_value(value), "x") == 0));
        assert_in_range(json_array_size(json_object_get(root, "l")), 1, 3);
        json_object_foreach(root, key, value) if (!strchr("npels", key[0]) || strlen(key) != 1)
            assert_true(json_is_null(value));
        json_decref(root);
    }
    assert_true(n_replies > 0);
}

TEST(schemas_that_cannot_be_honoured_are_errors_that_name_why)
{
    static const struct {
        const char *schema, *why;
    } cases[] = {
        { "{", "parse" },
        { "[]", "must be an object" },
        { "{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value meets" },
        { "{\"type\":\"integer\",\"minimum\":\"1\"}", "at #/minimum: 'minimum' must be a number" },
        { "{\"type\":\"integer\",\"nullable\":1}", "'nullable'" },
        { "{\"type\":\"thing\"}", "'thing'" },
        { "{\"properties\":{\"a\":{\"pattern\":\"^(?=a)a$\"}}}", "at #/properties/a/pattern: " },
        { "{\"type\":\"string\",\"format\":\"idn-email\"}", "'format'" },
        { "{\"type\":\"array\",\"uniqueItems\":true}", "'uniqueItems'" },
        { "{\"$ref\":\"#/$defs/x\"}", "nothing at" },
        { "{\"enum\":[1],\"type\":\"string\"}", "type" },
    };
    hearth_sampling s = plain();
    hth_engine_sampler *sampler = NULL;
    hearth_error err;
    static char deep[3000];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        s.json_schema = cases[i].schema;
        if (llama->sampler_new(model, &s, &sampler, &err) != HEARTH_MISUSE)
            fail_msg("%s is taken", cases[i].schema);
        assert_ptr_equal(strstr(err.message, "sampling: json_schema: "), err.message);
        if (!strstr(err.message, cases[i].why))
            fail_msg("%s: %s", cases[i].schema, err.message);
    }
    memset(deep, '[', sizeof(deep) - 1);
    s.json_schema = deep;
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "nested"));
}

/* A text that is put together; cut where it would be too long, which no test below is. */
static void add(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(char *text, const char *format, ...)
{
    size_t n = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + n, SCHEMA_BYTES - n, format, arguments);
    va_end(arguments);
}

TEST(names_of_any_length_and_script_are_honoured)
{
    static char schema[SCHEMA_BYTES], text[65536];
    hearth_sampling s = plain();
    char name[201];
    int n_replies = 0;

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 5; i++)
        add(schema, "{\"properties\":{\"%s\":", name);
    add(schema, "{\"properties\":{\"名\":{\"properties\":{\"é\":{\"const\":1}},\"required\":[\"é\"]},"
                "\"字\":{\"properties\":{\"é\":{\"const\":2}},\"required\":[\"é\"]}},\"required\":[\"名\",\"字\"]}");
    for (int i = 0; i < 5; i++)
        add(schema, "},\"required\":[\"%s\"]}", name);
    s.json_schema = schema;
    for (int i = 0; i < 5; i++) {
        json_t *root, *value;

        if (reply(&s, text, sizeof(text), 4000) == 0)
            continue;
        n_replies++;
        root = value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        for (int depth = 0; depth < 5; depth++)
            value = json_object_get(value, name);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "名"), "é")), 1);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "字"), "é")), 2);
        json_decref(root);
    }
    assert_true(n_replies > 0);
}

TEST(common_schemas_are_honoured)
{
    static const char *const good[] = {
        "{}",
        "{\"type\":\"object\"}",
        "{\"type\":[\"string\",\"null\"],\"maxLength\":3}",
        "{\"oneOf\":[{\"type\":\"string\"},{\"type\":\"integer\"}]}",
        "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
        "{\"properties\":{\"k\":{\"const\":2}},\"required\":[\"k\"]}]}",
        "{\"allOf\":[{\"properties\":{\"a\":{}}},{\"properties\":{\"b\":{}},\"required\":[\"b\"]}]}",
        "{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/a_b\"},\"$defs\":{\"a_b\":{\"type\":\"null\"},\"a-b\":{}}}",
        "{\"properties\":{\"next\":{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},"
        "\"$defs\":{\"n\":{\"properties\":{\"n\":{\"$ref\":\"#/$defs/n\"}}}}}",
        "{\"type\":\"string\",\"pattern\":\"^\\\\d{3}-[ -~]*(?:\\\\w|é+)?$\"}",
        "{\"type\":\"string\",\"format\":\"date-time\"}",
        "{\"type\":\"integer\",\"exclusiveMinimum\":2.5}",
    };
    hearth_sampling s = plain();

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        hth_engine_sampler *first, *second = NULL;
        const hth_candidate *candidates;

        s.json_schema = good[i];
        first = open_sampler(&s);
        assert_int_equal(llama->sampler_new_like(first, &s, &second, NULL), HEARTH_OK);
        llama->sampler_free(first);
        assert_true(apply(second, 0, false, &candidates) > 0); /* what they share is there */
        llama->sampler_free(second);
    }
}

/* Does a text that the schema accepts begin so? */
static bool may_begin(const char *schema, const char *text)
{
    hearth_sampling s = plain();
    hth_engine_sampler *sampler = NULL;
    hearth_error err;
    hearth_status status;

    s.json_schema = schema;
    s.grammar_prefix = text;
    status = llama->sampler_new(model, &s, &sampler, &err);
    if (status != HEARTH_OK && !strstr(err.message, "grammar_prefix"))
        fail_msg("%s: %s", schema, err.message);
    if (status == HEARTH_OK)
        llama->sampler_free(sampler);
    return status == HEARTH_OK;
}

/* Numbers are followed by a comma, so that they are whole. */
TEST(integers_have_bounds_of_up_to_64_bits)
{
    static const struct {
        const char *bounds, *good[4], *bad[5];
    } cases[] = {
        { "\"minimum\":-9007199254740991,\"maximum\":9007199254740991",
          { "0", "-9007199254740991", "9007199254740991", "1000000000000000" },
          { "9007199254740992", "-9007199254740992", "9010000000000000", "10000000000000000", "-90071992547409911" } },
        { "\"minimum\":0,\"maximum\":9223372036854775806",
          { "0", "9223372036854775806", "9223372036854775799", "1" },
          { "9223372036854775807", "9223372036854775810", "-1", "10000000000000000000" } },
        { "\"minimum\":9007199254740992",
          { "9007199254740992", "9999999999999999", "123456789012345678", "9223372036854775806" },
          { "9007199254740991", "0", "-9007199254740992", "1" } },
        { "\"maximum\":-9007199254740992",
          { "-9007199254740992", "-123456789012345678", "-9223372036854775806", "-9007199254740993" },
          { "-9007199254740991", "0", "9007199254740992", "-1" } },
        { "\"minimum\":-1,\"maximum\":18446744073709551615", { "-1", "0", "1234567890123456" }, { "-2", "-10" } },
        { "\"minimum\":0,\"maximum\":1.8446744073709552e19", { "0", "1234567890123456" }, { "-1" } },
        { "\"minimum\":-9223372036854775808,\"maximum\":9223372036854775807",
          { "-1234567890123456", "1234567890123456" },
          { "+1" } },
        { "\"exclusiveMinimum\":-3,\"exclusiveMaximum\":1000000000000000000",
          { "-2", "999999999999999999" },
          { "-3", "1000000000000000000" } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char schema[256], text[64];

        (void)snprintf(schema, sizeof(schema), "{\"type\":\"array\",\"items\":{\"type\":\"integer\",%s}}",
                       cases[i].bounds);
        for (size_t j = 0; j < 4 && cases[i].good[j]; j++) {
            (void)snprintf(text, sizeof(text), "[%s,", cases[i].good[j]);
            if (!may_begin(schema, text))
                fail_msg("%s refuses %s", schema, text);
        }
        for (size_t j = 0; j < 5 && cases[i].bad[j]; j++) {
            (void)snprintf(text, sizeof(text), "[%s,", cases[i].bad[j]);
            if (may_begin(schema, text))
                fail_msg("%s takes %s", schema, text);
        }
    }
}

TEST(formats_are_written_as_patterns)
{
    static const struct {
        const char *format, *good[5], *bad[6];
    } cases[] = {
        { "ipv4", { "0.0.0.0", "255.249.199.9", "127.0.0.1" }, { "256.0.0.0", "1.2.3", "01.2.3.4", "1.2.3.4.5" } },
        { "ipv6",
          { "::", "::1", "fe80::1:2", "1:2:3:4:5:6:7:8", "2001:db8::" },
          { "1", "1:2", ":1", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9" } },
        { "hostname", { "a", "example.org", "a-1.b.c" }, { "-a", "a-", "a..b", "a_b", "" } },
        { "email",
          { "a@b.c", "first.last+tag@mail.example.org" },
          { "a", "@b.c", "a@b", ".a@b.c", "a..b@c.d", "a@b." } },
        { "uri",
          { "https://example.org", "http://a:80/b/c?d=e&f=%20#g", "ftp://a//b/" },
          { "example.org", "http:/a", "http://a b", "http://a/%2", "1://a" } },
        { "duration",
          { "P1D", "PT1H30M", "P1Y2M3DT4H5M6S", "P4W", "PT5S" },
          { "P", "PT", "1D", "P1H", "PT1H5S", "P1W2D" } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char schema[128], text[128];

        (void)snprintf(schema, sizeof(schema), "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"format\":\"%s\"}}",
                       cases[i].format);
        for (size_t j = 0; j < 5 && cases[i].good[j]; j++) {
            (void)snprintf(text, sizeof(text), "[\"%s\",", cases[i].good[j]);
            if (!may_begin(schema, text))
                fail_msg("%s refuses %s", schema, text);
        }
        for (size_t j = 0; j < 6 && cases[i].bad[j]; j++) {
            (void)snprintf(text, sizeof(text), "[\"%s\",", cases[i].bad[j]);
            if (may_begin(schema, text))
                fail_msg("%s takes %s", schema, text);
        }
    }
}

TEST(what_is_nullable_may_be_null)
{
    static const struct {
        const char *schema;
        bool may_be_null;
    } cases[] = {
        { "{\"type\":\"string\",\"nullable\":true,\"x-order\":1}", true },
        { "{\"type\":\"string\",\"nullable\":false}", false },
        { "{\"type\":\"object\",\"properties\":{},\"nullable\":true}", true },
        { "{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"nullable\":true,\"$defs\":{\"a\":{\"properties\":{\"x\":{}}}}}",
          true },
        { "{\"type\":\"string\",\"enum\":[\"a\",null],\"nullable\":true}", true },
        { "{\"type\":\"string\",\"enum\":[\"a\"],\"nullable\":true}", false },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (may_begin(cases[i].schema, "null") != cases[i].may_be_null)
            fail_msg("%s", cases[i].schema);
}

/* ---- several threads, one model ---- */

enum { OPENING_THREADS = 3, OPENINGS = 6 };

typedef struct opening {
    hth_engine_model *shared;
    unsigned first; /* grammar to begin with */
    unsigned n_opened;
} opening;

static void *open_samplers(void *context)
{
    static const char *const grammars[] = { "root ::= [a-f]+", "root ::= [0-9]+", "root ::= \"yes\" | \"no\"" };
    opening *o = context;

    for (unsigned i = 0; i < OPENINGS; i++) {
        hearth_sampling sampling = plain();
        hth_engine_sampler *sampler = NULL;

        sampling.grammar = grammars[(o->first + i) % 3];
        o->n_opened += llama->sampler_new(o->shared, &sampling, &sampler, NULL) == HEARTH_OK;
        llama->sampler_free(sampler);
    }
    return NULL;
}

/* What is known of a model's vocabulary, and of grammars that were read, is made by whoever needs it first. */
TEST(samplers_of_one_model_are_opened_by_several_threads)
{
    hth_engine_model_params params = { .log = &silent };
    opening all[OPENING_THREADS] = { { .n_opened = 0 } };
    pthread_t threads[OPENING_THREADS];
    hth_engine_model *shared;
    hearth_error err;

    assert_int_equal(llama->model_load(MODEL, &params, &shared, &err), HEARTH_OK);
    for (unsigned i = 0; i < OPENING_THREADS; i++) {
        all[i] = (opening){ .shared = shared, .first = i };
        assert_int_equal(pthread_create(&threads[i], NULL, open_samplers, &all[i]), 0);
    }
    for (unsigned i = 0; i < OPENING_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(all[i].n_opened, OPENINGS);
    }
    llama->model_free(shared);
}

GROUP(with_a_model, open_model, close_model)
