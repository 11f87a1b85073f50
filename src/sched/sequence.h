/*
 * sequence.h - one sequence of a context: its tokens, its cells, and the rows that it saves and restores
 *
 * The sequence knows its tokens and the keys of their block boundaries. It can be shortened, share the prefix of
 * another sequence, be restored from rows, be extended by evaluation, and be saved as rows.
 * Attention cells become blocks and tails, through a scratch sequence. Recurrent state exists only for the current end,
 * so it is saved where a prompt ends, where a reply ends, and every snapshot_interval tokens. Only sequences of plain
 * attention can be shortened in place or shared.
 *
 * Invariant: the state of the sequence is the whole state of tokens[0, n_tokens), at positions 0 .. n_tokens-1, except
 * during a restore. If the engine leaves that in doubt, or a restore fails, the sequence is emptied. The books agree
 * with the engine.
 */
#ifndef HTH_SCHED_SEQUENCE_H
#define HTH_SCHED_SEQUENCE_H

#include "base/os.h"
#include "cache/lookup.h"
#include "cache/policy.h"
#include "engine/backend.h"
#include "sched/cells.h"
#include "sched/true_tokens.h"

typedef struct hth_draft_model hth_draft_model;

/* The model, context and cache of a scheduler and its sequences. All are borrowed from the model. */
typedef struct hth_workplace {
    const hth_backend *backend;
    hth_engine_model *engine_model;
    hth_engine_context *context;
    hth_model_kind kind;
    uint32_t n_ctx;
    uint32_t n_batch;
    uint32_t n_vocab;
    uint32_t n_window;     /* of the model; 0: none */
    bool is_deterministic; /* the bits of a token do not depend on the rows beside it */
    hth_idle_cost idle_cost;
    hth_keyspace keyspace;
    hth_policy policy;
    const char *engine_build;
    const char *model;            /* its name, which rows keep for human readers */
    hth_cache *cache;             /* NULL: nothing is cached */
    hth_true_tokens *true_tokens; /* NULL: no history of tokens */
    hth_draft_model *draft_model; /* NULL: none */
    const hth_log *log;
    uint32_t resume_wait_ms;         /* maximum time to wait for the rows of a parent key */
    bool keeps_text;                 /* rows keep the text of their tokens */
    uint64_t (*now_ns)(void *clock); /* monotonic; NULL: the system's */
    void *clock;
    hearth_work_fn on_work; /* may be NULL */
    void *work_user_data;
} hth_workplace;

/* Report the current work to on_work; keys only with rows. Scheduler thread. */
static inline void hth_workplace_note(const hth_workplace *workplace, hearth_work_kind kind,
                                      const uint8_t (*keys)[HTH_KEY_BYTES], size_t n_keys)
{
    const hearth_work work = { .struct_size = sizeof(work), .kind = kind, .keys = keys, .n_keys = n_keys };

    if (workplace->on_work)
        workplace->on_work(&work, workplace->work_user_data);
}

static inline uint64_t hth_workplace_now(const hth_workplace *workplace)
{
    return workplace->now_ns ? workplace->now_ns(workplace->clock) : hth_os_monotonic_ns();
}

static inline double hth_ms_between(uint64_t begin_ns, uint64_t end_ns)
{
    return (double)(end_ns - begin_ns) / 1e6;
}

/* Move the mean of recent costs towards a new one; 0: no mean yet. */
static inline void hth_move_mean(uint64_t *mean, uint64_t value)
{
    *mean = *mean == 0 ? value : (3 * *mean + value) / 4;
}

/*
 * Look a prompt up in a keyspace, without a sequence. Without read_cache or a cache, the lookup only computes keys. Any
 * thread. *out is released with hth_lookup_deinit. HEARTH_NO_MEMORY.
 */
hearth_status hth_prompt_lookup(const hth_workplace *workplace, const hth_keyspace *keyspace,
                                const hearth_token *prompt, size_t n_prompt, bool read_cache, hth_lookup *out,
                                hearth_error *err);
/* The slowest tier that the rows of the lookup are in now; HEARTH_TIER_NONE: no rows. */
hearth_tier hth_prompt_lookup_tier(const hth_workplace *workplace, const hth_lookup *lookup);

/* Shared by the sequences of one context. */
typedef struct hth_books {
    hth_cells *cells;
    uint32_t scratch; /* id of the scratch sequence, through which rows are saved and restored */
    bool cannot_save; /* nothing is saved any more, because the engine returned invalid state; logged once */
} hth_books;

typedef struct hth_sequence hth_sequence;

/* id is a sequence id of the context, not the scratch one. workplace and books are borrowed. */
hearth_status hth_sequence_open(const hth_workplace *workplace, hth_books *books, uint32_t id, hth_sequence **out,
                                hearth_error *err);
void hth_sequence_close(hth_sequence *sequence); /* accepts NULL */

uint32_t hth_sequence_n_tokens(const hth_sequence *sequence);
hearth_token hth_sequence_token(const hth_sequence *sequence, uint32_t i); /* i < hth_sequence_n_tokens */
uint32_t hth_sequence_id(const hth_sequence *sequence);

/*
 * Serve requests of keyspace from now on. A change of the effective fingerprint empties the sequence, because cells are
 * not shared between salts. After HEARTH_NO_MEMORY it does not change.
 */
hearth_status hth_sequence_set_keyspace(hth_sequence *sequence, const hth_keyspace *keyspace, hearth_error *err);
bool hth_sequence_has_fingerprint(const hth_sequence *sequence, const uint8_t fingerprint[32]);
const hth_keyspace *hth_sequence_keyspace(const hth_sequence *sequence);

