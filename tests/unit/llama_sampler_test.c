/*
 * llama_sampler_test.c - each sampling option does to a real vocabulary what it says, against a naive computation
 */
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
#include "engine/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

#define MODEL HTH_TEST_MODELS "/hearth-tiny.gguf"

enum { N_MAX = 65536, SCHEMA_BYTES = 262144 };

static const hth_backend *llama;
static hth_engine_model *model;
static hth_engine_model_info info;
static const hth_log silent = { .level = HEARTH_LOG_ERROR };
static float logits[N_MAX];
static uint64_t seed;

static int open_model(void **state)
{
    hth_engine_model_params params = { .log = &silent };
    hearth_error err = { .message = "" };

    (void)state;
    seed = hth_test_seed();
    if (hth_backend_llama(HTH_TEST_ENGINE_DIR, &llama, &err) != HEARTH_OK ||
        llama->model_load(MODEL, &params, &model, &err) != HEARTH_OK) {
        print_error("%s\n", err.message);
        return 1;
    }
    llama->model_info(model, &info);
    return info.n_vocab > N_MAX;
}

static int close_model(void **state)
{
    (void)state;
    llama->model_free(model);
    return 0;
}

static void random_logits(void)
{
    for (uint32_t i = 0; i < info.n_vocab; i++)
        logits[i] = (float)hth_test_random(&seed, 16000) / 1000 - 8;
}

/* Everything off. */
static hearth_sampling plain(void)
{
    return (hearth_sampling){ .temperature = 1,
                              .top_p = 1,
                              .typical_p = 1,
                              .repeat_penalty = 1,
                              .repeat_last_n = 64,
                              .dry_base = 1.75f,
                              .dry_allowed_length = 2,
                              .dry_last_n = 1024 };
}

