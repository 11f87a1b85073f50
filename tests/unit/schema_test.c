/*
 * schema_test.c - which texts the grammar of a schema has, keyword by keyword; what is refused, passed over, and
 * bounded
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "grammar/grammar.h"
#include "schema/schema.h"
#include "support/cmocka_all.h"

enum { TEXTS_MAX = 8, BYTES_MAX = HTH_SCHEMA_BYTES_MAX };

static hth_schema_notes notes;

static hth_gbnf *compile(const char *schema, const hth_schema_options *options)
{
    hearth_error err = { .message = "" };
    hth_gbnf *gbnf = NULL;

    notes.n = 0;
    if (hth_schema_compile(schema, strlen(schema), options, &gbnf, &notes, &err) != HEARTH_OK)
        fail_msg("%.300s: %s", schema, err.message);
    return gbnf;
}

static bool accepts(hth_gbnf *gbnf, const char *text)
{
    hth_piece piece = { .bytes = NULL };
    bool is_end = false;
    hth_vocabulary vocabulary = { .n_tokens = 1, .pieces = &piece, .is_end = &is_end };
    hth_grammar *grammar = NULL;
    bool ok = hth_grammar_new(hth_gbnf_ref(gbnf), &vocabulary, &grammar, NULL) == HEARTH_OK;

    for (size_t i = 0; ok && text[i]; i++)
        ok = hth_grammar_accept_text(grammar, (const uint8_t *)text + i, 1, NULL) == HEARTH_OK;
    ok = ok && hth_grammar_is_complete(grammar);
    hth_grammar_free(grammar);
    return ok;
}

typedef struct schema_case {
    const char *schema;
    const char *good[TEXTS_MAX], *bad[TEXTS_MAX];
} schema_case;

static void check(const schema_case *cases, size_t n, const hth_schema_options *options)
{
    for (size_t i = 0; i < n; i++) {
        hth_gbnf *gbnf = compile(cases[i].schema, options);

        for (size_t j = 0; j < TEXTS_MAX && cases[i].good[j]; j++)
            if (!accepts(gbnf, cases[i].good[j]))
                fail_msg("%s refuses %s", cases[i].schema, cases[i].good[j]);
        for (size_t j = 0; j < TEXTS_MAX && cases[i].bad[j]; j++)
            if (accepts(gbnf, cases[i].bad[j]))
                fail_msg("%s takes %s", cases[i].schema, cases[i].bad[j]);
        hth_gbnf_unref(gbnf);
    }
}

#define CHECK(cases) check(cases, sizeof(cases) / sizeof((cases)[0]), NULL)

TEST(strings)
{
    static const schema_case cases[] = {
        { "{\"type\":\"string\"}", { "\"\"", "\"a\\n\\u00e9\"", "\"é😀\"" }, { "1", "\"", "\"\\ud800\"", "\"\n\"" } },
        { "{\"minLength\":2,\"maxLength\":3}", { "\"ab\"", "\"é😀x\"" }, { "\"a\"", "\"abcd\"", "12" } },
        { "{\"pattern\":\"b\"}", { "\"abc\"", "\"b\"" }, { "\"ac\"", "\"\"" } },
        { "{\"pattern\":\"^a|b$\"}", { "\"ax\"", "\"xb\"" }, { "\"xa\"", "\"bx\"" } },
        { "{\"pattern\":\"^(?:a|bc){2,3}?$\"}", { "\"abc\"", "\"aaa\"" }, { "\"a\"", "\"aaaa\"" } },
        { "{\"pattern\":\"^\\\\d+\\\\.?[^\\\\w-]$\"}", { "\"12.!\"", "\"1 \"" }, { "\"12.a\"", "\"-\"" } },
        { "{\"pattern\":\"^[\\\"\\\\\\\\\\\\n\\\\u0001]$\"}",
          { "\"\\\"\"", "\"\\\\\"", "\"\\n\"", "\"\\u0001\"" },
          { "\"\\u000a\"", "\"n\"" } },
        { "{\"pattern\":\"^\\\\u{1F600}\\\\uD83D\\\\uDE00$\"}", { "\"😀😀\"" }, { "\"😀\"" } },
        { "{\"pattern\":\"^[a-z]*$\",\"minLength\":1,\"maxLength\":2}", { "\"a\"", "\"zz\"" }, { "\"\"", "\"abc\"" } },
        { "{\"pattern\":\"a\",\"allOf\":[{\"pattern\":\"b\"}],\"maxLength\":2}",
          { "\"ab\"", "\"ba\"" },
          { "\"aa\"", "\"axb\"" } },
        { "{\"pattern\":\"^.{0,3000}$\"}", { "\"\"", "\"abc\"" }, { "\"\\n\"" } },
        { "{\"format\":\"date\",\"pattern\":\"^20\"}", { "\"2024-02-28\"" }, { "\"1999-01-01\"", "\"2024-02-30\"" } },
        { "{\"format\":\"ipv4\",\"maxLength\":8}", { "\"10.0.0.1\"" }, { "\"127.0.0.1\"", "\"1.2.3\"" } },
        { "{\"type\":\"string\",\"format\":\"binary\"}", { "\"a\"" }, { "1" } },
    };

    CHECK(cases);
}

TEST(numbers)
{
    static const schema_case cases[] = {
        { "{\"type\":\"integer\"}", { "0", "-12", "1234567890123456" }, { "1.5", "01", "\"1\"" } },
        { "{\"type\":\"number\"}", { "0", "-1.5", "1e10", "1.25E-3" }, { ".5", "1.", "+1" } },
        { "{\"minimum\":-5,\"maximum\":120,\"type\":\"integer\"}",
          { "-5", "0", "120", "99" },
          { "-6", "121", "1000" } },
        { "{\"type\":\"number\",\"minimum\":0.5,\"maximum\":10.25}",
          { "0.5", "1", "10.25", "10.2", "9.999", "0.50" },
          { "0.4999", "10.26", "0", "11", "10.2501", "-1" } },
        { "{\"exclusiveMinimum\":0,\"exclusiveMaximum\":1}",
          { "0.1", "0.999", "0.0001" },
          { "0", "1", "0.0", "-0.5" } },
        { "{\"minimum\":-2.5,\"exclusiveMaximum\":-1}", { "-2.5", "-1.1", "-2" }, { "-1", "-2.6", "0", "1.5" } },
        { "{\"type\":\"integer\",\"minimum\":1.5}", { "2", "10" }, { "1" } },
        { "{\"type\":\"integer\",\"multipleOf\":3}", { "0", "9", "-12", "111" }, { "1", "10" } },
        { "{\"multipleOf\":0.01}", { "0.01", "5", "12.5", "-7.25" }, { "0.001", "1e2" } },
        { "{\"multipleOf\":2.5,\"minimum\":0,\"maximum\":10}",
          { "0", "2.5", "5", "7.5", "10" },
          { "1", "12.5", "2.50" } },
        { "{\"multipleOf\":500}", { "0", "500", "-1500" }, { "50", "5", "5001" } },
        { "{\"multipleOf\":777,\"minimum\":0,\"maximum\":2000}", { "0", "777", "1554" }, { "1", "2331" } },
        { "{\"type\":\"integer\",\"allOf\":[{\"multipleOf\":4},{\"multipleOf\":6}]}", { "12", "24" }, { "4", "6" } },
        { "{\"type\":\"integer\",\"minimum\":1e20,\"maximum\":100000000000000000005}",
          { "100000000000000000000" },
          { "99999999999999999999", "100000000000000000001000" } },
        { "{\"type\":\"number\",\"not\":{\"type\":\"integer\"}}", { "1.5", "-0.01" }, { "1", "1.0", "2.50" } },
        { "{\"not\":{\"enum\":[1,3]},\"type\":\"integer\",\"minimum\":0,\"maximum\":4}",
          { "0", "2", "4" },
          { "1", "3" } },
    };

    CHECK(cases);
}

TEST(objects)
{
    static const schema_case cases[] = {
        { "{\"type\":\"object\"}", { "{}", "{\"a\":1,\"b\":[{}]}", "{ }" }, { "[]", "{\"a\"}" } },
        { "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{}},\"required\":[\"b\"]}",
          { "{\"b\":1}", "{\"b\":null,\"a\":1}", "{\"b\" : 1}", "{\n  \"b\": 1,\n  \"a\": 2\n}" },
          { "{}", "{\"a\":1}", "{\"a\":1,\"b\":1}", "{\"b\":1,\"c\":1}", "{\"b\":1,}" } },
        { "{\"properties\":{\"a\":{},\"b\":{}},\"x-any-order\":true,\"required\":[\"b\"]}",
          { "{\"a\":1,\"b\":2}", "{\"b\":1,\"a\":2}", "{\"b\":1}" },
          { "{\"a\":1}", "{\"a\":1,\"b\":2,\"a\":3}" } },
        { "{\"properties\":{\"ab\":{\"type\":\"null\"}},\"additionalProperties\":{\"type\":\"integer\"}}",
          { "{}", "{\"ab\":null,\"a\":1,\"abc\":2}", "{\"\":1}" },
          { "{\"ab\":1}", "{\"x\":null}" } },
        { "{\"patternProperties\":{\"^x\":{\"type\":\"integer\"}}}",
          { "{\"x1\":1}", "{}" },
          { "{\"y\":1}", "{\"x\":\"\"}" } },
        { "{\"properties\":{\"x\":{\"minimum\":5}},\"patternProperties\":{\"^x\":{\"type\":\"integer\"}}}",
          { "{\"x\":5,\"xy\":1}" },
          { "{\"x\":4}", "{\"x\":5.5}" } },
        { "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
          { "{\"a\":1}", "{\"a\":1,\"b\":2}" },
          { "{}", "{\"a\":1,\"b\":2,\"c\":3}" } },
        { "{\"properties\":{\"a\":{},\"b\":{},\"c\":{}},\"minProperties\":2}",
          { "{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":1,\"c\":1}" },
          { "{\"a\":1}", "{}" } },
        { "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-c]$\"},\"additionalProperties\":{\"type\":"
          "\"null\"}}",
          { "{\"a\":null}" },
          { "{\"d\":null}", "{\"ab\":null}" } },
        { "{\"type\":\"object\",\"required\":[\"a\"]}", { "{\"a\":1}", "{\"a\":[],\"b\":1}" }, { "{\"b\":1}", "{}" } },
        { "{\"properties\":{\"a\":{},\"b\":false}}", { "{\"a\":1}", "{}" }, { "{\"b\":1}" } },
        { "{\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":[\"b\"]}}",
          { "{\"b\":1}", "{\"a\":1,\"b\":1}", "{}" },
          { "{\"a\":1}" } },
        { "{\"properties\":{\"é\\n\\\"\":{}},\"required\":[\"é\\n\\\"\"]}", { "{\"é\\n\\\"\":1}" }, { "{\"e\":1}" } },
        { "{\"properties\":{\"a\":{}},\"unevaluatedProperties\":false,\"allOf\":[{\"properties\":{\"b\":{}}}]}",
          { "{\"a\":1,\"b\":1}" },
          { "{\"c\":1}" } },
    };

    CHECK(cases);
}

TEST(arrays)
{
    static const schema_case cases[] = {
        { "{\"type\":\"array\"}", { "[]", "[1,\"a\",[]]", "[ ]", "[\n  1,\n  2\n]" }, { "{}", "[1,]" } },
        { "{\"items\":{\"type\":\"boolean\"},\"minItems\":1,\"maxItems\":2}",
          { "[true]", "[true,false]" },
          { "[]", "[1]", "[true,true,true]" } },
        { "{\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}",
          { "[1,\"a\"]" },
          { "[]", "[1]", "[1,\"a\",1]", "[\"a\"]" } },
        { "{\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"null\"}}",
          { "[1]", "[1,null,null]" },
          { "[]", "[1,1]" } },
        { "{\"items\":[{\"type\":\"integer\"}],\"additionalItems\":false,\"minItems\":0}",
          { "[]", "[1]" },
          { "[1,1]" } },
        { "{\"contains\":{\"const\":1},\"items\":{\"type\":\"integer\"}}",
          { "[1]", "[2,1,3]" },
          { "[]", "[2]", "[11]" } },
        { "{\"contains\":{\"const\":1},\"maxContains\":1}", { "[1]", "[2,1,\"a\"]" }, { "[1,1]", "[]" } },
        { "{\"items\":{\"enum\":[1,2,3]},\"uniqueItems\":true}", { "[]", "[3,1,2]", "[2]" }, { "[1,1]", "[4]" } },
        { "{\"items\":{\"enum\":[1,2,3,4,5,6,7,8,9]},\"uniqueItems\":true,\"minItems\":2}",
          { "[1,9]" },
          { "[1]", "[2,2]", "[9,1]" } },
        { "{\"items\":{\"type\":\"boolean\"},\"uniqueItems\":true}", { "[true,false]", "[false]" }, { "[true,true]" } },
        { "{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", { "[1]", "[]" }, { "[1,1]" } },
        { "{\"items\":false}", { "[]" }, { "[1]" } },
    };

    CHECK(cases);
}

TEST(combinations)
{
    static const schema_case cases[] = {
        { "true", { "1", "{}" }, { "x" } },
        { "{\"enum\":[1,\"a\",null,{\"b\":[0.1]}]}", { "1", "\"a\"", "null", "{\"b\":[0.1]}" }, { "2", "{}" } },
        { "{\"enum\":[1,2,3],\"minimum\":2}", { "2", "3" }, { "1" } },
        { "{\"const\":1.0}", { "1" }, { "1.0", "2" } },
        { "{\"type\":[\"string\",\"null\"],\"maxLength\":1}", { "\"a\"", "null" }, { "\"ab\"", "1" } },
        { "{\"minLength\":1,\"minimum\":1}", { "\"a\"", "1" }, { "\"\"", "0", "null" } },
        { "{\"anyOf\":[{\"type\":\"integer\"},{\"maxLength\":1}]}", { "1", "\"a\"" }, { "\"ab\"", "null" } },
        { "{\"type\":\"string\",\"anyOf\":[{\"minLength\":3},{\"const\":\"a\"},{\"type\":\"null\"}]}",
          { "\"abc\"", "\"a\"" },
          { "\"b\"", "null" } },
        { "{\"anyOf\":[{\"const\":1},{\"const\":2}],\"allOf\":[{\"anyOf\":[{\"const\":2},{\"const\":3}]}]}",
          { "2" },
          { "1", "3" } },
        { "{\"oneOf\":[{\"type\":\"integer\",\"minimum\":0},{\"type\":\"integer\",\"maximum\":5}]}",
          { "-1", "6" },
          { "0", "5" } },
        { "{\"oneOf\":[{\"type\":\"number\"},{\"type\":\"integer\"}]}", { "1.5" }, { "1" } },
        { "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{}},\"required\":[\"k\"]},"
          "{\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}",
          { "{\"k\":\"a\",\"x\":1}", "{\"k\":\"b\"}" },
          { "{\"k\":\"b\",\"x\":1}", "{}" } },
        { "{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"}}},{\"properties\":{\"a\":{\"minimum\":3},\"b\":{}}"
          ",\"required\":"
          "[\"a\"]}]}",
          { "{\"a\":3}", "{\"a\":4,\"b\":1}" },
          { "{\"a\":2}", "{\"b\":1}" } },
        { "{\"type\":\"string\",\"not\":{\"pattern\":\"a\"}}", { "\"b\"" }, { "\"xa\"" } },
        { "{\"not\":{\"type\":[\"object\",\"array\",\"string\"]}}", { "1", "null", "true" }, { "\"\"", "{}" } },
        { "{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"],\"if\":{\"properties\":{\"a\":{"
          "\"minimum\":5}}},"
          "\"then\":{\"properties\":{\"a\":{\"maximum\":9}}},\"else\":{\"properties\":{\"a\":{\"minimum\":3}}}}",
          { "{\"a\":5}", "{\"a\":9}", "{\"a\":3}" },
          { "{\"a\":10}", "{\"a\":2}" } },
        { "{\"$ref\":\"#/$defs/a~1b\",\"$defs\":{\"a/b\":{\"type\":\"null\"}}}", { "null" }, { "1" } },
        { "{\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"$ref\":\"#\"}},\"required\":[\"v\"]}",
          { "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}" },
          { "{\"v\":1,\"next\":{}}" } },
        { "{\"type\":\"string\",\"nullable\":true}", { "null", "\"a\"" }, { "1" } },
        { "{\"enum\":[1,null],\"nullable\":true,\"type\":5}", { "null" }, { "1" } },
        { "{\"anyOf\":[{\"type\":\"string\"},{\"not\":{\"minContains\":2}}]}", { "\"a\"" }, { "1", "[]" } },
    };

    CHECK(cases);
}

TEST(a_literal_reading_leaves_open_what_the_schema_does)
{
    static const schema_case cases[] = {
        { "{\"properties\":{\"a\":{\"type\":\"integer\"}}}",
          { "{\"a\":1,\"b\":2}", "1", "{\"b\":2}" },
          { "{\"a\":\"\"}" } },
        { "{\"prefixItems\":[{\"type\":\"integer\"}]}", { "[]", "[1,2]", "\"a\"" }, { "[\"a\"]" } },
        { "{\"minLength\":2}", { "1", "\"ab\"" }, { "\"a\"" } },
    };

    check(cases, sizeof(cases) / sizeof(cases[0]), &(hth_schema_options){ .is_literal = true });
}

#define SIXTY_LETTERS "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefgh"

TEST(errors_name_the_keyword_and_its_place)
{
    static const struct {
        const char *schema, *place, *why;
    } cases[] = {
        { "{", "", "parsed" },
        { "[]", "at #:", "must be an object" },
        { "{\"properties\":{\"a\":{\"pattern\":\"(?=x)\"}}}", "at #/properties/a/pattern:", "look-around" },
        { "{\"items\":{\"pattern\":\"(a)\\\\1\"}}", "at #/items/pattern:", "\\1" },
        { "{\"pattern\":\"(a\"}", "at #/pattern:", "')'" },
        { "{\"pattern\":\"a{2,1}\"}", "at #/pattern:", "{m,n}" },
        { "{\"pattern\":\"a(.{1000}|b){40}\"}", "at #/pattern:", "too long" },
        { "{\"pattern\":\"a.{24}b\"}", "at #/pattern:", "too many ways" },
        { "{\"type\":\"string\",\"format\":\"idn-email\"}", "at #/format:", "'format'" },
        { "{\"type\":\"thing\"}", "at #/type:", "'thing'" },
        { "{\"type\":[]}", "at #/type:", "'type'" },
        { "{\"properties\":{\"" SIXTY_LETTERS "\":{\"properties\":{\"" SIXTY_LETTERS "\":{\"items\":{\"type\":1}}}}}}",
          "at .../properties/" SIXTY_LETTERS "/items/type:", "'type'" },
        { "{\"anyOf\":[{\"type\":1}]}", "at #/anyOf/0/type:", "'type'" },
        { "{\"anyOf\":{}}", "at #/anyOf:", "list" },
        { "{\"enum\":[]}", "at #/enum:", "'enum'" },
        { "{\"$ref\":\"#/$defs/x\"}", "at #/$ref:", "nothing at" },
        { "{\"$ref\":\"http://x/y\"}", "at #/$ref:", "'#/...'" },
        { "{\"$dynamicRef\":\"#a\"}", "at #/$dynamicRef:", "'$ref'" },
        { "{\"type\":\"array\",\"uniqueItems\":true}", "at #/uniqueItems:", "leave it out" },
        { "{\"type\":\"integer\",\"minimum\":\"1\"}", "at #/minimum:", "a number" },
        { "{\"type\":\"integer\",\"minLength\":1,\"allOf\":[{\"multipleOf\":0}]}",
          "at #/allOf/0/multipleOf:", "above 0" },
        { "{\"multipleOf\":777}", "at #/multipleOf:", "'maximum'" },
        { "{\"minLength\":-1}", "at #/minLength:", "whole number" },
        { "{\"required\":[1]}", "at #/required:", "names" },
        { "{\"properties\":[]}", "at #/properties:", "an object" },
        { "{\"oneOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}", "at #", "'anyOf'" },
        { "{\"allOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]}", "at #:", "no value" },
        { "{\"minimum\":3,\"maximum\":2}", "at #:", "no value" },
        { "{\"enum\":[1],\"type\":\"string\"}", "at #", "none of the listed values" },
        { "{\"properties\":{\"a\":false},\"required\":[\"a\"]}", "at #:", "no value" },
        { "{\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "at #:", "no value" },
        { "{\"$defs\":{\"a\":{\"unevaluatedProperties\":false}},\"properties\":{\"b\":{\"allOf\":[{\"$ref\":\"#/$defs/"
          "a\"},"
          "{\"properties\":{\"c\":{}}}]}}}",
          "at #/$defs/a/unevaluatedProperties:", "outermost" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hearth_error err = { .message = "" };
        hth_gbnf *gbnf = NULL;

        if (hth_schema_compile(cases[i].schema, strlen(cases[i].schema), NULL, &gbnf, NULL, &err) != HEARTH_MISUSE)
            fail_msg("%s is taken: %s", cases[i].schema, err.message);
        assert_null(gbnf);
        if (strncmp(err.message, cases[i].place, strlen(cases[i].place)) != 0 || !strstr(err.message, cases[i].why))
            fail_msg("%s: %s", cases[i].schema, err.message);
    }
}

TEST(what_a_grammar_cannot_hold_is_dropped_and_told)
{
    static const struct {
        const char *schema, *note, *text;
    } cases[] = {
        { "{\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":524288}}}", "#/properties/a: maxLength dropped",
          "{\"a\":\"x\"}" },
        { "{\"type\":\"array\",\"maxItems\":1000000}", "#: maxItems dropped", "[1]" },
        { "{\"type\":\"array\",\"minItems\":1000000}", "#: minItems dropped", "[1]" },
        { "{\"type\":\"object\",\"maxProperties\":1e9}", "#: maxProperties dropped", "{}" },
        { "{\"pattern\":\"^[ab]*c[ab]*$\",\"maxLength\":9000}", "#: maxLength dropped", "\"acb\"" },
        { "{\"type\":\"string\",\"maxlength\":3}", "#: maxlength ignored", "\"abcd\"" },
        { "{\"type\":\"string\",\"format\":\"binary\"}", "#: format ignored", "\"a\"" },
    };
    hth_gbnf *gbnf;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gbnf = compile(cases[i].schema, NULL);
        if (notes.n != 1 || strcmp(notes.texts[0], cases[i].note) != 0)
            fail_msg("%s: %s", cases[i].schema, notes.n ? notes.texts[0] : "no note");
        assert_true(accepts(gbnf, cases[i].text));
        hth_gbnf_unref(gbnf);
    }
    gbnf = compile("{\"type\":\"string\",\"maxLength\":10000,\"title\":\"x\",\"x-y\":1}", NULL);
    assert_int_equal(notes.n, 0);
    hth_gbnf_unref(gbnf);
    gbnf = compile("{\"type\":\"string\",\"maxLength\":10}", &(hth_schema_options){ .repetitions_max = 9 });
    assert_int_equal(notes.n, 1);
    hth_gbnf_unref(gbnf);
}

TEST(beginnings_that_no_text_of_a_pattern_has_take_no_rules)
{
    hth_gbnf *gbnf = compile("{\"pattern\":\"^(a{10}|b{1000})$\",\"maxLength\":500}", NULL);

    assert_true(gbnf->n_rules < 50);
    assert_true(accepts(gbnf, "\"aaaaaaaaaa\""));
    hth_gbnf_unref(gbnf);
}

/* ---- bounds of the work ------------------------------------------------------------------------------------------ */

