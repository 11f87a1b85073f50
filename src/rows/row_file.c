/*
 * row_file.c - names of row files, and facts from the head of a file
 *
 * The time of the last use is the file's modification time, so updating it does not write to the row. And the eviction
 * order survives the loss of the index.
 */
#include "rows/row_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"

enum {
    HEAD_BYTES = 8192,          /* holds the whole head of any row of one block */
    HEAD_BYTES_MAX = 256 << 20, /* for a snapshot: four bytes a token, and its prompt */
    KEY_DIGITS = 2 * HTH_KEY_BYTES,
    PATH_BYTES = 4096,
    NAME_BYTES = 256,
    TIME_DIGITS = 12,
};

void hth_row_file_name(const hth_row_id *id, char name[HTH_ROW_FILE_NAME_BYTES])
{
    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, name);
    (void)snprintf(name + KEY_DIGITS, HTH_ROW_FILE_NAME_BYTES - KEY_DIGITS, "-%s.kvc", hth_row_kind_name(id->kind));
}

bool hth_row_file_parse_name(const char *name, hth_row_id *out)
{
    char hex[KEY_DIGITS + 1], expected[HTH_ROW_FILE_NAME_BYTES];
    hth_row_id id;

    if (strlen(name) <= KEY_DIGITS)
        return false;
    memcpy(hex, name, KEY_DIGITS);
    hex[KEY_DIGITS] = '\0';
    if (!hth_hex_decode(hex, id.key.bytes, HTH_KEY_BYTES))
        return false;
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        id.kind = (hth_row_kind)kind;
        hth_row_file_name(&id, expected);
        if (strcmp(name, expected) == 0) { /* this compares the digits, too, because lookups use lower case only */
            *out = id;
            return true;
        }
    }
    return false;
}

bool hth_row_file_folder(const char *rows_directory, const hth_row_id *id, char *path, size_t capacity)
{
    int n = snprintf(path, capacity, "%s/%02x", rows_directory, id->key.bytes[0]);

    return n > 0 && (size_t)n < capacity;
}

bool hth_row_file_path(const char *rows_directory, const hth_row_id *id, char *path, size_t capacity)
{
    char name[HTH_ROW_FILE_NAME_BYTES];
    int n;

    hth_row_file_name(id, name);
    n = snprintf(path, capacity, "%s/%.2s/%s", rows_directory, name, name);
    return n > 0 && (size_t)n < capacity;
}

bool hth_row_file_is_there(const hth_row_id *id, void *user_data)
{
    const hth_row_files *files = user_data;
    char path[PATH_BYTES];
    hth_fs_stat st;

    return hth_row_file_path(files->rows_directory, id, path, sizeof(path)) &&
           hth_fs_stat_path(files->fs, path, &st) == 0 && st.is_regular;
}

bool hth_row_file_is_gone(const hth_row_id *id, void *user_data)
{
    const hth_row_files *files = user_data;
    char path[PATH_BYTES];
    hth_fs_stat st;

    return hth_row_file_path(files->rows_directory, id, path, sizeof(path)) &&
           hth_fs_stat_path(files->fs, path, &st) == -ENOENT;
}

hearth_status hth_row_file_open(const hth_fs *fs, const char *path, int *fd_out, hth_fs_stat *stat_out,
                                hearth_error *err)
{
    int fd = hth_fs_open(fs, path, HTH_FS_READ);
    hth_fs_stat st;
    int rc;

    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot open the row '%s'", path);
    rc = hth_fs_stat_open(fs, fd, &st);
    if (rc != 0) {
        hth_fs_close(fs, fd);
        return hth_fail_errno(err, -rc, "cannot look at the row '%s'", path);
    }
    if (!st.is_regular || st.bytes < HTH_ROW_FILE_BYTES_MIN || st.bytes > HTH_ROW_FILE_BYTES_MAX) {
        hth_fs_close(fs, fd);
        return hth_fail(err, HEARTH_CORRUPT, "the row '%s' is no file, or its size of %llu bytes makes no sense", path,
                        (unsigned long long)st.bytes);
    }
    *fd_out = fd;
    *stat_out = st;
    return HEARTH_OK;
}

