/*
 * read_ring_refusals_test.c - what the ring does when the system's queue does not keep what it promised
 *
 * The queue of the system is replaced by one that is defined here: it carries reads out, the last first, or answers
 * them with an error.
 */
#include "support/cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/read_ring.h"
#include "support/support.h"

enum { FILES = 8, FILE_BYTES = 50000, PLACES = 16 };

/* ---- the queue ---- */

typedef struct request {
    int fd;
    void *bytes;
    size_t n_bytes;
    uint64_t offset;
    void *user_data;
} request;

struct hth_os_ring {
    request requests[PLACES];
    size_t n;
};

/* What the next queue does. */
static int answer;       /* instead of reading; 0: read */
static size_t n_answers; /* so many times */
static size_t places = PLACES;
static size_t read_bytes_max = FILE_BYTES;
static size_t n_added;

hth_os_ring *hth_os_ring_open(unsigned depth)
{
    (void)depth;
    n_added = 0;
    return calloc(1, sizeof(hth_os_ring));
}

void hth_os_ring_close(hth_os_ring *ring)
{
    if (ring)
        assert_int_equal(ring->n, 0);
    free(ring);
}

bool hth_os_ring_add(hth_os_ring *ring, int fd, void *bytes, size_t n_bytes, uint64_t offset, void *user_data)
{
    if (ring->n >= places)
        return false;
    n_added++;
    ring->requests[ring->n++] =
        (request){ .fd = fd, .bytes = bytes, .n_bytes = n_bytes, .offset = offset, .user_data = user_data };
    return true;
}

void hth_os_ring_submit(hth_os_ring *ring)
{
    (void)ring;
}

void *hth_os_ring_wait(hth_os_ring *ring, int64_t *n_out)
{
    const request *next;

    assert_true(ring->n > 0); /* else it would wait for ever */
    next = &ring->requests[--ring->n];
    if (n_answers > 0) {
        n_answers--;
        *n_out = answer;
    } else {
        ssize_t n = pread(next->fd, next->bytes, next->n_bytes < read_bytes_max ? next->n_bytes : read_bytes_max,
                          (off_t)next->offset);

        *n_out = n < 0 ? -errno : n;
    }
    return next->user_data;
}

int64_t hth_os_read_now(int fd, void *bytes, size_t n_bytes, uint64_t offset)
{
    (void)fd;
    (void)bytes;
    (void)n_bytes;
    (void)offset;
    return -EAGAIN;
}

/* ---- files ---- */

typedef struct fixture {
    char *directory;
    int fds[FILES];
    uint8_t *bytes;
} fixture;

static void set_up(fixture *f)
{
    f->directory = hth_test_directory_new();
    f->bytes = malloc((size_t)FILES * FILE_BYTES);
    assert_non_null(f->bytes);
    for (size_t i = 0; i < FILES; i++) {
        char path[4096];

        (void)snprintf(path, sizeof(path), "%s/%zu", f->directory, i);
        memset(f->bytes, (int)i + 1, FILE_BYTES);
        f->fds[i] = open(path, O_RDWR | O_CREAT, 0600);
        assert_int_equal(write(f->fds[i], f->bytes, FILE_BYTES), FILE_BYTES);
    }
    answer = 0;
    n_answers = 0;
    places = PLACES;
    read_bytes_max = FILE_BYTES;
}

static void tear_down(fixture *f)
{
    for (size_t i = 0; i < FILES; i++)
        (void)close(f->fds[i]);
    hth_test_directory_remove(f->directory);
    free(f->bytes);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void read_all_files(fixture *f, hth_read_ring *ring)
{
    hth_ring_read reads[FILES];

    memset(f->bytes, 0, (size_t)FILES * FILE_BYTES);
    for (size_t i = 0; i < FILES; i++) {
        reads[i] = (hth_ring_read){ .fd = f->fds[i], .bytes = f->bytes + i * FILE_BYTES, .n_bytes = FILE_BYTES };
        hth_read_ring_add(ring, &reads[i]);
    }
    for (size_t i = 0; i < FILES; i++) {
        const hth_ring_read *read = hth_read_ring_wait(ring);

        assert_non_null(read);
        assert_int_equal(read->result, 0);
        assert_int_equal(read->n_done, FILE_BYTES);
    }
    assert_null(hth_read_ring_wait(ring));
    for (size_t i = 0; i < FILES; i++)
        for (size_t at = 0; at < FILE_BYTES; at++)
            if (f->bytes[i * FILE_BYTES + at] != i + 1)
                fail_msg("file %zu differs at %zu", i, at);
}

/* ---- what must hold ---- */

FIXTURE_TEST(a_queue_that_refuses_reads_is_done_without)
{
    static const int answers[] = { -EINVAL, -EOPNOTSUPP, -EPERM, -EAGAIN };

    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        for (size_t n = 1; n <= FILES; n += FILES - 1) { /* the first only, and all of them */
            hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);

            assert_non_null(ring);
            assert_string_equal(hth_read_ring_way(ring), "io_uring");
            answer = answers[i];
            n_answers = n;
            read_all_files(f, ring);
            assert_string_equal(hth_read_ring_way(ring), "threads");
            assert_int_equal(n_added, FILES);
            read_all_files(f, ring);
            assert_int_equal(n_added, FILES); /* nothing went to the system any more */
            n_answers = 0;
            hth_read_ring_close(ring);
        }
}

