/*
 * chain_test.c - the steps of sampling in any order, against llama.cpp's own samplers and against small cases by hand
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/sampler_names.h"
#include "sampling/sampler.h"
#include "sampling/sampling.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { N_VOCAB = 64, LINE_BYTES = 8192 };

static float logits[N_VOCAB];
static hearth_sampler samplers[HTH_SAMPLERS_MAX];

/* Everything off. */
static hearth_sampling plain(void)
{
    hearth_sampling s = hearth_sampling_default();

    s.temperature = 1;
    s.top_k = 0;
    s.top_p = 1;
    s.min_p = 0;
    s.seed = 1;
    return s;
}

static hth_engine_sampler *open_sampler(const hearth_sampling *sampling)
{
    hth_engine_sampler *sampler;
    hearth_error err;

    assert_int_equal(hth_sampling_check(sampling, &err), HEARTH_OK);
    assert_int_equal(hth_sampler_new(sampling, &(hth_sampler_parts){ .n_vocab = N_VOCAB }, &sampler, &err), HEARTH_OK);
    return sampler;
}

static size_t apply(hth_engine_sampler *sampler, uint64_t position, const hth_candidate **out)
{
    hearth_error err;
    size_t n = 0;

    assert_int_equal(hth_sampler_apply(sampler, logits, &(hth_sample_at){ .position = position }, out, &n, &err),
                     HEARTH_OK);
    return n;
}

static void accept(hth_engine_sampler *sampler, hearth_token token)
{
    assert_int_equal(hth_sampler_accept(sampler, token, true, NULL), HEARTH_OK);
}

/* The letters of samplers, for a sampling. */
static void order(hearth_sampling *s, const char *letters)
{
    hearth_error err;

    assert_true(hth_api_samplers_read(letters, samplers, &s->n_samplers, &err));
    s->samplers = samplers;
}

/* ---- against the engine: fixtures/samplers/make_vectors.cpp ---- */

static void make_logits(uint32_t step)
{
    for (uint32_t i = 0; i < N_VOCAB; i++) {
        uint32_t x = (i + 1) * 2654435761u ^ (step + 1) * 2246822519u;

        x ^= x >> 15;
        x *= 2654435761u;
        logits[i] = (float)(x >> 16) / 4096.0f - 4.0f;
    }
}

static void take_option(hearth_sampling *s, const char *name, const char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } floats[] = {
        { "temperature", offsetof(hearth_sampling, temperature) },
        { "top_p", offsetof(hearth_sampling, top_p) },
        { "min_p", offsetof(hearth_sampling, min_p) },
        { "typical_p", offsetof(hearth_sampling, typical_p) },
        { "top_n_sigma", offsetof(hearth_sampling, top_n_sigma) },
        { "dynatemp_range", offsetof(hearth_sampling, dynatemp_range) },
        { "dynatemp_exponent", offsetof(hearth_sampling, dynatemp_exponent) },
        { "mirostat_tau", offsetof(hearth_sampling, mirostat_tau) },
        { "mirostat_eta", offsetof(hearth_sampling, mirostat_eta) },
        { "adaptive_target", offsetof(hearth_sampling, adaptive_target) },
        { "adaptive_decay", offsetof(hearth_sampling, adaptive_decay) },
    };

    if (strcmp(name, "samplers") == 0)
        order(s, value);
    else if (strcmp(name, "top_k") == 0)
        s->top_k = atoi(value);
    else if (strcmp(name, "mirostat") == 0)
        s->mirostat = atoi(value);
    else
        for (size_t i = 0;; i++) {
            assert_true(i < sizeof(floats) / sizeof(floats[0]));
            if (strcmp(name, floats[i].name) == 0) {
                *(float *)(void *)((char *)s + floats[i].offset) = strtof(value, NULL);
                break;
            }
        }
}

static hearth_sampling read_case(char *options)
{
    hearth_sampling s = plain();
    char *rest = options, *option;

    while ((option = strtok_r(rest, " \n", &rest))) {
        char *value = strchr(option, '=');

        assert_non_null(value);
        *value = '\0';
        take_option(&s, option, value + 1);
    }
    return s;
}

