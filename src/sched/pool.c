/*
 * pool.c - assign the sequences of a context to requests, share cells between them, and empty finished ones
 */
#include "sched/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct hth_pool {
    const hth_workplace *place;
    hth_books books;
    hth_pool_entry *entries; /* [n_entries] */
    uint32_t n_entries;
    uint64_t n_uses;     /* the counter behind last_used */
    uint32_t n_idle_max; /* cells */
};

void hth_pool_close(hth_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; pool->entries && i < pool->n_entries; i++)
        hth_sequence_close(pool->entries[i].sequence);
    free(pool->entries);
    hth_cells_free(pool->books.cells);
    free(pool);
}

hearth_status hth_pool_open(const hth_workplace *workplace, uint32_t n_sequences, hth_pool **out, hearth_error *err)
{
    hth_pool *pool = calloc(1, sizeof(*pool));
    hearth_status status = HEARTH_OK;
    /* Recurrent state takes no cells: every sequence may be as long as the context. */
    uint32_t n_cells = workplace->kind == HTH_MODEL_RECURRENT ? n_sequences * workplace->n_ctx : workplace->n_ctx;

    if (pool) {
        pool->place = workplace;
        pool->n_entries = n_sequences;
        pool->n_idle_max = UINT32_MAX;
        pool->entries = calloc(n_sequences, sizeof(*pool->entries));
        pool->books = (hth_books){ .cells = hth_cells_new(n_cells), .scratch = n_sequences };
    }
    if (!pool || !pool->entries || !pool->books.cells) {
        hth_pool_close(pool);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %u sequences", n_sequences);
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < n_sequences; i++)
        status = hth_sequence_open(workplace, &pool->books, i, &pool->entries[i].sequence, err);
    if (status != HEARTH_OK) {
        hth_pool_close(pool);
        return status;
    }
    *out = pool;
    return HEARTH_OK;
}

const hth_cells *hth_pool_cells(const hth_pool *pool)
{
    return pool->books.cells;
}

uint32_t hth_pool_n_idle(const hth_pool *pool)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < pool->n_entries; i++)
        n += !pool->entries[i].is_running && hth_sequence_n_tokens(pool->entries[i].sequence) > 0;
    return n;
}

/* ---- emptying ---- */

/* True if all cells of the sequence are now in the cache, or are too few to save. A failed save is counted. */
static bool save(hth_pool *pool, hth_pool_entry *entry, hearth_save_reason reason)
{
    if (!hth_policy_should_save_finish(hth_sequence_n_tokens(entry->sequence), &pool->place->policy))
        return true;
    hth_sequence_save_block(entry->sequence, reason);
    return hth_sequence_save_end(entry->sequence, reason);
}

/* A sequence is saved when its request ends. If that save failed, it is tried once more here. */
static bool save_if_not_yet(hth_pool *pool, hth_pool_entry *entry)
{
    return hth_sequence_end_is_saved(entry->sequence) || save(pool, entry, HEARTH_SAVE_EVICT);
}

static void drop(hth_pool_entry *entry)
{
    (void)hth_sequence_shorten(entry->sequence, 0); /* the result is the number left: 0 */
    entry->session[0] = '\0';
    entry->session_until_ns = 0;
}

static void let_go(hth_pool *pool, hth_pool_entry *entry)
{
    (void)save_if_not_yet(pool, entry); /* also if that fails: the cells are needed */
    drop(entry);
}

/*
 * The finished sequence to empty next: the least recently used, sequences of sessions last. With spares_only_here, a
 * sequence that the cache refused is skipped. NULL if no finished sequence has cells.
 */
static hth_pool_entry *next_to_go(const hth_pool *pool, bool spares_only_here)
{
    hth_pool_entry *found = NULL;

    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];
        bool pinned = entry->session[0] != '\0';

        if (entry->is_running || hth_sequence_n_tokens(entry->sequence) == 0 ||
            (spares_only_here && entry->is_only_here))
            continue;
        if (!found || pinned < (found->session[0] != '\0') ||
            (pinned == (found->session[0] != '\0') && entry->last_used < found->last_used))
            found = entry;
    }
    return found;
}

bool hth_pool_make_room(hth_pool *pool, uint32_t n_cells)
{
    while (hth_cells_n_unused(pool->books.cells) < n_cells) {
        hth_pool_entry *entry = next_to_go(pool, false);

        if (!entry)
            return false;
        let_go(pool, entry);
    }
    return true;
}

