/*
 * cache_processes.h - for tests of several processes with one cache: rows to save, directories, and shared memory
 *
 * The program defines the struct `shared` before it includes this header.
 */
#ifndef HTH_TESTS_CACHE_PROCESSES_H
#define HTH_TESTS_CACHE_PROCESSES_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/cmocka_all.h"
#include "support/forest.h"
#include "support/support.h"

typedef struct fixture {
    test_forest forest;
    struct shared *shared;
    char *directory;
    char ram_files[4096];
    char disk[4096];
    uint64_t random;
} fixture;

/* Threads and children cannot use cmocka's assertions: the parent sees that one aborted. */
#define MUST(claim, ...)                                          \
    do {                                                          \
        if (!(claim)) {                                           \
            (void)fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
            (void)fprintf(stderr, __VA_ARGS__);                   \
            (void)fprintf(stderr, "\n");                          \
            abort();                                              \
        }                                                         \
    } while (0)

static inline void fixture_setup(fixture *f)
{
    test_forest_init(&f->forest);
    f->directory = hth_test_directory_new();
    (void)snprintf(f->ram_files, sizeof(f->ram_files), "%s/ram", f->directory);
    (void)snprintf(f->disk, sizeof(f->disk), "%s/disk", f->directory);
    f->random = hth_test_seed();
    (void)fflush(stdout); /* children would print it again */
    f->shared = mmap(NULL, sizeof(*f->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(f->shared, MAP_FAILED);
}

static inline void fixture_teardown(fixture *f)
{
    (void)munmap(f->shared, sizeof(*f->shared));
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

#endif