/* The line of a step: the token that the engine drew, and its candidates. */
static hearth_token expect_step(hth_engine_sampler *sampler, uint32_t step, char *text)
{
    const hth_candidate *candidates;
    double expected[N_VOCAB] = { 0 };
    hearth_token drawn = (hearth_token)strtol(text, &text, 10);
    long n_expected = strtol(text, &text, 10);
    size_t n;

    for (long i = 0; i < n_expected; i++) {
        long token = strtol(text, &text, 10);

        expected[token] = strtod(text + 1, &text);
    }
    make_logits(step);
    n = apply(sampler, step, &candidates);
    assert_int_equal(n, n_expected);
    for (size_t i = 0; i < n; i++) {
        double p = expected[candidates[i].token];

        assert_true(fabs(candidates[i].probability - p) < 1e-5 + 1e-3 * p);
        assert_true(i == 0 || candidates[i - 1].probability >= candidates[i].probability);
    }
    return drawn;
}

TEST(every_step_and_order_gives_the_candidates_of_the_engines_own_samplers)
{
    FILE *file = fopen(HTH_TEST_FIXTURES "/samplers/vectors.txt", "r");
    hth_engine_sampler *sampler = NULL;
    char line[LINE_BYTES];
    uint32_t step = 0, n_cases = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "case ", 5) == 0) {
            hearth_sampling s;

            print_message("%s", line);
            s = read_case(line + 5);
            hth_sampler_free(sampler);
            sampler = open_sampler(&s);
            step = 0;
            n_cases++;
        } else {
            assert_non_null(sampler);
            accept(sampler, expect_step(sampler, step, line + 5));
            step++;
        }
    }
    hth_sampler_free(sampler);
    (void)fclose(file);
    assert_int_equal(n_cases, 14);
}

/* ---- by hand ---- */

/* Logits of the first tokens; all others are forbidden. */
static void set_logits(const float *values, size_t n)
{
    for (size_t i = 0; i < N_VOCAB; i++)
        logits[i] = i < n ? values[i] : -INFINITY;
}

TEST(the_written_usual_order_is_the_usual_order)
{
    hearth_sampling usual = hearth_sampling_default(), written;
    uint64_t seed = hth_test_seed();

    usual.seed = 3;
    usual.presence_penalty = 0.5f;
    usual.top_n_sigma = 1.5f;
    usual.typical_p = 0.95f;
    usual.xtc_probability = 0.5f;
    usual.dynatemp_range = 0.2f;
    usual.adaptive_target = 0.3f;
    written = usual;
    order(&written, "edskypmxta");
    for (int round = 0; round < 20; round++) {
        hth_engine_sampler *a = open_sampler(&usual), *b = open_sampler(&written);
        const hth_candidate *from_a, *from_b;

        for (uint32_t step = 0; step < 10; step++) {
            size_t n;

            for (size_t i = 0; i < N_VOCAB; i++)
                logits[i] = (float)hth_test_random(&seed, 1000) / 100;
            n = apply(a, step, &from_a);
            assert_int_equal(apply(b, step, &from_b), n);
            assert_memory_equal(from_a, from_b, n * sizeof(*from_a));
            accept(a, from_a[n / 2].token);
            accept(b, from_a[n / 2].token);
        }
        hth_sampler_free(a);
        hth_sampler_free(b);
    }
}

TEST(a_step_that_is_not_in_the_order_is_off)
{
    const float values[] = { 3, 2, 1, 0 };
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    const hth_candidate *candidates;

    s.top_k = 1;
    s.temperature = 0;
    s.presence_penalty = 2;
    order(&s, "");
    set_logits(values, 4);
    sampler = open_sampler(&s);
    accept(sampler, 0);
    assert_int_equal(apply(sampler, 0, &candidates), 4);
    assert_int_equal(candidates[0].token, 0);
    assert_true(fabs(candidates[0].probability - 0.643914) < 1e-5); /* e^3 / (e^3 + e^2 + e + 1) */
    hth_sampler_free(sampler);
}

TEST(penalties_behind_a_cut_change_only_what_it_left)
{
    const float values[] = { 5, 4, 3.5f, 1 };
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    const hth_candidate *candidates;

    s.top_k = 2;
    s.presence_penalty = 2;
    order(&s, "ke");
    set_logits(values, 4);
    sampler = open_sampler(&s);
    accept(sampler, 0);
    assert_int_equal(apply(sampler, 0, &candidates), 2);
    assert_int_equal(candidates[0].token, 1);
    assert_int_equal(candidates[1].token, 0);
    assert_true(fabs(candidates[0].probability - 1 / (1 + exp(-1))) < 1e-6);
    hth_sampler_free(sampler);
}

TEST(of_equal_tokens_typical_p_keeps_those_with_the_lowest_ids)
{
    static const float zeros[12];
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    const hth_candidate *candidates;

    s.typical_p = 0.3f;
    for (size_t n = 1; n <= 12; n++) {
        size_t n_kept;

        set_logits(zeros, n);
        sampler = open_sampler(&s);
        n_kept = apply(sampler, 0, &candidates);
        assert_true(n_kept >= 1 && n_kept <= n);
        for (size_t i = 0; i < n_kept; i++)
            assert_int_equal(candidates[i].token, i);
        hth_sampler_free(sampler);
    }
}