static char hostile[BYTES_MAX + 1];

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
    size_t n = strlen(hostile);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(hostile + n, sizeof(hostile) - n, format, arguments);
    va_end(arguments);
}

/* It ends, and where with an error, with this one. */
static void ends(const char *why)
{
    hearth_error err = { .message = "" };
    hth_gbnf *gbnf = NULL;
    hearth_status status = hth_schema_compile(hostile, strlen(hostile), NULL, &gbnf, NULL, &err);

    if (why ? status != HEARTH_MISUSE || !strstr(err.message, why) : status != HEARTH_OK)
        fail_msg("%.100s...: %s", hostile, err.message);
    hth_gbnf_unref(gbnf);
    hostile[0] = '\0';
}

TEST(a_grammar_has_room_for_a_thousand_small_schemas)
{
    static const char *const types[] = { "boolean", "string", "integer" };
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = { .json = hth_schema_embedded, .json_data = &steps };
    hearth_error err = { .message = "" };
    hth_gbnf *gbnf = NULL;

    hostile[0] = '\0';
    add("root ::=");
    for (int i = 0; i < 1000; i++)
        add(" %%json {\"type\":\"%s\"}", types[i % 3]);
    if (hth_gbnf_new(hostile, strlen(hostile), &outside, &gbnf, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    hth_gbnf_unref(gbnf);
    hostile[0] = '\0';
}

TEST(any_schema_takes_bounded_work)
{
    hostile[0] = '\0';

    /* What multiplies elsewhere is linear here: optional members, and lists of types at each level. */
    add("{\"properties\":{\"p\":{}");
    for (int i = 0; i < 2000; i++)
        add(",\"p%d\":{\"type\":\"integer\"}", i);
    add("}}");
    ends(NULL);
    for (int i = 0; i < 30; i++)
        add("{\"type\":[\"object\",\"array\",\"null\"],\"items\":{},\"properties\":{\"a\":");
    add("{}");
    for (int i = 0; i < 30; i++)
        add("}}");
    ends(NULL);

    /* Alternatives that hold at once multiply until there are too many. */
    add("{\"type\":\"object\",\"allOf\":[{}");
    for (int i = 0; i < 40; i++)
        add(",{\"anyOf\":[{\"required\":[\"a%d\"]},{\"required\":[\"b%d\"]}]}", i, i);
    add("]}");
    ends("takes too long");

    /* Patterns. */
    add("{\"anyOf\":[{}");
    for (int i = 0; i < 3000; i++)
        add(",{\"type\":\"string\",\"pattern\":\"^(ab|cd){1,20}[a-z]{%d}$\"}", i);
    add("]}");
    ends("at #/anyOf/");
    add("{\"type\":\"string\",\"pattern\":\"^(((a{1,100}){1,100}){1,100}){1,100}$\"}");
    ends("too long");
    add("{\"type\":\"string\",\"pattern\":\"");
    for (int i = 0; i < 60; i++)
        add("(a|b|.*");
    for (int i = 0; i < 60; i++)
        add(")*");
    add("\"}");
    ends(NULL);

    add("{\"enum\":[\"a\"],\"allOf\":[{}");
    for (int i = 0; i < 100; i++)
        add(",{\"pattern\":\"^(a|b{%d}){1,20}$\"}", 700 + i);
    add("]}");
    ends("too long together");

    /* Circles. */
    add("{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/b\"}]},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
        "a\"},{\"type\":\"null\"}]}},"
        "\"$ref\":\"#/$defs/a\"}");
    ends(NULL);
    add("{\"not\":{\"$ref\":\"#\"}}");
    {
        hearth_error err;
        hth_gbnf *gbnf = NULL;

        (void)hth_schema_compile(hostile, strlen(hostile), NULL, &gbnf, NULL, &err); /* a paradox; it ends */
        hth_gbnf_unref(gbnf);
        hostile[0] = '\0';
    }
    add("{\"oneOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}");
    {
        hearth_error err;
        hth_gbnf *gbnf = NULL;

        (void)hth_schema_compile(hostile, strlen(hostile), NULL, &gbnf, NULL, &err);
        hth_gbnf_unref(gbnf);
        hostile[0] = '\0';
    }

    add("{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"array\",\"uniqueItems\":true,"
        "\"items\":{\"$ref\":\"#/a\"},\"a\":{\"anyOf\":[{\"$ref\":\"#/a\"}]}}");
    ends("at #/uniqueItems:");

    /* A chain, which is as good as a circle where it is long. */
    for (int n = 100; n <= 3000; n += 2900) {
        add("{\"$ref\":\"#/d/0\",\"d\":[");
        for (int i = 1; i <= n; i++)
            add("{\"oneOf\":[{\"$ref\":\"#/d/%d\"}]},", i);
        add("{\"type\":\"null\"}]}");
        ends(n == 100 ? NULL : "lead from one to the next");
    }

    /* Many alternatives to tell apart. */
    add("{\"$defs\":{\"e\":{\"enum\":[0");
    for (int i = 1; i < 2000; i++)
        add(",%d", i);
    add("]}},\"oneOf\":[{\"type\":\"null\"}");
    for (int i = 0; i < 60; i++)
        add(",{\"properties\":{\"a\":{\"$ref\":\"#/$defs/e\"}},\"required\":[\"a\"]}");
    add("]}");
    ends("takes too long");

    /* Counts. */
    add("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"maxItems\":10000,\"items\":{\"type\":\"array\","
        "\"maxItems\":9999,"
        "\"items\":{\"type\":\"array\",\"maxItems\":9998,\"items\":{\"type\":\"array\",\"maxItems\":9997}}}},"
        "\"maxItems\":9996}");
    ends(NULL);
    add("{\"contains\":{\"const\":1},\"minContains\":9000,\"maxItems\":9001}");
    ends("'contains' takes too many rules");

    /* Deep, and long. */
    for (int i = 0; i < 100; i++)
        add("{\"items\":");
    ends("nested");
    add("{\"enum\":[1");
    for (int i = 0; i < 40000; i++)
        add(",%d", i);
    add("]}");
    ends("values");
}
