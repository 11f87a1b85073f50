/*
 * fingerprint.c - hashing of model files, the memo, and the thread
 *
 * A memo entry is a file <device>-<inode>-<size>-<mtime ns>-<ctime ns>-<mode> with 64 hex digits, which rename puts in
 * place. Only the form of an entry is checked: anyone who can write a wrong one can write to the cache directory
 * anyway. A model file that changed within the last two seconds gets no entry, because another change could leave its
 * times the same. A digest that came with the file gets none, so it is not used after the operator stops trusting
 * digests.
 */
#include "models/fingerprint.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/deadline.h"
#include "base/gguf_name.h"
#include "base/hash.h"
#include "base/os.h"
#include "models/trusted_digest.h"

enum {
    READ_BYTES = 1 << 20,
    SAMPLE_BYTES = 64 << 10,
    SAMPLES = 256,
    SETTLED_SECONDS = 2,
    TELL_MS = 100, /* between two progress reports */
};

struct hth_fingerprinting {
    char *path;
    char *memo_directory; /* NULL: none */
    hth_fingerprint_options options;
    hearth_work_fn on_work;
    void *work_user_data;
    atomic_bool is_cancelled;
    atomic_bool is_waited_for;
    uint64_t bytes;                  /* of all parts */
    uint64_t bytes_before;           /* of the parts before the one that is read; the thread's */
    atomic_uint_fast64_t bytes_read; /* of all parts */

    pthread_mutex_t lock; /* guards has_ended */
    pthread_cond_t ended;
    bool has_ended;

    pthread_t thread;
    bool has_thread; /* join it */

    /* The thread writes these; read them after joining it. */
    hearth_status status;
    hearth_error err;
    uint8_t found[HTH_SHA256_BYTES];

    unsigned n_parts;     /* 1: one file */
    struct stat before[]; /* [n_parts], at the beginning; st_nlink 0: no file */
};

typedef struct hasher {
    int fd;
    const char *path;
    hth_fingerprinting *on_thread; /* NULL: the caller waits */
    hth_sha256 *sha;
    uint8_t *buffer; /* [READ_BYTES] */
} hasher;

static void note(const hth_fingerprinting *f, hearth_work_kind kind)
{
    const hearth_work work = { .struct_size = sizeof(work), .kind = kind };

    if (f->on_work)
        f->on_work(&work, f->work_user_data);
}

/* Note a piece of at most a MiB before it is read. False: the work is cancelled. */
static bool begin_piece(hth_fingerprinting *f, uint64_t offset)
{
    atomic_store_explicit(&f->bytes_read, f->bytes_before + offset, memory_order_relaxed);
    if (atomic_load_explicit(&f->is_waited_for, memory_order_relaxed))
        note(f, HEARTH_WORK_BEGINS);
    return !atomic_load_explicit(&f->is_cancelled, memory_order_relaxed);
}

