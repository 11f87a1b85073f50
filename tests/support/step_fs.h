/*
 * step_fs.h - the system's file operations, with a test in between
 *
 * Every operation is a step with a number, from 1. A test can let one fail, be interrupted or cut short, or end the
 * process at it, and can take away what not every file system has.
 */
#ifndef HTH_TEST_STEP_FS_H
#define HTH_TEST_STEP_FS_H

#include <stdatomic.h>

#include "base/fs.h"

typedef struct test_step_fs {
    hth_fs fs; /* what to pass on; its context is this struct */
    const hth_fs *below;
    _Atomic uint64_t n_steps;

    /* All zero: nothing happens. */
    _Atomic uint64_t fail_at; /* this step fails with -fail_errnum */
    int fail_errnum;
    bool fail_from_then_on; /* and all after it */
    const char *fail_only;  /* operations of this name alone are counted and fail; NULL: all */
    uint64_t kill_at;       /* SIGKILL before this step; a write is cut in half first */
    uint64_t stop_at;       /* SIGSTOP before this step */
    bool short_io;          /* reads and writes do a third of what they are asked, at least a byte */
    bool no_unnamed;
    bool no_link;
    bool no_device_space; /* free_bytes says 0 */
} test_step_fs;

/* Over the system's files (below NULL) or another table. */
void test_step_fs_init(test_step_fs *step, const hth_fs *below);

#endif
