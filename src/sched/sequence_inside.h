/*
 * sequence_inside.h - what the files of a sequence share: sequence.c, sequence_restore.c, sequence_save.c
 */
#ifndef HTH_SCHED_SEQUENCE_INSIDE_H
#define HTH_SCHED_SEQUENCE_INSIDE_H

#include "sched/sequence.h"

struct hth_sequence {
    const hth_workplace *place;
    hth_books *books;
    hth_keyspace keyspace; /* the workplace's, with the salt of the request that it serves */
    uint32_t id;
    bool is_held;         /* by a running request */
    hearth_token *tokens; /* [n_ctx] */
    uint32_t *cells;      /* [n_ctx], of hth_books.cells */
    uint32_t n_tokens;
    float *end_logits;      /* [n_vocab], once there were any */
    uint32_t end_logits_at; /* they are those after so many tokens; 0: there are none */

    /*
     * Keys of the prefixes of keyed tokens: boundary_keys[i] names the first i blocks, for i <= n_keyed /
     * HTH_BLOCK_TOKENS; the stream stands after n_keyed tokens. During a prompt's prefill n_keyed runs ahead of
     * n_tokens: the lookup has hashed the whole prompt.
     */
    hth_key_stream *stream;
    hth_key *boundary_keys; /* [n_ctx / HTH_BLOCK_TOKENS + 1] */
    uint32_t n_keyed;
    hth_key end_key;                        /* of n_keyed tokens */
    hth_row_id stale[HTH_LOOKUP_STALE_MAX]; /* states of the prompt that the next one supersedes */
    size_t n_stale;
    bool has_tail; /* the latest tail that these tokens end or go on from is saved as: */
    hth_row_id tail;
    uint32_t tail_begin;
    bool has_longer; /* the prompt's end was found inside this row, which may hold the reply, too: */
    hth_row_id longer;
    uint32_t longer_begin;
    char *text; /* [HTH_ROW_TEXT_BYTES_MAX], where rows keep the text of their tokens */
};

enum { HTH_ROW_TEXT_BYTES_MAX = 1 << 16 };

bool hth_sequence_has_blocks(const hth_sequence *sequence);
bool hth_sequence_has_states(const hth_sequence *sequence);
bool hth_sequence_is_cached(const hth_sequence *sequence);

/* Empty the scratch sequence; that the engine could not even do this would be its bug and ours. */
void hth_sequence_empty_scratch(hth_sequence *sequence);
/* The engine has tokens [n_tokens, end) of tokens in this sequence: note them. */
void hth_sequence_note_tokens(hth_sequence *sequence, const hearth_token *tokens, uint32_t end);
/* Hash the tokens that were evaluated since; afterwards n_keyed >= n_tokens. */
void hth_sequence_catch_up_keys(hth_sequence *sequence);

#endif