/*
 * When a sequence is assigned while no other request runs and there are too many idle cells, all idle cells are freed.
 * The cells of the new request then begin at the start of the buffer and lie in the order of its tokens, whether they
 * are restored or computed. If cells below a running sequence were freed, its next tokens would use them, attention
 * would sum the cells in a different order, and the rounding would depend on earlier requests (docs/engine.md). So
 * while a request runs, IDLE_BUSY times as many idle cells are allowed.
 */
enum { IDLE_BUSY = 12 };

static uint32_t n_idle_cells(const hth_pool *pool)
{
    return hth_cells_n_unheld(pool->books.cells) - hth_cells_n_unused(pool->books.cells);
}

/*
 * Empty finished sequences until at most n_cells are idle. A sequence that is not in the cache and cannot be saved
 * stays.
 */
static void let_idle_go(hth_pool *pool, uint32_t n_cells)
{
    if (!pool->place->cache || pool->place->kind == HTH_MODEL_UNCACHED)
        return;
    while (n_idle_cells(pool) > n_cells) {
        hth_pool_entry *entry = next_to_go(pool, true);

        if (!entry)
            return;
        entry->is_only_here = !save_if_not_yet(pool, entry);
        if (!entry->is_only_here)
            drop(entry);
    }
}

void hth_pool_limit_idle(hth_pool *pool, uint32_t n_cells)
{
    pool->n_idle_max = n_cells;
    if (n_idle_cells(pool) / IDLE_BUSY > n_cells)
        let_idle_go(pool, n_cells);
}

static bool anybody_runs(const hth_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_entries; i++)
        if (pool->entries[i].is_running)
            return true;
    return false;
}

/* ---- assigning ---- */

static bool is_of_session(const hth_pool_entry *entry, const uint8_t fingerprint[32], const char *session)
{
    return session && strcmp(entry->session, session) == 0 &&
           hth_sequence_has_fingerprint(entry->sequence, fingerprint);
}

/* The number of leading tokens that a request can get from a sequence, by sharing its cells or by continuing it. */
static uint32_t usable(const hth_pool_entry *entry, const hth_pool_query *query)
{
    uint32_t n;

    if (!hth_sequence_has_fingerprint(entry->sequence, query->keyspace->fingerprint))
        return 0;
    n = hth_sequence_common(entry->sequence, query->tokens, query->n_tokens);
    if (hth_sequence_can_be_shortened(entry->sequence))
        return n < query->n_limit ? n : query->n_limit;
    return !entry->is_running && n == hth_sequence_n_tokens(entry->sequence) && n <= query->n_limit ? n : 0;
}

/* The sequence with the longest usable prefix; among equals, one that can be continued. NULL if no prefix is usable. */
static hth_pool_entry *best_donor(const hth_pool *pool, const hth_pool_query *query, uint32_t *n_out)
{
    hth_pool_entry *best = NULL;

    *n_out = 0;
    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];
        uint32_t n = usable(entry, query);
        bool better = n > *n_out || (n > 0 && n == *n_out && best->is_running && !entry->is_running) ||
                      (n > 0 && n == *n_out && is_of_session(entry, query->keyspace->fingerprint, query->session));

        if (better) {
            best = entry;
            *n_out = n;
        }
    }
    return best;
}

uint32_t hth_pool_n_shared(const hth_pool *pool, const hth_pool_query *query, uint32_t *n_held_out)
{
    uint32_t n;
    const hth_pool_entry *donor = best_donor(pool, query, &n);

    *n_held_out = donor ? hth_sequence_count_held(donor->sequence, n) : 0;
    return n;
}

/*
 * The sequence to assign: the session's, or a finished one that the request continues, or an empty one, or the next one
 * to empty.
 */
static hth_pool_entry *entry_to_assign(const hth_pool *pool, const hth_pool_query *query, hth_pool_entry *donor,
                                       uint32_t n_shared)
{
    hth_pool_entry *empty = NULL, *oldest;

    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];

        if (entry->is_running)
            continue;
        if (is_of_session(entry, query->keyspace->fingerprint, query->session))
            return entry;
        if (!empty && hth_sequence_n_tokens(entry->sequence) == 0)
            empty = entry;
    }
    if (donor && !donor->is_running && !donor->session[0] && hth_sequence_n_tokens(donor->sequence) == n_shared)
        return donor;
    if (empty)
        return empty;
    oldest = next_to_go(pool, false);
    assert(oldest); /* fewer requests run than there are sequences */
    return oldest;
}

