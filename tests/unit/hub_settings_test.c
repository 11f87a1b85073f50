/*
 * hub_settings_test.c - where the settings of a hub come from
 */
#include "hub/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

#ifdef HTH_TEST_WRAPS_FOPEN
static char opened[PATH_MAX]; /* the path of the last file */

/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode)
{
    (void)snprintf(opened, sizeof(opened), "%s", path);
    return __real_fopen(path, mode);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif

static void unset_all(void)
{
    static const char *const names[] = { "HOME",     "HF_HOME",       "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                                         "HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT",  "XDG_CACHE_HOME" };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(unsetenv(names[i]), 0);
}

static void write_token(const char *folder)
{
    char path[PATH_MAX];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/token", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs("sesame\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(the_token_lies_in_the_home_of_the_ecosystem)
{
    char *directory = hth_test_directory_new();
    hth_hub_settings settings;
    hearth_error err;

    unset_all();
    write_token(directory);
    assert_int_equal(setenv("HF_HOME", directory, 1), 0);
    assert_ok(hth_hub_settings_read(&settings, &err), err);
    assert_string_equal(settings.token, "sesame");
    hth_test_directory_remove(directory);
}

TEST(an_address_without_a_host_is_none)
{
    char out[HTH_HUB_ENDPOINT_BYTES];

    assert_false(hth_hub_endpoint_take("https://", out));
    assert_false(hth_hub_endpoint_take("http:///", out));
    assert_false(hth_hub_endpoint_take("host", out));
    assert_true(hth_hub_endpoint_take("http://host//", out));
    assert_string_equal(out, "http://host");
}

#ifdef HTH_TEST_WRAPS_FOPEN
TEST(without_a_home_no_file_of_a_token_is_read)
{
    hth_hub_settings settings;
    hearth_error err;

    unset_all();
    assert_int_equal(setenv("HF_HUB_CACHE", "/nowhere", 1), 0);
    opened[0] = '\0';
    assert_ok(hth_hub_settings_read(&settings, &err), err);
    assert_string_equal(opened, "");
    assert_string_equal(settings.token, "");
    assert_string_equal(settings.cache, "/nowhere");
    assert_int_equal(setenv("HF_TOKEN_PATH", "/nowhere/token", 1), 0);
    assert_ok(hth_hub_settings_read(&settings, &err), err);
    assert_string_equal(opened, "/nowhere/token");
}
#endif
