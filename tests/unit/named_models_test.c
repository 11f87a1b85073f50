/*
 * named_models_test.c - models that operators name while a server runs: the keys that an order may have, and that it
 * builds on the options in force
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/serve_set.h"
#include "support/support.h"

static const char config[] = "default = one\n"
                             "cache { salt = pepper }\n"
                             "preset small { context = 1024; batch = 64; chat_template_file = t.jinja }\n"
                             "model one { path = 'stub:'; start = at-once }\n";

static hth_problems problems;

typedef struct fixture {
    char *directory;
    hth_serve_set *set;
    char command[700];
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    hth_test_file_write(f->directory, "h.conf", config, 0600);
    hth_test_file_write(f->directory, "t.jinja", "{{ messages }}", 0600);
    (void)snprintf(f->command, sizeof(f->command), "--config %s/h.conf --n-parallel 3", f->directory);
    f->set = hth_test_set_of_flags(f->command, &problems);
    assert_int_equal(problems.n_errors, 0);
}

static void tear_down(fixture *f)
{
    hth_serve_set_free(&f->set->options);
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

/* Replace the set in force, as the front does. */
static void take(fixture *f, hth_serve_set *set)
{
    if (problems.n_errors > 0)
        fail_msg("%s", hth_problems_first(&problems));
    assert_non_null(set);
    hth_serve_set_free(&f->set->options);
    f->set = set;
}

static void name(fixture *f, const char *model, const char *settings)
{
    memset(&problems, 0, sizeof(problems));
    take(f, hth_serve_set_with(f->set, model, settings, &problems));
}

static void assert_refused(fixture *f, const char *model, const char *settings, const char *message)
{
    hth_serve_set *set;

    memset(&problems, 0, sizeof(problems));
    set = hth_serve_set_with(f->set, model, settings, &problems);
    if (problems.n_errors == 0 || !strstr(hth_problems_first(&problems), message))
        fail_msg("%s says '%s', expected '%s'", settings, hth_problems_first(&problems), message);
    if (set)
        hth_serve_set_free(&set->options);
}

/* Does the command line of a model's worker have this option with this value? */
static bool has_option(const hth_server_model *model, const char *option, const char *value)
{
    for (size_t i = 0; model->worker[i]; i++)
        if (strcmp(model->worker[i], option) == 0 && strcmp(model->worker[i + 1], value) == 0)
            return true;
    return false;
}

FIXTURE_TEST(an_order_takes_every_key_of_a_models_section)
{
    const hth_server_model *model;

    name(f, "late",
         "{\"path\":\"stub:\",\"context\":512,\"aliases\":[\"later\",\"latest-*\"],\"pinned\":true,\"start\":\"at-"
         "once\","
         "\"ram\":\"64mb\",\"unload_after_ms\":1000,\"gpu_layers\":3,\"defaults\":{\"temperature\":0.5},"
         "\"cache\":{\"policy\":{\"min_tokens\":7}}}");
    assert_int_equal(f->set->options.n_models, 2);
    assert_int_equal(f->set->n_read, 1);
    model = &f->set->options.models[1];
    assert_string_equal(model->name, "late");
    assert_int_equal(model->n_aliases, 2);
    assert_string_equal(model->aliases[1], "latest-*");
    assert_true(model->rules.is_pinned);
    assert_int_equal(model->rules.start, HTH_START_AT_ONCE);
    assert_int_equal(model->ram_bytes, 64 << 20);
    assert_int_equal(model->rules.unload_after_ms, 1000);
    assert_int_equal(f->set->models[1].setup.model.n_ctx, 512);
    assert_int_equal(f->set->models[1].setup.policy.min_tokens, 7);
    assert_true(f->set->models[1].setup.defaults.sampling.temperature == 0.5);
    assert_true(has_option(model, "--gpu-layers", "3"));
    assert_true(has_option(model, "--cache-salt", "pepper")); /* as all models */
    assert_true(has_option(model, "--n-parallel", "3"));
    name(f, "plain", "{\"path\":\"stub:\"}");
    assert_int_equal(f->set->options.models[2].rules.start, HTH_START_ON_DEMAND);
    assert_int_equal(f->set->options.models[2].n_aliases, 0);
}

FIXTURE_TEST(an_order_may_name_presets_of_the_configuration_and_wins_over_them)
{
    char expected[700];

    name(f, "late", "{\"batch\":128,\"preset\":[\"small\"],\"path\":\"stub:\"}");
    assert_int_equal(f->set->models[1].setup.model.n_ctx, 1024);
    assert_int_equal(f->set->models[1].setup.model.n_batch, 128);
    (void)snprintf(expected, sizeof(expected), "%s/t.jinja", f->directory);
    assert_string_equal(f->set->models[1].setup.chat_template_file, expected);
    assert_refused(f, "more", "{\"path\":\"stub:\",\"preset\":\"none\"}",
                   "there is no preset 'none' in the configuration file");
    assert_refused(f, "more", "{\"path\":\"stub:\",\"preset\":{}}", "'preset' has the name of a preset");
}

