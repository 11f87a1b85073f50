/*
 * model_names_test.c - which model a client's name means
 */
#include <string.h>

#include "front/model_names.h"
#include "support/cmocka_all.h"

static const char *const chat_aliases[] = { "gpt-4o", "claude-*", "org/known" };
static const char *const code_aliases[] = { "claude-opus-*", "gpt-4o-mini", "llama" };
static const char *const qwen_adapters[] = { "sql", "claude-poet" };
static const hth_server_model models[] = {
    { .name = "chat", .aliases = chat_aliases, .n_aliases = 3 },
    { .name = "code", .aliases = code_aliases, .n_aliases = 3 },
    { .name = "team/qwen:7b", .adapters = qwen_adapters, .n_adapters = 2 },
    { .name = "claude-exact" },
};
static const hth_server_options options = { .models = models, .n_models = 4 };

static const char *name_of(const hth_server_model *model)
{
    return model ? model->name : "none";
}

static const char *named(const char *name)
{
    return name_of(hth_model_named(&options, name, NULL));
}

TEST(a_name_wins_over_an_alias_over_a_pattern)
{
    assert_string_equal(named("chat"), "chat");
    assert_string_equal(named("gpt-4o"), "chat");
    assert_string_equal(named("gpt-4o-mini"), "code");
    assert_string_equal(named("claude-exact"), "claude-exact");
    assert_string_equal(named("claude-sonnet-4"), "chat");
    assert_string_equal(named("claude-opus-4"), "code"); /* the longer pattern, whatever comes first */
    assert_string_equal(named("claude-opus-"), "code");
    assert_string_equal(named("gpt-4"), "none");
    assert_string_equal(named("Chat"), "none");
    assert_string_equal(named(""), "none");
}

TEST(an_adapter_is_named_like_a_model)
{
    assert_string_equal(named("sql"), "team/qwen:7b");
    assert_string_equal(named("claude-poet"), "team/qwen:7b");
    assert_string_equal(named("sql:latest"), "none"); /* the worker would not know it */
}

TEST(an_adapter_that_was_loaded_meanwhile_has_its_owner)
{
    assert_string_equal(name_of(hth_model_named(&options, "poet", "code")), "code");
    assert_string_equal(name_of(hth_model_called(&options, "poet", "code")), "code");
    assert_string_equal(name_of(hth_model_named(&options, "claude-bard", "code")), "code"); /* not by the pattern */
    assert_string_equal(name_of(hth_model_named(&options, "claude-bard", NULL)), "chat");
    assert_string_equal(name_of(hth_model_called(&options, "claude-bard", NULL)), "none");
    assert_string_equal(name_of(hth_model_choose(&options, "poet", "code", NULL)), "code");
    assert_string_equal(name_of(hth_model_named(&options, "poet", "gone")), "none");
    assert_true(hth_model_has_adapter(&models[1], "poet", "code"));
    assert_false(hth_model_has_adapter(&models[0], "poet", "code"));
    assert_true(hth_model_has_adapter(&models[2], "sql", NULL));
}

TEST(folders_tags_and_the_suffix_of_files_are_looked_past)
{
    assert_string_equal(named("chat:latest"), "chat");
    assert_string_equal(named("org/chat"), "chat");
    assert_string_equal(named("hub.example/org/chat:latest"), "chat");
    assert_string_equal(named("models/chat.gguf"), "chat");
    assert_string_equal(named("chat.gguf:q4"), "none"); /* no file is called so */
    assert_string_equal(named("gpt-4o:latest"), "chat");
    assert_string_equal(named("org/llama:8b"), "code");
    assert_string_equal(named("org/known"), "chat");
    assert_string_equal(named("org/known:latest"), "chat");
    assert_string_equal(named("known"), "none");
    assert_string_equal(named("team/qwen:7b"), "team/qwen:7b");
    assert_string_equal(named("qwen:7b"), "none"); /* a folder of ours is part of a name */
    assert_string_equal(named("org/claude-sonnet"), "none");
    assert_string_equal(named("/"), "none");
    assert_string_equal(named(":"), "none");
    assert_string_equal(named(":latest"), "none");
    assert_string_equal(named(".gguf"), "none");
    assert_string_equal(named("a:b/chat"), "chat");
}