TEST(a_temperature_of_zero_takes_the_likeliest_whatever_the_order_and_the_range)
{
    const float values[] = { 1, 4, 4, 3 };
    hearth_sampling s = plain();
    hth_engine_sampler *sampler;
    const hth_candidate *candidates;
    float mu;

    s.temperature = 0;
    s.dynatemp_range = 1;
    s.mirostat = 2;
    set_logits(values, 4);
    sampler = open_sampler(&s);
    assert_int_equal(apply(sampler, 0, &candidates), 1);
    assert_int_equal(candidates[0].token, 1);
    assert_false(hth_sampler_state(sampler, &mu));
    hth_sampler_free(sampler);
}

TEST(a_dynamic_temperature_goes_from_one_bound_to_the_other)
{
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;

    s.temperature = 1;
    s.dynatemp_range = 0.5f;
    sampler = open_sampler(&s);
    set_logits((const float[]){ 60, 0 }, 2); /* no entropy: 0.5, so that the gap doubles */
    assert_int_equal(apply(sampler, 0, &candidates), 1);
    set_logits((const float[]){ 2, 2, 2 }, 3); /* the highest entropy: 1.5, which changes nothing */
    assert_int_equal(apply(sampler, 0, &candidates), 3);
    assert_true(fabs(candidates[2].probability - 1.0 / 3) < 1e-6);
    hth_sampler_free(sampler);
}

TEST(mirostat_moves_mu_by_the_surprise_of_the_drawn_token)
{
    const float values[] = { 0, 0, 0, 0 };
    hearth_sampling s = plain();
    const hth_candidate *candidates;
    hth_engine_sampler *sampler;
    float mu;

    s.mirostat = 2;
    s.mirostat_tau = 3;
    s.mirostat_eta = 0.5f;
    set_logits(values, 4);
    sampler = open_sampler(&s);
    assert_true(hth_sampler_state(sampler, &mu) && mu == 6);
    accept(sampler, 1); /* of a prompt, or replayed: its probability is not known */
    assert_true(hth_sampler_state(sampler, &mu) && mu == 6);
    assert_int_equal(apply(sampler, 0, &candidates), 4); /* two bits each: below mu */
    accept(sampler, 3);
    assert_true(hth_sampler_state(sampler, &mu) && fabsf(mu - 6.5f) < 1e-5f); /* 6 - 0.5 * (2 - 3) */
    hth_sampler_set_state(sampler, 1);
    assert_int_equal(apply(sampler, 1, &candidates), 4); /* all equal to the likeliest */
    set_logits((const float[]){ 1, 0, 0, 0 }, 4);
    assert_int_equal(apply(sampler, 2, &candidates), 1);
    accept(sampler, 0);
    assert_true(hth_sampler_state(sampler, &mu) && fabsf(mu - 2.5f) < 1e-5f); /* no surprise */
    hth_sampler_free(sampler);
}

TEST(a_sampler_that_gets_the_state_continues_as_the_one_before)
{
    uint64_t seed = hth_test_seed();

    for (int kind = 0; kind < 3; kind++) {
        hearth_sampling s = plain();
        hth_engine_sampler *unbroken, *next;
        const hth_candidate *from_a, *from_b;
        float mu;

        s.mirostat = kind;
        s.min_p = 0.01f;
        s.adaptive_target = 0.4f;
        unbroken = open_sampler(&s);
        for (uint32_t step = 0; step < 40; step++) {
            make_logits(step);
            accept(unbroken, apply(unbroken, step, &from_a) > 1 ? from_a[hth_test_random(&seed, 2)].token : 0);
        }
        assert_true(hth_sampler_state(unbroken, &mu));
        next = open_sampler(&s);
        hth_sampler_set_state(next, mu);
        for (uint32_t step = 40; step < 60; step++) {
            size_t n;

            make_logits(step);
            n = apply(unbroken, step, &from_a);
            assert_int_equal(apply(next, step, &from_b), n);
            assert_memory_equal(from_a, from_b, n * sizeof(*from_a));
            accept(unbroken, from_a[n / 2].token);
            accept(next, from_a[n / 2].token);
        }
        hth_sampler_free(unbroken);
        hth_sampler_free(next);
    }
}

