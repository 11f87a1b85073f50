/*
 * status_test.c - messages are one clean line, and results of several places become one
 */
#include <errno.h>
#include <string.h>

#include "base/controls.h"
#include "base/status.h"
#include "support/cmocka_all.h"

static hearth_status merge(const hearth_status *results, size_t n, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < n; i++) {
        hearth_error why = { .message = "" };

        if (results[i] != HEARTH_OK)
            (void)hth_fail(&why, results[i], "place %zu", i);
        status = hth_status_merge(status, results[i], &why, err);
    }
    return status;
}

TEST(an_error_counts_more_than_ok_and_ok_more_than_not_found)
{
    hearth_error err = { .message = "" };

    assert_int_equal(merge((hearth_status[]){ HEARTH_NOT_FOUND, HEARTH_OK, HEARTH_NOT_FOUND }, 3, NULL), HEARTH_OK);
    assert_int_equal(merge((hearth_status[]){ HEARTH_OK, HEARTH_IO, HEARTH_OK }, 3, &err), HEARTH_IO);
    assert_string_equal(err.message, "place 1");
}

TEST(the_first_of_several_errors_counts)
{
    hearth_error err = { .message = "" };

    assert_int_equal(merge((hearth_status[]){ HEARTH_NOT_FOUND, HEARTH_IO, HEARTH_FULL }, 3, &err), HEARTH_IO);
    assert_string_equal(err.message, "place 1");
}

TEST(nothing_found_anywhere_is_not_found_with_a_message)
{
    hearth_error err = { .message = "" };

    assert_int_equal(merge((hearth_status[]){ HEARTH_NOT_FOUND, HEARTH_NOT_FOUND }, 2, &err), HEARTH_NOT_FOUND);
    assert_string_equal(err.message, "place 1");
}

TEST(a_message_has_no_control_characters)
{
    hearth_error err = { .message = "" };

    (void)hth_fail(&err, HEARTH_IO, "'%s' is\nodd", "a\033[2J\x7f\t\xc2\x9b\xc2\xa0\xc3\xa9");
    assert_string_equal(err.message, "'a [2J    \xc2\xa0\xc3\xa9' is odd");
    hth_fail_prefix(&err, "of '%s'", "\x1b]0;\a");
    assert_string_equal(err.message, "of ' ]0; ': 'a [2J    \xc2\xa0\xc3\xa9' is odd");
    (void)hth_fail_errno(&err, ENOENT, "cannot open '%s'", "\xc2\x80");
    assert_memory_equal(err.message, "cannot open '  ': ", 18);
}

TEST(a_message_that_is_cut_ends_with_a_whole_character)
{
    hearth_error err = { .message = "" };
    char text[sizeof(err.message) + 1];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text + sizeof(err.message) - 2, "\xc2\x9b", 2);
    (void)hth_fail(&err, HEARTH_IO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 2);
    (void)hth_fail(&err, HEARTH_IO, "short");
    hth_fail_prefix(&err, "%s", text);
    assert_int_equal(strlen(err.message), sizeof(err.message) - 2);
}

TEST(marks_of_the_direction_of_text_do_not_reach_a_terminal)
{
    /* U+202E, U+2066, U+200B, U+061C, U+FEFF; and letters that look like their beginnings */
    hearth_error err;
    char name[] = "a\xe2\x80\xae"
                  "b\xe2\x81\xa6"
                  "c\xe2\x80\x8b"
                  "d\xd8\x9c"
                  "e\xef\xbb\xbf"
                  "f",
         letters[] = "\xe2\x80\x93\xe2\x82\xac\xd8\xa7\xef\xbb\xbb\xe2\x80\x8d";
    const char *kept = "\xe2\x80\x93\xe2\x82\xac\xd8\xa7\xef\xbb\xbb\xe2\x80\x8d";

    (void)hth_fail(&err, HEARTH_FAILED, "'%s'", name);
    assert_string_equal(err.message, "'a   b   c   d  e   f'");
    assert_true(hth_has_controls(name));
    hth_controls_blank(letters);
    assert_string_equal(letters, kept);
    assert_false(hth_has_controls(letters));
}
