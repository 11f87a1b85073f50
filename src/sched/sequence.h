/*
 * sequence.h - one sequence of a context: which tokens its cells hold, and how they travel to and from the cache
 *
 * The sequence knows its tokens, the keys of their block boundaries, and how much of it is in the cache. It can be
 * shortened, given another's prefix, restored from rows (sequence_restore.h), extended by evaluation, and cut into rows.
 * What attention keeps is cut into blocks and tails through a scratch sequence; recurrent state, which is "as of now", is
 * saved at boundaries: where a prompt ends, where a reply ends, and every snapshot_interval tokens. Only plain attention
 * is ever shortened in place, or shared.
 *
 * Invariant: the state of the sequence is that of tokens[0, n_tokens), at positions 0 .. n_tokens-1, and whole (but for
 * the time of a restore). Whenever the engine leaves that in doubt, or a restore cannot bring all of it, the sequence is
 * emptied. The books say the same as the engine.
 */
#ifndef HTH_SCHED_SEQUENCE_H
#define HTH_SCHED_SEQUENCE_H

#include "base/os.h"
#include "cache/lookup.h"
#include "cache/policy.h"
#include "engine/backend.h"
#include "sched/cells.h"
#include "sched/prompt_lookup.h"

/* What a scheduler and its sequences work on. Everything is borrowed from the model that owns it. */
typedef struct hth_workplace {
    const hth_backend *backend;
    hth_engine_model *engine_model;
    hth_engine_context *context;
    hth_model_kind kind;
    uint32_t n_ctx;
    uint32_t n_batch;
    uint32_t n_vocab;
    uint32_t n_window; /* of the model; 0: none */
    hth_idle_cost idle_cost;
    hth_keyspace keyspace;
    hth_policy policy;
    const char *engine_build;
    hth_cache *cache; /* NULL: nothing is cached */
    const hth_log *log;
    uint32_t resume_wait_ms;         /* for a parent key that another process may be writing */
    bool keeps_text;                 /* rows keep the text of their tokens */
    uint64_t (*now_ns)(void *clock); /* monotonic; NULL: the system's */
    void *clock;
    hearth_work_fn on_work; /* NULL: nobody watches */
    void *work_user_data;
} hth_workplace;

/* Tell who watches what is being done; keys only of rows. Scheduler thread. */
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

static inline hth_prompt_place hth_workplace_prompt_place(const hth_workplace *workplace)
{
    return (hth_prompt_place){
        .cache = workplace->cache,
        .kind = workplace->kind,
        .n_window = workplace->n_window,
    };
}

/* What the sequences of one context share. */
typedef struct hth_books {
    hth_cells *cells;
    uint32_t scratch; /* the sequence id through which rows are cut and put back */
    bool cannot_save; /* the engine gave state that cannot be trusted; said once */
} hth_books;

typedef struct hth_sequence hth_sequence;

/* id is a sequence id of the context, not the scratch one. workplace and books are borrowed. */
hearth_status hth_sequence_open(const hth_workplace *workplace, hth_books *books, uint32_t id, hth_sequence **out,
                                hearth_error *err);
void hth_sequence_close(hth_sequence *sequence); /* accepts NULL */

uint32_t hth_sequence_n_tokens(const hth_sequence *sequence);
uint32_t hth_sequence_id(const hth_sequence *sequence);

/*
 * Serve requests of that keyspace from now on: where its effective fingerprint is another one, the sequence is emptied, for cells
 * are not shared between salts. HEARTH_NO_MEMORY leaves it as it was.
 */
hearth_status hth_sequence_set_keyspace(hth_sequence *sequence, const hth_keyspace *keyspace, hearth_error *err);
bool hth_sequence_has_fingerprint(const hth_sequence *sequence, const uint8_t fingerprint[32]);

/* Leading tokens that two arrays of n_max have in common. */
static inline uint32_t hth_tokens_common(const hearth_token *a, const hearth_token *b, uint32_t n_max)
{
    uint32_t n = 0;

    while (n < n_max && a[n] == b[n])
        n++;
    return n;
}

/* Leading tokens that the sequence and those given have in common. */
uint32_t hth_sequence_common(const hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens);

/* Held by a running request, or not: what is not is there only while nobody needs its cells. */
void hth_sequence_set_held(hth_sequence *sequence, bool held);
/* How many cells of its first n_tokens are held by anybody. */
uint32_t hth_sequence_count_held(const hth_sequence *sequence, uint32_t n_tokens);
/* How many of its cells after n_tokens others hold, too. */
uint32_t hth_sequence_count_shared(const hth_sequence *sequence, uint32_t n_tokens);

/*
 * Keep only the first n_tokens, or nothing where the model cannot be shortened: returns how many are left. Never more
 * than asked for.
 */
uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens);
/* Can it be shortened to any length, and its cells shared; or only be emptied? */
bool hth_sequence_can_be_shortened(const hth_sequence *sequence);
/*
 * Empty the sequence and share the first n_tokens of another one of the same fingerprint with it, logits after them
 * included. False when the engine would not; it is empty then.
 */
bool hth_sequence_share(hth_sequence *sequence, const hth_sequence *from, uint32_t n_tokens);

/*
 * Find the longest known prefix of a prompt, of n_limit tokens at most. The sequence's keys become those of the prompt,
 * so the prompt is what the sequence is about from here on: shorten, restore and evaluate only toward it. *lookup is
 * released by the caller.
 */
hearth_status hth_sequence_lookup(hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt, size_t n_limit,
                                  bool read_cache, hth_lookup *lookup, hearth_error *err);
/* ---- evaluation: several sequences share one ---- */

/* Write the batch rows that go on with tokens [n]. With wants_logits, those of the last. */
void hth_sequence_fill_rows(const hth_sequence *sequence, const hearth_token *tokens, uint32_t n, bool wants_logits,
                            hth_batch_row *rows);
/* Those rows were evaluated: append the tokens. */
void hth_sequence_extend(hth_sequence *sequence, const hearth_token *tokens, uint32_t n);
/* They were not, or only in part: the sequence ends where it ended before, or is empty. */
void hth_sequence_roll_back(hth_sequence *sequence);

/* Keep a copy of the logits after the present end, for others that share all of it. Without memory they are not kept. */
void hth_sequence_keep_logits(hth_sequence *sequence, const float *logits);
/* Those of the present end, valid until it changes; NULL where they were not kept. */
const float *hth_sequence_end_logits(const hth_sequence *sequence);

/* ---- rows out ---- */

/*
 * Save the block that ends exactly at the present end, if it does and is not cached, and the state there where one is
 * due. Call after each evaluation: later it cannot be had any more.
 */
void hth_sequence_save_block(hth_sequence *sequence, hearth_save_reason reason);
/*
 * Save what follows the last block, and the state; then drop the states that this one supersedes. False when the present
 * end is not kept, also where the block that it stands on is not.
 */
bool hth_sequence_save_end(hth_sequence *sequence, hearth_save_reason reason);
/* Is the present end in the cache, with everything that it stands on? */
bool hth_sequence_end_is_saved(hth_sequence *sequence);
/* Save the logits after the present end. */
void hth_sequence_save_logits(hth_sequence *sequence, const float *logits, hearth_save_reason reason);

/* The key of all its tokens. */
void hth_sequence_key(hth_sequence *sequence, hth_key *out);

#endif
