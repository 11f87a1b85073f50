/*
 * file_tier_pins.c - the pins in the roots of a file tier, and their size
 *
 * A pin lies in one root that has a row at the end of its prefix. Eviction in all roots spares such rows. It removes no
 * row on which others stand, so the rows before the end need no pins.
 *
 * Eviction and the removal of unwanted rows take a row out of the index, then check for a pin, then remove the file.
 * Pinning makes the pin, then waits until no process is removing the rows. So at least one of the two sees the other,
 * even across processes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cache/file_tier_set.h"
#include "rows/chain.h"

enum {
    REMOVAL_MS = 5000, /* time for another process to remove a row or put it back */
    PIN_ATTEMPTS = 8,
};

/* ---- one root ---- */

static bool has_end(hth_file_tier *tier, const hth_key *key)
{
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        hth_row_id id = { .key = *key, .kind = (hth_row_kind)kind };

        if (hth_file_tier_has(tier, &id, NULL))
            return true;
    }
    return false;
}

/* ---- sizes ---- */

static bool find(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    return hth_file_tier_set_has(user_data, id, out);
}

static int compare_rows(const void *a, const void *b)
{
    const hth_row_meta *left = a, *right = b;

    return hth_row_id_compare(&left->id, &right->id);
}

static bool append(hth_chain *all, const hth_chain *chain)
{
    hth_row_meta *grown;

    if (chain->n == 0)
        return true;
    grown = (hth_row_meta *)hth_grown_by(all->rows, all->n, chain->n, &all->capacity, sizeof(*grown));
    if (!grown)
        return false;
    memcpy(grown + all->n, chain->rows, chain->n * sizeof(*grown));
    all->rows = grown;
    all->n += chain->n;
    return true;
}

/* Add the rows of a pinned prefix. *is_whole_out: false when rows are missing; such a pin protects nothing. */
static hearth_status add_prefix(hth_file_tier_set *set, const hth_key *key, hth_chain *all, bool *is_whole_out,
                                hearth_error *err)
{
    hth_chain chain = { .rows = NULL };
    hearth_status status = hth_chain_find(key, find, set, &chain, NULL);

    *is_whole_out = status == HEARTH_OK;
    if (status == HEARTH_OK && !append(all, &chain))
        status = HEARTH_NO_MEMORY;
    hth_chain_deinit(&chain);
    return status == HEARTH_NO_MEMORY ? hth_fail(err, status, "no memory for the pins of a cache") : HEARTH_OK;
}

/* A row that several prefixes share counts once. */
static void sum_up(hth_chain *all, hth_pin_totals *out)
{
    if (all->n > 0)
        qsort(all->rows, all->n, sizeof(all->rows[0]), compare_rows);
    for (size_t i = 0; i < all->n; i++) {
        if (i > 0 && hth_row_id_equal(&all->rows[i].id, &all->rows[i - 1].id))
            continue;
        out->rows++;
        out->bytes += all->rows[i].bytes;
    }
}

/* Half of the sum of the roots' quotas; UINT64_MAX if a quota is unknown. */
static uint64_t bytes_max_of(hth_file_tier_set *set)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(set); i++)
        if (__builtin_add_overflow(sum, hth_file_tier_quota(hth_file_tier_set_roots(set)[i]), &sum))
            return UINT64_MAX;
    return sum == UINT64_MAX ? sum : sum / 2;
}

hearth_status hth_file_tier_set_pins(hth_file_tier_set *set, hth_pins *pins, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(set) && status == HEARTH_OK; i++)
        status = hth_pins_read(hth_file_tier_pin_folder(hth_file_tier_set_roots(set)[i]), pins, err);
    return status;
}

/*
 * Count the rows that the pins protect, including one more prefix (NULL: none). broken gets the pins with missing rows.
 */
static hearth_status count(hth_file_tier_set *set, const hth_key *more, hth_pins *broken, hth_pin_totals *out,
                           hearth_error *err)
{
    hth_pin_totals totals = { .bytes_max = bytes_max_of(set) };
    hth_chain all = { .rows = NULL };
    bool is_whole;
    hearth_status status = more ? add_prefix(set, more, &all, &is_whole, err) : HEARTH_OK;

    if (status == HEARTH_OK)
        status = hth_file_tier_set_pins(set, broken, err);
    totals.prefixes = broken->n;
    broken->n = 0;
    for (size_t i = 0; status == HEARTH_OK && i < totals.prefixes; i++) {
        status = add_prefix(set, &broken->keys[i], &all, &is_whole, err);
        if (!is_whole)
            broken->keys[broken->n++] = broken->keys[i];
    }
    if (status == HEARTH_OK) {
        sum_up(&all, &totals);
        *out = totals;
    }
    hth_chain_deinit(&all);
    return status;
}

