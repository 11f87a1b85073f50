/*
 * support.h - what tests share: directories that go away, seeds that replay, random numbers
 */
#ifndef HTH_TESTS_SUPPORT_H
#define HTH_TESTS_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new empty directory, mode 0700. The string is released with hth_test_directory_remove, which empties it first. */
char *hth_test_directory_new(void);
void hth_test_directory_remove(char *directory);

/* A test with such a directory. The file has included cmocka_all.h. */
#define DIRECTORY_TEST(name) TEST_IN(char, directory, name, hth_test_directory_set_up, hth_test_directory_tear_down)
int hth_test_directory_set_up(void **state);
int hth_test_directory_tear_down(void **state);

/* A new memory file; skips the test where the system has none. */
int hth_test_memory_file(void);

/* The text of a file below 1 MiB, released with free; NULL where it is not there or empty. */
char *hth_test_text(const char *path);

/*
 * Limit the size of files that this process writes, in bytes; writes beyond fail, without a signal. Returns the limit
 * before.
 */
uint64_t hth_test_limit_file_size(uint64_t n_bytes);

/* The seed of this run: $HTH_SEED, else a new one; printed, so that a failure can be replayed. */
uint64_t hth_test_seed(void);

/* $name as a number, or fallback. */
uint64_t hth_test_number(const char *name, uint64_t fallback);

/* A small generator: state is advanced, the result is below bound (> 0). */
uint64_t hth_test_random(uint64_t *state, uint64_t bound);

/*
 * The path of a model of random weights, made by bench/make_model on first use and kept where that keeps its models.
 * Ends the program when it cannot be made.
 */
void hth_test_model(const char *shape, char *path, size_t capacity);
/* Let bench/make_adapter write an adapter for a model to a path; options as its usage tells them. */
void hth_test_adapter(const char *options, const char *model, const char *path);
/* The same with bench/make_control for a control vector. */
void hth_test_control(const char *options, const char *model, const char *path);

#endif
