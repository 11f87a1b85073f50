/*
 * llama_sampler_test.c - each sampling option does to a real vocabulary what it says, against a naive computation
 */
#include <math.h>

#include "base/draw.h"
#include "sampling/sampling.h"
#include "support/sampler_scene.h"

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

TEST(every_filter_keeps_what_its_definition_does)
{
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

TEST(penalties_count_the_last_tokens_of_prompt_and_reply)
{
    static float changed[N_MAX];
    hearth_sampling s = plain();
    hearth_token past[300];
    hth_engine_sampler *sampler;

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
TEST(dry_penalizes_what_would_go_on_with_a_repetition)
{
    static float changed[N_MAX];
    static const char *const none[] = { "\x01never" };
    hearth_sampling s = plain();
    hearth_token past[400];

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

TEST(biases_forbid_prefer_and_force)
{
    hearth_logit_bias bias[] = { { 5, INFINITY }, { 6, INFINITY }, { 7, 2.5f }, { 8, -INFINITY }, { 5, -INFINITY } };
    const hth_candidate *candidates;
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    hearth_error err;

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

TEST(replies_follow_the_grammar)
{
    hearth_sampling s = plain();
    char text[4096];

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

static hearth_token letter_a(void)
{
    hearth_token a = -1;
    char text[256];

    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (text_of((hearth_token)i, text) == 1 && text[0] == 'a')
            a = (hearth_token)i;
    assert_true(a >= 0);
    return a;
}

TEST(the_end_comes_only_where_the_grammar_is_complete)
{
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_token end = -1, a = letter_a();
    char text[256];

    for (uint32_t i = 0; i < info.n_vocab; i++)
        if (llama->is_end(model, (hearth_token)i))
            end = (hearth_token)i;
    assert_true(end >= 0);
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

TEST(a_lazy_grammar_binds_from_its_trigger_on)
{
    hearth_trigger triggers[] = { { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_WORD, .text = "{" },
                                  { .kind = HEARTH_TRIGGER_PATTERN, .text = "call (\\[)" } };
    hearth_sampling s = plain();
    char text[8192];
    int n_triggered = 0;
    hth_engine_sampler *sampler;
    hearth_error err;

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
TEST(patterns_that_take_too_long_end_their_reply)
{
    hearth_trigger triggers[4];
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    hearth_status status = HEARTH_OK;
    hearth_error err;
    size_t n;

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
    logits[letter_a()] = 1000; /* a line break would end every way to match */
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

TEST(a_message_before_the_end_of_thinking_has_at_most_so_many_tokens)
{
    char message[HTH_THINKING_MESSAGE_BYTES_MAX + 1] = "";
    hearth_sampling s = plain();
    hth_engine_sampler *sampler = NULL;
    hearth_error err;

    memset(message, '\x01', sizeof(message) - 1); /* a token each */
    s.thinking_budget = 3;
    s.thinking_end = "</t>";
    s.thinking_message = message;
    assert_int_equal(llama->sampler_new(model, &s, &sampler, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "thinking_message has "));
    message[100] = '\0';
    llama->sampler_free(open_sampler(&s));
}

GROUP(with_a_model, open_model, close_model)
