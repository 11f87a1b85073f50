/*
 * publish.c - make a row file visible, whole or not at all
 *
 *   1. reserve the key in the index, so that one process writes it
 *   2. write the bytes to an unnamed file (or one with a temporary name); in a durable tier, sync them
 *   3. check that the reservation is still ours; link the file to its final name and sync the directory
 *   4. announce it in the index, which drops the reservation
 *
 * The files are the truth; the index is a view of them. A crash before 3 leaves nothing to read, except perhaps a
 * temporary name, which the next start removes. A crash before 4 leaves a row that the next reader or start adopts. The
 * reservation of a dead owner can be taken over. If the index does not work, steps 1 and 4 are skipped: the link alone
 * decides.
 *
 * If the final name is taken, its file is read in full. If it is this row, it is adopted; otherwise a rename replaces
 * it.
 *
 * Invariant: in a durable tier, a final name never refers to bytes that were not synced.
 */
#include "cache/publish.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"
#include "rows/directory.h"

enum {
    PATH_BYTES = 4096,
    DEADLINE_S = 120, /* for writing and syncing one row; after that, another process may write it, too */
};

/* ---- temporary files ---- */

typedef struct temporary {
    int fd;
    bool has_name;
    char path[PATH_BYTES]; /* its temporary name, if it has one or may get one */
} temporary;

static bool temporary_path(const char *directory, uint64_t token, uint64_t number, char path[PATH_BYTES])
{
    int n = snprintf(path, PATH_BYTES, "%s/%016" PRIx64 "-%" PRIx64, directory, token, number);

    return n > 0 && n < PATH_BYTES;
}

/* 0 or -errno. */
static int temporary_open(hth_publisher *publisher, temporary *out)
{
    temporary t = { .fd = -1, .has_name = publisher->way != HTH_PUBLISH_UNNAMED };

    if (!temporary_path(publisher->temporary_directory, hth_index_owner_token(publisher->index),
                        atomic_fetch_add(&publisher->n_temporaries, 1), t.path))
        return -ENAMETOOLONG;
    t.fd = t.has_name ? hth_fs_open(publisher->rows.fs, t.path, HTH_FS_CREATE)
                      : hth_fs_open_unnamed(publisher->rows.fs, publisher->temporary_directory);
    if (t.fd < 0)
        return t.fd;
    *out = t;
    return 0;
}

static void temporary_discard(const hth_fs *fs, temporary *t)
{
    if (t->has_name)
        (void)hth_fs_remove(fs, t->path); /* a remaining file is removed at the next start */
    hth_fs_close(fs, t->fd);
    *t = (temporary){ .fd = -1 };
}

/* Give a complete file its final name. 0, -EEXIST, or -errno. On success has_name says whether t.path stays. */
static int temporary_link(const hth_publisher *publisher, temporary *t, const char *path)
{
    const hth_fs *fs = publisher->rows.fs;
    hth_fs_stat st;
    int rc;

    switch (publisher->way) {
    case HTH_PUBLISH_UNNAMED: return hth_fs_link_unnamed(fs, t->fd, path);
    case HTH_PUBLISH_LINK:
        rc = hth_fs_link(fs, t->path, path);
        if (rc == 0 && hth_fs_remove(fs, t->path) == 0)
            t->has_name = false;
        return rc;
    case HTH_PUBLISH_RENAME:
        /* Another process may act between the two calls, but only with the same row, whole and synced. */
        rc = hth_fs_stat_path(fs, path, &st);
        if (rc == 0)
            return -EEXIST;
        if (rc != -ENOENT)
            return rc;
        rc = hth_fs_rename(fs, t->path, path);
        t->has_name = rc != 0;
        return rc;
    case HTH_PUBLISH_PROBED: break;
    }
    return -EINVAL;
}

/* Replace the file that has the final name with a complete file. */
static int temporary_replace(const hth_publisher *publisher, temporary *t, const char *path)
{
    int rc;

    if (!t->has_name) {
        rc = hth_fs_link_unnamed(publisher->rows.fs, t->fd, t->path);
        if (rc != 0)
            return rc;
        t->has_name = true;
    }
    rc = hth_fs_rename(publisher->rows.fs, t->path, path);
    t->has_name = rc != 0;
    return rc;
}