static hearth_status hash_range(hasher *h, uint64_t offset, uint64_t n_bytes, hearth_error *err)
{
    while (n_bytes > 0) {
        size_t want = n_bytes < READ_BYTES ? (size_t)n_bytes : READ_BYTES;
        ssize_t got;

        if (h->on_thread && !begin_piece(h->on_thread, offset))
            return hth_fail(err, HEARTH_CANCELLED, "the reading of '%s' was ended", h->path);
        got = pread(h->fd, h->buffer, want, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return hth_fail_errno(err, errno, "cannot read '%s'", h->path);
        if (got == 0)
            return hth_fail(err, HEARTH_IO, "'%s' became shorter while it was read; load it again", h->path);
        hth_sha256_update(h->sha, h->buffer, (size_t)got);
        offset += (uint64_t)got;
        n_bytes -= (uint64_t)got;
    }
    return HEARTH_OK;
}

static void hash_u64(hasher *h, uint64_t value)
{
    uint8_t bytes[8];

    hth_put_u64(bytes, value);
    hth_sha256_update(h->sha, bytes, sizeof(bytes));
}

static hearth_status hash_chunked(hasher *h, uint64_t size, hearth_error *err)
{
    static const char domain[] = "hearth-gguf-chunked-v1";
    uint64_t head = size < READ_BYTES ? size : READ_BYTES;
    hearth_status status;

    hth_sha256_update(h->sha, domain, sizeof(domain) - 1);
    hash_u64(h, size);
    status = hash_range(h, 0, head, err);
    if (size <= (uint64_t)READ_BYTES + (uint64_t)SAMPLES * SAMPLE_BYTES)
        return status == HEARTH_OK ? hash_range(h, head, size - head, err) : status;
    for (uint64_t i = 0; status == HEARTH_OK && i < SAMPLES; i++)
        status = hash_range(h, head + (size - head - SAMPLE_BYTES) / SAMPLES * i, SAMPLE_BYTES, err);
    if (status == HEARTH_OK)
        status = hash_range(h, size - SAMPLE_BYTES, SAMPLE_BYTES, err);
    return status;
}

static hearth_status hash_identity(hasher *h, const struct stat *st, hearth_error *err)
{
    static const char domain[] = "hearth-fast-unsafe-v1";
    char *absolute = realpath(h->path, NULL);

    if (!absolute)
        return hth_fail_errno(err, errno, "cannot resolve '%s'", h->path);
    hth_sha256_update(h->sha, domain, sizeof(domain) - 1);
    hash_u64(h, (uint64_t)st->st_size);
    hash_u64(h, hth_os_mtime_ns(st));
    hth_sha256_update(h->sha, absolute, strlen(absolute));
    free(absolute);
    return HEARTH_OK;
}

static hearth_status hash_file(const char *path, int fd, const struct stat *st, hearth_fingerprint_mode mode,
                               hth_fingerprinting *on_thread, uint8_t out[32], hearth_error *err)
{
    hasher h = { .fd = fd, .path = path, .on_thread = on_thread };
    hearth_status status;

    h.sha = hth_sha256_new();
    h.buffer = malloc(READ_BYTES);
    if (!h.sha || !h.buffer)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", path);
    else if (mode == HEARTH_FINGERPRINT_SAFE)
        status = hash_range(&h, 0, (uint64_t)st->st_size, err);
    else if (mode == HEARTH_FINGERPRINT_GGUF_CHUNKED)
        status = hash_chunked(&h, (uint64_t)st->st_size, err);
    else
        status = hash_identity(&h, st, err);
    if (status == HEARTH_OK)
        hth_sha256_peek(h.sha, out);
    hth_sha256_free(h.sha);
    free(h.buffer);
    return status;
}

/* ---- the memo ---- */

static bool memo_path(const char *directory, const struct stat *st, hearth_fingerprint_mode mode, char *path,
                      size_t capacity)
{
    int n = snprintf(path, capacity, "%s/%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%" PRIu64 "-%d", directory,
                     (uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size, hth_os_mtime_ns(st),
                     hth_os_ctime_ns(st), (int)mode);

    return n > 0 && (size_t)n < capacity;
}

static bool memo_read(const char *path, uint8_t out[32])
{
    char text[65];
    FILE *file = fopen(path, "re");
    bool found;

    if (!file)
        return false;
    found = fgets(text, sizeof(text), file) && hth_hex_decode(text, out, 32);
    (void)fclose(file); /* only read */
    return found;
}

/* A failure here only costs another hash computation later. */
static void memo_write(const char *directory, const char *path, const uint8_t fingerprint[32])
{
    char temporary[PATH_MAX];
    char text[65];
    int fd;
    int n = snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());

    if (n <= 0 || (size_t)n >= sizeof(temporary))
        return;
    (void)mkdir(directory, 0700); /* if this fails, the open below fails */
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    hth_hex_encode(fingerprint, 32, text);
    bool whole = write(fd, text, 64) == 64;
    if (close(fd) != 0 || !whole || rename(temporary, path) != 0)
        (void)unlink(temporary);
}

static hearth_status fingerprint(const char *path, const hth_fingerprint_options *options,
                                 hth_fingerprinting *on_thread, hth_fingerprint *out, hearth_error *err)
{
    const hearth_fingerprint_mode mode = options->mode;
    const char *memo_directory = options->memo_directory;
    char entry[PATH_MAX];
    hth_fingerprint found = { .is_from_memo = false };
    const struct stat *st = &found.file;
    struct stat after;
    hearth_status status = HEARTH_OK;
    bool has_entry, is_trusted = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open '%s'", path);
    if (fstat(fd, &found.file) != 0) {
        status = hth_fail_errno(err, errno, "cannot read the size of '%s'", path);
        (void)close(fd); /* only read */
        return status;
    }
    if (!S_ISREG(st->st_mode)) {
        (void)close(fd); /* only read */
        return hth_fail(err, HEARTH_CORRUPT, "'%s' is not a regular file; name a GGUF file", path);
    }
    has_entry = memo_directory && memo_path(memo_directory, st, mode, entry, sizeof(entry));
    found.is_from_memo = has_entry && memo_read(entry, found.bytes);
    if (!found.is_from_memo && options->trusts_digests && mode == HEARTH_FINGERPRINT_SAFE)
        is_trusted = hth_trusted_digest(path, st, options->log, found.bytes);
    if (!found.is_from_memo && !is_trusted)
        status = hash_file(path, fd, st, mode, on_thread, found.bytes, err);
    if (status == HEARTH_OK && !found.is_from_memo && !is_trusted && has_entry &&
        mode != HEARTH_FINGERPRINT_FAST_UNSAFE &&
        hth_os_ctime_ns(st) / 1000000000u + SETTLED_SECONDS < hth_os_unix_seconds() && fstat(fd, &after) == 0 &&
        hth_os_ctime_ns(&after) == hth_os_ctime_ns(st))
        memo_write(memo_directory, entry, found.bytes);
    (void)close(fd); /* only read */
    if (status == HEARTH_OK)
        *out = found;
    return status;
}

hearth_status hth_fingerprint_file(const char *path, const hth_fingerprint_options *options, hth_fingerprint *out,
                                   hearth_error *err)
{
    return fingerprint(path, options, NULL, out, err);
}

/* ---- the thread ---- */

/* The parts of the split model whose first part is at path. A part that is missing is an error of the engine. */
static unsigned count_parts(const char *path)
{
    const unsigned n = hth_gguf_n_files(path);
    char buffer[HTH_GGUF_PATH_BYTES];

    for (unsigned i = 1; i < n; i++)
        if (access(hth_gguf_file(path, i, buffer), F_OK) != 0)
            return 1;
    return n;
}

/* The path of part i, counted from 0; also for a single file. */
static const char *part_at(const hth_fingerprinting *f, unsigned i, char buffer[HTH_GGUF_PATH_BYTES])
{
    return f->n_parts == 1 ? f->path : hth_gguf_file(f->path, i, buffer);
}

/* Is it the same file, with the same size and times? */
static bool is_unchanged(const struct stat *a, const struct stat *b)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): both are filled if their calls succeed */
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           hth_os_mtime_ns(a) == hth_os_mtime_ns(b) && hth_os_ctime_ns(a) == hth_os_ctime_ns(b);
}

