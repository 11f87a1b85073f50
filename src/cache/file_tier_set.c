/*
 * file_tier_set.c - asks one root after the other, and chooses a root for a new row
 *
 * The set has no state beyond its roots: their indexes say where a row lies. All indexes are asked before any root
 * looks for a file by name, because that costs a system call.
 */
#include "cache/file_tier_set.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { ROOTS_MAX = HTH_FILE_TIER_ROOTS_MAX };

/* Identifies a root to is_needed_elsewhere. */
typedef struct root_link {
    hth_file_tier_set *set;
    size_t number;
} root_link;

struct hth_file_tier_set {
    /* Fixed after opening. */
    size_t n;
    hth_file_tier *roots[ROOTS_MAX];
    uint64_t free_min[ROOTS_MAX];
    hth_fs_stat places[ROOTS_MAX];              /* device and inode of their directories */
    uint8_t names[ROOTS_MAX][HTH_SHA256_BYTES]; /* hashes of their directories' names, for rendezvous hashing */
    root_link links[ROOTS_MAX];
};

static hth_index *index_of(const hth_file_tier_set *set, size_t i)
{
    return hth_file_tier_index(set->roots[i]);
}

/*
 * For hth_index_evict: do rows of other roots stand on this row, or is it pinned there? If unknown, the row stays: its
 * root may then be full for a while, but no row loses its parent.
 */
static bool is_needed_elsewhere(const hth_row_meta *meta, void *user_data)
{
    const root_link *link = user_data;
    const hth_file_tier_set *set = link->set;

    for (size_t i = 0; i < set->n; i++) {
        hth_index_totals totals;
        bool has = true;

        if (i == link->number)
            continue;
        if (hth_pin_file_exists(hth_file_tier_pin_folder(set->roots[i]), &meta->id.key) ||
            hth_index_totals_get(index_of(set, i), &totals, NULL) != HEARTH_OK || !totals.complete ||
            hth_index_has_children(index_of(set, i), meta, &has, NULL) != HEARTH_OK || has)
            return true;
    }
    return false;
}

/* ---- opening ---- */

/* The root in that directory; set->n if none. */
static size_t root_in(const hth_file_tier_set *set, const hth_fs *fs, const char *path)
{
    hth_fs_stat st;
    size_t i = 0;

    if (hth_fs_stat_path(fs, path, &st) != 0 || !st.is_directory)
        return set->n;
    while (i < set->n && (set->places[i].device != st.device || set->places[i].inode != st.inode))
        i++;
    return i;
}

bool hth_file_tier_set_is_in(const hth_file_tier_set *set, const char *path)
{
    return root_in(set, hth_file_tier_fs(set->roots[0]), path) < set->n;
}

/* Open the next root. */
static hearth_status open_root(hth_file_tier_set *set, const hth_file_tier_options *options, hearth_error *err)
{
    hth_fs_stat *place = &set->places[set->n];
    hearth_status status = hth_file_tier_open(options, &set->roots[set->n], err);

    if (status != HEARTH_OK)
        return status;
    if (hth_fs_stat_path(hth_file_tier_fs(set->roots[set->n]), options->directory, place) != 0)
        *place = (hth_fs_stat){ .inode = 0 }; /* already gone: this value matches no other directory */
    set->free_min[set->n] = options->free_min;
    hth_sha256_of(options->directory, strlen(options->directory), set->names[set->n]);
    set->n++;
    return HEARTH_OK;
}