static hth_engine_sampler *open_sampler(const hearth_sampling *sampling)
{
    hth_engine_sampler *sampler = NULL;
    hearth_error err;

    if (llama->sampler_new(model, sampling, &sampler, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return sampler;
}

static size_t apply(hth_engine_sampler *sampler, uint64_t position, bool forbids_end, const hth_candidate **out)
{
    hearth_error err;
    size_t n = 0;

    if (llama->sampler_apply(sampler, logits, &(hth_sample_at){ .position = position, .forbids_end = forbids_end }, out,
                             &n, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    return n;
}

static void accept(hth_engine_sampler *sampler, hearth_token token, bool is_reply)
{
    hearth_error err;

    if (llama->sampler_accept(sampler, token, is_reply, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
}

static size_t text_of(hearth_token token, char bytes[256])
{
    size_t n = 0;

    if (llama->piece(model, token, false, bytes, 255, &n, NULL) != HEARTH_OK)
        n = 0;
    bytes[n] = '\0';
    return n;
}

/* ---- filters ---- */

typedef struct item {
    hearth_token token;
    double logit, p;
} item;

static item items[N_MAX];

static int by_logit(const void *a, const void *b)
{
    const item *x = a, *y = b;

    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->token - y->token;
}

static double entropy;

static int by_typicality(const void *a, const void *b)
{
    const item *x = a, *y = b;
    double dx = fabs(-log(x->p) - entropy), dy = fabs(-log(y->p) - entropy);

    return dx < dy ? -1 : dx > dy;
}

static void softmax(size_t n, double temperature)
{
    double highest = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        highest = items[i].logit > highest ? items[i].logit : highest;
    for (size_t i = 0; i < n; i++)
        sum += items[i].p = exp((items[i].logit - highest) / temperature);
    for (size_t i = 0; i < n; i++)
        items[i].p /= sum;
}

/* The chain after the logits were changed, as a textbook would do it. */
static size_t naive(const hearth_sampling *s, const float *changed, uint64_t position)
{
    size_t n = 0, n_kept;
    double sum = 0;

    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (isfinite(changed[i]))
            items[n++] = (item){ .token = (hearth_token)i, .logit = changed[i] };
    qsort(items, n, sizeof(items[0]), by_logit);
    if (s->top_k > 0 && n > (size_t)s->top_k)
        n = (size_t)s->top_k;
    if (s->typical_p < 1) {
        softmax(n, 1);
        entropy = 0;
        for (size_t i = 0; i < n; i++)
            entropy -= items[i].p * log(items[i].p);
        qsort(items, n, sizeof(items[0]), by_typicality);
        for (n_kept = 0; n_kept < n && (n_kept == 0 || sum <= s->typical_p);)
            sum += items[n_kept++].p;
        n = n_kept;
        qsort(items, n, sizeof(items[0]), by_logit);
    }
    if (s->top_p < 1) {
        softmax(n, 1);
        for (n_kept = 0, sum = 0; n_kept < n && (n_kept == 0 || sum < s->top_p);)
            sum += items[n_kept++].p;
        n = n_kept;
    }
    softmax(n, 1);
    for (n_kept = 1; n_kept < n && items[n_kept].p >= s->min_p * items[0].p;)
        n_kept++;
    n = n_kept;
    if (hth_draw_uniform_for(HTH_DRAW_XTC, s->seed, position) < s->xtc_probability) {
        size_t n_top = 0;

        softmax(n, 1);
        while (n_top < n && items[n_top].p >= s->xtc_threshold)
            n_top++;
        if (n_top > 1) {
            n -= n_top - 1;
            memmove(items, items + n_top - 1, n * sizeof(items[0]));
        }
    }
    softmax(n, s->temperature);
    return n;
}

static void expect_naive(const hearth_sampling *s, hth_engine_sampler *sampler, const float *changed, uint64_t position)
{
    const hth_candidate *candidates;
    size_t n = apply(sampler, position, false, &candidates);
    size_t n_naive = naive(s, changed, position);

    /* Sums of thousands of floats may fall on either side of a limit. */
    assert_true(n <= n_naive + 1 && n_naive <= n + 1);
    for (size_t i = 0; i < n && i < n_naive; i++) {
        assert_int_equal(candidates[i].token, items[i].token);
        assert_true(fabs(candidates[i].probability - items[i].p) < 1e-4 + 1e-3 * items[i].p);
    }
}

static void every_filter_keeps_what_its_definition_does(void **state)
{
    (void)state;
    for (int round = 0; round < 60; round++) {
        hearth_sampling s = plain();
        hth_engine_sampler *sampler;

        random_logits();
        for (int i = 0; i < 5; i++)
            logits[hth_test_random(&seed, info.n_vocab)] += 6;
        s.seed = (uint64_t)round;
        s.temperature = 0.3f + (float)hth_test_random(&seed, 30) / 10;
        if (round % 2)
            s.top_k = 1 + (int32_t)hth_test_random(&seed, 300);
        if (round % 3 == 0)
            s.top_p = (float)hth_test_random(&seed, 100) / 100;
        if (round % 5 == 0)
            s.min_p = (float)hth_test_random(&seed, 50) / 100;
        if (round % 7 == 0)
            s.typical_p = (float)(1 + hth_test_random(&seed, 90)) / 100;
        if (round % 4 == 0) {
            s.xtc_probability = 0.5f;
            s.xtc_threshold = (float)hth_test_random(&seed, 30) / 100;
        }
        sampler = open_sampler(&s);
        for (uint64_t position = 0; position < 4; position++)
            expect_naive(&s, sampler, logits, position);
        expect_naive(&s, sampler, logits, 0); /* whatever came before */
        llama->sampler_free(sampler);
    }
}

static void penalties_count_the_last_tokens_of_prompt_and_reply(void **state)
{
    static float changed[N_MAX];
    hearth_sampling s = plain();
    hearth_token past[300];
    hth_engine_sampler *sampler;

    (void)state;
    s.top_k = 100;
    s.repeat_penalty = 1.3f;
    s.frequency_penalty = 0.4f;
    s.presence_penalty = -0.7f;
    s.repeat_last_n = 50;
    sampler = open_sampler(&s);
    for (int i = 0; i < 300; i++) {
        past[i] = (hearth_token)hth_test_random(&seed, 40);
        accept(sampler, past[i], i > 100);
        if (i % 30)
            continue;
        random_logits();
        memcpy(changed, logits, sizeof(logits));
        for (hearth_token token = 0; token < 40; token++) {
            int count = 0;

            for (int j = i; j >= 0 && j > i - 50; j--)
                count += past[j] == token;
            if (count > 0) {
                changed[token] = changed[token] <= 0 ? changed[token] * 1.3f : changed[token] / 1.3f;
                changed[token] -= (float)count * 0.4f - 0.7f;
            }
        }
        expect_naive(&s, sampler, changed, 0);
    }
    llama->sampler_free(sampler);
}

/* With breakers given as none; and with the usual ones, a repetition does not reach over a newline. */
static void dry_penalizes_what_would_go_on_with_a_repetition(void **state)
{
    static float changed[N_MAX];
    static const char *const none[] = { "\x01never" };
    hearth_sampling s = plain();
    hearth_token past[400];

    (void)state;
    s.top_k = 200;
    s.dry_multiplier = 0.8f;
    s.dry_allowed_length = 2;
    s.dry_last_n = 60;
    for (int usual = 0; usual < 2; usual++) {
        hth_engine_sampler *sampler;

        s.dry_breakers = usual ? NULL : none;
        s.n_dry_breakers = usual ? 0 : 1;
        sampler = open_sampler(&s);
        for (int i = 0; i < 400; i++) {
            bool breaks[400];
            int begin, longest;
            char text[256];

            past[i] = (hearth_token)(300 + hth_test_random(&seed, i % 100 < 50 ? 3 : 30));
            accept(sampler, past[i], i > 50);
            if (i % 20 != 19)
                continue;
            random_logits();
            memcpy(changed, logits, sizeof(logits));
            for (int j = 0; j <= i; j++) {
                text_of(past[j], text);
                breaks[j] = usual && strpbrk(text, "\n:\"*") != NULL;
            }
            begin = i + 1 > 60 ? i + 1 - 60 : 0;
            for (longest = 0; longest <= i - begin && !breaks[i - longest];)
                longest++;
            for (hearth_token token = 300; token < 330; token++) {
                int best = 0;

                for (int j = begin + 1; j <= i; j++) {
                    int n = 0;

                    while (past[j] == token && j - 1 - n >= begin && past[j - 1 - n] == past[i - n] && n < longest)
                        n++;
                    best = n > best ? n : best;
                }
                text_of(token, text);
                if (best >= 2 && !(usual && strpbrk(text, "\n:\"*")))
                    changed[token] -= (float)(0.8f * pow(1.75f, best - 2));
            }
            expect_naive(&s, sampler, changed, 0);
        }
        llama->sampler_free(sampler);
    }
}

static void biases_forbid_prefer_and_force(void **state)
{
    hearth_logit_bias bias[] = { { 5, INFINITY }, { 6, INFINITY }, { 7, 2.5f }, { 8, -INFINITY }, { 5, -INFINITY } };
    const hth_candidate *candidates;
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    hearth_error err;

    (void)state;
    random_logits();
    s.temperature = 0;
    s.logit_bias = bias + 2;
    s.n_logit_bias = 2;
    logits[8] = 20;
    logits[7] = 9;
    logits[9] = 11;
    sampler = open_sampler(&s);
    assert_int_equal(apply(sampler, 0, false, &candidates), 1);
    assert_int_equal(candidates[0].token, 7);
    llama->sampler_free(sampler);
    s.logit_bias = bias;
    s.n_logit_bias = 5;
    s.temperature = 1;
    sampler = open_sampler(&s);
    assert_int_equal(apply(sampler, 0, false, &candidates), 1);
    assert_int_equal(candidates[0].token, 6);
    llama->sampler_free(sampler);
    s.grammar = "root ::= <[9]> | <[10]>"; /* allows none of those */
    sampler = open_sampler(&s);
    assert_int_equal(apply(sampler, 0, false, &candidates), 2);
    assert_int_equal(candidates[0].token, 9);
    llama->sampler_free(sampler);
    bias[4].token = (hearth_token)info.n_vocab;
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "logit_bias[4]"));
}

/* ---- grammars ---- */

/* A reply of random choices; its length, 0 where it did not end within limit tokens. */
static size_t reply(const hearth_sampling *s, char *text, size_t capacity, size_t limit)
{
    hth_engine_sampler *sampler = open_sampler(s);
    size_t n = 0;

    for (size_t i = 0; i < limit; i++) {
        const hth_candidate *candidates;
        char piece[256];
        size_t n_candidates, n_piece;
        hearth_token token;

        random_logits();
        for (uint32_t j = 0; j < info.n_vocab; j++)
            if (llama->is_end(model, (hearth_token)j))
                logits[j] += 10; /* so that it ends */
        n_candidates = apply(sampler, i, false, &candidates);
        token = candidates[hth_test_random(&seed, n_candidates)].token;
        accept(sampler, token, true);
        if (llama->is_end(model, token)) {
            llama->sampler_free(sampler);
            text[n] = '\0';
            return n;
        }
        n_piece = text_of(token, piece);
        assert_true(n + n_piece + 1 < capacity);
        memcpy(text + n, piece, n_piece);
        n += n_piece;
    }
    llama->sampler_free(sampler);
    return 0;
}

static void replies_follow_the_grammar(void **state)
{
    hearth_sampling s = plain();
    char text[4096];

    (void)state;
    s.top_k = 20;
    s.grammar = "root ::= \"x=\" [0-9]{3} (\", \" [a-z]+ \"!\"){2}";
    for (int i = 0; i < 20; i++) {
        int number, end = 0;
        char a[2048], b[2048];

        s.top_k = i % 2 ? 20 : 0;
        if (reply(&s, text, sizeof(text), 500) == 0)
            continue;
        assert_int_equal(sscanf(text, "x=%3d, %[a-z]!, %[a-z]!%n", &number, a, b, &end), 3);
        assert_int_equal(end, strlen(text));
    }
}

static void the_end_comes_only_where_the_grammar_is_complete(void **state)
{
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_token end = -1, a = -1;
    char text[256];

    (void)state;
    for (uint32_t i = 0; i < info.n_vocab; i++) {
        if (llama->is_end(model, (hearth_token)i))
            end = (hearth_token)i;
        if (text_of((hearth_token)i, text) == 1 && text[0] == 'a')
            a = (hearth_token)i;
    }
    assert_true(end >= 0 && a >= 0);
    random_logits();
    logits[end] = 30;
    s.temperature = 0;
    s.grammar = "root ::= \"a\"";
    sampler = open_sampler(&s);
    apply(sampler, 0, false, &candidates);
    assert_int_equal(text_of(candidates[0].token, text), 1); /* there may be more than one such token */
    assert_string_equal(text, "a");
    assert_int_equal(llama->sampler_accept(sampler, end, true, NULL), HEARTH_MISUSE);
    llama->sampler_free(sampler);
    sampler = open_sampler(&s);
    accept(sampler, end, false); /* of the prompt: the grammar does not see it */
    accept(sampler, a, true);
    apply(sampler, 1, true, &candidates); /* forbidden, but nothing else is left */
    assert_true(llama->is_end(model, candidates[0].token));
    for (uint32_t i = 100; i < info.n_vocab; i++) /* also where few tokens are left */
        logits[i] = -INFINITY;
    logits[end] = -20;
    assert_int_equal(apply(sampler, 1, true, &candidates), 1);
    assert_true(llama->is_end(model, candidates[0].token));
    random_logits();
    logits[end] = 30;
    llama->sampler_free(sampler);
    s.grammar = NULL;
    sampler = open_sampler(&s);
    apply(sampler, 0, true, &candidates);
    assert_false(llama->is_end(model, candidates[0].token));
    llama->sampler_free(sampler);
}

static void a_lazy_grammar_binds_from_its_trigger_on(void **state)
{
    hearth_trigger triggers[] = { { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_WORD, .text = "{" },
                                  { .kind = HEARTH_TRIGGER_PATTERN, .text = "call (\\[)" } };
    hearth_sampling s = plain();
    char text[8192];
    int n_triggered = 0;
    hth_engine_sampler *sampler;
    hearth_error err;

    (void)state;
    s.grammar = "root ::= \"{\" [0-9] \"}\" | \"[\" [0-9] \"]\"";
    s.grammar_is_lazy = true;
    s.triggers = triggers;
    s.n_triggers = 2;
    for (int i = 0; i < 30; i++) {
        const char *brace;

        s.top_k = i % 2 ? 40 : 0;
        if (reply(&s, text, sizeof(text), 400) == 0)
            continue;
        brace = strchr(text, '{');
        n_triggered += brace != NULL;
        if (brace && (strlen(brace) != 3 || brace[1] < '0' || brace[1] > '9' || brace[2] != '}'))
            fail_msg("%s", text);
    }
    print_message("%d replies triggered\n", n_triggered);
    triggers[0].text = "no";
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "triggers[0]: the grammar does not begin with it"));
    triggers[0].text = "{";
    triggers[1].text = "(";
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "triggers[1]"));
    triggers[1] = (hearth_trigger){ .struct_size = sizeof(hearth_trigger),
                                    .kind = HEARTH_TRIGGER_TOKEN,
                                    .token = (hearth_token)info.n_vocab };
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "triggers[1]"));
}