bool hth_row_file_meta_of(const hth_kvc_info *info, const hth_row_id *id, uint64_t file_bytes, uint64_t mtime,
                          hth_row_meta *out)
{
    uint64_t now = hth_os_unix_seconds();
    uint64_t last_used_time = mtime > info->last_used_time ? mtime : info->last_used_time;
    hth_row_meta meta = {
        .id = *id,
        .parent = info->parent,
        .first_position = info->first_position,
        .n_tokens = (uint32_t)hth_kvc_n_tokens(info),
        .bytes = file_bytes,
        .last_used_time = last_used_time < now ? last_used_time : now, /* corrects times from a clock that ran ahead */
        .hit_count = info->hit_count,
        .save_reason = info->save_reason,
    };

    if (!hth_kvc_is_row(info, id))
        return false;
    if (!info->has_parent && !hth_key_of_bytes(&info->keyspace, (const uint8_t *)"", 0, &meta.parent))
        return false;
    *out = meta;
    return true;
}

void hth_row_file_tokens_of(const hth_kvc_info *info, hth_row_head *head)
{
    head->has_tokens = /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): meta is filled, see the header */
        hth_row_can_be_leaf(&head->meta.id, head->meta.n_tokens) && hth_kvc_n_tokens(info) == head->meta.n_tokens;
    for (size_t i = 0; head->has_tokens && i < head->meta.n_tokens; i++)
        head->tokens[i] = hth_kvc_token(info, i);
}

/* The bytes of a head; info borrows from them. Zero the pointer first, free it last. */
typedef struct head_bytes {
    uint8_t first[HEAD_BYTES];
    uint8_t *longer; /* NULL: first holds the head */
    hth_kvc_info info;
} head_bytes;

/* Read and parse the head of an open file, with at most two reads: the first gives the length of a long head. */
static hearth_status read_info(const hth_fs *fs, int fd, const char *path, uint64_t file_bytes, head_bytes *head,
                               hearth_error *err)
{
    size_t n = file_bytes < sizeof(head->first) ? (size_t)file_bytes : sizeof(head->first);
    size_t n_head, need = 0;
    hth_kvc_fault fault;
    char text[200];

    for (;;) {
        uint8_t *bytes = head->longer ? head->longer : head->first;
        int rc = hth_fs_read_full(fs, fd, bytes, n, 0, &n_head);

        if (rc != 0)
            return hth_fail_errno(err, -rc, "cannot read the row '%s'", path);
        if (n_head < n)
            return hth_fail(err, HEARTH_CORRUPT, "the row '%s' became shorter while it was read", path);
        if (hth_kvc_parse_meta(bytes, n_head, file_bytes, &head->info, &fault, &need))
            return HEARTH_OK;
        if (need <= n_head || need > HEAD_BYTES_MAX) {
            hth_kvc_fault_text(&fault, text, sizeof(text));
            return hth_fail(err, fault.reason == HTH_KVC_NO_MEMORY ? HEARTH_NO_MEMORY : HEARTH_CORRUPT,
                            "the row '%s' is not sound: %s", path, text);
        }
        free(head->longer);
        head->longer = malloc(need);
        if (!head->longer)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %zu bytes of the row '%s'", need, path);
        n = need;
    }
}

hearth_status hth_row_file_head(const hth_fs *fs, const char *path, const hth_row_id *id, hth_row_head *out,
                                hearth_error *err)
{
    head_bytes head = { .longer = NULL };
    hth_fs_stat st = { .bytes = 0 };
    hearth_status status;
    int fd = -1;

    status = hth_row_file_open(fs, path, &fd, &st, err);
    if (status != HEARTH_OK)
        return status;
    status = read_info(fs, fd, path, st.bytes, &head, err);
    if (status == HEARTH_OK && !hth_row_file_meta_of(&head.info, id, st.bytes, st.mtime, &out->meta))
        status = hth_fail(err, HEARTH_CORRUPT, "the file '%s' is not the row of its name", path);
    if (status == HEARTH_OK)
        hth_row_file_tokens_of(&head.info, out);
    free(head.longer);
    hth_fs_close(fs, fd);
    return status;
}

