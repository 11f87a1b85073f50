/* tests.c - the list of a program's tests, see cmocka_all.h */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/cmocka_all.h"

enum { TESTS_MAX = 128 };

typedef struct registered_test {
    int line;
    struct CMUnitTest test;
} registered_test;

/* Filled before main() starts, by one thread. */
static registered_test registered[TESTS_MAX];
static size_t n_registered;

void hth_test_register(int line, const char *name, CMUnitTestFunction test, CMFixtureFunction set_up,
                       CMFixtureFunction tear_down)
{
    if (n_registered == TESTS_MAX) {
        (void)fprintf(stderr, "more than %d tests in one program: split the file, or raise TESTS_MAX\n", TESTS_MAX);
        abort();
    }
    registered[n_registered++] = (registered_test){
        .line = line,
        .test = { .name = name, .test_func = test, .setup_func = set_up, .teardown_func = tear_down },
    };
}

static int by_line(const void *a, const void *b)
{
    return ((const registered_test *)a)->line - ((const registered_test *)b)->line;
}

typedef struct kept_object {
    struct kept_object *older;
    void *object;
    void (*release)(void *object);
} kept_object;

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static kept_object *newest_kept; /* guarded by kept_lock */

void *hth_test_keep(void *object, void (*release)(void *object))
{
    kept_object *kept = malloc(sizeof(*kept));

    if (!kept)
        abort();
    pthread_mutex_lock(&kept_lock);
    *kept = (kept_object){ .older = newest_kept, .object = object, .release = release };
    newest_kept = kept;
    pthread_mutex_unlock(&kept_lock);
    return object;
}

void hth_test_release_kept(void)
{
    while (newest_kept) {
        kept_object *kept = newest_kept;

        newest_kept = kept->older;
        kept->release(kept->object);
        free(kept);
    }
}

void *hth_test_fixture_new(size_t n_bytes)
{
    void *fixture = calloc(1, n_bytes);

    assert_non_null(fixture);
    return fixture;
}

int hth_test_run(const char *group, CMFixtureFunction group_set_up, CMFixtureFunction group_tear_down)
{
    struct CMUnitTest tests[TESTS_MAX];

    if (n_registered == 0) {
        (void)fprintf(stderr, "this program has no TEST\n");
        return 1;
    }
    /* A compiler may emit the constructors of a file in any order. */
    qsort(registered, n_registered, sizeof(registered[0]), by_line);
    for (size_t i = 0; i < n_registered; i++)
        tests[i] = registered[i].test;
    return _cmocka_run_group_tests(group, tests, n_registered, group_set_up, group_tear_down);
}
