/*
 * status_test.c - results of several places become one
 */
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
