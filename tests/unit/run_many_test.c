/*
 * run_many_test.c - `hearth run --prompts` in this process: the last result, too, is told to somebody who is still
 * there
 *
 * Whoever ends a request wakes the loop with a byte in a pipe. Where the linker lets us, such a byte is held up for
 * long enough for the loop to find the result without it, and to end.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options/commands.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PROMPTS = 3, HELD_UP_US = 50000 };

static atomic_uint n_told;   /* bytes to pipes */
static atomic_uint n_astray; /* to what is no pipe any more */

#ifdef HTH_TEST_WRAPS_WRITE
/* The names are the linker's. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
ssize_t __real_write(int fd, const void *bytes, size_t n_bytes);
ssize_t __wrap_write(int fd, const void *bytes, size_t n_bytes);

ssize_t __wrap_write(int fd, const void *bytes, size_t n_bytes)
{
    struct stat found;

    if (n_bytes == 1 && fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode)) {
        usleep(HELD_UP_US);
        atomic_fetch_add(fstat(fd, &found) == 0 && S_ISFIFO(found.st_mode) ? &n_told : &n_astray, 1);
    }
    return __real_write(fd, bytes, n_bytes);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
#endif

/* Run the command with what it prints in a file. */
static int run(const char *prompts, const char *output)
{
    const char *argv[] = { "run", "stub:",  "--prompts", prompts,        "-n",     "2",
                           "-q",  "--temp", "0",         "--ignore-eos", "--json", "--no-cache" };
    int before = dup(STDOUT_FILENO), file = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), exit_code;

    assert_true(before >= 0 && file >= 0);
    (void)fflush(stdout);
    assert_true(dup2(file, STDOUT_FILENO) >= 0);
    exit_code = hth_command_run((int)(sizeof(argv) / sizeof(argv[0])), (char **)argv);
    (void)fflush(stdout);
    (void)dup2(before, STDOUT_FILENO);
    close(before);
    close(file);
    return exit_code;
}

TEST(a_result_is_told_before_its_reader_is_gone)
{
    char *directory = hth_test_directory_new();
    char prompts[4096], output[4096], line[4096];
    unsigned n_lines = 0;
    FILE *file;

    (void)snprintf(prompts, sizeof(prompts), "%s/prompts", directory);
    (void)snprintf(output, sizeof(output), "%s/output", directory);
    file = fopen(prompts, "w");
    assert_non_null(file);
    for (int i = 0; i < PROMPTS; i++)
        (void)fprintf(file, "prompt %d\n", i);
    assert_int_equal(fclose(file), 0);

    assert_int_equal(run(prompts, output), HTH_EXIT_OK);

    file = fopen(output, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        n_lines++;
    (void)fclose(file);
    assert_int_equal(n_lines, PROMPTS);
    assert_int_equal(atomic_load(&n_astray), 0);
#ifdef HTH_TEST_WRAPS_WRITE
    assert_int_equal(atomic_load(&n_told), PROMPTS);
#endif
    hth_test_directory_remove(directory);
}
