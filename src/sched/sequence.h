/*
 * sequence.h - one sequence of a context: which tokens its cells hold, and how they travel to and from the cache
 *
 * The sequence knows its tokens, the keys of their block boundaries, and how much of it is in the cache. It can be
 * shortened, restored from rows, extended by evaluation, and cut into rows. What attention keeps is cut into blocks and
 * tails through a scratch sequence; recurrent state, which is "as of now", is saved at boundaries: where a prompt ends,
 * where a reply ends, and every snapshot_interval tokens. Only plain attention is ever shortened in place.
 *
 * Invariant: the state of the sequence is that of tokens[0, n_tokens), at positions 0 .. n_tokens-1, and whole. Whenever
 * the engine leaves that in doubt, or a restore cannot bring all of it, the sequence is emptied.
 */
#ifndef HTH_SCHED_SEQUENCE_H
#define HTH_SCHED_SEQUENCE_H

#include "cache/lookup.h"
#include "cache/policy.h"
#include "engine/backend.h"

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
    hth_keyspace keyspace;
    hth_policy policy;
    const char *engine_build;
    hth_cache *cache; /* NULL: nothing is cached */
    const hth_log *log;
    uint32_t resume_wait_ms; /* for a parent key that another process may be writing */
    bool keeps_text;         /* rows keep the text of their tokens */
} hth_workplace;

typedef struct hth_sequence hth_sequence;

/* id and scratch are two different sequence ids of the context. */
hearth_status hth_sequence_open(const hth_workplace *workplace, uint32_t id, uint32_t scratch, hth_sequence **out,
                                hearth_error *err);
void hth_sequence_close(hth_sequence *sequence); /* accepts NULL */

uint32_t hth_sequence_n_tokens(const hth_sequence *sequence);

/*
 * Serve requests of that effective fingerprint from now on: where it is another one, the sequence is emptied, for cells
 * are not shared between salts. HEARTH_NO_MEMORY leaves it as it was.
 */
hearth_status hth_sequence_set_fingerprint(hth_sequence *sequence, const uint8_t fingerprint[32], hearth_error *err);

/* Leading tokens that the sequence and those given have in common. */
uint32_t hth_sequence_common(const hth_sequence *sequence, const hearth_token *tokens, size_t n_tokens);

/*
 * Keep only the first n_tokens, or nothing where the model cannot be shortened: returns how many are left. Never more
 * than asked for.
 */
uint32_t hth_sequence_shorten(hth_sequence *sequence, uint32_t n_tokens);
/* Can it be shortened to any length, or only emptied? */
bool hth_sequence_can_be_shortened(const hth_sequence *sequence);

typedef struct hth_restored {
    hearth_tier tier; /* the slowest that served a row */
    uint32_t n_rows;
    uint64_t n_bytes;
} hth_restored;

/*
 * Find the longest known prefix of a prompt, of n_limit tokens at most. The sequence's keys become those of the prompt, so the prompt is what the
 * sequence is about from here on: shorten, restore and evaluate only toward it. *lookup is released by the caller.
 */
hearth_status hth_sequence_lookup(hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt, size_t n_limit,
                                  bool read_cache, hth_lookup *lookup, hearth_error *err);

typedef enum hth_restore_result {
    HTH_RESTORE_DONE,     /* as far as the lookup said, or as far as it came where any prefix is of use */
    HTH_RESTORE_ROW_LOST, /* a row is no longer to be had; the sequence is empty, another lookup finds less */
    HTH_RESTORE_FAILED,   /* the engine or memory refused; the sequence is empty */
} hth_restore_result;

/* The same without taking the prompt over: the sequence is about what it was before. */
hearth_status hth_sequence_peek(const hth_sequence *sequence, const hearth_token *prompt, size_t n_prompt,
                                hth_lookup *lookup, hearth_error *err);

/*
 * Put the rows of lookup that lie beyond the present end into the context. Where the sequence can be shortened, it stops
 * at the first row that cannot be used and hth_sequence_n_tokens tells how far it came; otherwise it is all of them or
 * nothing, and present cells must end at a block boundary. progress (may be NULL) is called after each row with the tokens so far.
 */
hth_restore_result hth_sequence_restore(hth_sequence *sequence, const hth_lookup *lookup, const hearth_token *prompt,
                                        void (*progress)(uint32_t n_tokens, void *user_data), void *user_data,
                                        hth_restored *out);

/*
 * Copy the saved logits after lookup's prompt into logits [n_vocab]. False when they cannot be had (any more). The tier
 * is added to *restored.
 */
bool hth_sequence_restore_logits(hth_sequence *sequence, const hth_lookup *lookup, float *logits,
                                 hth_restored *restored);

/*
 * Evaluate tokens [n] after the present end, 1 <= n <= n_batch, and append them. With wants_logits, those of the last
 * are *logits_out, valid until the next evaluation. On HTH_DECODE_NO_ROOM nothing changed; on HTH_DECODE_ABORTED, or a
 * failure, the sequence ends where it ended before, or is empty.
 */
hearth_status hth_sequence_evaluate(hth_sequence *sequence, const hearth_token *tokens, uint32_t n, bool wants_logits,
                                    const float **logits_out, hth_decode_result *result, hearth_error *err);

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
/* Save the logits after the present end. */
void hth_sequence_save_logits(hth_sequence *sequence, const float *logits, hearth_save_reason reason);

/* The key of all its tokens. */
void hth_sequence_key(hth_sequence *sequence, hth_key *out);

#endif