static hearth_status fail_changed(const char *path, hearth_error *err)
{
    return hth_fail(err, HEARTH_IO, "'%s' changed while it was loaded; load it again", path);
}

static hearth_status make_part(hth_fingerprinting *f, unsigned i, uint8_t out[HTH_SHA256_BYTES])
{
    char buffer[HTH_GGUF_PATH_BYTES];
    const char *path = part_at(f, i, buffer);
    hth_fingerprint found;
    const hearth_status status = fingerprint(path, &f->options, f, &found, &f->err);

    if (status != HEARTH_OK)
        return status;
    if (!is_unchanged(&f->before[i], &found.file))
        return fail_changed(path, &f->err);
    memcpy(out, found.bytes, sizeof(found.bytes));
    return HEARTH_OK;
}

static hearth_status make_split(hth_fingerprinting *f)
{
    static const char domain[] = "hearth-split-v1";
    hearth_status status = HEARTH_OK;
    hth_sha256 *sha = hth_sha256_new();
    uint8_t n_parts[8], digest[HTH_SHA256_BYTES];

    if (!sha)
        return hth_fail(&f->err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", f->path);
    hth_put_u64(n_parts, f->n_parts);
    hth_sha256_update(sha, domain, sizeof(domain) - 1);
    hth_sha256_update(sha, n_parts, sizeof(n_parts));
    for (unsigned i = 0; i < f->n_parts && status == HEARTH_OK; i++) {
        status = make_part(f, i, digest);
        f->bytes_before += (uint64_t)f->before[i].st_size;
        hth_sha256_update(sha, digest, sizeof(digest));
    }
    hth_sha256_peek(sha, f->found);
    hth_sha256_free(sha);
    return status;
}

static void make(hth_fingerprinting *f)
{
    f->status = f->n_parts == 1 ? make_part(f, 0, f->found) : make_split(f);
    atomic_store_explicit(&f->bytes_read, f->bytes, memory_order_relaxed);
    pthread_mutex_lock(&f->lock);
    f->has_ended = true;
    pthread_cond_signal(&f->ended);
    pthread_mutex_unlock(&f->lock);
}

static void *run(void *context)
{
    hth_os_thread_name("hearth-finger");
    make(context);
    return NULL;
}

hearth_status hth_fingerprinting_new(const char *path, const hth_fingerprint_options *options, hearth_work_fn on_work,
                                     void *work_user_data, hth_fingerprinting **out, hearth_error *err)
{
    const unsigned n_parts = count_parts(path);
    hth_fingerprinting *f = calloc(1, sizeof(*f) + n_parts * sizeof(f->before[0]));

    if (f) {
        pthread_mutex_init(&f->lock, NULL);
        hth_condition_init(&f->ended);
        f->path = strdup(path);
        f->memo_directory = options->memo_directory ? strdup(options->memo_directory) : NULL;
    }
    if (!f || !f->path || (options->memo_directory && !f->memo_directory)) {
        hth_fingerprinting_free(f);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to fingerprint '%s'", path);
    }
    f->options = *options;
    f->options.memo_directory = f->memo_directory;
    f->on_work = on_work;
    f->work_user_data = work_user_data;
    assert(n_parts > 0);
    f->n_parts = n_parts;
    for (unsigned i = 0; i < n_parts; i++) {
        char buffer[HTH_GGUF_PATH_BYTES];

        if (stat(part_at(f, i, buffer), &f->before[i]) != 0)
            f->before[i] = (struct stat){ .st_nlink = 0 };
        f->bytes += (uint64_t)f->before[i].st_size;
    }
    f->has_thread = pthread_create(&f->thread, NULL, run, f) == 0; /* otherwise hth_fingerprinting_wait does the work */
    *out = f;
    return HEARTH_OK;
}

void hth_fingerprinting_free(hth_fingerprinting *f)
{
    if (!f)
        return;
    hth_fingerprinting_cancel(f);
    if (f->has_thread)
        pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->ended);
    pthread_mutex_destroy(&f->lock);
    free(f->memo_directory);
    free(f->path);
    free(f);
}

