#include "hub/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/os.h"
#include "base/status.h"

static const char magic[8] = { 'H', 'T', 'H', 'P', 'A', 'R', 'T', '1' };

uint64_t hth_hub_piece_end(const hth_hub_partial *partial, size_t piece)
{
    const uint64_t end = ((uint64_t)piece + 1) * HTH_HUB_PIECE_BYTES;

    return end < partial->bytes ? end : partial->bytes;
}

static uint64_t marks_at(const hth_hub_partial *partial)
{
    return partial->bytes + sizeof(magic);
}

/* ---- bytes ---- */

hearth_status hth_hub_partial_write(const hth_hub_partial *partial, const void *bytes, size_t n_bytes, uint64_t at,
                                    hearth_error *err)
{
    const char *next = bytes;

    while (n_bytes > 0) {
        const ssize_t n = pwrite(partial->fd, next, n_bytes, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return hth_fail_errno(err, n < 0 ? errno : EIO, "cannot write to '%s'", partial->path);
        next += n;
        at += (uint64_t)n;
        n_bytes -= (size_t)n;
    }
    return HEARTH_OK;
}

hearth_status hth_hub_partial_read(const hth_hub_partial *partial, void *bytes, size_t n_bytes, uint64_t at,
                                   hearth_error *err)
{
    size_t n = 0;
    const int result = hth_fs_read_full(hth_fs_system(), partial->fd, bytes, n_bytes, at, &n);

    if (result < 0 || n < n_bytes)
        return hth_fail_errno(err, result < 0 ? -result : EIO, "cannot read '%s'", partial->path);
    return HEARTH_OK;
}

hearth_status hth_hub_partial_keep(const hth_hub_partial *partial, size_t piece, hearth_error *err)
{
    if (hth_os_sync_data(partial->fd) != 0)
        return hth_fail_errno(err, errno, "cannot sync '%s'", partial->path);
    return hth_hub_partial_write(partial, &(char){ 1 }, 1, marks_at(partial) + piece, err);
}

/* ---- opening and closing ---- */

/* False if it is not the unfinished file of a blob of this size. */
static bool read_marks(hth_hub_partial *partial)
{
    char found[sizeof(magic)];
    struct stat st;

    if (fstat(partial->fd, &st) != 0 || (uint64_t)st.st_size != marks_at(partial) + partial->n_pieces ||
        hth_hub_partial_read(partial, found, sizeof(found), partial->bytes, NULL) != HEARTH_OK ||
        memcmp(found, magic, sizeof(magic)) != 0)
        return false;
    for (size_t i = 0; i < partial->n_pieces; i++) {
        char mark = 0;

        if (hth_hub_partial_read(partial, &mark, 1, marks_at(partial) + i, NULL) != HEARTH_OK)
            return false;
        partial->marks[i] = mark == 1;
    }
    return true;
}

static hearth_status begin(hth_hub_partial *partial, hearth_error *err)
{
    memset(partial->marks, 0, partial->n_pieces * sizeof(*partial->marks));
    if (ftruncate(partial->fd, 0) != 0 || ftruncate(partial->fd, (off_t)(marks_at(partial) + partial->n_pieces)) != 0)
        return hth_fail_errno(err, errno, "cannot make '%s' as large as its blob", partial->path);
    return hth_hub_partial_write(partial, magic, sizeof(magic), partial->bytes, err);
}

static hearth_status check_room(const hth_hub_partial *partial, const char *cache_variable, hearth_error *err)
{
    uint64_t needed = 0, free_bytes;

    for (size_t i = 0; i < partial->n_pieces; i++)
        if (!partial->marks[i])
            needed += hth_hub_piece_end(partial, i) - (uint64_t)i * HTH_HUB_PIECE_BYTES;
    if (hth_fs_free_bytes(hth_fs_system(), partial->path, &free_bytes) < 0 || free_bytes >= needed)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_FULL,
                    "%.1f GB are missing of '%s', but its device has %.1f GB left; make room, or set %s",
                    (double)needed / 1e9, partial->path, (double)free_bytes / 1e9, cache_variable);
}

hearth_status hth_hub_partial_open(hth_hub_partial *out, const char *blob, uint64_t bytes, const char *cache_variable,
                                   hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    *out = (hth_hub_partial){
        .fd = -1,
        .bytes = bytes,
        .n_pieces = (size_t)((bytes + HTH_HUB_PIECE_BYTES - 1) / HTH_HUB_PIECE_BYTES),
    };
    if (snprintf(out->path, sizeof(out->path), "%s.hearth.incomplete", blob) >= (int)sizeof(out->path))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", blob);
    out->marks = calloc(out->n_pieces, sizeof(*out->marks));
    if (!out->marks)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the pieces of '%s'", out->path);
    out->fd = open(out->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (out->fd < 0)
        return hth_fail_errno(err, errno, "cannot write '%s'", out->path);
    if (!read_marks(out))
        status = begin(out, err);
    return status == HEARTH_OK ? check_room(out, cache_variable, err) : status;
}

void hth_hub_partial_close(hth_hub_partial *partial)
{
    if (partial->fd >= 0)
        (void)close(partial->fd); /* synced before, or not needed */
    free(partial->marks);
    *partial = (hth_hub_partial){ .fd = -1 };
}

hearth_status hth_hub_partial_finish(hth_hub_partial *partial, const char *blob, hearth_error *err)
{
    char folder[PATH_MAX];

    if (ftruncate(partial->fd, (off_t)partial->bytes) != 0 || fsync(partial->fd) != 0 ||
        rename(partial->path, blob) != 0)
        return hth_fail_errno(err, errno, "cannot finish '%s'", blob);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(blob, '/') - blob), blob); /* a part of a path */
    /* Without this, a power failure may undo the rename, and the bytes would be downloaded again. */
    (void)hth_fs_sync_directory(hth_fs_system(), folder);
    return HEARTH_OK;
}

void hth_hub_partial_remove(const hth_hub_partial *partial)
{
    (void)unlink(partial->path); /* if this fails, the checksum will refuse it again */
}
