/*
 * config_presets_test.c - presets of a configuration file: the order in which their keys win, and their errors
 */
#include <stdio.h>
#include <string.h>

#include "options/serve_config.h"
#include "support/cmocka_all.h"

static hth_problems problems;

static hth_serve_set *set_of(const char *text)
{
    memset(&problems, 0, sizeof(problems));
    return hth_serve_set_of_text("/etc/hearth/t.conf", text, strlen(text), &problems);
}

static hth_serve_set *good_set_of(const char *text)
{
    hth_serve_set *set = set_of(text);

    if (problems.n_errors > 0)
        fail_msg("%s", hth_problems_first(&problems));
    assert_non_null(set);
    return set;
}

/* The text has this one error. */
static void assert_refused(const char *text, const char *message)
{
    hth_serve_set *set = set_of(text);

    assert_int_equal(problems.n_errors, 1);
    if (!strstr(problems.list[0].message, message))
        fail_msg("the problem is '%s', expected '%s'", problems.list[0].message, message);
    hth_serve_set_free(&set->options);
}

TEST(a_model_has_the_keys_of_its_presets_and_its_own_over_them)
{
    hth_serve_set *set =
        good_set_of("preset small { context = 1024; batch = 64; aliases = [a, b]; cache { salt = x } }\n"
                    "preset warm { batch = 128; pinned = true }\n"
                    "model one { path = 'stub:'; batch = 256; preset = [small, warm] }\n"
                    "model two { path = 'stub:'; preset = small; aliases = c }\n"
                    "model three { path = 'stub:'; preset = warm }\n");
    const hth_serve_model *models = set->models;

    assert_int_equal(models[0].setup.model.n_ctx, 1024);
    assert_int_equal(models[0].setup.model.n_batch, 256);
    assert_true(models[0].rules.is_pinned);
    assert_int_equal(models[0].n_aliases, 2);
    assert_string_equal(models[0].setup.model.cache_salt, "x");
    assert_int_equal(models[1].setup.model.n_batch, 64);
    assert_false(models[1].rules.is_pinned);
    assert_int_equal(models[1].n_aliases, 1);
    assert_string_equal(models[1].aliases[0], "c");
    assert_int_equal(models[2].setup.model.n_ctx, hearth_model_options_default().n_ctx);
    assert_int_equal(models[2].setup.model.n_batch, 128);
    hth_serve_set_free(&set->options);
}

TEST(a_later_preset_wins_over_an_earlier_one)
{
    hth_serve_set *set = good_set_of("preset a { batch = 64 }\npreset b { batch = 128 }\n"
                                     "model one { preset = [a, b]; path = 'stub:' }\n"
                                     "model two { preset = [b, a]; path = 'stub:' }\n");

    assert_int_equal(set->models[0].setup.model.n_batch, 128);
    assert_int_equal(set->models[1].setup.model.n_batch, 64);
    hth_serve_set_free(&set->options);
}

TEST(errors_of_a_preset_are_told_once_with_their_line)
{
    assert_refused("preset p {\n contxt = 5 }\nmodel a { path = 'stub:'; preset = p }\n"
                   "model b { path = 'stub:'; preset = p }",
                   "t.conf:2: 'contxt' is no key of a preset; did you mean 'context'?");
    assert_refused("preset unused { batch = none }\nmodel m { path = 'stub:' }", "t.conf:1: batch is 'none'");
    assert_refused("preset p { }\npreset p { }\nmodel m { path = 'stub:' }",
                   "t.conf:2: there is a preset 'p' already, in line 1");
    assert_refused("preset = p\nmodel m { path = 'stub:' }", "t.conf:1: 'preset' is no section with a name");
}

TEST(a_preset_that_is_not_there_is_refused)
{
    assert_refused("preset p { }\nmodel m {\n path = 'stub:'\n preset = [p, q]\n}",
                   "t.conf:4: there is no preset 'q' in this file; add preset \"q\" { ... }");
    assert_refused("model m { path = 'stub:'\n preset { } }", "t.conf:2: 'preset' has the name of a preset, or a list");
    assert_refused("preset p { preset = q }\npreset q { }\nmodel m { path = 'stub:'; preset = p }",
                   "t.conf:1: 'preset' is no key of a preset");
}
