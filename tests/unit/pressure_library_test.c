/*
 * pressure_library_test.c - a function of a shared library tells the use of memory, or how it does not
 */
#include "supervisor/pressure_library.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

static void refuse(const char *text, hearth_status status, const char *message)
{
    uint64_t used = 1, total = 2;
    hearth_error err = { .message = "" };

    assert_int_equal(hth_pressure_library_ask(text, &used, &total, &err), status);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not said of '%s', but '%s'", message, text, err.message);
    assert_int_equal(used + total, 3);
}

TEST(a_function_of_a_library_tells_used_and_total_bytes)
{
    uint64_t used, total;
    hearth_error err;

    assert_ok(hth_pressure_library_ask(HTH_TEST_MEMORY_USE ":half", &used, &total, &err), err);
    assert_int_equal(used, UINT64_C(500) << 20);
    assert_int_equal(total, UINT64_C(1000) << 20);
    assert_ok(hth_pressure_library_ask(HTH_TEST_MEMORY_USE ":full", &used, &total, &err), err);
    assert_int_equal(used, total);
}

TEST(a_library_that_tells_nothing_is_named_with_its_fault)
{
    refuse("/no/such/library.so:half", HEARTH_NOT_FOUND, "/no/such/library.so");
    refuse(HTH_TEST_SOURCE_DIR "/README.md:half", HEARTH_NOT_FOUND, "README.md");
    refuse(HTH_TEST_MEMORY_USE ":nobody", HEARTH_NOT_FOUND, "has no function 'nobody'");
    refuse(HTH_TEST_MEMORY_USE ":fails", HEARTH_FAILED, "returned 7");
    refuse(HTH_TEST_MEMORY_USE ":nonsense", HEARTH_FAILED, "2097152000 used bytes of 1048576000");
    refuse(HTH_TEST_MEMORY_USE ":empty", HEARTH_FAILED, "0 used bytes of 0");
    refuse(HTH_TEST_MEMORY_USE, HEARTH_MISUSE, "FILE:SYMBOL");
}

TEST(a_library_and_its_function_are_one_text)
{
    static const char *const wrong[] = { "", ":", "a.so", ":f", "a.so:", "a.so:1f", "a.so:f()", "a.so:f g" };
    char file[PATH_MAX] = "as before";
    const char *symbol = "before";

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(hth_pressure_library_split(wrong[i], file, &symbol));
    assert_string_equal(file, "as before");
    assert_string_equal(symbol, "before");
    assert_true(hth_pressure_library_split("/opt/a:b.so:use_1", file, &symbol));
    assert_string_equal(file, "/opt/a:b.so");
    assert_string_equal(symbol, "use_1");
}
