/*
 * file_tier_removal.c - removes single rows: bad, superseded or unwanted ones
 */
#include <errno.h>
#include <stdlib.h>

#include "base/os.h"
#include "cache/file_tier_inside.h"
#include "rows/quarantine.h"

enum { TAKEN_DEADLINE_S = 60 }; /* time to move or remove one file */

int hth_file_tier_remove_file(hth_file_tier *tier, const hth_row_id *id, const char *path)
{
    int rc = hth_fs_remove(tier->fs, path);

    if (rc == -ENOTEMPTY || rc == -EEXIST || rc == -EISDIR)
        rc = hth_quarantine_row(tier->fs, tier->quarantine, path, id);
    return rc;
}

/* A reserved row: nobody else may change it. */
typedef struct taken_row {
    const hth_row_id *id;
    bool is_reserved; /* false where the index does not work */
    bool was_known;
    hth_row_meta meta;
    char path[HTH_FILE_TIER_PATH_BYTES];
} taken_row;

/* False: another process or thread has it, or the path is too long. */
static bool take_row(hth_file_tier *tier, const hth_row_id *id, taken_row *out)
{
    hth_reserve_result result = HTH_RESERVE_TAKEN;

    out->id = id;
    out->was_known = false;
    if (!hth_file_tier_path(tier, id, out->path, sizeof(out->path)))
        return false;
    out->is_reserved =
        hth_index_take(tier->index, id, TAKEN_DEADLINE_S, &result, &out->was_known, &out->meta, NULL) == HEARTH_OK;
    return !out->is_reserved || result == HTH_RESERVED;
}

/* End with the file gone; the index remembers gone (may be NULL). */
static void end_gone(hth_file_tier *tier, const taken_row *row, const hth_gone *gone)
{
    hth_row_meta meta = { .id = *row->id };

    if (!row->is_reserved)
        return;
    if (row->was_known)
        meta = row->meta;
    if (gone) /* here and below: after a failure we can still take the row again */
        (void)hth_index_release_gone(tier->index, &meta, gone, NULL);
    else
        (void)hth_index_release(tier->index, row->id, 1, NULL);
}

/* The head of a row's file. */
static bool read_head(hth_file_tier *tier, const hth_row_id *id, hth_row_head *out)
{
    char path[HTH_FILE_TIER_PATH_BYTES];

    return hth_file_tier_path(tier, id, path, sizeof(path)) &&
           hth_row_file_head(tier->fs, path, id, out, NULL) == HEARTH_OK;
}

void hth_file_tier_put_back(hth_file_tier *tier, const hth_row_meta *known)
{
    hth_row_head now;

    if (read_head(tier, &known->id, &now)) {
        now.meta.hit_count = known->hit_count;
        now.meta.last_used_time = known->last_used_time;
    } else {
        now = (hth_row_head){ .meta = *known };
    }
    (void)hth_index_publish(tier->index, &now, 1, NULL); /* on failure the row is found by its name */
}

/* End with the file kept. */
static void end_kept(hth_file_tier *tier, const taken_row *row)
{
    hth_row_head now;

    if (!row->is_reserved)
        return;
    if (row->was_known)
        hth_file_tier_put_back(tier, &row->meta);
    else if (read_head(tier, row->id, &now))
        (void)hth_index_publish(tier->index, &now, 1, NULL); /* likewise */
    else
        end_gone(tier, row, NULL);
}

typedef enum verdict {
    VERDICT_BAD,
    VERDICT_SOUND,
    VERDICT_GONE,
    VERDICT_UNKNOWN, /* no memory to tell */
} verdict;

/* Read a file again and judge it. */
static verdict judge_file(hth_file_tier *tier, const taken_row *row, hth_file_tier_judge_fn is_bad, void *user_data)
{
    verdict result = VERDICT_BAD;
    hth_fs_stat st = { .bytes = 0 };
    uint8_t *bytes;
    size_t n = 0;
    int fd = -1;
    hearth_status status = hth_row_file_open(tier->fs, row->path, &fd, &st, NULL);

    if (status != HEARTH_OK)
        return status == HEARTH_NOT_FOUND ? VERDICT_GONE : VERDICT_BAD;
    bytes = malloc((size_t)st.bytes);
    if (!bytes)
        result = VERDICT_UNKNOWN;
    else if (hth_fs_read_full(tier->fs, fd, bytes, (size_t)st.bytes, 0, &n) == 0 && n == st.bytes)
        result = is_bad(row->id, bytes, n, user_data) ? VERDICT_BAD : VERDICT_SOUND;
    free(bytes);
    hth_fs_close(tier->fs, fd);
    return result;
}

/* Move a bad file to the quarantine or else remove it. 0, -ENOENT, or -errno when it stays. */
static int set_aside(hth_file_tier *tier, const taken_row *row)
{
    int rc = hth_quarantine_row(tier->fs, tier->quarantine, row->path, row->id);

    if (rc != 0 && rc != -ENOENT)
        rc = hth_fs_remove(tier->fs, row->path); /* no copy is kept, but nobody finds it again */
    return rc;
}

typedef enum removal { REMOVAL_FAILED, REMOVAL_NEEDLESS, REMOVAL_DONE } removal;

