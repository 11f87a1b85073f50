/*
 * token_memo_test.c - texts and their tokens, remembered exactly and within bounds
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/token_memo.h"
#include "support/cmocka_all.h"

static const char text[] = "a text of some length";

static void a_text_is_found_with_its_tokens_under_its_flags_only(void **state)
{
    const hearth_token tokens[] = { 5, 6, 7 };
    hth_token_memo *memo = hth_token_memo_new(1 << 16);
    hearth_token *found = NULL;
    size_t n = 0;

    (void)state;
    hth_token_memo_add(memo, text, strlen(text), HEARTH_TOKENIZE_BOS, tokens, 3);
    assert_true(hth_token_memo_find(memo, text, strlen(text), HEARTH_TOKENIZE_BOS, &found, &n));
    assert_int_equal(n, 3);
    assert_memory_equal(found, tokens, sizeof(tokens));
    free(found);
    assert_false(hth_token_memo_find(memo, text, strlen(text), 0, &found, &n));
    assert_false(hth_token_memo_find(memo, text, strlen(text) - 1, HEARTH_TOKENIZE_BOS, &found, &n));
    hth_token_memo_free(memo);
}

static void what_was_used_least_recently_makes_room(void **state)
{
    enum { N = 64 };
    hth_token_memo *memo = hth_token_memo_new(4096);
    hearth_token *found = NULL, token = 1;
    size_t n = 0, n_known = 0;
    char name[32];

    (void)state;
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "text number %08d", i);
        hth_token_memo_add(memo, name, strlen(name), 0, &token, 1);
        /* The first one stays in use. */
        (void)snprintf(name, sizeof(name), "text number %08d", 0);
        assert_true(hth_token_memo_find(memo, name, strlen(name), 0, &found, &n));
        free(found);
    }
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "text number %08d", i);
        if (hth_token_memo_find(memo, name, strlen(name), 0, &found, &n)) {
            free(found);
            n_known++;
            assert_true(i == 0 || i > N / 2);
        }
    }
    assert_in_range(n_known, 2, N / 2);
    hth_token_memo_free(memo);
}

static void texts_beyond_the_bounds_are_not_remembered(void **state)
{
    size_t n_long = HTH_TOKEN_MEMO_TEXT_MAX + 1, n = 0;
    char *longer = malloc(n_long);
    hth_token_memo *memo = hth_token_memo_new((size_t)64 << 20), *small = hth_token_memo_new(64);
    hearth_token *found = NULL, token = 1;

    (void)state;
    memset(longer, 'a', n_long);
    hth_token_memo_add(memo, longer, n_long, 0, &token, 1);
    assert_false(hth_token_memo_find(memo, longer, n_long, 0, &found, &n));
    hth_token_memo_add(memo, "short", 5, 0, &token, 1);
    assert_false(hth_token_memo_find(memo, "short", 5, 0, &found, &n));
    hth_token_memo_add(small, text, strlen(text), 0, &token, 1);
    assert_false(hth_token_memo_find(small, text, strlen(text), 0, &found, &n));
    hth_token_memo_free(memo);
    hth_token_memo_free(small);
    free(longer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_found_with_its_tokens_under_its_flags_only),
        cmocka_unit_test(what_was_used_least_recently_makes_room),
        cmocka_unit_test(texts_beyond_the_bounds_are_not_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
