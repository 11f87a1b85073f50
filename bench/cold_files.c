/*
 * cold_files.c - posix_fadvise, mincore and O_DIRECT
 */
#include "cold_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/measure.h"
#include "base/os.h"

#ifdef O_DIRECT

enum { PAGE_BYTES = 4096, PIECE_BYTES = 1 << 20, DEPTH = 64 };

/* Bytes of an open file that are in memory; -1: unknown. */
static int64_t resident_bytes(int fd, size_t n_bytes)
{
    size_t n_pages = (n_bytes + PAGE_BYTES - 1) / PAGE_BYTES;
    unsigned char *there = malloc(n_pages + 1);
    void *mapping = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    int64_t n = 0;

    if (!there || mapping == MAP_FAILED || mincore(mapping, n_bytes, there) != 0)
        n = -1;
    for (size_t i = 0; n >= 0 && i < n_pages; i++)
        n += there[i] & 1 ? PAGE_BYTES : 0;
    if (mapping != MAP_FAILED)
        (void)munmap(mapping, n_bytes); /* as it was mapped */
    free(there);
    return n;
}

static int64_t drop(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int64_t n = -1;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && st.st_size > 0 && fdatasync(fd) == 0 &&
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0)
        n = resident_bytes(fd, (size_t)st.st_size);
    (void)close(fd); /* nothing was written */
    return n;
}

int64_t hth_files_drop(char *const *paths, size_t n)
{
    int64_t left = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t n_bytes = drop(paths[i]);

        if (n_bytes < 0)
            return -1;
        left += n_bytes;
    }
    return left;
}

/* A piece of a file, being read. */
typedef struct piece {
    uint8_t *bytes; /* [PIECE_BYTES], aligned */
    bool is_out;
} piece;

/* Files read in order, in pieces. */
typedef struct reading {
    char *const *paths;
    size_t n_paths;
    int *fds; /* [n_paths]; -1: not open */
    size_t at;
    uint64_t offset;
    uint64_t file_bytes;
    uint64_t n_done;
    hth_os_ring *ring; /* NULL: in turn */
    piece pieces[DEPTH];
    size_t n_out;
} reading;

/* The next piece's file and place. False at the end of all. -1 in *fd_out if a file cannot be read this way. */
static bool next_piece(reading *r, int *fd_out, uint64_t *offset_out)
{
    struct stat st;

    while (r->at < r->n_paths && r->fds[r->at] >= 0 && r->offset >= r->file_bytes) {
        r->at++;
        r->offset = 0;
    }
    if (r->at == r->n_paths)
        return false;
    if (r->fds[r->at] < 0) {
        r->fds[r->at] = open(r->paths[r->at], O_RDONLY | O_CLOEXEC | O_DIRECT);
        r->file_bytes = r->fds[r->at] >= 0 && fstat(r->fds[r->at], &st) == 0 ? (uint64_t)st.st_size : 0;
    }
    *fd_out = r->file_bytes > 0 ? r->fds[r->at] : -1;
    *offset_out = r->offset;
    r->offset += PIECE_BYTES;
    return true;
}

static bool read_in_turn(reading *r)
{
    uint64_t offset;
    int fd;

    while (next_piece(r, &fd, &offset)) {
        ssize_t n = fd < 0 ? -1 : pread(fd, r->pieces[0].bytes, PIECE_BYTES, (off_t)offset);

        if (n <= 0)
            return false;
        r->n_done += (uint64_t)n;
    }
    return true;
}

/* Take one piece back. False if it was not read. */
static bool take_back(reading *r)
{
    int64_t n = 0;
    piece *back = hth_os_ring_wait(r->ring, &n);

    if (!back)
        return false;
    back->is_out = false;
    r->n_out--;
    r->n_done += n > 0 ? (uint64_t)n : 0;
    return n > 0;
}

static piece *free_piece(reading *r)
{
    for (size_t i = 0; i < DEPTH; i++)
        if (!r->pieces[i].is_out)
            return &r->pieces[i];
    return NULL;
}

static bool read_at_once(reading *r)
{
    bool good = true;
    uint64_t offset;
    int fd;

    while (good && next_piece(r, &fd, &offset)) {
        piece *to = free_piece(r);

        if (!to) {
            good = take_back(r);
            to = free_piece(r);
        }
        if (!good || !to || fd < 0 || !hth_os_ring_add(r->ring, fd, to->bytes, PIECE_BYTES, offset, to)) {
            good = false;
            break;
        }
        to->is_out = true;
        r->n_out++;
        hth_os_ring_submit(r->ring);
    }
    while (r->n_out > 0 && take_back(r))
        ;
    return good && r->n_out == 0;
}

static uint64_t total_bytes(char *const *paths, size_t n)
{
    uint64_t total = 0;
    struct stat st;

    for (size_t i = 0; i < n; i++)
        if (stat(paths[i], &st) == 0)
            total += (uint64_t)st.st_size;
    return total;
}

static void end_reading(reading *r)
{
    hth_os_ring_close(r->ring);
    for (size_t i = 0; r->fds && i < r->n_paths; i++)
        if (r->fds[i] >= 0)
            (void)close(r->fds[i]); /* nothing was written */
    free(r->fds);
    free(r->pieces[0].bytes);
}

bool hth_files_read_direct(char *const *paths, size_t n, hth_direct_way way, uint64_t *bytes_out, double *ms_out)
{
    reading r = { .paths = paths, .n_paths = n, .fds = malloc(n * sizeof(int)) };
    void *memory = NULL;
    bool good = false;
    uint64_t begin;
    double ms;

    for (size_t i = 0; r.fds && i < n; i++)
        r.fds[i] = -1;
    if (r.fds && posix_memalign(&memory, PAGE_BYTES, (size_t)DEPTH * PIECE_BYTES) == 0) {
        hth_os_memory_prefault(memory, (size_t)DEPTH * PIECE_BYTES);
        for (size_t i = 0; i < DEPTH; i++)
            r.pieces[i].bytes = (uint8_t *)memory + i * PIECE_BYTES;
        if (way == HTH_DIRECT_AT_ONCE)
            r.ring = hth_os_ring_open(DEPTH);
        begin = hth_os_monotonic_ns();
        good = way == HTH_DIRECT_IN_TURN ? read_in_turn(&r) : r.ring && read_at_once(&r);
        ms = hth_ms_since(begin);
        good = good && r.n_done == total_bytes(paths, n);
        if (good) {
            *bytes_out = r.n_done;
            *ms_out = ms;
        }
    }
    end_reading(&r);
    return good;
}

#else

int64_t hth_files_drop(char *const *paths, size_t n)
{
    (void)paths, (void)n;
    return -1;
}

bool hth_files_read_direct(char *const *paths, size_t n, hth_direct_way way, uint64_t *bytes_out, double *ms_out)
{
    (void)paths, (void)n, (void)way, (void)bytes_out, (void)ms_out;
    return false;
}

#endif
