/*
 * prompts.c - rows with the right names and images that nobody looks at
 */
#include "support/prompts.h"

#include <string.h>

#include "support/cmocka_all.h"

void test_prompt_tokens(uint32_t n, hearth_token *tokens, size_t n_tokens)
{
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = (hearth_token)(n * 10000 + i);
}

/* Where a row that ends there begins: a state or logits have no tokens. */
static size_t begin_of(size_t end, hth_row_kind kind)
{
    return kind == HTH_ROW_STATE || kind == HTH_ROW_LOGITS ? end : (end - 1) / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
}

hth_row_id test_prompt_row_id(const hth_keyspace *keyspace, const hearth_token *tokens, size_t end, hth_row_kind kind)
{
    hth_row_id id = { .kind = kind };

    assert_true(hth_key_of(keyspace, tokens, end, &id.key));
    return id;
}

void test_prompt_save_row(hth_cache *cache, const hth_keyspace *keyspace, const hearth_token *tokens, size_t end,
                          hth_row_kind kind, const hth_row_id *superseded)
{
    size_t begin = begin_of(end, kind);
    hth_save save = {
        .keyspace = keyspace,
        .id = test_prompt_row_id(keyspace, tokens, end, kind),
        .first_position = (uint32_t)begin,
        .tokens = tokens + begin,
        .n_tokens = (uint32_t)(end - begin),
        .context_size = TEST_PROMPT_TOKENS_MAX,
        .reason = HEARTH_SAVE_COLD,
        .engine_build = "test",
        .image_bytes = TEST_PROMPT_IMAGE_BYTES,
        .superseded = superseded,
    };
    hth_slab *slab;

    /* A state is a child of the boundary before it, logits are one of their own prefix. */
    assert_true(hth_key_of(keyspace, tokens, kind == HTH_ROW_STATE ? end / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS : begin,
                           &save.parent));
    slab = hth_cache_save_begin(cache, &save);
    assert_non_null(slab);
    memset(hth_slab_image(slab), 7, TEST_PROMPT_IMAGE_BYTES);
    hth_cache_save_commit(cache, slab);
}

void test_prompt_save(hth_cache *cache, const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens)
{
    for (size_t end = HTH_BLOCK_TOKENS; end <= n_tokens; end += HTH_BLOCK_TOKENS)
        test_prompt_save_row(cache, keyspace, tokens, end, HTH_ROW_BLOCK, NULL);
    if (n_tokens % HTH_BLOCK_TOKENS != 0)
        test_prompt_save_row(cache, keyspace, tokens, n_tokens, HTH_ROW_TAIL, NULL);
    test_prompt_save_row(cache, keyspace, tokens, n_tokens, HTH_ROW_LOGITS, NULL);
}

test_prompt_answer test_prompt_ask(hth_cache *cache, const hth_keyspace *keyspace, hth_lookup_way way,
                                   const hth_policy *policy, const hearth_token *tokens, size_t n_tokens, bool of_all)
{
    hth_lookup_options options = { .way = way, .n_limit = n_tokens };
    hth_key_stream *stream = hth_key_stream_new(keyspace);
    test_prompt_answer answer;
    hth_lookup lookup;

    assert_non_null(stream);
    assert_int_equal(hth_lookup_init(&lookup, cache, keyspace, stream, &options, tokens, n_tokens, NULL), HEARTH_OK);
    answer.n_cached = lookup.n_cached;
    (of_all ? hth_why_of_all : hth_why)(cache, keyspace, &lookup, policy, tokens, n_tokens, 0, &answer.why);
    hth_lookup_deinit(&lookup);
    hth_key_stream_free(stream);
    return answer;
}
