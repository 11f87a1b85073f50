/*
 * pool.c - seats, and who shares with whom
 */
#include "sched/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct hth_pool {
    const hth_workplace *place;
    hth_books books;
    hth_seat *seats; /* [n_seats] */
    uint32_t n_seats;
    uint64_t n_uses;     /* what last_used counts */
    uint32_t n_idle_max; /* cells */
};

void hth_pool_close(hth_pool *pool)
{
    if (!pool)
        return;
    for (uint32_t i = 0; pool->seats && i < pool->n_seats; i++)
        hth_sequence_close(pool->seats[i].sequence);
    free(pool->seats);
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
        pool->n_seats = n_sequences;
        pool->n_idle_max = UINT32_MAX;
        pool->seats = calloc(n_sequences, sizeof(*pool->seats));
        pool->books = (hth_books){ .cells = hth_cells_new(n_cells), .scratch = n_sequences };
    }
    if (!pool || !pool->seats || !pool->books.cells) {
        hth_pool_close(pool);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for %u sequences", n_sequences);
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < n_sequences; i++)
        status = hth_sequence_open(workplace, &pool->books, i, &pool->seats[i].sequence, err);
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

    for (uint32_t i = 0; i < pool->n_seats; i++)
        n += !pool->seats[i].is_running && hth_sequence_n_tokens(pool->seats[i].sequence) > 0;
    return n;
}

/* ---- letting go ---- */

/* Is all of it in the cache then, or too short for that? What was lost is counted. */
static bool save(hth_pool *pool, hth_seat *seat, hearth_save_reason reason)
{
    if (!hth_policy_should_save_finish(hth_sequence_n_tokens(seat->sequence), &pool->place->policy))
        return true;
    hth_sequence_save_block(seat->sequence, reason);
    return hth_sequence_save_end(seat->sequence, reason);
}

/* What is cut off was saved when its request ended; what could not be then may be now. */
static bool save_if_not_yet(hth_pool *pool, hth_seat *seat)
{
    return hth_sequence_end_is_saved(seat->sequence) || save(pool, seat, HEARTH_SAVE_EVICT);
}

static void drop(hth_seat *seat)
{
    (void)hth_sequence_shorten(seat->sequence, 0); /* its result is how many are left: none */
    seat->session[0] = '\0';
    seat->session_until_ns = 0;
}

static void let_go(hth_pool *pool, hth_seat *seat)
{
    (void)save_if_not_yet(pool, seat); /* its cells are needed */
    drop(seat);
}

/* The finished sequence to go next: those of sessions last, perhaps none that is only here. NULL: there is none with cells. */
static hth_seat *next_to_go(const hth_pool *pool, bool spares_only_here)
{
    hth_seat *found = NULL;

    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];
        bool pinned = seat->session[0] != '\0';

        if (seat->is_running || hth_sequence_n_tokens(seat->sequence) == 0 || (spares_only_here && seat->is_only_here))
            continue;
        if (!found || pinned < (found->session[0] != '\0') ||
            (pinned == (found->session[0] != '\0') && seat->last_used < found->last_used))
            found = seat;
    }
    return found;
}

bool hth_pool_make_room(hth_pool *pool, uint32_t n_cells)
{
    while (hth_cells_n_unused(pool->books.cells) < n_cells) {
        hth_seat *seat = next_to_go(pool, false);

        if (!seat)
            return false;
        let_go(pool, seat);
    }
    return true;
}

/*
 * Too many idle cells go when somebody is seated while nobody else runs: all of them, so that the guest's cells begin at
 * the buffer's beginning and lie in the order of its tokens, whether it brings them in from rows or computes them. In freed
 * cells below its others a running sequence's next tokens would be added up in another order, and its rounding would
 * depend on who was there before (docs/engine.md). So while somebody runs there may be IDLE_BUSY times as many.
 */
enum { IDLE_BUSY = 12 };