/* ---- probing ---- */

/* Can an unnamed file be created and then linked to a name? */
static bool probe_unnamed(const hth_fs *fs, const char *directory, const char *path)
{
    int fd = hth_fs_open_unnamed(fs, directory);
    bool works;

    if (fd < 0)
        return false;
    works = hth_fs_link_unnamed(fs, fd, path) == 0;
    hth_fs_close(fs, fd);
    if (works)
        (void)hth_fs_remove(fs, path); /* a remaining file is removed at the next start */
    return works;
}

/* Create a file with a name, and find out whether it can be linked. *out is the way that works. */
static hearth_status probe_named(const hth_fs *fs, const char *directory, const char *path, const char *second,
                                 hth_publish_way *out, hearth_error *err)
{
    int fd = hth_fs_open(fs, path, HTH_FS_CREATE);
    bool links;

    if (fd < 0)
        return hth_fail_errno(err, -fd, "cannot make a file in '%s'", directory);
    links = hth_fs_link(fs, path, second) == 0;
    *out = links ? HTH_PUBLISH_LINK : HTH_PUBLISH_RENAME;
    hth_fs_close(fs, fd);
    (void)hth_fs_remove(fs, path);   /* likewise */
    (void)hth_fs_remove(fs, second); /* even if the link failed: the answer to a successful link may get lost */
    return HEARTH_OK;
}

hearth_status hth_publish_probe(const hth_fs *fs, const char *temporary_directory, uint64_t token,
                                hth_publish_way wanted, hth_publish_way *out, hearth_error *err)
{
    char path[PATH_BYTES], second[PATH_BYTES];
    bool any = wanted == HTH_PUBLISH_PROBED;
    hth_publish_way named = HTH_PUBLISH_RENAME;
    hearth_status status;
    uint64_t numbers[2];

    hth_os_random(numbers, sizeof(numbers)); /* several tiers of one process may probe one directory at once */
    if (!temporary_path(temporary_directory, token, numbers[0], path) ||
        !temporary_path(temporary_directory, token, numbers[1], second))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", temporary_directory);
    if (any || wanted == HTH_PUBLISH_UNNAMED) {
        if (probe_unnamed(fs, temporary_directory, path)) {
            *out = HTH_PUBLISH_UNNAMED;
            return HEARTH_OK;
        }
        if (!any)
            return hth_fail(err, HEARTH_IO, "files without a name cannot be made and linked in '%s'",
                            temporary_directory);
    }
    status = probe_named(fs, temporary_directory, path, second, &named, err);
    if (status != HEARTH_OK)
        return status;
    if (wanted == HTH_PUBLISH_LINK && named != HTH_PUBLISH_LINK)
        return hth_fail(err, HEARTH_IO, "files in '%s' cannot be linked", temporary_directory);
    *out = any ? named : wanted;
    return HEARTH_OK;
}

/* ---- directories ---- */

typedef struct folder_set {
    bool has[256];
} folder_set;

static bool collect_folder(const char *name, void *user_data)
{
    folder_set *set = user_data;
    uint8_t folder;

    if (strlen(name) == 2 && hth_hex_decode(name, &folder, 1))
        set->has[folder] = true;
    return true;
}

/*
 * May rows be kept in an existing fan-out folder? *inode_out: its inode. A later folder of this name usually has
 * another inode; prepare_folder handles reuse when we create the folder.
 */
