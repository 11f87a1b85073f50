/*
 * fingerprint.c - hashing of model files, and the memo
 *
 * A memo entry is a file <device>-<inode>-<size>-<mtime ns>-<ctime ns>-<mode> with 64 hex digits, which rename puts in
 * place. Only the form of an entry is checked: anyone who can write a wrong one can write to the cache directory
 * anyway. A model file that changed within the last two seconds gets no entry, because another change could leave its
 * times the same. A digest that came with the file gets none, so it is not used after the operator stops trusting
 * digests.
 */
#include "models/fingerprint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/os.h"
#include "models/trusted_digest.h"

enum {
    READ_BYTES = 1 << 20,
    SAMPLE_BYTES = 64 << 10,
    SAMPLES = 256,
    SETTLED_SECONDS = 2,
};

typedef struct hasher {
    int fd;
    const char *path;
    const hth_fingerprint_watch *watch; /* NULL: none */
    hth_sha256 *sha;
    uint8_t *buffer; /* [READ_BYTES] */
} hasher;

static bool is_cancelled(const hasher *h)
{
    return h->watch && atomic_load_explicit(&h->watch->is_cancelled, memory_order_relaxed);
}

static hearth_status hash_range(hasher *h, uint64_t offset, uint64_t n_bytes, hearth_error *err)
{
    while (n_bytes > 0) {
        size_t want = n_bytes < READ_BYTES ? (size_t)n_bytes : READ_BYTES;
        ssize_t got;

        if (is_cancelled(h))
            return hth_fail(err, HEARTH_CANCELLED, "the reading of '%s' was ended", h->path);
        if (h->watch && h->watch->on_piece)
            h->watch->on_piece(offset, h->watch->user_data);
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
                               const hth_fingerprint_watch *watch, uint8_t out[32], hearth_error *err)
{
    hasher h = { .fd = fd, .path = path, .watch = watch };
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

hearth_status hth_fingerprint_file(const char *path, const hth_fingerprint_options *options, hth_fingerprint *out,
                                   hearth_error *err)
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
        status = hash_file(path, fd, st, mode, options->watch, found.bytes, err);
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
