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
#include <stdlib.h>

#include <cmocka.h>

#define TEST(name) TEST_IN(void, no_fixture, name, NULL, NULL)

/*
 * A test with a fixture, which its body knows as f: a zeroed struct of that type. set_up(f) runs before the test and
 * tear_down(f) after it. A file with one fixture for many tests gives it a short name:
 *
 *     #define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)
 */
#define TEST_WITH(type, f, name, set_up, tear_down)          \
    static int name##_is_set_up(void **state)                \
    {                                                        \
        set_up(*state = hth_test_fixture_new(sizeof(type))); \
        return 0;                                            \
    }                                                        \
    static int name##_is_torn_down(void **state)             \
    {                                                        \
        tear_down(*state);                                   \
        free(*state);                                        \
        return 0;                                            \
    }                                                        \
    TEST_IN(type, f, name, name##_is_set_up, name##_is_torn_down)

/*
 * A test with a fixture that cmocka's own kind of function makes and releases: f is what *state points to. Where both
 * functions are NULL, that is the fixture of the group.
 */
#define TEST_IN(type, f, name, set_up, tear_down)                             \
    static void name(type *f);                                                \
    static void name##_is_run(void **state)                                   \
    {                                                                         \
        name(*state);                                                         \
        hth_test_release_kept();                                              \
    }                                                                         \
    __attribute__((constructor)) static void name##_is_registered(void)       \
    {                                                                         \
        hth_test_register(__LINE__, #name, name##_is_run, set_up, tear_down); \
    }                                                                         \
    static void name(__attribute__((unused)) type *f)

/* A call that fills the hearth_error err where it fails; it must not. */
#define assert_ok(call, err)               \
    do {                                   \
        if ((call) != HEARTH_OK)           \
            fail_msg("%s", (err).message); \
    } while (0)

/*
 * Keep an object until the test's body has returned; release(object) then ends it, the newest object first. Returns the
 * object. Any thread may call this. A test that fails leaks what it keeps.
 */
void *hth_test_keep(void *object, void (*release)(void *object));

/* Called by TEST_IN only. */
void hth_test_release_kept(void);

/* Called by TEST_WITH only: that many bytes, all of them zero. */
void *hth_test_fixture_new(size_t n_bytes);

/* Called by TEST_IN only. The line gives the test its place among the others. */
void hth_test_register(int line, const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
                       CMFixtureFunction tear_down);

/*
 * Run all registered tests as one group of that name and return the number of failed ones, for main() to return.
 * group_set_up and group_tear_down run once, before and after the group; either may be NULL.
 */
int hth_test_run(const char *group, CMFixtureFunction group_set_up, CMFixtureFunction group_tear_down);

#endif