static uint32_t n_idle_cells(const hth_pool *pool)
{
    return hth_cells_n_unheld(pool->books.cells) - hth_cells_n_unused(pool->books.cells);
}

/* Until there are at most n_cells, as far as the cache has, or takes, what goes. */
static void let_idle_go(hth_pool *pool, uint32_t n_cells)
{
    if (!pool->place->cache || pool->place->kind == HTH_MODEL_UNCACHED)
        return;
    while (n_idle_cells(pool) > n_cells) {
        hth_seat *seat = next_to_go(pool, true);

        if (!seat)
            return;
        seat->is_only_here = !save_if_not_yet(pool, seat);
        if (!seat->is_only_here)
            drop(seat);
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
    for (uint32_t i = 0; i < pool->n_seats; i++)
        if (pool->seats[i].is_running)
            return true;
    return false;
}

/* ---- finding a seat ---- */

static bool is_of_session(const hth_seat *seat, const uint8_t fingerprint[32], const char *session)
{
    return session && strcmp(seat->session, session) == 0 && hth_sequence_has_fingerprint(seat->sequence, fingerprint);
}

/* Leading tokens that a guest can have from a seat, by sharing or by taking it over. */
static uint32_t usable(const hth_seat *seat, const hth_guest *guest)
{
    uint32_t n;

    if (!hth_sequence_has_fingerprint(seat->sequence, guest->keyspace->fingerprint))
        return 0;
    n = hth_sequence_common(seat->sequence, guest->tokens, guest->n_tokens);
    if (hth_sequence_can_be_shortened(seat->sequence))
        return n < guest->n_limit ? n : guest->n_limit;
    return !seat->is_running && n == hth_sequence_n_tokens(seat->sequence) && n <= guest->n_limit ? n : 0;
}

/* The seat with most of the guest's tokens; of equals one that can be taken over. NULL when none has any. */
static hth_seat *best_donor(const hth_pool *pool, const hth_guest *guest, uint32_t *n_out)
{
    hth_seat *best = NULL;

    *n_out = 0;
    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];
        uint32_t n = usable(seat, guest);
        bool better = n > *n_out || (n > 0 && n == *n_out && best->is_running && !seat->is_running) ||
                      (n > 0 && n == *n_out && is_of_session(seat, guest->keyspace->fingerprint, guest->session));

        if (better) {
            best = seat;
            *n_out = n;
        }
    }
    return best;
}

uint32_t hth_pool_n_shared(const hth_pool *pool, const hth_guest *guest, uint32_t *n_held_out)
{
    uint32_t n;
    const hth_seat *donor = best_donor(pool, guest, &n);

    *n_held_out = donor ? hth_sequence_count_held(donor->sequence, n) : 0;
    return n;
}

/* The seat that the guest sits down on: its session's, one that it goes on from, a free one, or the next to go. */
static hth_seat *seat_to_take(const hth_pool *pool, const hth_guest *guest, hth_seat *donor, uint32_t n_shared)
{
    hth_seat *empty = NULL, *oldest;

    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];

        if (seat->is_running)
            continue;
        if (is_of_session(seat, guest->keyspace->fingerprint, guest->session))
            return seat;
        if (!empty && hth_sequence_n_tokens(seat->sequence) == 0)
            empty = seat;
    }
    if (donor && !donor->is_running && !donor->session[0] && hth_sequence_n_tokens(donor->sequence) == n_shared)
        return donor;
    if (empty)
        return empty;
    oldest = next_to_go(pool, false);
    assert(oldest); /* fewer run than there are seats */
    return oldest;
}

