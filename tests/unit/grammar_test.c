/*
 * grammar_test.c - grammars are read as written, follow every text they should, and never cost more than they may
 *
 * The vocabulary is made up: all bytes, and a few longer pieces.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "grammar/grammar.h"
#include "schema/schema.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static const char *const words[] = { "ab", "abc", "{\"", "\":", "é", "\xC3", "\xA9!", "((((", "aaaa", "" };

enum { N_WORDS = sizeof(words) / sizeof(words[0]), END = 256 + N_WORDS, N_TOKENS };

static hth_vocabulary *vocabulary;

static hearth_status piece(const void *model, hearth_token token, char *bytes, size_t capacity, size_t *n_out)
{
    (void)model;
    (void)capacity;
    if (token < 256) {
        bytes[0] = (char)token;
        *n_out = 1;
    } else if (token < END) {
        *n_out = strlen(words[token - 256]);
        memcpy(bytes, words[token - 256], *n_out);
    } else {
        *n_out = 0;
    }
    return HEARTH_OK;
}

static bool is_end(const void *model, hearth_token token)
{
    (void)model;
    return token == END;
}

static int open_vocabulary(void **state)
{
    (void)state;
    return hth_vocabulary_new(&(hth_vocabulary_source){ .n_tokens = N_TOKENS, .piece = piece, .is_end = is_end },
                              &vocabulary, NULL) != HEARTH_OK;
}

static int close_vocabulary(void **state)
{
    (void)state;
    hth_vocabulary_free(vocabulary);
    return 0;
}

static bool token_by_name(const void *user_data, const char *text, size_t n_bytes, hearth_token *out)
{
    (void)user_data;
    *out = END - 1;
    return n_bytes == 6 && memcmp(text, "<none>", 6) == 0;
}

static hearth_status open_text(const char *text, size_t n, hth_grammar **out, hearth_error *err)
{
    hth_gbnf *gbnf;
    uint64_t steps = HTH_SCHEMA_STEPS_MAX;
    hth_gbnf_outside outside = {
        .n_tokens = N_TOKENS, .token = token_by_name, .json = hth_schema_embedded, .json_data = &steps
    };
    hearth_status status = hth_gbnf_new(text, n, &outside, &gbnf, err);

    return status == HEARTH_OK ? hth_grammar_new(gbnf, vocabulary, out, err) : status;
}

static hth_grammar *open_grammar(const char *text)
{
    hth_grammar *grammar = NULL;
    hearth_error err;

    if (open_text(text, strlen(text), &grammar, &err) != HEARTH_OK)
        fail_msg("%s: %s", text, err.message);
    return grammar;
}

/* Is the whole text in the grammar? It is fed a byte at a time, and asked before each. */
static bool matches(const char *text, const char *subject)
{
    hth_grammar *grammar = open_grammar(text);
    bool ok = true;

    for (size_t i = 0; subject[i] && ok; i++) {
        hearth_token token = (uint8_t)subject[i];

        hth_grammar_begin_choice(grammar);
        ok = hth_grammar_allows(grammar, token);
        assert_int_equal(hth_grammar_accept(grammar, token, NULL) == HEARTH_OK, ok);
    }
    ok = ok && hth_grammar_is_complete(grammar);
    hth_grammar_free(grammar);
    return ok;
}

