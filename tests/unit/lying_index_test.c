/*
 * lying_index_test.c - what an index says of a row is a proposal: whatever record is lost or changed, the reply is that
 * of a cold cache, and a sound row is not set aside for it
 *
 * HTH_SEED replays the changes of a run; HTH_ROUNDS: how many times it damages every second record,
 * 1 by default.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/file_tier.h"
#include "rows/row_file.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/index_damage.h"
#include "support/support.h"

/* The other prompt is longer than what the index says that it shares. */
enum { PROMPT_BYTES = 700, OTHER_BYTES = 740, PART_AT = 600, BLOCKS = 2 * (int)HTH_BLOCK_TOKENS, REPLY_TOKENS = 20 };

/* One request in a runtime of its own. */
static const hearth_result *ask_model(const char *path, const char *directory, const char *prompt)
{
    hearth_runtime_options options = hth_test_runtime_options(directory);
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    hearth_model *model = hth_test_model_load(runtime, path, NULL);
    hearth_request request = hth_test_greedy(prompt, REPLY_TOKENS);
    const hearth_result *result = hth_test_complete(model, &request);

    hth_test_model_end(runtime, model);
    hth_test_flush(runtime);
    hearth_runtime_close(runtime);
    return result;
}

static const hearth_result *ask(const char *directory, const char *prompt)
{
    return ask_model("stub:", directory, prompt);
}

/* Change a prompt of OTHER_BYTES from PART_AT on. */
static void turn_aside(char *prompt)
{
    for (size_t i = PART_AT; i < OTHER_BYTES; i++)
        prompt[i] = prompt[i] == 'x' ? 'y' : 'x';
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

static size_t n_set_aside(const char *directory)
{
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/quarantine", directory);
    return hth_quarantine_count(hth_fs_system(), path);
}

TEST(a_row_that_the_index_describes_wrongly_is_not_used)
{
    char *directory = hth_test_directory_new(), *other_directory = hth_test_directory_new();
    char *prompt = hth_test_prompt(PROMPT_BYTES, 0), *other = hth_test_prompt(OTHER_BYTES, 0);
    const hearth_result *cold, *warm, *result;

    turn_aside(other);
    result = ask(directory, prompt);
    hearth_result_unref(result);
    cold = ask(other_directory, other);
    let_it_lie(directory, other_directory);

    warm = ask(directory, other);
    assert_string_equal(warm->text, cold->text);
    /* A writer thread may have mended the index before the prompt was looked up again: the beginning of the leaf is
     * true, too. */
    assert_in_range(warm->stats->cached_tokens, BLOCKS, PART_AT + 1);
    assert_true(warm->stats->hit != HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    warm = ask(directory, other); /* what was computed instead is kept */
    assert_string_equal(warm->text, cold->text);
    assert_int_equal(warm->stats->hit, HEARTH_HIT_EXACT);
    hearth_result_unref(warm);
    hearth_result_unref(cold);
    assert_int_equal(n_set_aside(directory), 0);
    free(prompt);
    free(other);
    hth_test_directory_remove(directory);
    hth_test_directory_remove(other_directory);
}

/* ---- each record of an index, lost or changed ---- */

/* Make the directory what the other one is. */
static void copy_directory(const char *from, const char *to)
{
    char command[9000];

    (void)snprintf(command, sizeof(command), "rm -r '%s' && cp -r '%s' '%s'", to, from, to);
    assert_int_equal(system(command), 0);
}

/* What a damaged index must not change. */
typedef struct asked {
    const char *path; /* of the model */
    char *directory;
    char *prompts[2]; /* the second one parts from the first behind PART_AT */
    const hearth_result *cold[2];
} asked;

/* Ask both. The replies are those of a cold cache, and no row was set aside. */
static void check_replies(const asked *a, const char *damage)
{
    hearth_runtime_options options = hth_test_runtime_options(a->directory);
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    hearth_model *model = hth_test_model_load(runtime, a->path, NULL);

    for (int i = 1; i >= 0; i--) {
        hearth_request request = hth_test_greedy(a->prompts[i], REPLY_TOKENS);
        const hearth_result *warm = hth_test_complete(model, &request);

        if (strcmp(warm->text, a->cold[i]->text) != 0)
            fail_msg("%s: %s: the reply is '%s'", a->path, damage, warm->text);
        hearth_result_unref(warm);
    }
    hth_test_model_end(runtime, model);
    hth_test_flush(runtime);
    hearth_runtime_close(runtime);
    if (n_set_aside(a->directory) > 0)
        fail_msg("%s: %s: a sound row was set aside", a->path, damage);
}

static void damage_each_record(const char *path)
{
    asked a = { .path = path, .directory = hth_test_directory_new() };
    char *elsewhere = hth_test_directory_new(), text[200];
    uint64_t random = hth_test_seed(), n_rounds = hth_test_number("HTH_ROUNDS", 1);
    bool more = true;
    size_t n = 0;

    a.prompts[0] = hth_test_prompt(PROMPT_BYTES, 0);
    a.prompts[1] = hth_test_prompt(OTHER_BYTES, 0);
    turn_aside(a.prompts[1]);
    a.cold[1] = ask_model(path, a.directory, a.prompts[1]);
    copy_directory(elsewhere, a.directory); /* it is empty */
    a.cold[0] = ask_model(path, elsewhere, a.prompts[0]);

    for (uint64_t round = 0; round < n_rounds; round++) {
        for (n = hth_test_random(&random, 2), more = true; more; n += 2) { /* every second one */
            copy_directory(elsewhere, a.directory);
            more = test_index_damage_record(a.directory, n, hth_test_random(&random, TEST_INDEX_DAMAGES), &random, text,
                                            sizeof(text));
            if (more)
                check_replies(&a, text);
        }
    }
    assert_true(n > 20);
    for (int i = 0; i < 2; i++) {
        hearth_result_unref(a.cold[i]);
        free(a.prompts[i]);
    }
    hth_test_directory_remove(a.directory);
    hth_test_directory_remove(elsewhere);
}

TEST(an_index_that_lost_or_changed_any_record_costs_no_reply_and_no_row)
{
    damage_each_record("stub:");
    damage_each_record("stub:kind=hybrid");
}
