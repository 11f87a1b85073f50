/*
 * file_tier_pins.c - what is pinned in the roots of a file tier, and how much
 *
 * A pin lies in each root that has a row at the end of its prefix. Eviction takes no row on which others stand, so the rows
 * before the end need no pins of their own.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cache/chain.h"
#include "cache/file_tier_inside.h"
#include "cache/file_tier_set.h"

/* ---- one root ---- */

hearth_status hth_file_tier_pins(const hth_file_tier *tier, hth_pins *out, hearth_error *err)
{
    return hth_pins_read(tier->fs, tier->pins, out, err);
}

hearth_status hth_file_tier_unpin(const hth_file_tier *tier, const hth_key *key, hearth_error *err)
{
    return hth_pin_remove(tier->fs, tier->pins, key, tier->durable, err);
}

static bool has_end(hth_file_tier *tier, const hth_key *key)
{
    for (int kind = 0; kind < HTH_ROW_KINDS; kind++) {
        hth_row_id id = { .key = *key, .kind = (hth_row_kind)kind };

        if (hth_file_tier_has(tier, &id, NULL))
            return true;
    }
    return false;
}

/* The quota in force; UINT64_MAX: none is known. */
static uint64_t quota_of(hth_file_tier *tier)
{
    uint64_t noted = 0;

    if (tier->bytes_max != UINT64_MAX)
        return tier->bytes_max;
    return hth_index_quota(tier->index, &noted, NULL) == HEARTH_OK && noted > 0 ? noted : UINT64_MAX;
}

/* ---- how much ---- */

static bool find(const hth_row_id *id, hth_row_meta *out, void *user_data)
{
    return hth_file_tier_set_has(user_data, id, out);
}

static int compare_rows(const void *a, const void *b)
{
    const hth_row_meta *left = a, *right = b;
    int order = memcmp(left->id.key.bytes, right->id.key.bytes, HTH_KEY_BYTES);

    return order ? order : (int)left->id.kind - (int)right->id.kind;
}

static bool append(hth_chain *all, const hth_chain *chain)
{
    hth_row_meta *grown;

    if (chain->n == 0)
        return true;
    grown = realloc(all->rows, (all->n + chain->n) * sizeof(*grown));
    if (!grown)
        return false;
    memcpy(grown + all->n, chain->rows, chain->n * sizeof(*grown));
    *all = (hth_chain){ .rows = grown, .n = all->n + chain->n };
    return true;
}

/* Add the rows of a pinned prefix. One of which rows are missing holds nothing. */
static hearth_status add_prefix(hth_file_tier_set *set, const hth_key *key, hth_chain *all, hearth_error *err)
{
    hth_chain chain = { .rows = NULL };
    hearth_status status = hth_chain_find(key, find, set, &chain, NULL);

    if (status == HEARTH_OK && !append(all, &chain))
        status = HEARTH_NO_MEMORY;
    hth_chain_deinit(&chain);
    return status == HEARTH_NO_MEMORY ? hth_fail(err, status, "no memory for the pins of a cache") : HEARTH_OK;
}

/* Rows that several prefixes share count once. */
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

/* What is pinned, with one more prefix (NULL: without). */
static hearth_status count(hth_file_tier_set *set, const hth_key *more, hth_pin_totals *out, hearth_error *err)
{
    hth_pin_totals totals = { .bytes_max = 0 };
    hth_chain all = { .rows = NULL };
    hearth_status status = more ? add_prefix(set, more, &all, err) : HEARTH_OK;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(set) && status == HEARTH_OK; i++) {
        hth_file_tier *tier = hth_file_tier_set_roots(set)[i];
        uint64_t quota = quota_of(tier);
        hth_pins pins;

        if (__builtin_add_overflow(totals.bytes_max, quota, &totals.bytes_max))
            totals.bytes_max = UINT64_MAX;
        status = hth_file_tier_pins(tier, &pins, err);
        if (status != HEARTH_OK)
            break;
        totals.prefixes += pins.n;
        for (size_t k = 0; k < pins.n && status == HEARTH_OK; k++)
            status = add_prefix(set, &pins.keys[k], &all, err);
        hth_pins_deinit(&pins);
    }
    if (status == HEARTH_OK) {
        sum_up(&all, &totals);
        totals.bytes_max /= totals.bytes_max == UINT64_MAX ? 1 : 2;
        *out = totals;
    }
    hth_chain_deinit(&all);
    return status;
}

hearth_status hth_file_tier_set_pin_totals(hth_file_tier_set *set, hth_pin_totals *out, hearth_error *err)
{
    return count(set, NULL, out, err);
}

/* ---- all roots ---- */

hearth_status hth_file_tier_set_pin(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hth_chain chain = { .rows = NULL };
    hth_pin_totals totals;
    hearth_status status = hth_chain_find(key, find, set, &chain, err);
    size_t n_pinned = 0;

    hth_chain_deinit(&chain);
    if (status == HEARTH_OK)
        status = count(set, key, &totals, err);
    if (status == HEARTH_OK && totals.bytes > totals.bytes_max)
        status = hth_fail(err, HEARTH_FULL,
                          "with this prefix %" PRIu64
                          " bytes would be pinned, more than half of the quota, which is %" PRIu64
                          "; unpin another one or raise the quota",
                          totals.bytes, totals.bytes_max);
    for (size_t i = 0; i < hth_file_tier_set_n_roots(set) && status == HEARTH_OK; i++) {
        hth_file_tier *tier = hth_file_tier_set_roots(set)[i];

        if (!has_end(tier, key))
            continue;
        status = hth_pin_add(tier->fs, tier->pins, key, tier->durable, err);
        n_pinned++;
    }
    if (status == HEARTH_OK && n_pinned == 0)
        status = hth_fail(err, HEARTH_NOT_FOUND, "the rows of the prefix went away; compute it again");
    return status;
}

hearth_status hth_file_tier_set_unpin(hth_file_tier_set *set, const hth_key *key, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < hth_file_tier_set_n_roots(set); i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_unpin(hth_file_tier_set_roots(set)[i], key, &why);

        if (result == HEARTH_NOT_FOUND && (status != HEARTH_NOT_FOUND || i > 0))
            continue;
        if (status == HEARTH_NOT_FOUND || (result != HEARTH_OK && result != HEARTH_NOT_FOUND))
            status = result;
        if (err && result != HEARTH_OK)
            *err = why;
    }
    return status;
}

bool hth_file_tier_set_is_pinned(hth_file_tier_set *set, const hth_key *key)
{
    for (size_t i = 0; i < hth_file_tier_set_n_roots(set); i++) {
        const hth_file_tier *tier = hth_file_tier_set_roots(set)[i];

        if (hth_pin_is_there(tier->fs, tier->pins, key))
            return true;
    }
    return false;
}