TEST(equal_logits_and_a_single_one_are_no_trouble)
{
    for (int kind = 0; kind <= 2; kind++) {
        hearth_sampling s = plain();
        const hth_candidate *candidates;
        hth_engine_sampler *sampler;

        s.mirostat = kind;
        s.top_n_sigma = 1;
        s.adaptive_target = 0.5f;
        s.dynatemp_range = 0.5f;
        sampler = open_sampler(&s);
        set_logits((const float[]){ -7 }, 1);
        assert_int_equal(apply(sampler, 0, &candidates), 1);
        assert_true(candidates[0].probability == 1);
        accept(sampler, 0);
        for (size_t i = 0; i < N_VOCAB; i++)
            logits[i] = 3;
        assert_in_range(apply(sampler, 1, &candidates), 1, N_VOCAB);
        hth_sampler_free(sampler);
    }
}

/* ---- every order, temperature and size ---- */

enum { N_LARGE = 5000 };

static void make_wild_logits(float *out, size_t n, uint64_t *seed)
{
    const float scale = (const float[]){ 1e-3f, 1, 50, 1e10f, FLT_MAX }[hth_test_random(seed, 5)];

    for (size_t i = 0; i < n; i++)
        out[i] = hth_test_random(seed, 20) == 0 ? -INFINITY : scale * ((float)hth_test_random(seed, 2001) / 1000 - 1);
    out[hth_test_random(seed, n)] = scale;
}

/* Candidates come likeliest first, without repeats, and their probabilities add up to 1. */
static void expect_probabilities(const hth_candidate *candidates, size_t n, size_t n_vocab)
{
    static bool seen[N_LARGE];
    double total = 0;

    memset(seen, 0, sizeof(seen));
    assert_in_range(n, 1, n_vocab);
    for (size_t i = 0; i < n; i++) {
        assert_in_range(candidates[i].token, 0, n_vocab - 1);
        assert_false(seen[candidates[i].token]);
        seen[candidates[i].token] = true;
        assert_true(candidates[i].probability >= 0 && candidates[i].probability <= 1); /* false for a NaN */
        assert_true(i == 0 || candidates[i - 1].probability >= candidates[i].probability);
        total += candidates[i].probability;
    }
    assert_true(fabs(total - 1) < 1e-4);
}

static hearth_sampling wild_sampling(int round, float temperature, uint64_t *seed)
{
    static hearth_sampler steps[12];
    hearth_sampling s = plain();

    s.temperature = temperature;
    s.mirostat = round % 3;
    s.dynatemp_range = hth_test_random(seed, 2) ? temperature : 0;
    s.top_k = (int32_t)hth_test_random(seed, 3) * 8;
    s.top_p = 0.9f;
    s.min_p = 0.05f;
    s.typical_p = 0.9f;
    s.top_n_sigma = 1.5f;
    s.xtc_probability = 0.5f;
    s.xtc_threshold = 0.1f;
    s.adaptive_target = hth_test_random(seed, 2) ? 0.3f : 0;
    s.repeat_penalty = hth_test_random(seed, 2) ? 0.01f : 1000;
    if (hth_test_random(seed, 4) == 0)
        return s; /* the usual order */
    s.samplers = steps;
    s.n_samplers = hth_test_random(seed, 13);
    for (size_t i = 0; i < s.n_samplers; i++)
        steps[i] = (hearth_sampler[]){ 0, 2, 3, 4, 5, 6, 7, 8, 8, 9 }[hth_test_random(seed, 10)]; /* DRY needs texts */
    return s;
}

TEST(a_token_is_left_with_every_order_temperature_and_size)
{
    static const float temperatures[] = {
        FLT_TRUE_MIN, 1e-44f, 1e-40f, FLT_MIN, 1e-37f, 1e-30f, 1e-10f, 0.1f, 1, 1000
    };
    static const size_t sizes[] = { 16, N_LARGE };
    static float wild[N_LARGE];
    uint64_t seed = hth_test_seed();

    for (int round = 0; round < 1200; round++) {
        size_t n_vocab = sizes[round % 8 == 7];
        hearth_sampling s = wild_sampling(round, temperatures[hth_test_random(&seed, 10)], &seed);
        hth_engine_sampler *sampler;
        hearth_error err;

        assert_ok(hth_sampling_check(&s, &err), err);
        assert_ok(hth_sampler_new(&s, &(hth_sampler_parts){ .n_vocab = (uint32_t)n_vocab }, &sampler, &err), err);
        for (uint64_t position = 0; position < 4; position++) {
            const hth_candidate *candidates;
            size_t n;
            float state;

            make_wild_logits(wild, n_vocab, &seed);
            assert_ok(hth_sampler_apply(sampler, wild, &(hth_sample_at){ .position = position }, &candidates, &n, &err),
                      err);
            expect_probabilities(candidates, n, n_vocab);
            accept(sampler, candidates[hth_test_random(&seed, n)].token);
            assert_true(!hth_sampler_state(sampler, &state) || isfinite(state));
        }
        hth_sampler_free(sampler);
    }
}

