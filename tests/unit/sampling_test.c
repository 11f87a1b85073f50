/*
 * sampling_test.c - every sampling option has limits, which the documents tell, and passing one names it
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampling/sampling.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static void expect(const hearth_sampling *sampling, const char *option)
{
    hearth_error err = { .message = "" };

    if (!option) {
        assert_ok(hth_sampling_check(sampling, &err), err);
        return;
    }
    assert_int_equal(hth_sampling_check(sampling, &err), HEARTH_MISUSE);
    assert_ptr_equal(strstr(err.message, "sampling: "), err.message);
    if (!strstr(err.message, option))
        fail_msg("'%s' does not name %s", err.message, option);
}

TEST(the_defaults_and_a_struct_with_few_fields_are_good)
{
    hearth_sampling sampling = hearth_sampling_default();

    expect(&sampling, NULL);
    sampling = (hearth_sampling){ .temperature = 1, .top_p = 1, .typical_p = 1, .repeat_penalty = 1 };
    expect(&sampling, NULL);
}

TEST(every_number_has_its_limits)
{
    static const struct {
        const char *name;
        size_t offset;
        float least, most;
    } floats[] = {
        { "temperature", offsetof(hearth_sampling, temperature), 0, 1000 },
        { "top_p", offsetof(hearth_sampling, top_p), 0, 1 },
        { "min_p", offsetof(hearth_sampling, min_p), 0, 1 },
        { "typical_p", offsetof(hearth_sampling, typical_p), 0, 1 },
        { "repeat_penalty", offsetof(hearth_sampling, repeat_penalty), 0.01f, 1000 },
        { "frequency_penalty", offsetof(hearth_sampling, frequency_penalty), -2, 2 },
        { "presence_penalty", offsetof(hearth_sampling, presence_penalty), -2, 2 },
        { "dry_multiplier", offsetof(hearth_sampling, dry_multiplier), 0, 1000 },
        { "dry_base", offsetof(hearth_sampling, dry_base), 1, 1000 },
        { "xtc_probability", offsetof(hearth_sampling, xtc_probability), 0, 1 },
        { "xtc_threshold", offsetof(hearth_sampling, xtc_threshold), 0, 1 },
        { "top_n_sigma", offsetof(hearth_sampling, top_n_sigma), 0, 1000 },
        { "dynatemp_range", offsetof(hearth_sampling, dynatemp_range), 0, 1000 },
        { "dynatemp_exponent", offsetof(hearth_sampling, dynatemp_exponent), 0, 10 },
        { "mirostat_tau", offsetof(hearth_sampling, mirostat_tau), 0, 100 },
        { "mirostat_eta", offsetof(hearth_sampling, mirostat_eta), 0, 1 },
        { "adaptive_target", offsetof(hearth_sampling, adaptive_target), 0, 1 },
        { "adaptive_decay", offsetof(hearth_sampling, adaptive_decay), 0, 0.99f },
    };

    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
        const float bad[] = { floats[i].least - 0.001f, floats[i].most + 0.001f, NAN, INFINITY, -INFINITY };
        const float good[] = { floats[i].least, floats[i].most };

        for (size_t j = 0; j < 7; j++) {
            hearth_sampling sampling = hearth_sampling_default();
            float value = j < 5 ? bad[j] : good[j - 5];

            sampling.dry_multiplier = 1;
            memcpy((char *)&sampling + floats[i].offset, &value, sizeof(value));
            expect(&sampling, j < 5 ? floats[i].name : NULL);
        }
    }
}

/* The header has it in a line: "float top_p; ... keep the likeliest that sum to p, 0 .. 1; 1: all (default 0.95)". */
static void assert_in_header(const char *header, const hth_sampling_number *number)
{
    char begin[64], range[64], usual[64], line[160];
    const char *at;

    (void)snprintf(begin, sizeof(begin), " %s;", number->field);
    (void)snprintf(range, sizeof(range), "%g .. %g", number->kind == HTH_NUMBER_WINDOW ? 0 : number->low, number->high);
    (void)snprintf(usual, sizeof(usual), "(default %g)", number->usual);
    at = strstr(strstr(header, "typedef struct hearth_sampling {"), begin);
    if (!at)
        fail_msg("include/hearth.h has no %s", number->field);
    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
    if ((number->high < INT32_MAX && !strstr(line, range)) || !strstr(line, usual))
        fail_msg("include/hearth.h: '%s' lacks '%s' or '%s'", line, range, usual);
}