hearth_status hth_row_file_model(const hth_fs *fs, int fd, const hth_row_id *id, uint64_t file_bytes, char *out,
                                 size_t capacity, hearth_error *err)
{
    head_bytes head = { .longer = NULL };
    char name[HTH_ROW_FILE_NAME_BYTES];
    hth_row_meta meta;
    hearth_status status;

    hth_row_file_name(id, name);
    status = read_info(fs, fd, name, file_bytes, &head, err);
    if (status == HEARTH_OK && !hth_row_file_meta_of(&head.info, id, file_bytes, 0, &meta))
        status = hth_fail(err, HEARTH_CORRUPT, "the file '%s' is not the row of its name", name);
    if (status == HEARTH_OK)
        (void)snprintf(out, capacity, "%.*s", (int)(head.info.model.n < capacity ? head.info.model.n : capacity),
                       head.info.model.n > 0 ? (const char *)head.info.model.data : "");
    free(head.longer);
    return status;
}

hearth_status hth_row_file_meta(const hth_fs *fs, const char *path, const hth_row_id *id, hth_row_meta *out,
                                hearth_error *err)
{
    hth_row_head head;
    hearth_status status = hth_row_file_head(fs, path, id, &head, err);

    if (status == HEARTH_OK)
        *out = head.meta;
    return status;
}

/*
 * ---- the quarantine ----
 *
 * The name of a quarantined file begins with twelve digits of Unix seconds, so name order is age order. A directory
 * gets "other-" and a number before its name. It is neither counted nor removed, because its content is unknown.
 */

typedef struct census {
    size_t n;
    char oldest[NAME_BYTES];
} census;

static bool count_file(const char *name, void *user_data)
{
    census *c = user_data;

    /* Only our own files are counted and removed: their names are the time and the name of a row. */
    if (strlen(name) >= NAME_BYTES || strspn(name, "0123456789") != TIME_DIGITS || name[TIME_DIGITS] != '-')
        return true;
    if (c->n++ == 0 || strcmp(name, c->oldest) < 0)
        (void)snprintf(c->oldest, sizeof(c->oldest), "%s", name);
    return true;
}

static void prune(const hth_fs *fs, const char *directory)
{
    char path[PATH_BYTES];

    for (;;) {
        census c = { .n = 0 };

        if (hth_fs_list(fs, directory, count_file, &c) != 0 || c.n <= HTH_QUARANTINE_FILES_MAX ||
            snprintf(path, sizeof(path), "%s/%s", directory, c.oldest) >= (int)sizeof(path) ||
            hth_fs_remove(fs, path) != 0)
            return;
    }
}

int hth_quarantine_row(const hth_fs *fs, const char *directory, const char *path, const hth_row_id *id)
{
    char target[PATH_BYTES], name[HTH_ROW_FILE_NAME_BYTES];
    unsigned long long now = hth_os_unix_seconds();
    uint32_t number;
    hth_fs_stat st;
    int n, rc;

    hth_row_file_name(id, name);
    if (hth_fs_stat_path(fs, path, &st) == 0 && st.is_directory) {
        hth_os_random(&number, sizeof(number)); /* unlike a file, a directory cannot replace one of the same name */
        n = snprintf(target, sizeof(target), "%s/other-%08" PRIx32 "-%012llu-%s", directory, number, now, name);
    } else {
        n = snprintf(target, sizeof(target), "%s/%012llu-%s", directory, now, name);
    }
    if (n < 0 || n >= (int)sizeof(target))
        return -ENAMETOOLONG;
    rc = hth_fs_rename(fs, path, target);
    if (rc == 0)
        prune(fs, directory);
    return rc;
}

size_t hth_quarantine_count(const hth_fs *fs, const char *directory)
{
    census c = { .n = 0 };

    return hth_fs_list(fs, directory, count_file, &c) == 0 ? c.n : 0;
}
