/*
 * pool.h - all sequences of a context: the running ones, and the finished ones that stay until their cells are needed
 *
 * A running request occupies one sequence. When the sequence is assigned, it already has the longest prefix of the
 * prompt that any sequence of the same fingerprint has in the context. When the request ends, its sequence remains. The
 * next request may continue it or share its cells. When cells are needed, finished sequences are saved to the cache and
 * emptied: least recently used first, sequences of sessions last.
 *
 * Scheduler thread only.
 */
#ifndef HTH_SCHED_POOL_H
#define HTH_SCHED_POOL_H

#include "sched/request.h"
#include "sched/sequence.h"

typedef struct hth_pool hth_pool;

typedef struct hth_pool_entry {
    hth_sequence *sequence;
    bool is_running;
    bool is_partial;    /* in the middle of a restore: must not be saved */
    bool is_only_here;  /* while idle: the cache refused it */
    uint64_t last_used; /* a counter of uses; 0: never */
    char session[HTH_SESSION_BYTES_MAX + 1];
    uint64_t session_until_ns; /* while idle; 0 without a session */
} hth_pool_entry;

/* Sequences 0 .. n_sequences - 1, and the scratch sequence with the next id. HEARTH_NO_MEMORY. */
hearth_status hth_pool_open(const hth_workplace *workplace, uint32_t n_sequences, hth_pool **out, hearth_error *err);
void hth_pool_close(hth_pool *pool); /* accepts NULL; nothing is saved */

const hth_cells *hth_pool_cells(const hth_pool *pool);
/* Finished sequences that have cells. */
uint32_t hth_pool_n_idle(const hth_pool *pool);

/* A request's need for a sequence. */
typedef struct hth_pool_query {
    const hth_keyspace *keyspace;
    const hearth_token *tokens; /* that the sequence will hold, [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_limit;    /* maximum number of leading tokens to take from other sequences; 0: none */
    const char *session; /* NULL: none */
} hth_pool_query;

/*
 * Leading tokens that an assigned sequence would start with. *n_held_out is the number of those whose cells are held by
 * running requests.
 */
uint32_t hth_pool_n_shared(const hth_pool *pool, const hth_pool_query *query, uint32_t *n_held_out);

/*
 * Assign a sequence to a request. Fewer requests must run than there are sequences (asserted). *n_live_out is the
 * number of leading tokens already in the sequence. HEARTH_NO_MEMORY.
 */
hearth_status hth_pool_assign(hth_pool *pool, const hth_pool_query *query, hth_pool_entry **out, uint32_t *n_live_out,
                              hearth_error *err);
/* The request releases its sequence, which keeps its cells: for the session (NULL: none), until until_ns. */
void hth_pool_release(hth_pool *pool, hth_pool_entry *entry, const char *session, uint64_t until_ns);
/* Count as if the sequence were released, and undo that. Between the two calls, only the pool's counts may be read. */
void hth_pool_pretend_released(hth_pool_entry *entry, bool left);

/* Empty finished sequences until n_cells are unused; false if that is not enough. */
bool hth_pool_make_room(hth_pool *pool, uint32_t n_cells);

/*
 * Limit the idle cells (cells that no running request holds) to n_cells, because idle cells slow down every evaluation.
 * pool.c describes which finished sequences are emptied, and when. A sequence that cannot be saved stays, because it
 * would have to be computed again. Without a call there is no limit.
 */
void hth_pool_limit_idle(hth_pool *pool, uint32_t n_cells);

/*
 * End a session of a tenant, with all sets of adapters: its sequences become ordinary finished ones. False if none is
 * kept for it.
 */
bool hth_pool_end_session(hth_pool *pool, const hth_keyspace *tenant, const char *session);
/* Empty, without saving, the finished sequences that share more than n_kept leading tokens with these tokens. */
void hth_pool_forget(hth_pool *pool, const uint8_t fingerprint[32], const hearth_token *tokens, uint32_t n_tokens,
                     uint32_t n_kept);
/* A request of the session ended without a sequence. The sequence that is kept for the session stays until until_ns. */
void hth_pool_keep_session(hth_pool *pool, const uint8_t fingerprint[32], const char *session, uint64_t until_ns);
/* Save and empty the sequences of expired sessions. */
void hth_pool_expire_sessions(hth_pool *pool, uint64_t now_ns);
/* When the next session expires; UINT64_MAX: never. */
uint64_t hth_pool_next_expiry(const hth_pool *pool);

/* Save every sequence; with HEARTH_SAVE_EVICT empty the finished ones. */
void hth_pool_save(hth_pool *pool, hearth_save_reason reason);

#endif
