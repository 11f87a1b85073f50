/*
 * child.c - fork, act, and what became of it
 */
#include "support/child.h"

#include <sys/wait.h>

#include "support/cmocka_all.h"

void hth_test_not_available(const char *what)
{
    (void)fprintf(stderr, "skipped: this system has no %s\n", what);
    _exit(TEST_NOT_AVAILABLE);
}

void hth_test_in_child(void (*act)(void *context), void *context)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        act(context);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == TEST_NOT_AVAILABLE)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}