hearth_status hth_file_tier_set_open(const hth_file_tier_options *roots, size_t n, hth_file_tier_set **out,
                                     hearth_error *err)
{
    hth_file_tier_set *set = calloc(1, sizeof(*set));
    hearth_error first = { .message = "" };
    hearth_status status = HEARTH_OK;

    if (!set)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a cache of %zu directories", n);
    if (n == 0 || n > ROOTS_MAX) {
        free(set);
        return hth_fail(err, HEARTH_MISUSE, "a cache has 1 to %d directories, not %zu", ROOTS_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        hth_file_tier_options options = roots[i];
        hearth_error why = { .message = "" };
        hearth_status result;

        assert(!options.is_needed);
        /* If the directory is one of the roots, it exists already, because its first root was opened. */
        if (root_in(set, options.fs ? options.fs : hth_fs_system(), options.directory) < set->n) {
            hth_warn(options.log, "the cache's directory '%s' was given twice; it is used once", options.directory);
            continue;
        }
        set->links[set->n] = (root_link){ .set = set, .number = set->n };
        if (n > 1) {
            options.is_needed = is_needed_elsewhere;
            options.user_data = &set->links[set->n];
        }
        result = open_root(set, &options, &why);
        if (result == HEARTH_OK)
            continue;
        if (n > 1)
            hth_warn(options.log, "a directory of the cache is left out: %s", why.message);
        if (status == HEARTH_OK) {
            status = result;
            first = why;
        }
    }
    if (set->n == 0) {
        free(set);
        if (err)
            *err = first;
        return status;
    }
    *out = set;
    return HEARTH_OK;
}

void hth_file_tier_set_close(hth_file_tier_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->n; i++)
        hth_file_tier_close(set->roots[i]);
    free(set);
}

void hth_file_tier_set_settle(hth_file_tier_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        hth_file_tier_settle(set->roots[i]);
}

size_t hth_file_tier_set_n_roots(const hth_file_tier_set *set)
{
    return set->n;
}

hth_file_tier *const *hth_file_tier_set_roots(const hth_file_tier_set *set)
{
    return set->roots;
}

/* ---- lookups ---- */

/* The root whose index knows the row; set->n if none. */
static size_t find_root(const hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out)
{
    for (size_t i = 0; i < set->n; i++) {
        bool found = false;

        if (hth_index_get(index_of(set, i), id, out, &found, NULL) == HEARTH_OK && found)
            return i;
    }
    return set->n;
}

static bool find_by_name(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out)
{
    for (size_t i = 0; i < set->n; i++)
        if (hth_file_tier_has(set->roots[i], id, out))
            return true;
    return false;
}

bool hth_file_tier_set_has(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out)
{
    return find_root(set, id, out) < set->n || find_by_name(set, id, out);
}

bool hth_file_tier_set_look(hth_file_tier_set *set, const hth_row_id *id, hth_row_meta *out, unsigned *n_names)
{
    if (set->n > 1 && find_root(set, id, out) < set->n)
        return true;
    for (size_t i = 0; i < set->n; i++)
        if (hth_file_tier_look(set->roots[i], id, out, n_names))
            return true;
    return false;
}

void hth_file_tier_set_find_leaf(hth_file_tier_set *set, hth_leaf_search *search)
{
    for (size_t i = 0; i < set->n && !hth_leaf_search_is_done(search); i++)
        hth_file_tier_find_leaf(set->roots[i], search);
}

size_t hth_file_tier_set_tokens(hth_file_tier_set *set, const hth_row_id *id, hearth_token *out, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; i < set->n && n == 0; i++)
        n = hth_file_tier_tokens(set->roots[i], id, out, capacity);
    return n;
}

/* Insert meta into out[n of capacity], the most recently used first, unless the row is there; returns the new n. */
static size_t insert_child(hth_row_meta *out, size_t n, size_t capacity, const hth_row_meta *meta)
{
    for (size_t i = 0; i < n; i++)
        if (hth_row_id_equal(&out[i].id, &meta->id))
            return n;
    return hth_row_insert_by_age(out, n, capacity, meta);
}

size_t hth_file_tier_set_children(hth_file_tier_set *set, const hth_key *parent, hth_row_meta *out, size_t capacity)
{
    size_t n = hth_file_tier_children(set->roots[0], parent, out, capacity);
    hth_row_meta *more = set->n > 1 ? malloc((capacity + 1) * sizeof(*more)) : NULL;

    for (size_t i = 1; more && i < set->n; i++) {
        size_t n_more = hth_file_tier_children(set->roots[i], parent, more, capacity);

        for (size_t k = 0; k < n_more; k++)
            n = insert_child(out, n, capacity, &more[k]);
    }
    free(more);
    return n;
}

