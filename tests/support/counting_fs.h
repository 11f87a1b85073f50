/*
 * counting_fs.h - the system's file operations, counted for one thread
 */
#ifndef HTH_TEST_COUNTING_FS_H
#define HTH_TEST_COUNTING_FS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/fs.h"

typedef struct test_counting_fs {
    hth_fs fs; /* what to pass on; its context is this struct */
    pthread_t thread;
    _Atomic uint64_t n_opens; /* files opened, or tried to be, by that thread */
    _Atomic uint64_t n_steps; /* operations of any kind by that thread */
} test_counting_fs;

/* Count what the calling thread does. */
void test_counting_fs_init(test_counting_fs *counting);
/* Begin at zero again. */
void test_counting_fs_reset(test_counting_fs *counting);

#endif