/* Each byte begins another way to match, and none ends: that costs one reply, not the others their time. */
static void patterns_that_take_too_long_end_their_reply(void **state)
{
    hearth_trigger triggers[4];
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_status status = HEARTH_OK;
    hearth_error err;
    size_t n;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        triggers[i] = (hearth_trigger){ .struct_size = sizeof(hearth_trigger),
                                        .kind = HEARTH_TRIGGER_PATTERN,
                                        .text = ".{1000}.{1000}(!)" };
    s.grammar = "root ::= \"!\"";
    s.grammar_is_lazy = true;
    s.triggers = triggers;
    s.n_triggers = 4;
    sampler = open_sampler(&s);
    random_logits();
    for (int i = 0; i < 4000 && status == HEARTH_OK; i++) {
        status =
            llama->sampler_apply(sampler, logits, &(hth_sample_at){ .position = (uint64_t)i }, &candidates, &n, &err);
        if (status == HEARTH_OK)
            accept(sampler, candidates[0].token, true);
    }
    assert_int_equal(status, HEARTH_ENGINE);
    assert_non_null(strstr(err.message, "triggers"));
    llama->sampler_free(sampler);
}

/* ---- schemas ---- */

static size_t n_characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((uint8_t)*text & 0xC0) != 0x80;
    return n;
}