FIXTURE_TEST(wrong_orders_are_refused_with_the_key)
{
    assert_refused(f, "late", "{\"path\":\"stub:\",\"contxt\":512}",
                   "'contxt' is no key of a model; did you mean 'context'?");
    assert_int_equal(strncmp(hth_problems_first(&problems), "'contxt'", 8), 0); /* without a file and a line */
    assert_refused(f, "late", "{\"path\":\"stub:\",\"context\":\"much\"}", "context is ");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"context\":null}", "context is 'null'");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"context\":1.5}", "context is '1.5'");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"pinned\":1}", "pinned is '1'; it must be true or false");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"aliases\":[[\"a\"]]}", "aliases is a list; it must be");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"aliases\":[\"one\"]}", "is the name of model 'one', too");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"defaults\":{\"warmth\":1}}", "'warmth' is no key of 'defaults'");
    assert_refused(f, "late", "{\"path\":\"stub:\",\"memory\":\"1gb\"}", "'memory' is no key of a model");
    assert_refused(f, "late", "{\"path\":1}", "path is '1'; it must be");
    assert_refused(f, "late", "{\"context\":512}", "model 'late' has no 'path'; give the path of its GGUF file");
    assert_refused(f, "late", "{\"path\":\"/nowhere/late.gguf\"}", "cannot open '/nowhere/late.gguf'");
    assert_refused(f, "la te", "{\"path\":\"stub:\"}", "a model is called 'la te'; names have");
    assert_refused(f, "one", "{\"path\":\"stub:\"}", "there is a model 'one' already");
    assert_int_equal(f->set->options.n_models, 1);
}

FIXTURE_TEST(an_order_builds_on_the_options_in_force_and_not_on_the_file)
{
    hth_test_file_write(f->directory, "h.conf", "model one { path = 'stub:'; contxt = 5 }\nmodel two {", 0600);
    name(f, "late", "{\"path\":\"stub:\"}");
    name(f, "later", "{\"path\":\"stub:\",\"context\":512}");
    assert_int_equal(f->set->options.n_models, 3);
    assert_true(hth_serve_set_names(f->set, "late"));
    assert_false(hth_serve_set_names(f->set, "one"));
    take(f, hth_serve_set_without(f->set, "late", &problems));
    assert_int_equal(f->set->options.n_models, 2);
    assert_string_equal(f->set->options.models[1].name, "later");
    assert_int_equal(f->set->models[1].setup.model.n_ctx, 512);
    take(f, hth_serve_set_without(f->set, "later", &problems));
    assert_int_equal(f->set->options.n_models, 1);
    for (int i = 0; i < 3; i++) /* as often as one likes */
        name(f, i == 0 ? "a" : i == 1 ? "b" : "c", "{\"path\":\"stub:\"}");
    assert_int_equal(f->set->options.n_models, 4);
}

/* Read the file again, with the models that were named before. */
static void reload(fixture *f)
{
    static hth_serve_options flags; /* large */
    char path[600];
    char *argv[] = { (char *)"serve", (char *)"--config", path };

    (void)snprintf(path, sizeof(path), "%s/h.conf", f->directory);
    hth_serve_options_init(&flags);
    flags.config_file = path;
    flags.named = f->set->named;
    flags.n_named = f->set->n_named;
    memset(&problems, 0, sizeof(problems));
    take(f, hth_serve_set_new(3, argv, &flags, &problems));
    hth_serve_set_check(f->set, false, &problems);
    assert_int_equal(problems.n_errors, 0);
}

FIXTURE_TEST(the_default_may_be_a_named_model_and_then_stays)
{
    hth_serve_set *set;

    name(f, "late", "{\"path\":\"stub:\"}");
    hth_test_file_write(f->directory, "h.conf", "default = late\nmodel two { path = 'stub:' }\n", 0600);
    reload(f);
    set = hth_serve_set_without(f->set, "late", &problems);
    assert_int_equal(problems.n_errors, 1);
    assert_non_null(strstr(hth_problems_first(&problems), "default (--default-model) is 'late'"));
    hth_serve_set_free(&set->options);
}

FIXTURE_TEST(a_reload_keeps_named_models_and_gives_them_the_presets_of_then)
{
    name(f, "late", "{\"path\":\"stub:\",\"preset\":\"small\"}");
    hth_test_file_write(f->directory, "h.conf", "preset small { context = 2048 }\nmodel two { path = 'stub:' }\n",
                        0600);
    reload(f);
    assert_int_equal(f->set->options.n_models, 2);
    assert_string_equal(f->set->options.models[0].name, "two");
    assert_string_equal(f->set->options.models[1].name, "late");
    assert_int_equal(f->set->models[1].setup.model.n_ctx, 2048);
    name(f, "later", "{\"path\":\"stub:\"}");
    assert_int_equal(f->set->options.n_models, 3);
}