hearth_status hth_pool_assign(hth_pool *pool, const hth_pool_query *query, hth_pool_entry **out, uint32_t *n_live_out,
                              hearth_error *err)
{
    uint32_t n;
    hth_pool_entry *donor, *entry;
    hearth_status status;

    if (n_idle_cells(pool) > pool->n_idle_max && !anybody_runs(pool))
        let_idle_go(pool, 0);
    donor = best_donor(pool, query, &n);
    entry = entry_to_assign(pool, query, donor, n);
    assert(entry);
    if (entry == donor) {
        if (n < hth_sequence_n_tokens(entry->sequence))
            (void)save_if_not_yet(pool, entry);
        n = hth_sequence_shorten(entry->sequence, n);
    } else if (hth_sequence_n_tokens(entry->sequence) > 0) {
        let_go(pool, entry);
    }
    status = hth_sequence_set_keyspace(entry->sequence, query->keyspace, err);
    if (status != HEARTH_OK)
        return status;
    entry->is_running = true;
    entry->session[0] = '\0';
    entry->session_until_ns = 0;
    hth_sequence_set_held(entry->sequence, true);
    if (entry != donor && (!donor || !hth_sequence_share(entry->sequence, donor->sequence, n)))
        n = hth_sequence_shorten(entry->sequence, 0);
    if (donor)
        donor->last_used = ++pool->n_uses;
    entry->last_used = ++pool->n_uses;
    *out = entry;
    *n_live_out = n;
    return HEARTH_OK;
}

void hth_pool_release(hth_pool *pool, hth_pool_entry *entry, const char *session, uint64_t until_ns)
{
    assert(entry->is_running);
    assert(!entry->is_partial);
    entry->is_running = false;
    entry->is_only_here = false;
    entry->last_used = ++pool->n_uses;
    hth_sequence_set_held(entry->sequence, false);
    if (!session || hth_sequence_n_tokens(entry->sequence) == 0)
        return;
    memcpy(entry->session, session, strlen(session) + 1); /* its length was checked at submission */
    entry->session_until_ns = until_ns;
}

void hth_pool_pretend_released(hth_pool_entry *entry, bool left)
{
    entry->is_running = !left;
    hth_sequence_set_held(entry->sequence, !left);
}

/* ---- sessions ---- */

bool hth_pool_end_session(hth_pool *pool, const hth_keyspace *tenant, const char *session)
{
    bool found = false;

    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];

        if (entry->is_running || strcmp(entry->session, session) != 0 ||
            !hth_keyspace_same_tenant(hth_sequence_keyspace(entry->sequence), tenant))
            continue;
        entry->session[0] = '\0';
        entry->session_until_ns = 0;
        found = true;
    }
    return found;
}

void hth_pool_forget(hth_pool *pool, const uint8_t fingerprint[32], const hearth_token *tokens, uint32_t n_tokens,
                     uint32_t n_kept)
{
    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];

        if (!entry->is_running && hth_sequence_has_fingerprint(entry->sequence, fingerprint) &&
            hth_sequence_common(entry->sequence, tokens, n_tokens) > n_kept)
            drop(entry);
    }
}

void hth_pool_keep_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session, uint64_t until_ns)
{
    for (uint32_t i = 0; i < pool->n_entries; i++)
        if (!pool->entries[i].is_running && is_of_session(&pool->entries[i], fingerprint, session))
            pool->entries[i].session_until_ns = until_ns;
}

static bool is_idle_session(const hth_pool_entry *entry)
{
    return !entry->is_running && entry->session[0];
}

void hth_pool_expire_sessions(hth_pool *pool, uint64_t now_ns)
{
    for (uint32_t i = 0; i < pool->n_entries; i++)
        if (is_idle_session(&pool->entries[i]) && pool->entries[i].session_until_ns <= now_ns)
            let_go(pool, &pool->entries[i]);
}

uint64_t hth_pool_next_expiry(const hth_pool *pool)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < pool->n_entries; i++)
        if (is_idle_session(&pool->entries[i]) && pool->entries[i].session_until_ns < next)
            next = pool->entries[i].session_until_ns;
    return next;
}

void hth_pool_save(hth_pool *pool, hearth_save_reason reason)
{
    for (uint32_t i = 0; i < pool->n_entries; i++) {
        hth_pool_entry *entry = &pool->entries[i];

        if (!entry->is_partial && hth_sequence_n_tokens(entry->sequence) > 0)
            (void)save(pool, entry, reason);
        if (!entry->is_running && reason == HEARTH_SAVE_EVICT)
            let_go(pool, entry);
    }
}