/* ---- reads ---- */

/* The order in which roots are tried for a row: the one that knows it, then the others. */
static size_t reading_order(const hth_file_tier_set *set, const hth_row_id *id, size_t order[ROOTS_MAX])
{
    size_t known = set->n > 1 ? find_root(set, id, NULL) : 0, n = 0;

    if (known < set->n)
        order[n++] = known;
    for (size_t i = 0; i < set->n; i++)
        if (i != known)
            order[n++] = i;
    return n;
}

hearth_status hth_file_tier_set_open_file(hth_file_tier_set *set, const hth_row_id *id, int *fd_out,
                                          size_t *n_bytes_out, hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;
    size_t order[ROOTS_MAX], n = reading_order(set, id, order);

    for (size_t i = 0; i < n; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_open_file(set->roots[order[i]], id, fd_out, n_bytes_out, &why);

        if (result == HEARTH_OK)
            return result;
        status = hth_status_merge(status, result, &why, err);
    }
    return status;
}

/* The root with the row that this one stands on; *out: that row; set->n if none. */
static size_t root_of_parent(const hth_file_tier_set *set, const hth_row_meta *meta, hth_row_meta *out)
{
    static const hth_row_kind bearing[] = { HTH_ROW_BLOCK, HTH_ROW_TAIL, HTH_ROW_SNAPSHOT };

    for (size_t i = 0; meta->first_position > 0 && i < sizeof(bearing) / sizeof(bearing[0]); i++) {
        hth_row_id id = { .key = meta->parent, .kind = bearing[i] };
        size_t root = find_root(set, &id, out);

        if (root < set->n && out->first_position < meta->first_position)
            return root;
    }
    return set->n;
}

/* A root refreshes the ancestors of a used row only inside that root; the set does it across roots. */
static void touch_row(hth_file_tier_set *set, const hth_row_id *id)
{
    hth_row_meta at, above;
    size_t root = find_root(set, id, &at), next;

    if (root == set->n)
        return;
    hth_file_tier_touch(set->roots[root], id, 1);
    for (; (next = root_of_parent(set, &at, &above)) < set->n; root = next, at = above)
        if (next != root)
            hth_file_tier_touch(set->roots[next], &above.id, 1);
}

