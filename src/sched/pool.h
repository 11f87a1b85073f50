/*
 * pool.h - all sequences of a context: the running ones, and the finished ones that stay until their cells are needed
 *
 * A request gets a seat: a sequence that is its own while it runs, with as much of its prompt already inside as any
 * living sequence of the same fingerprint has. When it ends, the sequence stays as it is and may go on with the next
 * request, be shared from, or make room: least recently used first, those of sessions last, each saved to the cache
 * before.
 *
 * Scheduler thread only.
 */
#ifndef HTH_SCHED_POOL_H
#define HTH_SCHED_POOL_H

#include "sched/sequence.h"

enum { HTH_SESSION_BYTES_MAX = 128 };

typedef struct hth_pool hth_pool;

typedef struct hth_seat {
    hth_sequence *sequence;
    bool is_running;
    bool is_partial;    /* in the middle of a restore: not to be saved */
    bool is_only_here;  /* while idle: the cache would not take it */
    uint64_t last_used; /* counts up; 0: never */
    char session[HTH_SESSION_BYTES_MAX + 1];
    uint64_t session_until_ns; /* while idle; without a session 0 */
} hth_seat;

/* n_sequences seats, and the scratch sequence with the next id. */
hearth_status hth_pool_open(const hth_workplace *workplace, uint32_t n_sequences, hth_pool **out, hearth_error *err);
void hth_pool_close(hth_pool *pool); /* accepts NULL; nothing is saved */

const hth_cells *hth_pool_cells(const hth_pool *pool);
/* Finished sequences that have cells. */
uint32_t hth_pool_n_idle(const hth_pool *pool);

/* Who a seat is for. */
typedef struct hth_guest {
    const hth_keyspace *keyspace;
    const hearth_token *tokens; /* that the sequence is to hold, [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_limit;    /* leading ones to take from others at most; 0: none */
    const char *session; /* NULL: none */
} hth_guest;

/* Leading tokens that a guest would be seated with, and how many of their cells are held by running requests. */
uint32_t hth_pool_n_shared(const hth_pool *pool, const hth_guest *guest, uint32_t *n_held_out);

/*
 * Seat a guest; there are fewer running ones than seats (asserted). *n_live_out of its tokens are in the sequence.
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_pool_seat(hth_pool *pool, const hth_guest *guest, hth_seat **out, uint32_t *n_live_out,
                            hearth_error *err);
/* The guest goes; the sequence stays, until until_ns for the session (NULL: none). */
void hth_pool_leave(hth_pool *pool, hth_seat *seat, const char *session, uint64_t until_ns);
/* Count as if the guest had left, or as it is again. Between the two nothing else is done with the pool. */
void hth_pool_pretend_left(hth_seat *seat, bool left);

/* Let finished sequences go until n_cells are unused; false when that is not enough. */
bool hth_pool_make_room(hth_pool *pool, uint32_t n_cells);

/*
 * From now on, cells that nobody who runs has are to be n_cells at most, for the others pay for them. Whose finished
 * sequences go, and when, is in pool.c. What is not in the cache, and does not get there, stays: it would have to be
 * computed again. Without a call there is no limit.
 */
void hth_pool_limit_idle(hth_pool *pool, uint32_t n_cells);

/* Is a sequence kept for that session? ending: it becomes an ordinary finished one. */
bool hth_pool_end_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session);
/*
 * Finished sequences that have more than n_kept of these tokens in common with them are emptied, unsaved. What runs stays.
 */
void hth_pool_forget(hth_pool *pool, const uint8_t fingerprint[32], const hearth_token *tokens, uint32_t n_tokens,
                     uint32_t n_kept);
/* A sequence that waits for its session's request, which will not come back, is kept until then. */
void hth_pool_keep_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session, uint64_t until_ns);
/* End the sessions whose time has come. */
void hth_pool_expire_sessions(hth_pool *pool, uint64_t now_ns);
/* When the next one's time comes: UINT64_MAX for never. */
uint64_t hth_pool_next_expiry(const hth_pool *pool);

/* Save every sequence; with HEARTH_SAVE_EVICT empty the finished ones. */
void hth_pool_save(hth_pool *pool, hearth_save_reason reason);

#endif