/* Number of equal leading tokens of two arrays of n_max tokens. */
static inline uint32_t hth_tokens_common(const hearth_token *a, const hearth_token *b, uint32_t n_max)
{
    uint32_t n = 0;

    while (n < n_max && a[n] == b[n])
        n++;
    return n;
}

/* Number of equal leading tokens of the sequence and tokens. */
uint32_t hth_sequence_common(const hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens);

/* Set whether a running request holds the sequence. A sequence that is not held is emptied when cells are needed. */
void hth_sequence_set_held(hth_sequence *sequence, bool held);
/* The number of cells of its first n_tokens that running requests hold. */
uint32_t hth_sequence_count_held(const hth_sequence *sequence, uint32_t n_tokens);
/* The number of its cells after n_tokens that two or more running requests hold. */
uint32_t hth_sequence_count_shared(const hth_sequence *sequence, uint32_t n_tokens);

/*
 * Keep only the first n_tokens, or nothing if the sequence cannot be shortened. Returns how many are left, never more
 * than n_tokens.
 */
uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens);
/* Can it be shortened to any length, and can its cells be shared? Otherwise it can only be emptied. */
bool hth_sequence_can_be_shortened(const hth_sequence *sequence);
/*
 * Empty the sequence, then share the first n_tokens of another sequence with the same fingerprint, and the kept logits
 * after them. False if that is not possible; the sequence is then empty.
 */
bool hth_sequence_share(hth_sequence *sequence, const hth_sequence *from, uint32_t n_tokens);

/*
 * Find the longest known prefix of a prompt, of n_limit tokens at most. The keys of the sequence become the prompt's
 * keys. Afterwards the sequence may only be shortened, restored and evaluated for this prompt. The caller releases
 * *lookup.
 */
hearth_status hth_sequence_lookup(hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt, size_t n_limit,
                                  bool read_cache, hth_lookup *lookup, hearth_error *err);

/*
 * ---- rows in: one row per step ----
 *
 * Rows are read ahead. Each step checks one row and puts it into the context, so a long restore can alternate with the
 * evaluations of other requests.
 */

typedef struct hth_restored {
    hearth_tier tier; /* the slowest tier that a row came from */
    uint32_t n_rows;
    uint64_t n_bytes;
} hth_restored;

typedef enum hth_restore_result {
    HTH_RESTORE_MORE,     /* there are rows left */
    HTH_RESTORE_DONE,     /* complete, or a part if the sequence can be shortened */
    HTH_RESTORE_ROW_LOST, /* a row is missing or corrupt; another lookup finds less */
    HTH_RESTORE_FAILED,   /* the engine or memory refused; the sequence is empty */
} hth_restore_result;

typedef struct hth_restore hth_restore;

/*
 * Begin to restore the rows of lookup beyond the current end. If the sequence cannot be shortened, that end must be a
 * block boundary. lookup and prompt are borrowed until hth_restore_end. NULL if out of memory.
 */
hth_restore *hth_restore_begin(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt);
/* Unused cells that the next step needs. Without them the step ends the restore. */
uint32_t hth_restore_n_cells(const hth_restore *restore);
/*
 * Put one row into the context and add it to *out. At a row that cannot be used, a sequence that can be shortened keeps
 * the cells before it (hth_sequence_n_tokens); any other sequence is emptied. Any result other than HTH_RESTORE_MORE is
 * the last.
 */
hth_restore_result hth_restore_step(hth_restore *restore, hth_restored *out);
void hth_restore_end(hth_restore *restore); /* accepts NULL */

/*
 * Copy the saved logits after the prompt of lookup into logits [n_vocab], and add their row to *restored. False if the
 * row is missing or corrupt.
 */
bool hth_sequence_restore_logits(hth_sequence *sequence, const hth_lookup *lookup, float *logits,
                                 hth_restored *restored);

/* ---- evaluation: several sequences share one ---- */

/* Rows for these tokens, after the current end, were evaluated: append them. */
void hth_sequence_extend(hth_sequence *sequence, const hearth_token *tokens, uint32_t n);
/* The evaluation failed or was incomplete: go back to the end before it, or empty the sequence. */
void hth_sequence_roll_back(hth_sequence *sequence);

/*
 * Keep a copy of the logits after the current end, for sequences that share all of it. Does nothing if out of memory.
 */
void hth_sequence_keep_logits(hth_sequence *sequence, const float *logits);
/* The kept logits after the current end, valid until the end changes; NULL: none. */
const float *hth_sequence_end_logits(const hth_sequence *sequence);

/* ---- rows out ---- */

/*
 * If the current end is a block boundary, save the block that ends there, unless it is saved, and the state if the
 * policy wants one. Call after each evaluation: after the next one, neither is available.
 */
void hth_sequence_save_block(hth_sequence *sequence, hearth_save_reason reason);
/*
 * Save the cells after the last block, and the state, then drop the states that it supersedes. False if a row could not
 * be saved, or the block before it is not in the cache.
 */
bool hth_sequence_save_end(hth_sequence *sequence, hearth_save_reason reason);
/* Are the rows of the current end, and the block before it, in the cache? */
bool hth_sequence_end_is_saved(hth_sequence *sequence);
/* Save the logits after the current end. */
void hth_sequence_save_logits(hth_sequence *sequence, const float *logits, hearth_save_reason reason);

/* The key of all its tokens; if out of memory, a key that matches nothing. */
void hth_sequence_key(hth_sequence *sequence, hth_key *out);

#endif
