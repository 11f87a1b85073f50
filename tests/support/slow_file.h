/*
 * slow_file.h - a model file that takes as long to fingerprint as a test wants
 *
 * The program that includes this has this pread instead of the C library's. The engine maps files, so only the
 * fingerprint is slow.
 */
#ifndef HTH_TESTS_SLOW_FILE_H
#define HTH_TESTS_SLOW_FILE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/cmocka_all.h"

REPLACING _Atomic ino_t hth_test_slow_inode; /* 0: none */

REPLACING ssize_t pread(int fd, void *bytes, size_t n_bytes, off_t offset)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    ssize_t (*real)(int, void *, size_t, off_t);
    void *symbol = dlsym(RTLD_NEXT, "pread");
    ino_t slow = atomic_load(&hth_test_slow_inode);
    struct stat st;

    memcpy(&real, &symbol, sizeof(real)); /* ISO C has no cast from object to function pointers */
    if (slow != 0 && fstat(fd, &st) == 0 && st.st_ino == slow) {
        (void)nanosleep(&moment, NULL);
        n_bytes = n_bytes > 0; /* a model of a megabyte takes a quarter of an hour */
    }
    return real(fd, bytes, n_bytes, offset);
}

/* A copy of a file, as path says; from now on it is read slowly. */
static inline void slow_file_new(const char *original, const char *path)
{
    FILE *from = fopen(original, "r"), *to = fopen(path, "w");
    static char bytes[1 << 16];
    struct stat st;
    size_t n;

    assert_non_null(from);
    assert_non_null(to);
    while ((n = fread(bytes, 1, sizeof(bytes), from)) > 0)
        assert_int_equal(fwrite(bytes, 1, n, to), n);
    assert_int_equal(fclose(from), 0);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(stat(path, &st), 0);
    atomic_store(&hth_test_slow_inode, st.st_ino);
}

/* Now it is read as fast as others. */
static inline void slow_file_release(void)
{
    atomic_store(&hth_test_slow_inode, 0);
}

/* What any program might do to a file: its times are others than before. */
static inline void slow_file_touch(const char *path)
{
    const struct timespec times[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

#endif
