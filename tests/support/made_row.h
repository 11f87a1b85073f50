/*
 * made_row.h - rows with plausible contents, as the file tier sees them
 *
 * A chain is one prompt: row i is its i-th block. Two chains share nothing. Keys are the real ones, so a full parse of
 * every row verifies.
 */
#ifndef HTH_TEST_MADE_ROW_H
#define HTH_TEST_MADE_ROW_H

#include "rows/kvc.h"

#define TEST_BLOCK_TOKENS 16u

typedef struct test_row {
    hth_row_meta meta;
    uint8_t *bytes;
    size_t n_bytes;
} test_row;

/* Block i of a chain; the last is i == n - 1. The image depends on both numbers. Free with test_row_free. */
test_row test_row_make(uint32_t chain, uint32_t i, size_t image_bytes);
/* The logits at the end of block i. */
test_row test_row_make_logits(uint32_t chain, uint32_t i, size_t image_bytes);
/* The tail of n_tokens, fewer than a block's, that follows i blocks; and the state where that tail ends. */
test_row test_row_make_tail(uint32_t chain, uint32_t i, uint32_t n_tokens, size_t image_bytes);
test_row test_row_make_state(uint32_t chain, uint32_t i, uint32_t n_tokens, size_t image_bytes);
void test_row_free(test_row *row);
/* Does the file parse in full as that row? */
bool test_row_verifies(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes);

#endif
