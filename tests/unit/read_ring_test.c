/*
 * read_ring_test.c - many reads at once, by the system's queue and by threads
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/read_ring.h"
#include "support/step_fs.h"
#include "support/support.h"

enum { FILES = 40, FILE_BYTES = 300000 };

typedef struct fixture {
    char *directory;
    int fds[FILES];
    uint8_t *bytes[FILES];
    test_step_fs step;
} fixture;

static uint8_t byte_of(size_t file, size_t at)
{
    return (uint8_t)(at * 31 + file * 7 + at / 1000);
}

static void fixture_setup(fixture *f)
{
    f->directory = hth_test_directory_new();
    test_step_fs_init(&f->step, NULL);
    for (size_t i = 0; i < FILES; i++) {
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s/%zu", f->directory, i);
        f->bytes[i] = malloc(FILE_BYTES);
        assert_non_null(f->bytes[i]);
        for (size_t at = 0; at < FILE_BYTES; at++)
            f->bytes[i][at] = byte_of(i, at);
        f->fds[i] = open(path, O_RDWR | O_CREAT, 0600);
        assert_int_equal(write(f->fds[i], f->bytes[i], FILE_BYTES), FILE_BYTES);
        /* Out of the page cache where the file system has one, so that reads wait for a device. */
        assert_int_equal(fdatasync(f->fds[i]), 0);
        (void)posix_fadvise(f->fds[i], 0, 0, POSIX_FADV_DONTNEED);
        memset(f->bytes[i], 0, FILE_BYTES);
    }
}

static void fixture_teardown(fixture *f)
{
    for (size_t i = 0; i < FILES; i++) {
        (void)close(f->fds[i]);
        free(f->bytes[i]);
    }
    hth_test_directory_remove(f->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, fixture_setup, fixture_teardown)

/* Read all files through a ring of that depth, as many at a time as it takes, and compare every byte. */
static void read_all(fixture *f, hth_read_ring *ring, size_t depth)
{
    hth_ring_read reads[FILES];
    size_t n_added = 0, n_back = 0;

    while (n_back < FILES) {
        hth_ring_read *read;

        while (n_added < FILES && n_added - n_back < depth) {
            reads[n_added] =
                (hth_ring_read){ .fd = f->fds[n_added], .bytes = f->bytes[n_added], .n_bytes = FILE_BYTES };
            hth_read_ring_add(ring, &reads[n_added++]);
        }
        read = hth_read_ring_wait(ring);
        assert_non_null(read);
        assert_int_equal(read->result, 0);
        assert_int_equal(read->n_done, FILE_BYTES);
        n_back++;
    }
    assert_null(hth_read_ring_wait(ring));
    for (size_t i = 0; i < FILES; i++)
        for (size_t at = 0; at < FILE_BYTES; at++)
            if (f->bytes[i][at] != byte_of(i, at))
                fail_msg("file %zu differs at %zu", i, at);
}

FIXTURE_TEST(every_byte_of_many_files_arrives)
{
    for (unsigned depth = 1; depth <= 64; depth *= 4) {
        hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), depth);

        assert_non_null(ring);
        read_all(f, ring, depth);
        hth_read_ring_close(ring);
    }
}

FIXTURE_TEST(without_a_queue_of_the_system_threads_read)
{
    hth_read_ring *ring = hth_read_ring_open(&f->step.fs, 16);

    assert_non_null(ring);
    assert_string_equal(hth_read_ring_way(ring), "threads");
    f->step.short_io = true;
    read_all(f, ring, 16);
    hth_read_ring_close(ring);
}

FIXTURE_TEST(a_file_that_ends_early_comes_back_short)
{
    const hth_fs *layers[] = { hth_fs_system(), &f->step.fs };

    for (size_t i = 0; i < 2; i++) {
        hth_read_ring *ring = hth_read_ring_open(layers[i], 4);
        hth_ring_read read = { .fd = f->fds[i], .bytes = f->bytes[i], .n_bytes = FILE_BYTES };

        assert_int_equal(ftruncate(f->fds[i], 1000), 0);
        hth_read_ring_add(ring, &read);
        assert_ptr_equal(hth_read_ring_wait(ring), &read);
        assert_int_equal(read.result, 0);
        assert_int_equal(read.n_done, 1000);
        hth_read_ring_close(ring);
    }
}

FIXTURE_TEST(a_read_that_fails_says_so)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), 4);
    hth_ring_read read = { .fd = -1, .bytes = f->bytes[0], .n_bytes = FILE_BYTES };

    hth_read_ring_add(ring, &read);
    assert_ptr_equal(hth_read_ring_wait(ring), &read);
    assert_int_equal(read.result, -EBADF);
    hth_read_ring_close(ring);

    f->step.fail_at = 1;
    f->step.fail_errnum = EIO;
    f->step.fail_only = "read_at";
    ring = hth_read_ring_open(&f->step.fs, 4);
    read = (hth_ring_read){ .fd = f->fds[0], .bytes = f->bytes[0], .n_bytes = FILE_BYTES };
    hth_read_ring_add(ring, &read);
    assert_ptr_equal(hth_read_ring_wait(ring), &read);
    assert_int_equal(read.result, -EIO);
    hth_read_ring_close(ring);
}

FIXTURE_TEST(a_read_goes_on_where_an_earlier_one_stopped)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), 4);
    hth_ring_read read = { .fd = f->fds[0], .bytes = f->bytes[0], .n_bytes = FILE_BYTES, .n_done = 1234 };

    hth_read_ring_add(ring, &read);
    assert_ptr_equal(hth_read_ring_wait(ring), &read);
    assert_int_equal(read.n_done, FILE_BYTES);
    assert_int_equal(f->bytes[0][1233], 0); /* untouched */
    assert_int_equal(f->bytes[0][1234], byte_of(0, 1234));
    hth_read_ring_close(ring);
}

FIXTURE_TEST(what_is_in_memory_is_read_at_once)
{
    hth_ring_read read = { .fd = f->fds[0], .bytes = f->bytes[0], .n_bytes = FILE_BYTES };
    char byte;

    assert_false(hth_read_now(&f->step.fs, &read)); /* that layer cannot tell */
    assert_int_equal(read.n_done, 0);
    for (size_t at = 0; at < FILE_BYTES; at += 4096)
        assert_int_equal(pread(f->fds[0], &byte, 1, (off_t)at), 1);
    if (hth_read_now(hth_fs_system(), &read)) /* not on every file system */
        for (size_t at = 0; at < FILE_BYTES; at++)
            assert_int_equal(f->bytes[0][at], byte_of(0, at));
}