static void replies_follow_the_schema(void **state)
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

    (void)state;
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

static void schemas_that_cannot_be_honoured_are_errors_that_name_why(void **state)
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

    (void)state;
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

static void names_of_any_length_and_script_are_honoured(void **state)
{
    static char schema[SCHEMA_BYTES], text[65536];
    hearth_sampling s = plain();
    char name[201];
    int n_replies = 0;

    (void)state;
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

static void common_schemas_are_honoured(void **state)
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

    (void)state;
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
static void integers_have_bounds_of_up_to_64_bits(void **state)
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

    (void)state;
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

static void formats_are_written_as_patterns(void **state)
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

    (void)state;
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

static void what_is_nullable_may_be_null(void **state)
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

    (void)state;
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
static void samplers_of_one_model_are_opened_by_several_threads(void **state)
{
    hth_engine_model_params params = { .log = &silent };
    opening all[OPENING_THREADS] = { { .n_opened = 0 } };
    pthread_t threads[OPENING_THREADS];
    hth_engine_model *shared;
    hearth_error err;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_filter_keeps_what_its_definition_does),
        cmocka_unit_test(penalties_count_the_last_tokens_of_prompt_and_reply),
        cmocka_unit_test(dry_penalizes_what_would_go_on_with_a_repetition),
        cmocka_unit_test(biases_forbid_prefer_and_force),
        cmocka_unit_test(replies_follow_the_grammar),
        cmocka_unit_test(the_end_comes_only_where_the_grammar_is_complete),
        cmocka_unit_test(a_lazy_grammar_binds_from_its_trigger_on),
        cmocka_unit_test(patterns_that_take_too_long_end_their_reply),
        cmocka_unit_test(replies_follow_the_schema),
        cmocka_unit_test(schemas_that_cannot_be_honoured_are_errors_that_name_why),
        cmocka_unit_test(names_of_any_length_and_script_are_honoured),
        cmocka_unit_test(common_schemas_are_honoured),
        cmocka_unit_test(integers_have_bounds_of_up_to_64_bits),
        cmocka_unit_test(formats_are_written_as_patterns),
        cmocka_unit_test(what_is_nullable_may_be_null),
        cmocka_unit_test(samplers_of_one_model_are_opened_by_several_threads),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
