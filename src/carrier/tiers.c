/*
 * tiers.c - all tiers in one
 *
 * The tiers want all writes of one row from one thread at a time. Two fetches may bring the same row, so a lock guards
 * each sixteenth of the keys; a write of one row rarely waits for that of another one.
 */
#include "carrier/tiers.h"

#include <pthread.h>
#include <stdlib.h>

#include "rows/kvc_signature.h"

enum { LOCKS = 16 };

struct hth_tiers {
    hth_level levels[HTH_WRITER_TIERS_MAX];
    size_t n;
    const hth_fs *fs;
    const hth_signing_key *key; /* NULL: rows are not signed */
    pthread_mutex_t locks[LOCKS];
    pthread_mutex_t maintaining;
};

hearth_status hth_tiers_open(const hth_cache_options *options, hth_tiers **out, hearth_error *err)
{
    hth_cache_options own = *options;
    hth_tiers *tiers = calloc(1, sizeof(*tiers));

    if (!tiers)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the carrier of rows");
    own.is_of_copies = true;
    tiers->fs = options->fs ? options->fs : hth_fs_system();
    tiers->key = options->key;
    tiers->n = hth_file_levels_open(&own, tiers->levels);
    if (tiers->n == 0) {
        free(tiers);
        return hth_fail(err, HEARTH_FAILED,
                        "no rows can be moved between nodes: no directory of the cache can be used; the log has the "
                        "reason, --cache another directory");
    }
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&tiers->locks[i], NULL);
    pthread_mutex_init(&tiers->maintaining, NULL);
    *out = tiers;
    return HEARTH_OK;
}

void hth_tiers_close(hth_tiers *tiers)
{
    if (!tiers)
        return;
    hth_tiers_maintain(tiers);
    hth_file_levels_close(tiers->levels, tiers->n);
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&tiers->locks[i]);
    pthread_mutex_destroy(&tiers->maintaining);
    free(tiers);
}

const hth_fs *hth_tiers_fs(const hth_tiers *tiers)
{
    return tiers->fs;
}

bool hth_tiers_look(hth_tiers *tiers, const hth_row_id *id, hth_row_meta *out, unsigned *n_names)
{
    for (size_t i = 0; i < tiers->n; i++)
        if (hth_file_tier_set_look(tiers->levels[i].files, id, out, n_names))
            return true;
    return false;
}

size_t hth_tiers_children(hth_tiers *tiers, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; i < tiers->n && n < capacity; i++) {
        const size_t n_before = n,
                     n_end = n + hth_file_tier_set_children(tiers->levels[i].files, parent, out + n, capacity - n);

        for (size_t k = n_before; k < n_end; k++) {
            bool is_known = false;

            for (size_t j = 0; j < n_before && !is_known; j++)
                is_known = hth_row_id_equal(&out[j].id, &out[k].id);
            if (!is_known)
                out[n++] = out[k];
        }
    }
    return n;
}

hearth_status hth_tiers_open_file(hth_tiers *tiers, const hth_row_id *id, int *fd_out, size_t *n_bytes_out,
                                  hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < tiers->n && status != HEARTH_OK; i++)
        status = hth_file_tier_set_open_file(tiers->levels[i].files, id, fd_out, n_bytes_out, err);
    return status;
}

hearth_status hth_tiers_check(const hth_tiers *tiers, const hth_row_id *id, const uint8_t *bytes, size_t n_bytes,
                              hth_row_meta *out, hearth_error *err)
{
    hth_kvc_fault fault;
    hth_kvc_info info;
    char why[256];

    if (!hth_kvc_parse_meta(bytes, n_bytes, n_bytes, &info, &fault, NULL) ||
        (tiers->key && !hth_kvc_verify_signature(bytes, n_bytes, &info, tiers->key, &fault))) {
        hth_kvc_fault_text(&fault, why, sizeof(why));
        return hth_fail(err, HEARTH_CORRUPT, "a row is not sound: %s", why);
    }
    if (!hth_row_file_meta_of(&info, id, n_bytes, 0, out))
        return hth_fail(err, HEARTH_CORRUPT, "a row is another one than its sender said");
    return HEARTH_OK;
}

hearth_status hth_tiers_publish(hth_tiers *tiers, const hth_row_meta *meta, const uint8_t *bytes, hearth_error *err)
{
    pthread_mutex_t *lock = &tiers->locks[meta->id.key.bytes[0] % LOCKS];
    hearth_status status = HEARTH_FULL;

    pthread_mutex_lock(lock);
    for (size_t i = 0; i < tiers->n; i++) {
        status = hth_file_tier_set_publish(tiers->levels[i].files, meta, bytes, (size_t)meta->bytes, NULL, err);
        if (status == HEARTH_OK || status == HEARTH_CORRUPT || status == HEARTH_MISUSE)
            break;
    }
    pthread_mutex_unlock(lock);
    return status;
}

void hth_tiers_touch(hth_tiers *tiers, const hth_row_id *ids, size_t n)
{
    for (size_t i = 0; i < tiers->n; i++)
        hth_file_tier_set_touch(tiers->levels[i].files, ids, n);
}

void hth_tiers_maintain(hth_tiers *tiers)
{
    pthread_mutex_lock(&tiers->maintaining);
    for (size_t i = 0; i < tiers->n; i++)
        hth_file_tier_set_maintain(tiers->levels[i].files);
    pthread_mutex_unlock(&tiers->maintaining);
}