TEST(a_name_longer_than_any_is_none)
{
    char name[600];

    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_string_equal(named(name), "none");
    memcpy(name, "claude-", 7);
    assert_string_equal(named(name), "chat"); /* a pattern has no length */
}

TEST(a_name_that_means_none_goes_to_the_default)
{
    hth_server_options o = options;

    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, NULL)), "chat");
    assert_string_equal(name_of(hth_model_choose(&o, NULL, NULL, NULL)), "chat");
    assert_string_equal(name_of(hth_model_choose(&o, "", NULL, NULL)), "chat");
    o.default_model = "code";
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, NULL)), "code");
    assert_string_equal(name_of(hth_model_choose(&o, NULL, NULL, NULL)), "code");
    assert_string_equal(name_of(hth_model_choose(&o, "chat", NULL, NULL)), "chat");
    o.default_model = HTH_NO_DEFAULT_MODEL;
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, NULL)), "none");
    assert_string_equal(name_of(hth_model_choose(&o, NULL, NULL, NULL)), "chat"); /* no name is no wrong name */
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-4o", NULL, NULL)), "chat");
}

/* The key's models are real names: what is asked for changes nothing about them. */
TEST(the_default_of_a_key_is_a_model_that_it_may_use)
{
    static const char *const allowed[] = { "code", "claude-exact" }, *const aliases[] = { "gpt-4o" };
    hth_server_key key = { .name = "k", .models = allowed, .n_models = 2 };
    hth_server_options o = options;

    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, &key)), "code");
    assert_string_equal(name_of(hth_model_choose(&o, NULL, NULL, &key)), "code");
    o.default_model = "claude-exact";
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, &key)), "claude-exact");
    o.default_model = "chat";
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-5", NULL, &key)), "code");
    /* Named, it is what the name means, to be refused: never another one in its place. */
    assert_string_equal(name_of(hth_model_choose(&o, "gpt-4o", NULL, &key)), "chat");
    assert_string_equal(name_of(hth_model_choose(&o, "org/chat:latest", NULL, &key)), "chat");
    assert_string_equal(name_of(hth_model_choose(&o, "claude-x", NULL, &key)), "chat");
    /* An alias in a key's list opens nothing. */
    key.models = aliases;
    key.n_models = 1;
    assert_null(hth_model_choose(&o, "gpt-5", NULL, &key));
    assert_null(hth_model_choose(&o, NULL, NULL, &key));
}

TEST(a_star_stands_for_any_text)
{
    static const struct {
        const char *pattern, *text;
        bool fits;
    } cases[] = {
        { "*", "", true },           { "*", "a", true },       { "a*", "a", true },
        { "a*", "ba", false },       { "*a", "ba", true },     { "*a", "ab", false },
        { "a*c", "abc", true },      { "a*c", "abcd", false }, { "a*b*c", "aXbYc", true },
        { "a*b*c", "aXcYb", false }, { "**a**", "xax", true }, { "a", "a", true },
        { "a", "ab", false },        { "", "", true },         { "", "a", false },
        { "*ab", "aab", true },      { "*aab", "aaab", true }, { "a*a", "a", false },
        { "a*b*b", "aXbXb", true },  { "[a]", "a", false },
    };
    char pattern[258], text[4097];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (hth_pattern_fits(cases[i].pattern, cases[i].text) != cases[i].fits)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].text);
    /* Many stars cost no more than few: only the last one is tried again. */
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (size_t i = 0; i < 256; i += 2)
        memcpy(pattern + i, "*a", 2);
    memcpy(pattern + 256, "b", 2);
    assert_false(hth_pattern_fits(pattern, text));
}