TEST(texts_match_as_written)
{
    static const struct {
        const char *grammar, *yes[4], *no[4];
    } cases[] = {
        { "root ::= \"ab\" [c-e]+ # comment\n", { "abc", "abede" }, { "ab", "abf", "a" } },
        { "root ::= x | y\nx ::= \"1\"\ny ::= \"2\" x?", { "1", "2", "21" }, { "22", "12", "" } },
        { "root ::= (\"a\" | \"b\"){2,3}", { "ab", "bba" }, { "a", "abab" } },
        { "root ::= \"a\"{2}", { "aa" }, { "a", "aaa" } },
        { "root ::= \"a\"{1,} \"b\"", { "ab", "aaaab" }, { "b" } },
        { "root ::= [^a\\n] .", { "bx", "éé" }, { "ax", "\nx", "b" } },
        { "root ::= \"\\u00e9\" \"\\x41\\U0001F600\"", { "éA😀" }, { "eA😀" } },
        /* left recursion, empty rules in front of it, and a rule that is only itself */
        { "root ::= root \"+\" n | n\nn ::= [0-9]", { "1", "1+2+3" }, { "+", "1+" } },
        { "root ::= e root \"x\" | \"y\"\ne ::= f f\nf ::= \"\"", { "y", "yxx" }, { "x" } },
        { "root ::= root | \"a\"", { "a" }, { "aa" } },
        { "root ::= \"(\" root \")\" | \"[\" root \"]\" |", { "", "([()])" }, { "(]", "(" } },
        { "root ::= a* b?\na ::= \"x\"? \"y\"?\nb ::= \"z\"", { "", "xyyxz" }, { "zz" } },
        { "root ::=\n  \"a\" |\n  \"b\"\n", { "a", "b" }, { "ab" } },
        /* schemas, of which one has brackets and quotes in its strings, and one goes round */
        { "root ::= \"<\" %json {\"type\":\"boolean\"} \">\" n\nn ::= (%json {\"enum\":[7,\"]}\\\"\"]})*",
          { "<true>", "<false>7", "<true>77\"]}\\\"\"" },
          { "<true", "<1>", "<true>8" } },
        { "root ::= %json [\"#/properties/a~1b/items\", {\"properties\": {\"a/b\": {\"items\":\n{\"anyOf\": "
          "[{\"type\": "
          "\"null\"}, {\"type\":\"array\", \"items\": {\"$ref\": \"#/properties/a~1b/items\"}}]}}}}]\n\nx ::= \"y\"",
          { "null", "[[],null]" },
          { "[1]", "{}" } },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t j = 0; j < 4; j++) {
            if (cases[i].yes[j] && !matches(cases[i].grammar, cases[i].yes[j]))
                fail_msg("%s refuses %s", cases[i].grammar, cases[i].yes[j]);
            if (cases[i].no[j] && matches(cases[i].grammar, cases[i].no[j]))
                fail_msg("%s takes %s", cases[i].grammar, cases[i].no[j]);
        }
}

TEST(bad_grammars_are_errors_with_their_line)
{
    static const struct {
        const char *grammar, *why;
    } cases[] = {
        { "root ::= \"a", "line 1" },
        { "root ::= x", "'x' is not defined" },
        { "roof ::= \"a\"", "'root'" },
        { "root ::= \"a\"\nroot ::= \"b\"", "line 2: the rule 'root' is defined twice" },
        { "root := \"a\"", "'::='" },
        { "root ::= (\"a\"", "')'" },
        { "root ::= )", "line 1" },
        { "root ::= []", "no characters" },
        { "root ::= [^]", "no characters" },
        { "root ::= [z-a]", "ends before it begins" },
        { "root ::= *", "nothing before" },
        { "root ::= \"a\"{3,1}", "ends before it begins" },
        { "root ::= \"a\"{99999999999999999999}", "at most 10000" },
        { "root ::= \"a\"{0,1000000}", "at most 10000" },
        { "root ::= ((\"a\"{5000}){5000}) ((((\"a\" \"b\"){9999} \"c\"){9999}){0,9999}){0,9999} x{9999}{9999}{9999}\nx "
          "::= "
          "((((((\"a\"{0,9999})?){0,9999})?){0,9999}){0,9999} ){0,9999} ({ 2 })",
          "more than" },
        { "root ::= \"\\q\"", "escape" },
        { "root ::= \"\\x4\"", "hexadecimal" },
        { "root ::= \"\\UFFFFFFFF\"", "no character" },
        { "root ::= \"\xFF\"", "UTF-8" },
        { "root ::= <[99999]>", "no token 99999" },
        { "root ::= <who>", "not the name" },
        { "root ::= ! \"a\"", "'!'" },
        { "root ::= root", "matches no text" },
        { "root ::= root \"a\"", "matches no text" },
        { "", "'root'" },
        { "root ::= \"a\" $", "'$'" },
        { "root ::= %jsn {}", "%json" },
        { "root ::= %json 5", "a JSON schema is expected" },
        { "root ::=\n%json {\"type\":\"string\"", "line 2: behind %json" },
        { "root ::= %json {\"type\":\"text\"}", "line 1: the schema: at #/type" },
        { "root ::= %json {\"a\":,}", "line 1: the schema: the schema cannot be parsed" },
        { "root ::= %json [{}]", "a place and a schema" },
        { "root ::= %json [\"#/b\", {\"a\":{}}]", "nothing at '#/b'" },
    };
    hth_grammar *grammar = NULL;
    hearth_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (open_text(cases[i].grammar, strlen(cases[i].grammar), &grammar, &err) != HEARTH_MISUSE)
            fail_msg("%s is taken", cases[i].grammar);
        if (!strstr(err.message, cases[i].why))
            fail_msg("%s: %s", cases[i].grammar, err.message);
    }
    assert_int_equal(open_text("root ::= \"a\0b\"", 14, &grammar, &err), HEARTH_MISUSE);
}

TEST(groups_nested_too_deep_are_an_error)
{
    static char text[200000];
    size_t n = (size_t)snprintf(text, sizeof(text), "root ::= ");
    hth_grammar *grammar = NULL;
    hearth_error err;

    memset(text + n, '(', sizeof(text) - n);
    assert_int_equal(open_text(text, sizeof(text), &grammar, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "nested"));
}