/* The page has a row for it: "| `top_p` | `--top-p` | 0.95 | 0 to 1 |". */
static void assert_in_manual(const char *page, const hth_sampling_number *number)
{
    char begin[128], range[64];
    const char *at;

    (void)snprintf(begin, sizeof(begin), "| `%s` | `--%s` | %g", number->field, number->flag, number->usual);
    if (number->high < INT32_MAX)
        (void)snprintf(range, sizeof(range), " | %g to %g | ", number->low, number->high);
    else
        (void)snprintf(range, sizeof(range), " | %g and more | ", number->low);
    at = strstr(page, begin);
    if (!at)
        fail_msg("docs/sampling.md has no '%s'", begin);
    at += strlen(begin);
    at += strncmp(at, " (off)", 6) == 0 ? 6 : 0;
    if (strncmp(at, range, strlen(range)) != 0)
        fail_msg("docs/sampling.md: '%s' is not followed by '%s'", begin, range);
}

TEST(the_documents_tell_every_number_with_its_range_and_default)
{
    char *header = hth_test_text(HTH_TEST_SOURCE_DIR "/include/hearth.h");
    char *manual = hth_test_text(HTH_TEST_SOURCE_DIR "/docs/sampling.md");
    char *apis = hth_test_text(HTH_TEST_SOURCE_DIR "/docs/api.md");

    for (size_t i = 0; i < HTH_SAMPLING_NUMBERS; i++) {
        char name[64];

        assert_in_header(header, &hth_sampling_numbers[i]);
        assert_in_manual(manual, &hth_sampling_numbers[i]);
        (void)snprintf(name, sizeof(name), "`%s`", hth_sampling_numbers[i].name);
        if (!strstr(apis, name))
            fail_msg("docs/api.md has no %s", name);
    }
    free(apis);
    free(manual);
    free(header);
}

TEST(the_order_of_the_chain_has_steps_that_exist)
{
    static const hearth_sampler good[] = { HEARTH_SAMPLER_TOP_K, HEARTH_SAMPLER_TOP_K, HEARTH_SAMPLER_ADAPTIVE_P };
    const hearth_sampler bad[] = { HEARTH_SAMPLER_TOP_K, (hearth_sampler)10 };
    hearth_sampling sampling = hearth_sampling_default();

    sampling.samplers = good;
    expect(&sampling, NULL);
    sampling.n_samplers = 3;
    expect(&sampling, NULL);
    sampling.n_samplers = 33;
    expect(&sampling, "n_samplers is 33");
    sampling.samplers = bad;
    sampling.n_samplers = 2;
    expect(&sampling, "samplers[1] is 10");
}

TEST(mirostat_cannot_follow_a_grammar_that_holds_from_the_start)
{
    static const hearth_trigger trigger = { .struct_size = sizeof(trigger), .kind = HEARTH_TRIGGER_WORD, .text = "a" };
    hearth_sampling sampling = hearth_sampling_default();

    sampling.mirostat = 3;
    expect(&sampling, "mirostat is 3");
    sampling.mirostat = 2;
    expect(&sampling, NULL);
    sampling.grammar = "root ::= \"a\"";
    expect(&sampling, "must follow a grammar");
    sampling.grammar_is_lazy = true;
    sampling.triggers = &trigger;
    sampling.n_triggers = 1;
    expect(&sampling, NULL);
    sampling = hearth_sampling_default();
    sampling.mirostat = 1;
    sampling.json_schema = "{}";
    expect(&sampling, "must follow a json_schema");
}

