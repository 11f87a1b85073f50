/*
 * known.h - prompts of any length that a cache knows, without computing them
 *
 * The cost of a hit depends on the sizes and places of its rows and not on the values in them. So one block is
 * computed, and its state, moved to other positions, stands for every block of every prompt. Rows are saved as the
 * scheduler saves them, under the keys of their tokens, and found like any other. Models of plain attention only.
 */
#ifndef BENCH_KNOWN_H
#define BENCH_KNOWN_H

#include "base/measure.h"
#include "models/runtime.h"

typedef struct hth_known {
    hth_keyspace keyspace;
    uint8_t *block; /* the state of 256 tokens as an image, [block_bytes] */
    size_t block_bytes;
    uint8_t *logits; /* [logits_bytes] */
    size_t logits_bytes;
    size_t kv_bytes_a_token;
    size_t n_tensors;   /* those bytes lie in this many buffers of the context */
    uint64_t n_made_up; /* rows of hth_known_add_block */
} hth_known;

/* Token i of prompt number n: prompts differ from their first token on. */
hearth_token hth_known_token(unsigned n, size_t i);
void hth_known_tokens(unsigned n, hearth_token *tokens, size_t n_tokens); /* its first ones */

/*
 * A request to go on from tokens with n_predict of the likeliest ones, whatever they are. Its sampling is static. Any
 * field may be changed.
 */
hearth_request hth_known_request(const hearth_token *tokens, size_t n_tokens, int32_t n_predict);

/* Compute a block (or find it in the cache) and learn its state. */
hearth_status hth_known_learn(hearth_runtime *runtime, hearth_model *model, hth_known *out, hearth_error *err);
void hth_known_deinit(hth_known *known); /* accepts one of zeros */

/* Change an image of a block's state into that of the block at a position. */
void hth_known_move_block(uint8_t *image, uint32_t first_position);

/* Save the rows of the first n_tokens, a multiple of 256, of prompt number n, and the logits after them. */
hearth_status hth_known_add(hth_cache *cache, hth_known *known, unsigned n, size_t n_tokens, hearth_error *err);
/* Save one more block row, of a prefix that no request uses. */
hearth_status hth_known_add_block(hth_cache *cache, hth_known *known, hearth_error *err);

/*
 * Milliseconds of copying a restore's bytes to a restore's places: n_blocks blocks lie one after the other, and each
 * has n_tensors pieces of piece_bytes. Each piece goes to the block's place in the buffer of its tensor. All of it must
 * fit.
 */
double hth_copy_pieces_ms(hth_copy *copy, size_t n_blocks, size_t n_tensors, size_t piece_bytes);

#endif