void hth_file_tier_set_touch(hth_file_tier_set *set, const hth_row_id *ids, size_t n)
{
    if (set->n == 1) {
        hth_file_tier_touch(set->roots[0], ids, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        touch_row(set, &ids[i]);
}

hearth_status hth_file_tier_set_totals(hth_file_tier_set *set, hth_index_totals *out, hearth_error *err)
{
    hth_index_totals sum = { .complete = true };
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < set->n; i++) {
        hth_index_totals totals;
        hearth_status result = hth_index_totals_get(index_of(set, i), &totals, status == HEARTH_OK ? err : NULL);

        if (result != HEARTH_OK) {
            status = result;
            sum.complete = false;
            continue;
        }
        sum.rows += totals.rows;
        sum.bytes += totals.bytes;
        sum.index_bytes += totals.index_bytes;
        for (size_t kind = 0; kind < HTH_ROW_KINDS; kind++)
            sum.rows_by_kind[kind] += totals.rows_by_kind[kind];
        sum.complete = sum.complete && totals.complete;
    }
    *out = sum;
    return status;
}

void hth_file_tier_set_counts_get(const hth_file_tier_set *set, hth_file_tier_counts *out)
{
    *out = (hth_file_tier_counts){ .rows_written = 0 };
    for (size_t i = 0; i < set->n; i++) {
        hth_file_tier_counts counts;

        hth_file_tier_counts_get(set->roots[i], &counts);
        out->rows_written += counts.rows_written;
        out->bytes_written += counts.bytes_written;
        out->rows_evicted += counts.rows_evicted;
        out->rows_quarantined += counts.rows_quarantined;
        out->rows_adopted += counts.rows_adopted;
    }
}

/* ---- choosing a root ---- */

/* Does the row fit without eviction? */
static bool has_room(const hth_file_tier_set *set, size_t i, uint64_t n_bytes)
{
    uint64_t bytes_max, free_bytes;
    hth_index_totals totals;

    if (hth_index_totals_get(index_of(set, i), &totals, NULL) != HEARTH_OK)
        return false;
    bytes_max = hth_file_tier_rows_bytes_max(set->roots[i], &totals);
    return n_bytes <= bytes_max && totals.bytes <= bytes_max - n_bytes &&
           hth_fs_free_bytes(hth_file_tier_fs(set->roots[i]), hth_file_tier_rows_directory(set->roots[i]),
                             &free_bytes) == 0 &&
           free_bytes >= n_bytes && free_bytes - n_bytes >= set->free_min[i];
}

size_t hth_file_tier_set_with_room(const hth_file_tier_set *set, uint64_t n_bytes)
{
    size_t i = 0;

    while (i < set->n && !has_room(set, i, n_bytes))
        i++;
    return i;
}

/*
 * Rendezvous hashing (Thaler and Ravishankar, "A name-based mapping scheme for rendezvous", 1996): adding or removing a
 * root moves only that root's share of the keys.
 */
static uint64_t score_of(const hth_file_tier_set *set, size_t i, const hth_key *key)
{
    uint8_t bytes[HTH_SHA256_BYTES + HTH_KEY_BYTES], digest[HTH_SHA256_BYTES];
    uint64_t score;

    memcpy(bytes, set->names[i], HTH_SHA256_BYTES);
    memcpy(bytes + HTH_SHA256_BYTES, key->bytes, HTH_KEY_BYTES);
    hth_sha256_of(bytes, sizeof(bytes), digest);
    memcpy(&score, digest, sizeof(score));
    return score;
}

typedef struct candidate {
    size_t root;
    bool has_room;
    bool has_parent;
    uint64_t score;
} candidate;

static bool is_better(const candidate *a, const candidate *b)
{
    if (a->has_room != b->has_room)
        return a->has_room;
    if (a->has_parent != b->has_parent)
        return a->has_parent;
    return a->score > b->score;
}

/* The roots for a new row, best first. */
static void writing_order(const hth_file_tier_set *set, const hth_row_meta *meta, size_t n_bytes,
                          candidate order[ROOTS_MAX])
{
    hth_row_meta above;
    size_t parent = root_of_parent(set, meta, &above);

    for (size_t i = 0; i < set->n; i++) {
        candidate c = {
            .root = i,
            .has_room = has_room(set, i, n_bytes),
            .has_parent = i == parent,
            .score = score_of(set, i, &meta->id.key),
        };
        size_t at = i;

        for (; at > 0 && is_better(&c, &order[at - 1]); at--)
            order[at] = order[at - 1];
        order[at] = c;
    }
}

hearth_status hth_file_tier_set_publish(hth_file_tier_set *set, const hth_row_meta *meta, const uint8_t *bytes,
                                        size_t n_bytes, bool *published_out, hearth_error *err)
{
    candidate order[ROOTS_MAX];
    hearth_status status = HEARTH_IO;
    size_t known = set->n > 1 ? find_root(set, &meta->id, NULL) : 0;

    if (known < set->n) /* this root has the row, or notices that its file is gone */
        return hth_file_tier_publish(set->roots[known], meta, bytes, n_bytes, published_out, err);
    writing_order(set, meta, n_bytes, order);
    for (size_t i = 0; i < set->n; i++) {
        status = hth_file_tier_publish(set->roots[order[i].root], meta, bytes, n_bytes, published_out, err);
        if (status != HEARTH_FULL && status != HEARTH_IO && status != HEARTH_PERMISSION)
            break;
    }
    return status;
}

/* ---- removal and eviction ---- */

bool hth_file_tier_set_quarantine(hth_file_tier_set *set, const hth_row_id *id, const char *reason)
{
    bool all = true;

    for (size_t i = 0; i < set->n; i++)
        all = hth_file_tier_quarantine(set->roots[i], id, reason) && all;
    return all;
}

bool hth_file_tier_set_review(hth_file_tier_set *set, const hth_row_id *id)
{
    bool all = true;

    for (size_t i = 0; i < set->n; i++)
        all = hth_file_tier_review(set->roots[i], id) && all;
    return all;
}

void hth_file_tier_set_quarantine_if(hth_file_tier_set *set, const hth_row_id *id, hth_file_tier_judge_fn is_bad,
                                     void *user_data, const char *reason)
{
    for (size_t i = 0; i < set->n; i++)
        (void)hth_file_tier_quarantine_if(set->roots[i], id, is_bad, user_data,
                                          reason); /* the caller checks which copies are left */
}

void hth_file_tier_set_note_beginning(hth_file_tier_set *set, const hth_index_sighting *sighting)
{
    hth_file_tier_note_beginning(set->roots[0], sighting);
}

/* unwanted: NULL to remove a pinned row, too. */
static hearth_status remove_everywhere(hth_file_tier_set *set, const hth_row_id *id, const hth_unwanted *unwanted,
                                       hearth_error *err)
{
    hearth_status status = HEARTH_NOT_FOUND;

    for (size_t i = 0; i < set->n; i++) {
        hearth_error why = { .message = "" };
        hearth_status result = hth_file_tier_remove_unwanted(set->roots[i], id, unwanted, &why);

        status = hth_status_merge(status, result, &why, err);
    }
    return status;
}

hearth_status hth_file_tier_set_remove(hth_file_tier_set *set, const hth_row_id *id, hearth_error *err)
{
    return remove_everywhere(set, id, NULL, err);
}

hearth_status hth_file_tier_set_remove_unwanted(hth_file_tier_set *set, const hth_row_id *id,
                                                const hth_row_id *successor, hearth_error *err)
{
    hth_unwanted unwanted = { .successor = successor, .roots = set->roots, .n_roots = set->n };

    if (hth_file_tiers_have_pin(set->roots, set->n, &id->key)) /* usual for a pinned row: it stays in the index */
        return hth_fail(err, HEARTH_NOT_FOUND, "the row is pinned");
    return remove_everywhere(set, id, &unwanted, err);
}

void hth_file_tier_set_maintain(hth_file_tier_set *set)
{
    for (size_t i = 0; i < set->n; i++)
        hth_file_tier_maintain(set->roots[i]);
}

hearth_status hth_file_tier_set_evict_to(hth_file_tier_set *set, uint64_t bytes_max, uint64_t *evicted_out,
                                         hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    uint64_t n_evicted = 0, n_round;

    if (set->n == 1)
        return hth_file_tier_evict_to(set->roots[0], bytes_max, evicted_out, err);
    /* A row may go only after the rows of another root that stand on it, so repeat until a round evicts nothing. */
    do {
        hth_index_totals sum, totals;

        n_round = 0;
        (void)hth_file_tier_set_totals(set, &sum, NULL); /* a root without an index evicts nothing */
        for (size_t i = 0; i < set->n && sum.bytes > bytes_max; i++) {
            uint64_t n = 0, share;
            hearth_status result;

            if (hth_index_totals_get(index_of(set, i), &totals, NULL) != HEARTH_OK)
                continue;
            share = (uint64_t)((double)totals.bytes * ((double)bytes_max / (double)sum.bytes));
            result = hth_file_tier_evict_to(set->roots[i], share, &n, status == HEARTH_OK ? err : NULL);
            if (result != HEARTH_OK)
                status = result;
            n_round += n;
        }
        n_evicted += n_round;
    } while (n_round > 0 && status == HEARTH_OK);
    if (evicted_out)
        *evicted_out = n_evicted;
    return status;
}
