/*
 * cmocka_all.h - cmocka with the headers that it needs before it, and how a program declares its tests
 *
 *     TEST(a_row_cut_short_on_disk_is_a_miss)
 *     {
 *         assert_int_equal(...);
 *     }
 *
 * The name is a sentence that is true of the product. Each TEST registers itself before main() starts, so that no list
 * repeats the names. Many files make one program, whose main() is in support/main.c. It knows a test by its file: those
 * of unit/index_test.c are `test_unit index`. The tests of a file run in the order of their lines.
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
#define TEST_IN(type, f, name, set_up, tear_down)                               \
    static void name(type *f);                                                  \
    static void name##_is_run(void **state)                                     \
    {                                                                           \
        name(*state);                                                           \
        hth_test_release_kept();                                                \
    }                                                                           \
    REGISTERED(name, .test = { #name, name##_is_run, set_up, tear_down, NULL }) \
    static void name(__attribute__((unused)) type *f)

/*
 * What runs once before the tests of this file, and once after them; either may be NULL. In a file with several groups,
 * all tests run in each of them.
 */
#define GROUP(name, set_up, tear_down) REGISTERED(name, .test = { #name, NULL, set_up, tear_down, NULL })

/*
 * What another process of this program does for a test of this file. The child of a fork becomes that process with
 *
 *     PLAY("read", path);
 *
 * The body gets these words, a NULL after them, and returns the exit code.
 */
#define PLAYER(words)                                   \
    static int play(char **words);                      \
    REGISTERED(play, .test.name = "play", .play = play) \
    static int play(char **words)
#define PLAY(...) hth_test_play(__BASE_FILE__, (const char *const[]){ __VA_ARGS__, NULL })

/* Of a function in a header that a program has instead of another: several files of the program may include it. */
#define REPLACING __attribute__((weak))

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

/* What a file has for main(): a test, a group of its tests, or a player. */
typedef struct hth_test_entry {
    struct CMUnitTest test; /* without a function of the test in a group, whose fixture the others are */
    int (*play)(char **words);
    const char *path; /* of the file */
    int line;         /* gives a test its place among the others */
    struct hth_test_entry *next;
} hth_test_entry;

#define REGISTERED(name, ...)                                                                   \
    __attribute__((constructor)) static void name##_is_registered(void)                         \
    {                                                                                           \
        static hth_test_entry entry = { .path = __BASE_FILE__, .line = __LINE__, __VA_ARGS__ }; \
                                                                                                \
        hth_test_register(&entry);                                                              \
    }

/* Called by the macros above only. */
void hth_test_register(hth_test_entry *entry);
__attribute__((noreturn)) void hth_test_play(const char *path, const char *const *words);

#endif
