/*
 * prompts.h - whole prompts in a cache, without a model: saved as a scheduler would, looked up, and asked about
 */
#ifndef HTH_TESTS_PROMPTS_H
#define HTH_TESTS_PROMPTS_H

#include "cache/why.h"

enum { TEST_PROMPT_TOKENS_MAX = 4096, TEST_PROMPT_IMAGE_BYTES = 3000 };

/* Prompt number n: two prompts part at their first token. */
void test_prompt_tokens(uint32_t n, hearth_token *tokens, size_t n_tokens);

/* Blocks, a tail where there is one, and logits. Fails the test when there is no room. */
void test_prompt_save(hth_cache *cache, const hth_keyspace *keyspace, const hearth_token *tokens, size_t n_tokens);
/* One row of it; superseded may be NULL. */
void test_prompt_save_row(hth_cache *cache, const hth_keyspace *keyspace, const hearth_token *tokens, size_t end,
                          hth_row_kind kind, const hth_row_id *superseded);
hth_row_id test_prompt_row_id(const hth_keyspace *keyspace, const hearth_token *tokens, size_t end, hth_row_kind kind);

typedef struct test_prompt_answer {
    uint32_t n_cached;
    hth_why_answer why;
} test_prompt_answer;

/* Look it up and ask why the rest is not known; of_all as in hth_why_of_all. */
test_prompt_answer test_prompt_ask(hth_cache *cache, const hth_keyspace *keyspace, hth_lookup_way way,
                                   const hth_policy *policy, const hearth_token *tokens, size_t n_tokens, bool of_all);

#endif