static hearth_status check_folder(const hth_publisher *publisher, uint8_t number, uint64_t *inode_out,
                                  hearth_error *err)
{
    hth_row_id id = { .key.bytes = { number } };
    char folder[PATH_BYTES];

    if (!hth_row_file_folder(publisher->rows.rows_directory, &id, folder, sizeof(folder)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", publisher->rows.rows_directory);
    return hth_directory_check(publisher->rows.fs, folder, inode_out, err);
}

hearth_status hth_publish_check_folders(hth_publisher *publisher, hearth_error *err)
{
    folder_set set = { .has = { false } };
    bool synced;
    int rc = hth_fs_list(publisher->rows.fs, publisher->rows.rows_directory, collect_folder, &set);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot list '%s'", publisher->rows.rows_directory);
    /* If this fails, each folder is synced at its first write. */
    synced = !publisher->durable || hth_fs_sync_directory(publisher->rows.fs, publisher->rows.rows_directory) == 0;
    for (unsigned i = 0; i < 256; i++) {
        hearth_error why = { .message = "" };
        uint64_t inode = 0;
        hearth_status status = set.has[i] ? check_folder(publisher, (uint8_t)i, &inode, &why) : HEARTH_OK;

        /*
         * Only an unsafe folder makes the start fail. One that cannot be examined, or is not a directory, makes its
         * writes fail.
         */
        if (status == HEARTH_PERMISSION && why.system_errno == 0 && inode != 0) {
            if (err)
                *err = why;
            return status;
        }
        if (status == HEARTH_OK && synced)
            atomic_store(&publisher->folders_known[i], inode);
    }
    return HEARTH_OK;
}

int hth_publish_sync_folder(hth_publisher *publisher, const hth_row_id *id)
{
    char folder[PATH_BYTES];

    if (!publisher->durable)
        return 0;
    if (!hth_row_file_folder(publisher->rows.rows_directory, id, folder, sizeof(folder)))
        return -ENAMETOOLONG;
    return hth_fs_sync_directory(publisher->rows.fs, folder);
}

/* Make sure that the fan-out folder of a row exists and only we can write to it. *inode_out: its inode. */
static hearth_status prepare_folder(hth_publisher *publisher, const hth_row_id *id, uint64_t *inode_out,
                                    hearth_error *err)
{
    uint8_t number = id->key.bytes[0];
    char folder[PATH_BYTES];
    hth_fs_stat st;
    int rc;

    if (!hth_row_file_folder(publisher->rows.rows_directory, id, folder, sizeof(folder)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", publisher->rows.rows_directory);
    rc = hth_fs_stat_path(publisher->rows.fs, folder, &st);
    if (rc == 0 && st.inode == atomic_load(&publisher->folders_known[number])) {
        *inode_out = st.inode;
        return HEARTH_OK;
    }
    if (rc == -ENOENT) {
        rc = hth_fs_make_directory(publisher->rows.fs, folder);
        if (rc == 0) /* an earlier folder may have had the same inode */
            atomic_store(&publisher->folders_known[number], 0);
        else if (rc != -EEXIST)
            return hth_fail_errno(err, -rc, "cannot make the folder '%s'", folder);
    }
    return check_folder(publisher, number, inode_out, err);
}

/* Make a link in a fan-out folder durable, and also the folder's own name. inode: the folder of the link. */
static int settle_folder(hth_publisher *publisher, const hth_row_id *id, uint64_t inode)
{
    _Atomic uint64_t *known = &publisher->folders_known[id->key.bytes[0]];
    int rc = hth_publish_sync_folder(publisher, id);

    if (rc != 0 || atomic_load(known) == inode)
        return rc;
    if (publisher->durable)
        rc = hth_fs_sync_directory(publisher->rows.fs, publisher->rows.rows_directory);
    if (rc == 0)
        atomic_store(known, inode);
    return rc;
}

/* ---- the file with the final name ---- */

/* Are two files the same row? Their images may differ without harm: each was computed for this key. */
static bool is_same_row(const hth_kvc_info *a, const hth_kvc_info *b)
{
    return a->has_kind == b->has_kind && a->kind == b->kind && a->has_own_key == b->has_own_key &&
           hth_key_equal(&a->own_key, &b->own_key) && a->first_position == b->first_position &&
           a->has_parent == b->has_parent && hth_key_equal(&a->parent, &b->parent) && a->tokens.n == b->tokens.n &&
           (a->tokens.n == 0 || memcmp(a->tokens.data, b->tokens.data, a->tokens.n) == 0) &&
           hth_keyspace_equal(&a->keyspace, &b->keyspace);
}

/* Parse a whole file as a row; the message of a failure names the difference. */
static hearth_status parse_row(const uint8_t *bytes, size_t n_bytes, const hth_row_id *id, hth_kvc_info *info,
                               hearth_error *err)
{
    hth_kvc_fault fault;
    char text[200];

    if (!hth_kvc_parse(bytes, n_bytes, &id->key, info, &fault)) {
        hth_kvc_fault_text(&fault, text, sizeof(text));
        return hth_fail(err, fault.reason == HTH_KVC_NO_MEMORY ? HEARTH_NO_MEMORY : HEARTH_CORRUPT, "%s", text);
    }
    if (!hth_kvc_is_row(info, id))
        return hth_fail(err, HEARTH_CORRUPT, "it does not name itself as this row");
    return HEARTH_OK;
}

/*
 * Read the file that has the final name, in full. HEARTH_OK: it is this row, *out. HEARTH_CORRUPT: it is not.
 * HEARTH_NOT_FOUND: the name is free. Others: unknown.
 */
static hearth_status examine(const hth_publisher *publisher, const hth_row_id *id, const hth_kvc_info *ours,
                             const char *path, hth_row_meta *out, hearth_error *err)
{
    const hth_fs *fs = publisher->rows.fs;
    uint8_t *bytes = NULL;
    hearth_status status;
    hth_kvc_info theirs;
    hth_fs_stat st;
    size_t n;
    int fd, rc;

    status = hth_row_file_open(fs, path, &fd, &st, err);
    if (status != HEARTH_OK)
        return err->system_errno == ELOOP ? HEARTH_CORRUPT : status; /* a symbolic link is not a row */
    bytes = malloc((size_t)st.bytes);
    if (!bytes) {
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to check the %" PRIu64 " bytes of '%s'", st.bytes, path);
        goto out;
    }
    rc = hth_fs_read_full(fs, fd, bytes, (size_t)st.bytes, 0, &n);
    if (rc != 0) {
        status = hth_fail_errno(err, -rc, "cannot read '%s'", path);
        goto out;
    }
    if (n < st.bytes) {
        status = hth_fail(err, HEARTH_CORRUPT, "it became shorter while it was read");
        goto out;
    }
    status = parse_row(bytes, n, id, &theirs, err);
    if (status == HEARTH_OK &&
        (!is_same_row(ours, &theirs) || !hth_row_file_meta_of(&theirs, id, st.bytes, st.mtime, out)))
        status = hth_fail(err, HEARTH_CORRUPT, "it covers other positions or belongs to another model");
out:
    free(bytes);
    hth_fs_close(fs, fd);
    return status;
}

/* ---- the protocol ---- */

/* One row that is being published. */
typedef struct publication {
    hth_publisher *publisher;
    const hth_row_meta *meta;
    const uint8_t *bytes;
    size_t n_bytes;
    hth_kvc_info info; /* of bytes */
    bool is_reserved;
    uint64_t folder_inode; /* of its fan-out folder, from prepare_folder */
    char path[PATH_BYTES]; /* its final name */
} publication;

/* Step 1. *done_out: there is nothing to do, and *result_out has the reason. */
static void reserve(publication *p, bool *done_out, hth_publish_result *result_out)
{
    hth_index *index = p->publisher->index;
    const hth_row_id *id = &p->meta->id;
    hth_reserve_result result = HTH_RESERVE_TAKEN;
    hth_fs_stat st;

    *done_out = false;
    for (int i = 0; i < 2; i++) {
        /* Without an index the link decides. The index has reported its failure. */
        if (hth_index_reserve(index, id, DEADLINE_S, &result, NULL) != HEARTH_OK)
            return;
        if (result != HTH_RESERVE_EXISTS || hth_fs_stat_path(p->publisher->rows.fs, p->path, &st) != -ENOENT) {
            p->is_reserved = result == HTH_RESERVED;
            *done_out = result != HTH_RESERVED;
            *result_out = result == HTH_RESERVE_EXISTS ? HTH_PUBLISH_EXISTED : HTH_PUBLISH_TAKEN;
            return;
        }
        /* The file was removed: it may be written again. If the index keeps the row, that needs no reservation. */
        (void)hth_index_remove_lost(index, id, 1, hth_row_file_is_gone, &p->publisher->rows, NULL, NULL);
    }
}

/* Step 2. */
static hearth_status write_temporary(publication *p, temporary *out, hearth_error *err)
{
    hth_publisher *publisher = p->publisher;
    temporary t;
    int rc = temporary_open(publisher, &t);

    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot make a file in '%s'", publisher->temporary_directory);
    rc = hth_fs_write_all(publisher->rows.fs, t.fd, p->bytes, p->n_bytes);
    if (rc == 0 && publisher->durable)
        rc = hth_fs_sync_data(publisher->rows.fs, t.fd);
    if (rc != 0) {
        temporary_discard(publisher->rows.fs, &t);
        return hth_fail_errno(err, -rc, "cannot write %zu bytes of the row '%s'", p->n_bytes, p->path);
    }
    *out = t;
    return HEARTH_OK;
}

/* Step 3 without the sync. before: the answer of examine() before we wrote (HEARTH_CORRUPT: replace the file). */
static hearth_status name_temporary(publication *p, temporary *t, hearth_status before, hth_row_meta *meta_out,
                                    hth_publish_result *result_out, hearth_error *err)
{
    hth_publisher *publisher = p->publisher;
    int rc = -ENOENT;

    /* If the folder is removed before the link, it is made once more. */
    for (int i = 0; i < 2 && rc == -ENOENT; i++) {
        hearth_status status = prepare_folder(publisher, &p->meta->id, &p->folder_inode, err);

        if (status != HEARTH_OK)
            return status;
        rc = before == HEARTH_CORRUPT ? -EEXIST : temporary_link(publisher, t, p->path);
    }
    /* On a network the answer to a rename may get lost. The repeated rename then finds no temporary file. */
    if (rc == -ENOENT && publisher->way == HTH_PUBLISH_RENAME)
        rc = -EEXIST;
    if (rc == -EEXIST) {
        hearth_error why = { .message = "" };
        hearth_status status = before;

        if (before != HEARTH_CORRUPT)
            status = examine(publisher, &p->meta->id, &p->info, p->path, meta_out, &why);
        if (status == HEARTH_OK) {
            *result_out = HTH_PUBLISH_ADOPTED;
            return HEARTH_OK;
        }
        if (status != HEARTH_CORRUPT && status != HEARTH_NOT_FOUND)
            return hth_fail(err, status, "cannot tell what is in '%s': %s", p->path, why.message);
        rc = temporary_replace(publisher, t, p->path);
        if (rc == -EISDIR || rc == -ENOTEMPTY || rc == -EEXIST) {
            rc = hth_quarantine_row(publisher->rows.fs, publisher->quarantine_directory, p->path, &p->meta->id);
            if (rc == 0)
                rc = temporary_replace(publisher, t, p->path);
        }
    }
    if (rc != 0)
        return hth_fail_errno(err, -rc, "cannot give a file the name '%s'", p->path);
    return HEARTH_OK;
}

/* Steps 2 and 3: make sure that the file of the row exists. *meta_out: its meta. */
static hearth_status place(publication *p, hth_row_meta *meta_out, hth_publish_result *result_out, hearth_error *err)
{
    hth_publisher *publisher = p->publisher;
    hearth_error why = { .message = "" };
    temporary t = { .fd = -1 };
    bool ours = true;
    hearth_status before, status;
    int rc;

    *meta_out = *p->meta;
    *result_out = HTH_PUBLISH_WRITTEN;
    before = examine(publisher, &p->meta->id, &p->info, p->path, meta_out, &why);
    if (before == HEARTH_OK) {
        *result_out = HTH_PUBLISH_ADOPTED;
        status = prepare_folder(publisher, &p->meta->id, &p->folder_inode, err);
        if (status != HEARTH_OK)
            return status;
        goto named;
    }
    if (before == HEARTH_CORRUPT)
        hth_warn(publisher->log, "the cached row '%s' is damaged and is replaced: %s", p->path, why.message);
    else if (before != HEARTH_NOT_FOUND)
        return hth_fail(err, before, "cannot tell what is in '%s': %s", p->path, why.message);

    status = write_temporary(p, &t, err);
    if (status != HEARTH_OK)
        return status;
    hth_fs_step(publisher->rows.fs, "written");
    if (p->is_reserved && hth_index_reservation_is_ours(publisher->index, &p->meta->id, &ours, NULL) == HEARTH_OK &&
        !ours) {
        temporary_discard(publisher->rows.fs, &t);
        *result_out = HTH_PUBLISH_TAKEN;
        return HEARTH_OK;
    }
    status = name_temporary(p, &t, before, meta_out, result_out, err);
    temporary_discard(publisher->rows.fs, &t);
    if (status != HEARTH_OK)
        return status;
named:
    hth_fs_step(publisher->rows.fs, "named");
    rc = settle_folder(publisher, &p->meta->id, p->folder_inode);
    return rc == 0 ? HEARTH_OK : hth_fail_errno(err, -rc, "cannot make the name '%s' durable", p->path);
}

/* Step 4. False if the index may not know the row: then the next reader adopts it by its name. */
static bool announce(publication *p, const hth_row_meta *placed)
{
    hth_row_head head = { .meta = *placed };
    hth_index *index = p->publisher->index;

    /* The tokens of the row are those of our file, whether we wrote the file or found it. */
    hth_row_file_tokens_of(&p->info, &head);
    /* The reservation of another process, which may be removing the file, takes precedence. */
    if (!p->is_reserved) {
        (void)hth_index_adopt(index, &head, 1, hth_row_file_is_there, &p->publisher->rows, NULL, NULL);
        return false;
    }
    p->is_reserved = false; /* released, whatever the result */
    return hth_index_publish(index, &head, 1, NULL) == HEARTH_OK;
}

/* Is the file the row of meta? Rows are checked before they reach a durable tier, as well as after reading. */
static hearth_status check_file(publication *p, hearth_error *err)
{
    const hth_row_meta *meta = p->meta;
    hearth_error why = { .message = "" };
    hearth_status status;

    if (p->n_bytes != meta->bytes || p->n_bytes < HTH_ROW_FILE_BYTES_MIN || p->n_bytes > HTH_ROW_FILE_BYTES_MAX)
        return hth_fail(err, HEARTH_MISUSE, "a row of %zu bytes cannot be published as one of %" PRIu64, p->n_bytes,
                        meta->bytes);
    status = parse_row(p->bytes, p->n_bytes, &meta->id, &p->info, &why);
    if (status != HEARTH_OK)
        return hth_fail(err, status, "the row for '%s' is not written: %s", p->path, why.message);
    if (p->info.first_position != meta->first_position || hth_kvc_n_tokens(&p->info) != meta->n_tokens ||
        (p->info.has_parent && !hth_key_equal(&p->info.parent, &meta->parent)))
        return hth_fail(err, HEARTH_MISUSE, "the row for '%s' is not written: it covers other positions than was said",
                        p->path);
    return HEARTH_OK;
}

hearth_status hth_publish(hth_publisher *publisher, const hth_row_meta *meta, const uint8_t *bytes, size_t n_bytes,
                          hth_publish_result *out, bool *is_known_out, hearth_error *err)
{
    publication p = { .publisher = publisher, .meta = meta, .bytes = bytes, .n_bytes = n_bytes };
    hth_publish_result result = HTH_PUBLISH_TAKEN;
    hth_row_meta placed;
    hearth_status status;
    bool done;

    *is_known_out = false;
    if (!hth_row_file_path(publisher->rows.rows_directory, &meta->id, p.path, sizeof(p.path)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", publisher->rows.rows_directory);
    status = check_file(&p, err);
    if (status != HEARTH_OK)
        return status;

    hth_fs_step(publisher->rows.fs, "begin");
    reserve(&p, &done, &result);
    hth_fs_step(publisher->rows.fs, "reserved");
    *is_known_out = done && result == HTH_PUBLISH_EXISTED;
    if (done) {
        *out = result;
        return HEARTH_OK;
    }
    status = place(&p, &placed, &result, err);
    if (status == HEARTH_OK && result != HTH_PUBLISH_TAKEN) {
        hth_fs_step(publisher->rows.fs, "placed");
        *is_known_out = announce(&p, &placed);
    }
    if (p.is_reserved)
        (void)hth_index_release(publisher->index, &meta->id, 1, NULL); /* otherwise its deadline releases it */
    hth_fs_step(publisher->rows.fs, "announced");
    if (status == HEARTH_OK)
        *out = result;
    return status;
}