TEST(counts_are_bounded)
{
    hearth_sampling sampling = hearth_sampling_default();

    sampling.top_k = -1;
    expect(&sampling, "top_k is -1");
    sampling.top_k = INT32_MAX;
    sampling.repeat_last_n = HTH_LAST_N_MAX;
    expect(&sampling, NULL);
    sampling.repeat_last_n++;
    expect(&sampling, "repeat_last_n is 65537; it must be at most 65536");
    sampling.repeat_last_n = 0;
    sampling.dry_last_n = UINT32_MAX;
    expect(&sampling, "dry_last_n");
    sampling.dry_last_n = 0;
    sampling.dry_allowed_length = UINT32_MAX;
    expect(&sampling, "dry_allowed_length");
}

TEST(arrays_are_there_and_not_too_long)
{
    static hearth_logit_bias bias[HTH_LOGIT_BIAS_MAX + 1];
    static const char *breakers[HTH_DRY_BREAKERS_MAX + 1];
    static char long_text[HTH_DRY_BREAKER_BYTES_MAX + 2];
    hearth_sampling sampling = hearth_sampling_default();

    sampling.n_logit_bias = 1;
    expect(&sampling, "logit_bias is missing");
    sampling.logit_bias = bias;
    sampling.n_logit_bias = HTH_LOGIT_BIAS_MAX;
    expect(&sampling, NULL);
    sampling.n_logit_bias++;
    expect(&sampling, "n_logit_bias is 4097");
    sampling.n_logit_bias = 3;
    bias[2].bias = NAN;
    expect(&sampling, "logit_bias[2]");
    bias[2] = (hearth_logit_bias){ .token = -1 };
    expect(&sampling, "logit_bias[2]");
    bias[2] = (hearth_logit_bias){ .token = 5, .bias = -INFINITY };
    expect(&sampling, NULL);

    memset(long_text, 'x', sizeof(long_text) - 1);
    for (size_t i = 0; i <= HTH_DRY_BREAKERS_MAX; i++)
        breakers[i] = "\n";
    sampling.n_dry_breakers = HTH_DRY_BREAKERS_MAX;
    expect(&sampling, "dry_breakers is missing");
    sampling.dry_breakers = breakers;
    expect(&sampling, NULL);
    sampling.n_dry_breakers++;
    expect(&sampling, "n_dry_breakers");
    sampling.n_dry_breakers = 2;
    breakers[1] = "";
    expect(&sampling, "dry_breakers[1] is empty");
    breakers[1] = NULL;
    expect(&sampling, "dry_breakers[1] is missing");
    breakers[1] = long_text;
    expect(&sampling, "dry_breakers[1] is too long");
}

TEST(grammars_and_triggers_go_together)
{
    static char big[HTH_GRAMMAR_BYTES_MAX + 2];
    hearth_trigger triggers[2] = {
        { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_TOKEN, .token = 3 },
        { .struct_size = sizeof(hearth_trigger), .kind = HEARTH_TRIGGER_WORD, .text = "x" }
    };
    hearth_sampling sampling = hearth_sampling_default();

    sampling.grammar = "root ::= \"x\"";
    expect(&sampling, NULL);
    sampling.json_schema = "{}";
    expect(&sampling, "grammar and json_schema");
    sampling.grammar = NULL;
    sampling.grammar_is_lazy = true;
    expect(&sampling, "triggers");
    sampling.n_triggers = 2;
    expect(&sampling, "triggers is missing");
    sampling.triggers = triggers;
    expect(&sampling, NULL);
    sampling.grammar_is_lazy = false;
    expect(&sampling, "triggers");
    sampling.grammar_is_lazy = true;
    sampling.json_schema = NULL;
    expect(&sampling, "grammar_is_lazy");
    memset(big, 'x', sizeof(big) - 1);
    sampling.grammar = big;
    expect(&sampling, "grammar is too long");
    sampling.grammar = "";
    expect(&sampling, "grammar is empty");
    sampling.grammar = "root ::= \"x\"";
    triggers[1].text = NULL;
    expect(&sampling, "triggers[1] is missing");
    triggers[1].kind = (hearth_trigger_kind)7;
    expect(&sampling, "triggers[1] has kind 7");
    triggers[0].token = -2;
    expect(&sampling, "triggers[0]");
    sampling.n_triggers = HTH_TRIGGERS_MAX + 1;
    expect(&sampling, "n_triggers");
}