FIXTURE_TEST(a_file_of_a_watched_folder_does_not_take_the_name_of_a_named_model)
{
    char text[600], path[600];

    (void)snprintf(text, sizeof(text), "models_dir = %s\n", f->directory);
    name(f, "late", "{\"path\":\"stub:\"}");
    (void)snprintf(path, sizeof(path), "%s/late.gguf", f->directory);
    hth_test_file_write(f->directory, "late.gguf", "GGUF", 0600);
    hth_test_file_write(f->directory, "h.conf", text, 0600);
    reload(f);
    assert_int_equal(f->set->options.n_models, 1);
    assert_string_equal(f->set->models[0].setup.path, "stub:");
}

/* An order for a model of a file in the folder, which is written before. */
static void name_file(fixture *f, const char *model, const char *file)
{
    char settings[700];

    hth_test_file_write(f->directory, file, "GGUF", 0600);
    (void)snprintf(settings, sizeof(settings), "{\"path\":\"%s/%s\"}", f->directory, file);
    name(f, model, settings);
}

static bool warns(const char *text)
{
    for (size_t i = 0; i < problems.n; i++)
        if (problems.list[i].is_warning && strstr(problems.list[i].message, text))
            return true;
    return false;
}

FIXTURE_TEST(a_named_model_whose_file_is_gone_is_left_out_until_the_file_comes_back)
{
    char path[600];

    name_file(f, "late", "late.gguf");
    (void)snprintf(path, sizeof(path), "%s/late.gguf", f->directory);
    assert_int_equal(unlink(path), 0);
    name(f, "other", "{\"path\":\"stub:\"}"); /* an order does not look at the files of others */
    assert_int_equal(f->set->options.n_models, 3);
    reload(f);
    assert_true(warns("model 'late', which an operator's order added, is left out until the next reload: model 'late': "
                      "cannot open '"));
    assert_int_equal(f->set->options.n_models, 2);
    assert_string_equal(f->set->models[1].name, "other");
    assert_true(hth_serve_set_names(f->set, "late"));
    hth_test_file_write(f->directory, "late.gguf", "GGUF", 0600);
    name(f, "more", "{\"path\":\"stub:\"}");
    assert_int_equal(f->set->options.n_models, 3); /* not before a reload */
    reload(f);
    assert_false(warns("left out"));
    assert_int_equal(f->set->options.n_models, 4);
    assert_string_equal(f->set->models[1].name, "late");
    assert_string_equal(f->set->models[1].setup.path, path);
}

FIXTURE_TEST(a_model_that_is_left_out_may_be_the_default_and_gives_its_name_away)
{
    char path[600];

    name_file(f, "late", "late.gguf");
    hth_test_file_write(f->directory, "h.conf", "default = late\nmodel two { path = 'stub:' }\n", 0600);
    (void)snprintf(path, sizeof(path), "%s/late.gguf", f->directory);
    assert_int_equal(unlink(path), 0);
    reload(f);
    assert_int_equal(f->set->options.n_models, 1);
    name(f, "late", "{\"path\":\"stub:\"}");
    assert_int_equal(f->set->options.n_models, 2);
    assert_int_equal(f->set->n_named, 1);
    reload(f);
    assert_false(warns("left out"));
    assert_string_equal(f->set->models[1].setup.path, "stub:");
}

FIXTURE_TEST(an_order_that_new_presets_or_names_made_wrong_is_left_out)
{
    name(f, "late", "{\"path\":\"stub:\",\"preset\":\"small\"}");
    name(f, "again", "{\"path\":\"stub:\",\"aliases\":[\"two\"]}");
    hth_test_file_write(f->directory, "h.conf", "model two { path = 'stub:' }\n", 0600);
    reload(f);
    assert_true(warns("model 'late', which an operator's order added, is left out"));
    assert_true(warns("there is no preset 'small'"));
    assert_true(warns("the alias 'two' of model 'again' is the name of model 'two', too"));
    assert_int_equal(f->set->options.n_models, 1);
    hth_test_file_write(f->directory, "h.conf", "preset small { context = 512 }\nmodel three { path = 'stub:' }\n",
                        0600);
    reload(f);
    assert_false(warns("left out"));
    assert_int_equal(f->set->options.n_models, 3);
}

FIXTURE_TEST(a_file_of_a_watched_folder_keeps_its_own_model_beside_a_named_one)
{
    char text[600];

    (void)snprintf(text, sizeof(text), "models_dir = %s\n", f->directory);
    hth_test_file_write(f->directory, "h.conf", text, 0600);
    hth_test_file_write(f->directory, "here.gguf", "GGUF", 0600);
    reload(f);
    name_file(f, "second", "here.gguf");
    assert_int_equal(f->set->options.n_models, 2);
    reload(f);
    assert_int_equal(f->set->options.n_models, 2);
    assert_string_equal(f->set->models[0].name, "here");
    assert_string_equal(f->set->models[1].name, "second");
    assert_string_equal(f->set->models[0].setup.path, f->set->models[1].setup.path);
}
