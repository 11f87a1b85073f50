/*
 * cmocka_all.h - cmocka with the headers that it needs before it, and how a program declares its tests
 *
 *     TEST(a_row_cut_short_on_disk_is_a_miss)
 *     {
 *         assert_int_equal(...);
 *     }
 *
 * The name is a sentence that is true of the product. Each TEST registers itself before main() starts, so that no list
 * repeats the names. The tests run in the order of their lines. A program without a main() of its own gets the one of
 * support/main.c, which runs all tests.
 */
#ifndef HTH_TESTS_CMOCKA_ALL_H
#define HTH_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEST(name) TEST_WITH(name, NULL, NULL)

/*
 * A test with a fixture. set_up runs before the test and stores the fixture in *state; tear_down runs after the test
 * and releases the fixture. Either may be NULL. A file with one fixture for many tests gives the pair a short name:
 *
 *     #define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down)
 */
#define TEST_WITH(name, set_up, tear_down)                              \
    static void name(void **state);                                     \
    __attribute__((constructor)) static void name##_is_registered(void) \
    {                                                                   \
        hth_test_register(__LINE__, #name, name, set_up, tear_down);    \
    }                                                                   \
    static void name(__attribute__((unused)) void **state)

/* Called by TEST_WITH only. The line gives the test its place among the others. */
void hth_test_register(int line, const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
                       CMFixtureFunction tear_down);

/*
 * Run all registered tests as one group of that name and return the number of failed ones, for main() to return.
 * group_set_up and group_tear_down run once, before and after the group; either may be NULL.
 */
int hth_test_run(const char *group, CMFixtureFunction group_set_up, CMFixtureFunction group_tear_down);

#endif