static removal quarantine(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad, void *user_data,
                          const char *reason)
{
    char name[HTH_ROW_FILE_NAME_BYTES];
    verdict judged;
    taken_row row;
    int rc;

    if (!take_row(tier, id, &row))
        return REMOVAL_FAILED;
    hth_fs_step(tier->fs, "taken");
    judged = judge_file(tier, &row, is_bad, user_data);
    if (judged == VERDICT_GONE) {
        end_gone(tier, &row, NULL);
        return REMOVAL_NEEDLESS;
    }
    if (judged != VERDICT_BAD) {
        end_kept(tier, &row);
        return judged == VERDICT_SOUND ? REMOVAL_NEEDLESS : REMOVAL_FAILED;
    }
    rc = set_aside(tier, &row);
    hth_row_file_name(id, name);
    if (rc == 0) {
        atomic_fetch_add(&tier->n_rows_quarantined, 1);
        hth_info(tier->log, "the cached row '%s' was set aside: %s", name, reason);
    } else if (rc != -ENOENT) {
        hearth_error why;

        (void)hth_fail_errno(&why, -rc, "the bad row '%s' cannot be removed", row.path);
        hth_warn(tier->log, "%s", why.message);
        end_kept(tier, &row);
        return REMOVAL_FAILED;
    }
    end_gone(tier, &row, &(hth_gone){ .reason = HTH_GONE_DAMAGED, .time = hth_os_unix_seconds() });
    return rc == 0 ? REMOVAL_DONE : REMOVAL_NEEDLESS;
}

bool hth_file_tier_quarantine_if(hth_file_tier *tier, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                 void *user_data, const char *reason)
{
    return quarantine(tier, id, is_bad, user_data, reason) == REMOVAL_DONE;
}

static bool is_unsound(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    if (!hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault))
        return fault.reason != HTH_KVC_NO_MEMORY;
    return !info.has_kind || info.kind != (uint8_t)id->kind || !info.has_own_key ||
           !hth_key_equal(&info.own_key, &id->key);
}

/* A sound file is bad, too, when it is the very file that was read and then refused. */
static bool is_suspect(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    hth_file_tier *tier = user_data;
    char path[HTH_FILE_TIER_PATH_BYTES];
    hth_fs_stat st;

    if (is_unsound(id, bytes, n_bytes))
        return true;
    return hth_file_tier_path(tier, id, path, sizeof(path)) && hth_fs_stat_path(tier->fs, path, &st) == 0 &&
           hth_file_tier_was_seen(tier, id, &st);
}

bool hth_file_tier_quarantine(hth_file_tier *tier, const hth_row_id *id, const char *reason)
{
    return quarantine(tier, id, is_suspect, tier, reason) != REMOVAL_FAILED;
}

static bool is_unsound_file(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes, void *user_data)
{
    (void)user_data;
    return is_unsound(id, bytes, n_bytes);
}

bool hth_file_tier_review(hth_file_tier *tier, const hth_row_id *id)
{
    return quarantine(tier, id, is_unsound_file, NULL, "it is not the row of its name") != REMOVAL_FAILED;
}

/* unwanted: NULL to remove a pinned row, too. */
static hearth_status remove_row(hth_file_tier *tier, const hth_row_id *id, const hth_unwanted *unwanted,
                                hearth_error *err)
{
    hth_gone gone = { .reason = HTH_GONE_SUPERSEDED, .time = hth_os_unix_seconds() };
    bool has_successor = unwanted && unwanted->successor;
    taken_row row;
    int rc;

    if (!hth_file_tier_path(tier, id, row.path, sizeof(row.path)))
        return hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", tier->directory);
    if (!take_row(tier, id, &row))
        return hth_fail(err, HEARTH_BUSY, "the row '%s' is being written or removed by another process; try again",
                        row.path);
    hth_fs_step(tier->fs, "taken");
    /* Look for a pin after the row was taken, as eviction does: see file_tier_pins.c. */
    if (unwanted && hth_file_tiers_have_pin(unwanted->roots, unwanted->n_roots, &id->key)) {
        end_kept(tier, &row);
        return hth_fail(err, HEARTH_NOT_FOUND, "the row '%s' is pinned", row.path);
    }
    rc = hth_file_tier_remove_file(tier, id, row.path);
    if (rc != 0 && rc != -ENOENT) {
        end_kept(tier, &row);
        return hth_fail_errno(err, -rc, "cannot remove the row '%s'", row.path);
    }
    if (!row.was_known && rc == -ENOENT) {
        end_gone(tier, &row, NULL);
        return hth_fail(err, HEARTH_NOT_FOUND, "there is no row '%s'", row.path);
    }
    if (has_successor)
        hth_past_name_of(unwanted->successor, &gone.successor);
    end_gone(tier, &row, has_successor ? &gone : NULL);
    return HEARTH_OK;
}

hearth_status hth_file_tier_remove(hth_file_tier *tier, const hth_row_id *id, hearth_error *err)
{
    return remove_row(tier, id, NULL, err);
}

hearth_status hth_file_tier_remove_unwanted(hth_file_tier *tier, const hth_row_id *id, const hth_unwanted *unwanted,
                                            hearth_error *err)
{
    return remove_row(tier, id, unwanted, err);
}
