/*
 * lying_index_test.c - what an index says of a row's tokens is a proposal: a row that turns out to be another one is
 * not used, and the reply is that of a cold cache
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file_tier.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

/* The other prompt is longer than what the index says that it shares. */
enum { PROMPT_BYTES = 700, OTHER_BYTES = 740, PART_AT = 600, BLOCKS = 2 * (int)HTH_BLOCK_TOKENS, REPLY_TOKENS = 20 };

/* One request in a runtime of its own. */
static const hearth_result *ask(const char *directory, const char *prompt)
{
    hearth_runtime_options options = hth_test_runtime_options(directory);
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    hearth_model *model = hth_test_model_load(runtime, "stub:", NULL);
    hearth_request request = hth_test_greedy(prompt, REPLY_TOKENS);
    const hearth_result *result = hth_test_complete(model, &request);

    hth_test_model_end(runtime, model);
    hth_test_flush(runtime);
    hearth_runtime_close(runtime);
    return result;
}

static hth_file_tier *open_tier(const char *directory)
{
    hth_file_tier_options options = { .directory = directory, .bytes_max = UINT64_MAX };
    hth_file_tier *tier = NULL;

    assert_int_equal(hth_file_tier_open(&options, &tier, NULL), HEARTH_OK);
    hth_file_tier_settle(tier);
    return tier;
}

/* The leaves that begin after the blocks. */
typedef struct leaves {
    hth_row_meta rows[8];
    size_t n;
} leaves;

static bool collect_leaf(const hth_row_meta *meta, void *user_data)
{
    leaves *l = user_data;

    if (hth_row_can_be_leaf(&meta->id, meta->n_tokens) && meta->first_position == BLOCKS && l->n < 8)
        l->rows[l->n++] = *meta;
    return true;
}

static leaves leaves_of(hth_file_tier *tier)
{
    leaves l = { .n = 0 };

    assert_int_equal(hth_index_visit(hth_file_tier_index(tier), false, collect_leaf, &l, NULL), HEARTH_OK);
    assert_true(l.n > 0);
    return l;
}

/* Let the index of one directory say that its leaves have the tokens of the other one's. */
static void let_it_lie(const char *directory, const char *other_directory)
{
    hth_file_tier *tier = open_tier(other_directory);
    leaves theirs = leaves_of(tier), ours;
    hearth_token tokens[HTH_BLOCK_TOKENS];
    size_t n = hth_file_tier_tokens(tier, &theirs.rows[0].id, tokens, HTH_BLOCK_TOKENS);

    hth_file_tier_close(tier);
    tier = open_tier(directory);
    ours = leaves_of(tier);
    for (size_t i = 0; i < ours.n; i++) {
        hth_row_head head = { .meta = ours.rows[i], .has_tokens = true };

        assert_true(head.meta.n_tokens <= n);
        memcpy(head.tokens, tokens, head.meta.n_tokens * sizeof(*tokens));
        assert_int_equal(hth_index_publish(hth_file_tier_index(tier), &head, 1, NULL), HEARTH_OK);
    }
    hth_file_tier_close(tier);
}

TEST(a_row_that_the_index_describes_wrongly_is_not_used)
{
    char *directory = hth_test_directory_new(), *other_directory = hth_test_directory_new();
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0), *other = hth_test_prompt(OTHER_BYTES, 0);
    const hearth_result *cold, *warm, *result;

    for (size_t i = PART_AT; i < OTHER_BYTES; i++)
        other[i] = other[i] == 'x' ? 'y' : 'x';
    result = ask(directory, prompt);
    hearth_result_unref(result);
    cold = ask(other_directory, other);
    let_it_lie(directory, other_directory);

    warm = ask(directory, other);
    assert_string_equal(warm->text, cold->text);
    assert_int_equal(warm->stats->cached_tokens, BLOCKS);
    assert_true(warm->stats->hit != HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    warm = ask(directory, other); /* what was computed instead is kept */
    assert_string_equal(warm->text, cold->text);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    hearth_result_unref(cold);
    free(prompt);
    free(other);
    hth_test_directory_remove(directory);
    hth_test_directory_remove(other_directory);
}