TEST(a_tiny_temperature_takes_the_likeliest)
{
    static const char *const orders[] = { "t", "tp", "tm", "tk", "ty", "ts", "tx", "tt", "ta", "te" };
    static const float ranges[] = { 0, FLT_TRUE_MIN, 1e-44f };
    const float values[] = { 1, 3, -4, 2 }, low[] = { -9, -3, -4, -8 };

    for (size_t i = 0; i < 3 * 3 * sizeof(orders) / sizeof(orders[0]); i++) {
        hearth_sampling s = plain();
        const hth_candidate *candidates;
        hth_engine_sampler *sampler;

        s.temperature = 1e-44f;
        s.dynatemp_range = ranges[i % 3];
        s.mirostat = (int)(i / 3 % 3);
        s.top_p = 0.9f;
        s.min_p = 0.1f;
        s.typical_p = 0.9f;
        s.top_k = 3;
        s.top_n_sigma = 1;
        s.presence_penalty = 0.5f;
        order(&s, orders[i / 9]);
        sampler = open_sampler(&s);
        for (int kind = 0; kind < 2; kind++) {
            set_logits(kind == 0 ? values : low, 4);
            assert_int_equal(apply(sampler, 0, &candidates), 1);
            assert_int_equal(candidates[0].token, 1);
            assert_true(candidates[0].probability == 1);
        }
        hth_sampler_free(sampler);
    }
}

TEST(a_step_that_is_listed_again_does_not_run_again)
{
    const char *const orders[] = { "etkp", "eettttttttttttttttttttttttkkpp" };
    hearth_sampling s = plain();
    const hth_candidate *from[2];
    hth_engine_sampler *sampler[2];
    size_t n[2];

    s.temperature = 0.5f;
    s.presence_penalty = 0.5f;
    s.top_k = 9;
    s.top_p = 0.9f;
    make_logits(0);
    for (int i = 0; i < 2; i++) {
        order(&s, orders[i]);
        sampler[i] = open_sampler(&s);
        accept(sampler[i], 3);
        n[i] = apply(sampler[i], 0, &from[i]);
    }
    assert_int_equal(n[0], n[1]);
    assert_memory_equal(from[0], from[1], n[0] * sizeof(*from[0]));
    hth_sampler_free(sampler[0]);
    hth_sampler_free(sampler[1]);
}

TEST(names_and_letters_of_samplers)
{
    hearth_sampler out[HTH_SAMPLERS_MAX];
    hearth_error err;
    size_t n = 99;

    assert_true(hth_api_samplers_read("top_k;TOP-P,nucleus;temp;typical_p;adaptive-p", out, &n, &err));
    assert_int_equal(n, 6);
    assert_int_equal(out[0], HEARTH_SAMPLER_TOP_K);
    assert_true(out[1] == HEARTH_SAMPLER_TOP_P && out[2] == HEARTH_SAMPLER_TOP_P);
    assert_true(out[3] == HEARTH_SAMPLER_TEMPERATURE && out[4] == HEARTH_SAMPLER_TYPICAL_P);
    assert_int_equal(out[5], HEARTH_SAMPLER_ADAPTIVE_P);
    assert_true(hth_api_samplers_read("edskypmxta", out, &n, &err) && n == 10);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(out[i], i);
    assert_true(hth_api_samplers_read("xtc", out, &n, &err) && n == 1 && out[0] == HEARTH_SAMPLER_XTC);
    assert_true(hth_api_samplers_read("", out, &n, &err) && n == 0);
    assert_false(hth_api_samplers_read("top_k;top_q", out, &n, &err));
    assert_non_null(strstr(err.message, "'top_q' is no sampler"));
    assert_false(hth_api_samplers_read("kz", out, &n, &err));
    assert_false(hth_api_samplers_read("kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", out, &n, &err));
    for (int i = 0; i <= HEARTH_SAMPLER_ADAPTIVE_P; i++) {
        const char *name = hearth_sampler_name((hearth_sampler)i);

        assert_true(hth_api_sampler_of_name(name, strlen(name), out) && (int)out[0] == i);
    }
    assert_null(hearth_sampler_name((hearth_sampler)10));
}