void hth_fingerprinting_cancel(hth_fingerprinting *f)
{
    atomic_store_explicit(&f->is_cancelled, true, memory_order_relaxed);
}

/* Are the files the same as at the beginning? */
static hearth_status check_files(const hth_fingerprinting *f, hearth_error *err)
{
    struct stat now;

    for (unsigned i = 0; i < f->n_parts; i++) {
        char buffer[HTH_GGUF_PATH_BYTES];
        const char *path = part_at(f, i, buffer);

        if (stat(path, &now) != 0 || !is_unchanged(&f->before[i], &now))
            return fail_changed(path, err);
    }
    return count_parts(f->path) == f->n_parts ? HEARTH_OK : fail_changed(f->path, err);
}

float hth_fingerprinting_fraction(const hth_fingerprinting *f)
{
    const uint64_t bytes_read = atomic_load_explicit(&f->bytes_read, memory_order_relaxed);

    return bytes_read < f->bytes ? (float)bytes_read / (float)f->bytes : 1;
}

/* Report progress until the thread has ended. */
static void tell_until_end(hth_fingerprinting *f, hearth_load_progress_fn progress, void *user_data)
{
    bool has_ended = false;

    while (!has_ended) {
        const struct timespec then = hth_deadline_after(TELL_MS);

        if (!progress(hth_fingerprinting_fraction(f), user_data))
            hth_fingerprinting_cancel(f);
        pthread_mutex_lock(&f->lock);
        if (!f->has_ended)
            (void)pthread_cond_timedwait(&f->ended, &f->lock, &then); /* the loop checks again */
        has_ended = f->has_ended;
        pthread_mutex_unlock(&f->lock);
    }
}

hearth_status hth_fingerprinting_wait(hth_fingerprinting *f, hearth_load_progress_fn progress, void *user_data,
                                      uint8_t out[32], hearth_error *err)
{
    hearth_status status;

    note(f, HEARTH_WORK_BEGINS);
    atomic_store_explicit(&f->is_waited_for, true, memory_order_relaxed);
    if (f->has_thread && progress)
        tell_until_end(f, progress, user_data);
    if (f->has_thread)
        pthread_join(f->thread, NULL);
    else
        make(f);
    f->has_thread = false;
    note(f, HEARTH_WORK_ENDS);
    if (f->status != HEARTH_OK) {
        if (err)
            *err = f->err;
        return f->status;
    }
    status = check_files(f, err);
    if (status == HEARTH_OK && progress && !progress(1, user_data))
        status = hth_fail(err, HEARTH_CANCELLED, "loading '%s' was cancelled", f->path);
    if (status == HEARTH_OK)
        memcpy(out, f->found, sizeof(f->found));
    return status;
}