FIXTURE_TEST(an_empty_queue_that_takes_nothing_is_done_without)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);

    places = 0;
    read_all_files(f, ring);
    assert_string_equal(hth_read_ring_way(ring), "threads");
    hth_read_ring_close(ring);
}

FIXTURE_TEST(a_queue_that_does_not_take_the_rest_of_a_read_is_done_without)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);
    hth_ring_read read = { .fd = f->fds[0], .bytes = f->bytes, .n_bytes = FILE_BYTES };

    read_bytes_max = 100;
    hth_read_ring_add(ring, &read);
    hth_read_ring_submit(ring);
    places = 0;
    assert_ptr_equal(hth_read_ring_wait(ring), &read);
    assert_int_equal(read.n_done, FILE_BYTES);
    assert_string_equal(hth_read_ring_way(ring), "threads");
    hth_read_ring_close(ring);
}

FIXTURE_TEST(reads_by_the_system_and_by_threads_may_be_out_at_once)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);
    hth_ring_read reads[2 * FILES];
    size_t n_back = 0, n_sent = 0;

    assert_non_null(ring);
    answer = -EINVAL;
    n_answers = 1;
    while (n_back < 2 * FILES) {
        const hth_ring_read *read;

        for (; n_sent < 2 * FILES && n_sent - n_back < FILES; n_sent++) {
            reads[n_sent] = (hth_ring_read){ .fd = f->fds[n_sent % FILES],
                                             .bytes = f->bytes + n_sent % FILES * FILE_BYTES,
                                             .n_bytes = n_sent < FILES ? FILE_BYTES / 2 : FILE_BYTES,
                                             .n_done = n_sent < FILES ? 0 : FILE_BYTES / 2 };
            hth_read_ring_add(ring, &reads[n_sent]);
        }
        read = hth_read_ring_wait(ring);
        assert_non_null(read);
        assert_int_equal(read->result, 0);
        assert_int_equal(read->n_done, read->n_bytes);
        n_back++;
    }
    assert_null(hth_read_ring_wait(ring));
    hth_read_ring_close(ring);
}

FIXTURE_TEST(an_error_of_the_file_is_no_reason_to_do_without_the_system)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);
    int directory = open(f->directory, O_RDONLY);
    hth_ring_read read = { .fd = directory, .bytes = f->bytes, .n_bytes = FILE_BYTES };

    answer = -EINVAL;
    n_answers = 1;
    hth_read_ring_add(ring, &read);
    assert_ptr_equal(hth_read_ring_wait(ring), &read);
    assert_int_equal(read.result, -EISDIR);
    read_all_files(f, ring);
    assert_string_equal(hth_read_ring_way(ring), "io_uring");
    hth_read_ring_close(ring);
    (void)close(directory);
}

FIXTURE_TEST(a_full_queue_short_reads_and_interruptions_only_take_longer)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);

    places = 3;
    read_bytes_max = 10000;
    answer = -EINTR;
    n_answers = 5;
    read_all_files(f, ring);
    assert_string_equal(hth_read_ring_way(ring), "io_uring");
    hth_read_ring_close(ring);
}

FIXTURE_TEST(closing_waits_for_what_is_out)
{
    hth_read_ring *ring = hth_read_ring_open(hth_fs_system(), FILES);
    hth_ring_read reads[2];

    for (size_t i = 0; i < 2; i++) {
        reads[i] = (hth_ring_read){ .fd = f->fds[i], .bytes = f->bytes + i * FILE_BYTES, .n_bytes = FILE_BYTES };
        hth_read_ring_add(ring, &reads[i]);
    }
    hth_read_ring_submit(ring);
    hth_read_ring_close(ring); /* the queue asserts that nothing is in it */
    assert_int_equal(reads[0].n_done, FILE_BYTES);
    assert_int_equal(reads[1].n_done, FILE_BYTES);
}