/* The table of names has 4096 buckets by FNV-1a; whoever knows that can fill one of them. */
TEST(names_that_were_chosen_to_be_slow_are_an_error)
{
    enum { N_NAMES = 1500, N_REFERENCES = 5000 };
    static char text[262144];
    size_t n = (size_t)snprintf(text, sizeof(text), "root ::= \"a\"\n");
    char first[16] = "";
    hth_grammar *grammar = NULL;
    hearth_error err;

    for (unsigned i = 0, n_names = 0; n_names < N_NAMES; i++) {
        uint32_t hash = 2166136261u;
        char name[16];

        (void)snprintf(name, sizeof(name), "%x", i);
        for (const char *c = name; *c; c++)
            hash = (hash ^ (uint8_t)*c) * 16777619u;
        if (hash % 4096 != 7)
            continue;
        n_names++;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ::= root\n", name);
        if (!first[0])
            memcpy(first, name, sizeof(first));
    }
    n += (size_t)snprintf(text + n, sizeof(text) - n, "last ::=");
    for (int i = 0; i < N_REFERENCES; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", first);
    assert_int_equal(open_text(text, n, &grammar, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "too many names"));
}

TEST(tokens_are_terminals_of_their_own)
{
    hth_grammar *grammar = open_grammar("root ::= <none> !<[97]> \"b\"");
    static const hearth_token good[] = { END - 1, 'c', 'b', END };

    for (size_t i = 0; i < 4; i++) {
        hth_grammar_begin_choice(grammar);
        assert_false(hth_grammar_allows(grammar, 'a'));
        assert_int_equal(hth_grammar_allows(grammar, END), i == 3);
        assert_true(hth_grammar_allows(grammar, good[i]));
        assert_int_equal(hth_grammar_accept(grammar, good[i], NULL), HEARTH_OK);
    }
    assert_int_equal(hth_grammar_accept(grammar, 'b', NULL), HEARTH_MISUSE);
    hth_grammar_free(grammar);
}

static const char json[] = "root ::= object\n"
                           "value ::= object | array | string | number | \"true\" | \"null\"\n"
                           "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? ws \"}\"\n"
                           "array ::= \"[\" ws ( value (\",\" ws value)* )? ws \"]\"\n"
                           "string ::= \"\\\"\" ([^\"\\\\\\x00-\\x1F] | \"\\\\\" [\"\\\\bfnrt])* \"\\\"\"\n"
                           "number ::= \"-\"? [0-9]+ (\".\" [0-9]+)?\n"
                           "ws ::= [ \\t\\n]*\n";

/* Along random texts, the mask, single questions, and a second grammar that replays everything agree. */
TEST(masks_questions_and_replays_agree)
{
    static const char *const grammars[] = { json,
                                            "root ::= (\"a\"? \"b\"? \"c\"?)* \"é\"{0,3} [^x]",
                                            "root ::= root root | \"a\" | \"(\" root \")\" | \"\"",
                                            "root ::= [a-c]+ ([\\u00e0-\\u00ef] | \"!\")* | <none> \"a\"",
                                            "root ::= (!<[97]> | !<[98]> \"x\")* <[5]>",
                                            "root ::= (!<[97]> \"b\" | !<[97]> \"x\" | \"é\")* <none>" };
    uint64_t seed = hth_test_seed();

    for (size_t g = 0; g < sizeof(grammars) / sizeof(grammars[0]); g++)
        for (int round = 0; round < 10; round++) {
            hth_grammar *grammar = open_grammar(grammars[g]);
            hearth_token taken[60];
            size_t n_taken = 0;

            while (n_taken < 60) {
                static bool allowed[N_TOKENS], again[N_TOKENS];
                hearth_token choices[N_TOKENS];
                size_t n = 0;
                hth_grammar *replay;
                hearth_error err;

                hth_grammar_begin_choice(grammar);
                assert_ok(hth_grammar_mask(grammar, allowed, &err), err);
                replay = open_grammar(grammars[g]);
                for (size_t i = 0; i < n_taken; i++)
                    assert_int_equal(hth_grammar_accept(replay, taken[i], NULL), HEARTH_OK);
                hth_grammar_begin_choice(replay);
                assert_int_equal(hth_grammar_mask(replay, again, &err), HEARTH_OK);
                assert_memory_equal(allowed, again, sizeof(allowed));
                for (hearth_token token = 0; token < N_TOKENS; token++) {
                    assert_int_equal(allowed[token], hth_grammar_allows(grammar, token));
                    if (allowed[token])
                        choices[n++] = token;
                }
                hth_grammar_free(replay);
                assert_true(n > 0);
                taken[n_taken] = choices[hth_test_random(&seed, n)];
                assert_int_equal(hth_grammar_accept(grammar, taken[n_taken], NULL), HEARTH_OK);
                if (taken[n_taken++] == END)
                    break;
            }
            hth_grammar_free(grammar);
        }
}

/* Each of these has more ways than atoms, or calls without end, in an implementation that keeps them apart. */
TEST(ambiguous_grammars_end_or_are_refused)
{
    static const char *const grammars[] = {
        "root ::= (\"a\"?){1000}",
        "root ::= (\"a\"? \"a\"? \"a\"?){0,1000}",
        "root ::= \"(\" root \")\" | \"(\" root \"]\" | \"(\" root | \"x\"",
        "root ::= root root root | \"a\" | \"\"",
        "root ::= ((((((\"a\"*)*)*)*)*)*)*",
        "root ::= s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"a\" s | \"(\" s",
        "root ::= a a a a a a a a a a\na ::= b b b b b b b b b b |\nb ::= c c c c c c c c c |\nc ::= \"a\" | \"(\" |",
    };
    static bool allowed[N_TOKENS];

    for (size_t g = 0; g < sizeof(grammars) / sizeof(grammars[0]); g++) {
        hth_grammar *grammar = NULL;
        hearth_status status = open_text(grammars[g], strlen(grammars[g]), &grammar, NULL);

        for (int i = 0; i < 300 && status == HEARTH_OK; i++) {
            hth_grammar_begin_choice(grammar);
            status = hth_grammar_mask(grammar, allowed, NULL);
            if (status == HEARTH_OK)
                status = hth_grammar_accept(grammar, allowed['('] ? 256 + 7 : 256 + 8, NULL);
        }
        assert_true(status == HEARTH_OK || status == HEARTH_MISUSE); /* of the caller's grammar, never the engine's */
        hth_grammar_free(grammar);
    }
}

TEST(a_long_text_does_not_make_the_grammar_grow)
{
    hth_grammar *grammar = open_grammar(json);
    static const char begin[] = "{\"a\":[";

    assert_int_equal(hth_grammar_accept_text(grammar, (const uint8_t *)begin, sizeof(begin) - 1, NULL), HEARTH_OK);
    for (int i = 0; i < 100000; i++) /* beyond the limit of nodes, if none were dropped */
        assert_int_equal(hth_grammar_accept_text(grammar, (const uint8_t *)"[1,\"xy\\n\"],  ", 13, NULL), HEARTH_OK);
    assert_int_equal(hth_grammar_accept_text(grammar, (const uint8_t *)"null]}", 6, NULL), HEARTH_OK);
    assert_true(hth_grammar_is_complete(grammar));
    hth_grammar_free(grammar);
}

/* Below: even tokens or "a" come first, then odd ones or "b". */
static bool goes_on(hearth_token token, int place)
{
    return (token < 240 && token % 2 == place) || token == 'a' + place || (token == 256 && place == 0);
}

/* A token is looked up among thousands that the grammar names, and the limit of a choice is not used up by asking. */
TEST(many_tokens_that_are_named_cost_no_more_than_few)
{
    enum { N = 7500, TEXT_BYTES = 1 << 18 };
    char *text = calloc(1, TEXT_BYTES);
    hth_grammar *grammar;
    bool allowed[N_TOKENS];
    size_t n;

    assert_string_equal(words[0], "ab");
    n = (size_t)snprintf(text, TEXT_BYTES, "root ::= first second\nfirst ::= \"a\"");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, " | <[%d]>", i % 120 * 2);
    n += (size_t)snprintf(text + n, TEXT_BYTES - n, "\nsecond ::= \"b\"");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, TEXT_BYTES - n, " | <[%d]>", i % 120 * 2 + 1);
    grammar = open_grammar(text);
    for (int place = 0; place < 2; place++) {
        hth_grammar_begin_choice(grammar);
        for (int again = 0; again < 4; again++)
            for (hearth_token token = 0; token < N_TOKENS; token++)
                assert_int_equal(hth_grammar_allows(grammar, token), goes_on(token, place));
        assert_int_equal(hth_grammar_mask(grammar, allowed, NULL), HEARTH_OK);
        for (hearth_token token = 0; token < N_TOKENS; token++)
            assert_int_equal(allowed[token], goes_on(token, place));
        assert_int_equal(hth_grammar_accept(grammar, 100 + place, NULL), HEARTH_OK);
    }
    assert_true(hth_grammar_is_complete(grammar));
    hth_grammar_free(grammar);
    free(text);
}

GROUP(with_a_vocabulary, open_vocabulary, close_vocabulary)
