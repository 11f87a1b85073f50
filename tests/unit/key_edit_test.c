/*
 * key_edit_test.c - a file of keys changes in one place, and is otherwise as it was
 */
#include <stdio.h>
#include <string.h>

#include "cli/key_edit.h"
#include "support/cmocka_all.h"

#define A "0000000000000000000000000000000000000000000000000000000000000000"
#define B "1111111111111111111111111111111111111111111111111111111111111111"
#define C "2222222222222222222222222222222222222222222222222222222222222222"

static hth_config_file file_of(hth_pool *pool, const char *text)
{
    hth_config_file file = { .name = "keys.conf", .text = text, .n_text = strlen(text) };
    hearth_error err;

    assert_ok(hth_config_file_parse(pool, file.name, text, file.n_text, &file.root, &err), err);
    return file;
}

static void expect_text(hearth_status status, const hearth_error *err, const char *text, size_t n, const char *expected)
{
    if (status != HEARTH_OK)
        fail_msg("%s", err->message);
    if (n != strlen(expected) || memcmp(text, expected, n) != 0)
        fail_msg("it is\n%.*s\nand not\n%s", (int)n, text, expected);
}

static void expect_removed(const char *before, const char *name, const char *after)
{
    hth_pool *pool = hth_pool_new();
    hth_config_file file = file_of(pool, before);
    hearth_error err = { .message = "" };
    const char *text = NULL;
    size_t n = 0;
    const hearth_status status = hth_key_text_remove(pool, &file, name, &text, &n, &err);

    expect_text(status, &err, text, n, after);
    hth_pool_free(pool);
}

static void expect_expiry(const char *before, const char *name, int64_t expires_s, const char *after)
{
    hth_pool *pool = hth_pool_new();
    hth_config_file file = file_of(pool, before);
    hearth_error err = { .message = "" };
    const char *text = NULL;
    size_t n = 0;
    const hearth_status status = hth_key_text_set_expiry(pool, &file, name, expires_s, &text, &n, &err);

    expect_text(status, &err, text, n, after);
    hth_pool_free(pool);
}

TEST(a_block_goes_with_its_lines_alone)
{
    expect_removed("# ours\nkey \"a\" {\n  sha256 = \"" A "\";\n}\n# theirs\nkey b { sha256 = \"" B "\" }\n", "a",
                   "# ours\n# theirs\nkey b { sha256 = \"" B "\" }\n");
    expect_removed("key \"a\" {\n  sha256 = \"" A "\"; # a comment {\n}\n\nkey \"b\" {\n  sha256 = \"" B "\";\n}", "b",
                   "key \"a\" {\n  sha256 = \"" A "\"; # a comment {\n}\n\n");
    expect_removed("key a { sha256 = \"" A "\" }; key b { sha256 = \"" B "\" }", "a", " key b { sha256 = \"" B "\" }");
    expect_removed("key a { sha256 = \"" A "\" } # of a\nkey b { sha256 = \"" B "\" }\n", "a",
                   " # of a\nkey b { sha256 = \"" B "\" }\n");
}

TEST(one_of_several_in_a_section_goes_alone)
{
    expect_removed("key {\n  a { sha256 = \"" A "\" }\n  b { sha256 = \"" B "\" }\n}\nkey c { sha256 = \"" C "\" }\n",
                   "b", "key {\n  a { sha256 = \"" A "\" }\n}\nkey c { sha256 = \"" C "\" }\n");
    expect_removed("{\"key\": {\"a\": {\"sha256\": \"" A "\"}, \"b\": {\"sha256\": \"" B "\"}}}\n", "a",
                   "{\"key\": { \"b\": {\"sha256\": \"" B "\"}}}\n");
}

TEST(the_only_key_stays_and_a_missing_one_is_told)
{
    hth_pool *pool = hth_pool_new();
    hth_config_file file = file_of(pool, "key a { sha256 = \"" A "\" }\n");
    hearth_error err;
    const char *text = NULL;
    size_t n;

    assert_int_equal(hth_key_text_remove(pool, &file, "a", &text, &n, &err), HEARTH_MISUSE);
    assert_non_null(strstr(err.message, "'a' is the only key in 'keys.conf'"));
    assert_int_equal(hth_key_text_remove(pool, &file, "b", &text, &n, &err), HEARTH_NOT_FOUND);
    assert_non_null(strstr(err.message, "there is no key 'b' in 'keys.conf'"));
    assert_int_equal(hth_key_text_set_expiry(pool, &file, "b", 1, &text, &n, &err), HEARTH_NOT_FOUND);
    assert_null(text);
    hth_pool_free(pool);
}

TEST(an_expiry_is_added_changed_and_taken_away)
{
    static const char without[] = "# all\nkey a {\n  sha256 = \"" A "\"; # mine\n}\nkey b { sha256 = \"" B "\" }\n";

    expect_expiry(without, "a", 1801418400,
                  "# all\nkey a {\n  expires = \"2027-01-31T18:00:00Z\";\n  sha256 = \"" A
                  "\"; # mine\n}\nkey b { sha256 = \"" B "\" }\n");
    expect_expiry(without, "b", 1801418400,
                  "# all\nkey a {\n  sha256 = \"" A
                  "\"; # mine\n}\nkey b { expires = \"2027-01-31T18:00:00Z\"; sha256 = \"" B "\" }\n");
    expect_expiry(without, "a", 0, without);
    expect_expiry("key a {\n  expires = 2026-01-01\n  sha256 = \"" A "\"\n}\n", "a", 1801418400,
                  "key a {\n  expires = \"2027-01-31T18:00:00Z\"\n  sha256 = \"" A "\"\n}\n");
    expect_expiry("key a {\n  expires = 2026-01-01;\n  sha256 = \"" A "\"\n}\n", "a", 0,
                  "key a {\n  sha256 = \"" A "\"\n}\n");
    expect_expiry("{\"key\": {\"a\": {\"sha256\": \"" A "\"}}}", "a", 1801418400,
                  "{\"key\": {\"a\": { \"expires\": \"2027-01-31T18:00:00Z\",\"sha256\": \"" A "\"}}}");
}

/* Nothing is put into a comment: " expires = ...;" goes before it, where it means what it says. */
TEST(a_comment_behind_the_brace_stays_one)
{
    expect_expiry("key a {# mine\n  sha256 = \"" A "\"\n}\n", "a", 1801418400,
                  "key a { expires = \"2027-01-31T18:00:00Z\";# mine\n  sha256 = \"" A "\"\n}\n");
}

/* Read anew, it would be no file of keys: two have the same digest. */
TEST(what_is_not_understood_is_left_as_it_is)
{
    hth_pool *pool = hth_pool_new();
    hth_config_file file = file_of(pool, "key a { sha256 = \"" A "\" }\nkey b { sha256 = \"" A "\" }\n"
                                         "key c { sha256 = \"" C "\" }\n");
    hearth_error err;
    const char *text = NULL;
    size_t n;

    assert_int_equal(hth_key_text_remove(pool, &file, "c", &text, &n, &err), HEARTH_CORRUPT);
    assert_non_null(strstr(err.message, "by hand"));
    assert_null(text);
    hth_pool_free(pool);
}