hearth_status hth_file_tier_set_pin_totals(hth_file_tier_set *set, hth_pins *broken, hth_pin_totals *out,
                                           hearth_error *err)
{
    return count(set, NULL, broken, out, err);
}

/* ---- all roots ---- */

static hearth_status check_quota(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hth_pins broken = { .keys = NULL };
    hth_pin_totals totals;
    hearth_status status = count(set, key, &broken, &totals, err);

    hth_pins_deinit(&broken);
    if (status == HEARTH_OK && totals.bytes > totals.bytes_max)
        status = hth_fail(err, HEARTH_FULL,
                          "with this prefix %" PRIu64
                          " bytes would be pinned, more than half of the quota, which is %" PRIu64
                          "; unpin another one or raise the quota",
                          totals.bytes, totals.bytes_max);
    return status;
}

/* Check that all rows of the prefix are there. */
static hearth_status check_rows(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hth_chain chain = { .rows = NULL };
    hearth_status status = hth_chain_find(key, find, set, &chain, err);

    hth_chain_deinit(&chain);
    return status;
}

/*
 * An eviction that did not see the new pin has taken the rows out of the index: wait until it ends and check the rows
 * again.
 */
static hearth_status check_again(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    for (size_t i = 0; i < hth_file_tier_set_n_roots(set); i++)
        for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
            hth_row_id id = { .key = *key, .kind = (hth_row_kind)kind };

            if (hth_index_wait(hth_file_tier_index(hth_file_tier_set_roots(set)[i]), &id, REMOVAL_MS) ==
                HTH_WAIT_TIMEOUT)
                return hth_fail(err, HEARTH_BUSY,
                                "a row of the prefix is being written or removed by another process; try again");
        }
    return check_rows(set, key, err);
}

hearth_status hth_file_tier_set_pin(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hth_file_tier *const *roots = hth_file_tier_set_roots(set);
    hearth_status status = check_rows(set, key, err);
    const hth_pin_folder *folder;
    bool added = false;
    size_t i = 0;

    if (status == HEARTH_OK)
        status = check_quota(set, key, err);
    if (status != HEARTH_OK)
        return status;
    while (i < hth_file_tier_set_n_roots(set) && !has_end(roots[i], key))
        i++;
    if (i == hth_file_tier_set_n_roots(set))
        return hth_fail(err, HEARTH_NOT_FOUND, "the rows of the prefix went away; compute it again");
    folder = hth_file_tier_pin_folder(roots[i]);
    /*
     * A pin that already existed may belong to another caller, which removes it if the rows are gone. Then make it
     * again.
     */
    for (int attempt = 0; attempt < PIN_ATTEMPTS; attempt++) {
        status = hth_pin_add(folder, key, &added, err);
        if (status == HEARTH_OK)
            status = check_again(set, key, err);
        if (status != HEARTH_OK && added) /* if this fails, 'hearth cache stat' shows the pin */
            (void)hth_pin_remove(folder, key, NULL);
        if (status != HEARTH_OK || added || hth_pin_file_exists(folder, key))
            return status;
    }
    return hth_fail(err, HEARTH_BUSY, "other callers pin and unpin the prefix; try again");
}

static hearth_status unpin(hth_file_tier *const *tiers, size_t n, const hth_key *key, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < n; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_pin_remove(hth_file_tier_pin_folder(tiers[i]), key, &why);

        status = hth_status_merge(status, result, &why, err);
    }
    return status;
}

hearth_status hth_file_tier_set_unpin(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hearth_status status = unpin(hth_file_tier_set_roots(set), hth_file_tier_set_n_roots(set), key, err);

    return status == HEARTH_NOT_FOUND
             ? hth_fail(err, status, "the prefix is not pinned; 'hearth cache ls' shows what is")
             : status;
}

hearth_status hth_file_tiers_drop_pin(hth_file_tier *const *tiers, size_t n, const hth_key *key, hearth_error *err)
{
    hearth_status status;

    for (size_t i = 0; i < n; i++)
        if (has_end(tiers[i], key))
            return HEARTH_OK;
    status = unpin(tiers, n, key, err);
    return status == HEARTH_NOT_FOUND ? HEARTH_OK : status;
}

bool hth_file_tier_set_is_pinned(hth_file_tier_set *set, const hth_key *key)
{
    return hth_file_tiers_have_pin(hth_file_tier_set_roots(set), hth_file_tier_set_n_roots(set), key);
}
