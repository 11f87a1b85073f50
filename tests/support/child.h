/*
 * child.h - a part of a test that runs in a process of its own, because what it does to itself cannot be undone
 */
#ifndef HTH_TEST_CHILD_H
#define HTH_TEST_CHILD_H

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { TEST_NOT_AVAILABLE = 77 };

/* In the child; the test fails when it is not so. */
#define require(condition)                                                                                  \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            (void)fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
            _exit(1);                                                                                       \
        }                                                                                                   \
    } while (0)

/* In the child: the test is skipped, because the system lacks what it is about. */
_Noreturn void hth_test_not_available(const char *what);

/* Run act in a child. */
void hth_test_in_child(void (*act)(void *context), void *context);

#endif
