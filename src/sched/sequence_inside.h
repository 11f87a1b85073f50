/*
 * sequence_inside.h - shared by sequence.c, sequence_restore.c and sequence_save.c
 */
#ifndef HTH_SCHED_SEQUENCE_INSIDE_H
#define HTH_SCHED_SEQUENCE_INSIDE_H

#include "sched/sequence.h"

struct hth_sequence {
    const hth_workplace *place;
    hth_books *books;
    hth_keyspace keyspace; /* the workplace's, with the salt of the latest request */
    uint32_t id;
    bool is_held;         /* by a running request */
    hearth_token *tokens; /* [n_ctx] */
    uint32_t *cells;      /* [n_ctx], of hth_books.cells */
    uint32_t n_tokens;
    float *end_logits;      /* [n_vocab]; NULL: none were kept yet */
    uint32_t end_logits_at; /* they follow this number of tokens; 0: there are none */

    /*
     * The stream has hashed n_keyed tokens. boundary_keys[i] is the key of the first i blocks, for i <= n_keyed /
     * HTH_BLOCK_TOKENS. During prefill n_keyed is ahead of n_tokens, because the lookup has hashed the whole prompt.
     */
    hth_key_stream *stream;
    hth_key *boundary_keys; /* [n_ctx / HTH_BLOCK_TOKENS + 1] */
    uint32_t n_keyed;
    hth_key end_key;                        /* of n_keyed tokens */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX]; /* states of the prompt that the next saved end supersedes */
    size_t n_stale;
    bool has_tail; /* the latest tail that these tokens end with or continue is saved as: */
    hth_row_id tail;
    uint32_t tail_begin;
    bool has_longer; /* the end of the prompt was found inside this row, which may also hold the reply: */
    hth_row_id longer;
    uint32_t longer_begin;
    char *text; /* [HTH_ROW_TEXT_BYTES_MAX] if rows keep the text of their tokens; NULL before the first */
};

enum { HTH_ROW_TEXT_BYTES_MAX = 1 << 16 };

bool hth_sequence_has_blocks(const hth_sequence *sequence);
bool hth_sequence_has_states(const hth_sequence *sequence);
bool hth_sequence_is_cached(const hth_sequence *sequence);

/* Empty the scratch sequence. The engine can always do this (asserted). */
void hth_sequence_empty_scratch(hth_sequence *sequence);
/*
 * The engine has the cells of [sequence->n_tokens, end) in this sequence: append the tokens. tokens[0] is the first of
 * them.
 */
void hth_sequence_note_tokens(hth_sequence *sequence, const hearth_token *tokens, uint32_t end);
/* Hash the tokens that have no key yet. Afterwards n_keyed >= n_tokens. */
void hth_sequence_catch_up_keys(hth_sequence *sequence);

#endif