hearth_status hth_pool_seat(hth_pool *pool, const hth_guest *guest, hth_seat **out, uint32_t *n_live_out,
                            hearth_error *err)
{
    uint32_t n;
    hth_seat *donor, *seat;
    hearth_status status;

    if (n_idle_cells(pool) > pool->n_idle_max && !anybody_runs(pool))
        let_idle_go(pool, 0);
    donor = best_donor(pool, guest, &n);
    seat = seat_to_take(pool, guest, donor, n);
    assert(seat);
    if (seat == donor) {
        if (n < hth_sequence_n_tokens(seat->sequence))
            (void)save_if_not_yet(pool, seat);
        n = hth_sequence_shorten(seat->sequence, n);
    } else if (hth_sequence_n_tokens(seat->sequence) > 0) {
        let_go(pool, seat);
    }
    status = hth_sequence_set_keyspace(seat->sequence, guest->keyspace, err);
    if (status != HEARTH_OK)
        return status;
    seat->is_running = true;
    seat->session[0] = '\0';
    seat->session_until_ns = 0;
    hth_sequence_set_held(seat->sequence, true);
    if (seat != donor && (!donor || !hth_sequence_share(seat->sequence, donor->sequence, n)))
        n = hth_sequence_shorten(seat->sequence, 0);
    if (donor)
        donor->last_used = ++pool->n_uses;
    seat->last_used = ++pool->n_uses;
    *out = seat;
    *n_live_out = n;
    return HEARTH_OK;
}

void hth_pool_leave(hth_pool *pool, hth_seat *seat, const char *session, uint64_t until_ns)
{
    assert(seat->is_running);
    assert(!seat->is_partial);
    seat->is_running = false;
    seat->is_only_here = false;
    seat->last_used = ++pool->n_uses;
    hth_sequence_set_held(seat->sequence, false);
    if (!session || hth_sequence_n_tokens(seat->sequence) == 0)
        return;
    memcpy(seat->session, session, strlen(session) + 1); /* its length was checked on the way in */
    seat->session_until_ns = until_ns;
}

void hth_pool_pretend_left(hth_seat *seat, bool left)
{
    seat->is_running = !left;
    hth_sequence_set_held(seat->sequence, !left);
}

/* ---- sessions ---- */

bool hth_pool_end_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session)
{
    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];

        if (seat->is_running || !is_of_session(seat, fingerprint, session))
            continue;
        seat->session[0] = '\0';
        seat->session_until_ns = 0;
        return true;
    }
    return false;
}

void hth_pool_forget(hth_pool *pool, const uint8_t fingerprint[32], const hearth_token *tokens, uint32_t n_tokens,
                     uint32_t n_kept)
{
    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];

        if (!seat->is_running && hth_sequence_has_fingerprint(seat->sequence, fingerprint) &&
            hth_sequence_common(seat->sequence, tokens, n_tokens) > n_kept)
            drop(seat);
    }
}

void hth_pool_keep_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session, uint64_t until_ns)
{
    for (uint32_t i = 0; i < pool->n_seats; i++)
        if (!pool->seats[i].is_running && is_of_session(&pool->seats[i], fingerprint, session))
            pool->seats[i].session_until_ns = until_ns;
}

static bool is_idle_session(const hth_seat *seat)
{
    return !seat->is_running && seat->session[0];
}

void hth_pool_expire_sessions(hth_pool *pool, uint64_t now_ns)
{
    for (uint32_t i = 0; i < pool->n_seats; i++)
        if (is_idle_session(&pool->seats[i]) && pool->seats[i].session_until_ns <= now_ns)
            let_go(pool, &pool->seats[i]);
}

uint64_t hth_pool_next_expiry(const hth_pool *pool)
{
    uint64_t next = UINT64_MAX;

    for (uint32_t i = 0; i < pool->n_seats; i++)
        if (is_idle_session(&pool->seats[i]) && pool->seats[i].session_until_ns < next)
            next = pool->seats[i].session_until_ns;
    return next;
}

void hth_pool_save(hth_pool *pool, hearth_save_reason reason)
{
    for (uint32_t i = 0; i < pool->n_seats; i++) {
        hth_seat *seat = &pool->seats[i];

        if (!seat->is_partial && hth_sequence_n_tokens(seat->sequence) > 0)
            (void)save(pool, seat, reason);
        if (!seat->is_running && reason == HEARTH_SAVE_EVICT)
            let_go(pool, seat);
    }
}
