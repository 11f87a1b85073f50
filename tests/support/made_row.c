/*
 * made_row.c - rows with plausible contents
 */
#include "support/made_row.h"

#include <stdlib.h>

static const hth_keyspace keyspace = { .fingerprint = { 1, 2, 3 }, .quant_byte = 7, .ctx_params_hash = { 4, 5 } };

static hearth_token token_at(uint32_t chain, uint32_t position)
{
    return (hearth_token)((chain * 1000003u + position * 7u) & 0x7FFFFFFF);
}

static hth_key key_at(uint32_t chain, uint32_t n_tokens)
{
    hearth_token *tokens = calloc(n_tokens + 1, sizeof(*tokens));
    hth_key key;

    if (!tokens)
        abort();
    for (uint32_t i = 0; i < n_tokens; i++)
        tokens[i] = token_at(chain, i);
    if (!hth_key_of(&keyspace, tokens, n_tokens, &key))
        abort();
    free(tokens);
    return key;
}

/* parent_at: how many tokens the prefix has that the row names as its parent. */
static test_row make(uint32_t chain, uint32_t parent_at, uint32_t begin, uint32_t n_tokens, hth_row_kind kind,
                     size_t image_bytes)
{
    hearth_token tokens[TEST_BLOCK_TOKENS];
    test_row row = { .bytes = NULL };
    hth_kvc_info info = {
        .save_reason = HEARTH_SAVE_COLD,
        .creation_time = 1700000000,
        .last_used_time = 1700000000,
        .keyspace = keyspace,
        .tokens = { .data = (const uint8_t *)tokens, .n = n_tokens * 4 },
        .has_parent = begin > 0,
        .parent = key_at(chain, parent_at),
        .has_first_position = begin > 0,
        .first_position = begin,
        .has_kind = true,
        .kind = (uint8_t)kind,
        .has_own_key = true,
        .own_key = key_at(chain, begin + n_tokens),
        .has_head_crc = true,
    };
    size_t n_head;

    for (uint32_t i = 0; i < n_tokens; i++)
        tokens[i] = token_at(chain, begin + i);
    n_head = hth_kvc_head_bytes(&info);
    row.n_bytes = n_head + image_bytes;
    row.bytes = malloc(row.n_bytes);
    if (!row.bytes)
        abort();
    for (size_t i = 0; i < image_bytes; i++)
        row.bytes[n_head + i] = (uint8_t)(chain * 31 + begin * 17 + i);
    hth_kvc_encode_head(&info, image_bytes, hth_crc32c(0, row.bytes + n_head, image_bytes), row.bytes);
    row.meta = (hth_row_meta){
        .id = { .key = info.own_key, .kind = kind },
        .parent = info.parent,
        .first_position = begin,
        .n_tokens = n_tokens,
        .bytes = row.n_bytes,
        .last_used_time = 1700000000,
        .save_reason = HEARTH_SAVE_COLD,
    };
    return row;
}

test_row test_row_make(uint32_t chain, uint32_t i, size_t image_bytes)
{
    return make(chain, i * TEST_BLOCK_TOKENS, i * TEST_BLOCK_TOKENS, TEST_BLOCK_TOKENS, HTH_ROW_BLOCK, image_bytes);
}

test_row test_row_make_logits(uint32_t chain, uint32_t i, size_t image_bytes)
{
    return make(chain, (i + 1) * TEST_BLOCK_TOKENS, (i + 1) * TEST_BLOCK_TOKENS, 0, HTH_ROW_LOGITS, image_bytes);
}

test_row test_row_make_tail(uint32_t chain, uint32_t i, uint32_t n_tokens, size_t image_bytes)
{
    return make(chain, i * TEST_BLOCK_TOKENS, i * TEST_BLOCK_TOKENS, n_tokens, HTH_ROW_TAIL, image_bytes);
}

test_row test_row_make_state(uint32_t chain, uint32_t i, uint32_t n_tokens, size_t image_bytes)
{
    return make(chain, i * TEST_BLOCK_TOKENS, i * TEST_BLOCK_TOKENS + n_tokens, 0, HTH_ROW_STATE, image_bytes);
}

void test_row_free(test_row *row)
{
    free(row->bytes);
    *row = (test_row){ .bytes = NULL };
}

bool test_row_verifies(const hth_row_id *id, const uint8_t *bytes, size_t n_bytes)
{
    hth_kvc_fault fault;
    hth_kvc_info info;

    return hth_kvc_parse(bytes, n_bytes, &id->key, &info, &fault) && info.has_kind && info.kind == (uint8_t)id->kind;
}
