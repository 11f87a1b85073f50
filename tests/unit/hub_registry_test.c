/*
 * hub_registry_test.c - names of a registry's models: those that are read, and those that could leave a folder
 */
#include "hub/registry.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

static void assert_read(const char *text, const char *owner, const char *name, const char *tag, const char *whole)
{
    hth_ollama_reference out;
    hearth_error err = { .message = "" };

    assert_ok(hth_ollama_reference_read(text, &out, &err), err);
    assert_string_equal(out.owner, owner);
    assert_string_equal(out.name, name);
    assert_string_equal(out.tag, tag);
    assert_string_equal(out.text, whole);
}

TEST(a_name_has_an_owner_and_a_tag_that_may_be_left_out)
{
    assert_read("qwen3", "library", "qwen3", "latest", "qwen3:latest");
    assert_read("llama3.2:1b-q4_K_M", "library", "llama3.2", "1b-q4_K_M", "llama3.2:1b-q4_K_M");
    assert_read("ollama:tiny", "library", "tiny", "latest", "tiny:latest");
    assert_read("ollama:some/tiny:v1", "some", "tiny", "v1", "some/tiny:v1");
    assert_read("ollama:some/model.gguf", "some", "model.gguf", "latest", "some/model.gguf:latest");
}

TEST(a_text_that_is_no_name_is_refused)
{
    static const char *const texts[] = {
        "",
        ":",
        "a:",
        ":a",
        "a/b",
        "a:b/c",
        "a:b:c",
        "model.gguf",
        "a:model.gguf",
        "..",
        ".",
        ".a",
        "-a",
        "a:..",
        "a:-b",
        "a b",
        "a\n",
        "a%2f",
        "a\\b",
        "ollama:",
        "ollama:/a",
        "ollama:a/",
        "ollama:../a",
        "ollama:a/..",
        "ollama:a/b/c",
        "ollama:a/b:../c",
        "12345678901234567890123456789012345678901234567890123456789012345678901234567890x",
    };
    hth_ollama_reference out;
    hearth_error err;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (hth_ollama_reference_read(texts[i], &out, &err) != HEARTH_MISUSE)
            fail_msg("'%s' is taken", texts[i]);
}

TEST(the_registry_comes_from_the_environment_alone)
{
    static const char *const wrong[] = { "ftp://host",      "https://",         "https://host/v2",
                                         "https://..",      "https://a b",      "https://host:",
                                         "https://host:1x", "https://[::1]:80", "host" };
    hth_hub_settings settings;
    hearth_error err = { .message = "" };

    assert_int_equal(setenv("OLLAMA_MODELS", "/models", 1), 0);
    assert_int_equal(unsetenv("HF_HUB_OFFLINE"), 0);
    assert_int_equal(unsetenv("HEARTH_OLLAMA_REGISTRY"), 0);
    assert_int_equal(hth_ollama_settings_read("tiny", true, &settings, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "set HEARTH_OLLAMA_REGISTRY"));
    assert_ok(hth_ollama_settings_read("tiny", false, &settings, &err), err);
    assert_string_equal(settings.endpoint, "");
    assert_int_equal(setenv("HEARTH_OLLAMA_REGISTRY", "https://host.example:5000//", 1), 0);
    assert_int_equal(setenv("HF_TOKEN", "sesame", 1), 0);
    assert_ok(hth_ollama_settings_read("tiny", true, &settings, &err), err);
    assert_string_equal(settings.endpoint, "https://host.example:5000");
    assert_string_equal(settings.cache, "/models");
    assert_string_equal(settings.token, ""); /* that of a hub is not for others */
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(setenv("HEARTH_OLLAMA_REGISTRY", wrong[i], 1), 0);
        if (hth_ollama_settings_read("tiny", true, &settings, &err) != HEARTH_MISUSE)
            fail_msg("'%s' is taken", wrong[i]);
    }
}
