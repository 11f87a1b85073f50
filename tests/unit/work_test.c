/*
 * work_test.c - what a watcher of a model is told, and rows that are set aside on suspicion
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "support/api.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { KEYS_MAX = 256 };

typedef struct watched {
    char *directory;
    hearth_runtime_options options;
    hearth_runtime *runtime;
    hearth_model *model;

    /* Of the scheduler's thread, until the model is unloaded. */
    int n_begun, n_ended, n_told, n_rows_begun, n_rows_ended;
    bool is_at_work, has_rows;
    int n_wrong; /* events out of order */
    uint8_t keys[KEYS_MAX][32];
    size_t n_keys;
} watched;

static void on_work(const hearth_work *work, void *user_data)
{
    watched *w = user_data;

    w->n_wrong += work->kind != HEARTH_WORK_ROWS_BEGIN && work->n_keys > 0;
    switch (work->kind) {
    case HEARTH_WORK_BEGINS:
        w->n_wrong += w->is_at_work;
        w->is_at_work = true;
        w->n_begun++;
        break;
    case HEARTH_WORK_ENDS:
        w->n_wrong += !w->is_at_work || w->has_rows;
        w->is_at_work = false;
        w->n_ended++;
        break;
    case HEARTH_WORK_DELIVERED:
        w->n_wrong += !w->is_at_work || w->has_rows;
        w->n_told++;
        break;
    case HEARTH_WORK_ROWS_BEGIN:
        w->n_wrong += !w->is_at_work || w->has_rows || work->n_keys == 0;
        w->has_rows = true;
        w->n_rows_begun++;
        for (size_t i = 0; i < work->n_keys && w->n_keys < KEYS_MAX; i++)
            memcpy(w->keys[w->n_keys++], work->keys[i], sizeof(w->keys[0]));
        break;
    case HEARTH_WORK_ROWS_END:
        w->n_wrong += !w->has_rows;
        w->has_rows = false;
        w->n_rows_ended++;
        break;
    }
}

static void load(watched *w)
{
    hearth_model_options model = hearth_model_options_default();

    model.on_work = on_work;
    model.work_user_data = w;
    w->runtime = hth_test_runtime_open(&w->options);
    w->model = hth_test_model_load(w->runtime, "stub:", &model);
}

static void unload(watched *w)
{
    hearth_model_unref(w->model);
    hearth_runtime_close(w->runtime);
}

static void set_up(watched *w)
{
    w->directory = hth_test_directory_new();
    w->options = hth_test_runtime_options(w->directory);
    load(w);
}

static void tear_down(watched *w)
{
    unload(w);
    hth_test_directory_remove(w->directory);
}

#define FIXTURE_TEST(name) TEST_WITH(watched, w, name, set_up, tear_down)

static void run(const watched *w, const char *prompt, uint32_t n_cached)
{
    hearth_request request = hth_test_greedy(prompt, 3);
    const hearth_result *result = hth_test_complete(w->model, &request);

    assert_int_equal(result->stats->cached_tokens, n_cached);
    hearth_result_unref(result);
}

FIXTURE_TEST(work_begins_and_ends_and_rows_are_named_while_they_come_in)
{
    char *prompt = hth_test_prompt(1000, 1);

    run(w, prompt, 0);
    unload(w);
    assert_int_equal(w->n_wrong, 0);
    assert_true(w->n_begun >= 4); /* chunks of the prompt, tokens, the save at the end */
    assert_int_equal(w->n_begun, w->n_ended);
    assert_true(w->n_told >= 3);
    assert_int_equal(w->n_rows_begun, 0);

    load(w); /* what is known now comes from files */
    run(w, prompt, 1001);
    unload(w);
    assert_int_equal(w->n_wrong, 0);
    assert_int_equal(w->n_begun, w->n_ended);
    assert_int_equal(w->n_rows_begun, 4); /* three blocks and a tail */
    assert_int_equal(w->n_rows_begun, w->n_rows_ended);
    assert_true(w->n_keys >= 4);
    load(w);
    free(prompt);
}

/* ---- quarantine ---- */

typedef struct search {
    uint8_t key[32];
    size_t n;
} search;

static bool count_rows(const hearth_row *row, void *user_data)
{
    search *s = user_data;

    s->n += memcmp(row->key, s->key, sizeof(s->key)) == 0;
    return true;
}

static size_t n_rows_of(const watched *w, const uint8_t key[32])
{
    search s = { .n = 0 };

    memcpy(s.key, key, sizeof(s.key));
    assert_int_equal(hearth_runtime_rows(w->runtime, count_rows, &s, NULL), HEARTH_OK);
    return s.n;
}

FIXTURE_TEST(rows_that_are_set_aside_are_gone_from_every_tier_and_computed_again)
{
    char *prompt = hth_test_prompt(1000, 2);
    hearth_request request = hth_test_greedy(prompt, 3);
    const hearth_result *result = hth_test_complete(w->model, &request);
    uint8_t key[32];
    hearth_error err;

    memcpy(key, result->stats->prompt_key, sizeof(key));
    hearth_result_unref(result);
    hth_test_flush(w->runtime);
    assert_int_equal(n_rows_of(w, key), 2); /* logits, in RAM and in a file; the tail is part of a longer one now */
    assert_int_equal(hearth_runtime_quarantine(w->runtime, key, &err), HEARTH_OK);
    assert_int_equal(n_rows_of(w, key), 0);
    assert_int_equal(hth_test_counters(w->runtime).rows_quarantined, 1);
    assert_int_equal(hearth_runtime_quarantine(w->runtime, key, &err), HEARTH_OK); /* there is none any more */

    unload(w);
    load(w);
    run(w, prompt, 768);
    hth_test_flush(w->runtime);
    assert_int_equal(n_rows_of(w, key), 2);
    free(prompt);
}

FIXTURE_TEST(a_key_that_nothing_has_is_set_aside_without_ado)
{
    const uint8_t key[32] = { 1, 2, 3 };
    hearth_runtime_options options = hearth_runtime_options_default();
    hearth_runtime *without;

    assert_int_equal(hearth_runtime_quarantine(w->runtime, key, NULL), HEARTH_OK);
    assert_int_equal(hearth_runtime_quarantine(NULL, key, NULL), HEARTH_MISUSE);
    assert_int_equal(hearth_runtime_quarantine(w->runtime, NULL, NULL), HEARTH_MISUSE);
    options.cache_disabled = true;
    without = hth_test_runtime_open(&options);
    assert_int_equal(hearth_runtime_quarantine(without, key, NULL), HEARTH_OK);
    hearth_runtime_close(without);
}
