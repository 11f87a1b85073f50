/*
 * why_test.c - why a lookup did not find more: every reason, where each is remembered, and for whom it is told
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/os.h"
#include "support/cmocka_all.h"
#include "support/prompts.h"
#include "support/support.h"

enum { FLUSH_MS = 60000, BLOCK = (int)HTH_BLOCK_TOKENS };

typedef struct fixture {
    char *directory;
    hth_cache_options options;
    hth_cache *cache;
    hth_policy policy;
    hth_keyspace model;
    hth_keyspace salted;
    hearth_token tokens[TEST_PROMPT_TOKENS_MAX];
} fixture;

static void open_cache(fixture *f)
{
    hearth_error err = { .message = "" };

    assert_ok(hth_cache_open(&f->options, &f->cache, &err), err);
}

static void reopen(fixture *f)
{
    assert_true(hth_cache_close(f->cache, FLUSH_MS));
    open_cache(f);
}

/* An index that was just made evicts nothing until it has looked for rows that it does not know. */
static uint64_t evict_files(fixture *f, uint64_t n_bytes, unsigned tiers)
{
    const uint64_t until = hth_os_monotonic_ns() + FLUSH_MS * UINT64_C(1000000);
    uint64_t freed = 0;

    for (;;) {
        assert_int_equal(hth_cache_evict(f->cache, n_bytes, tiers, &freed, NULL), HEARTH_OK);
        if (freed > 0)
            return freed;
        assert_true(hth_os_monotonic_ns() < until);
        (void)usleep(1000);
    }
}

static void evict(fixture *f, unsigned tiers)
{
    uint64_t freed = 0;

    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    if (tiers & HEARTH_EVICT_RAM)
        assert_int_equal(hth_cache_evict(f->cache, UINT64_MAX, HEARTH_EVICT_RAM, &freed, NULL), HEARTH_OK);
    if (tiers & ~(unsigned)HEARTH_EVICT_RAM)
        freed += evict_files(f, UINT64_MAX, tiers & ~(unsigned)HEARTH_EVICT_RAM);
    assert_true(freed > 0);
}

static void set_up(fixture *f)
{
    uint8_t fingerprint[32];

    f->directory = hth_test_directory_new();
    f->options = (hth_cache_options){
        .ram_memory_fd = -1,
        .ram_bytes_max = 16 << 20,
        .directory = f->directory,
        .disk_bytes_max = 16 << 20,
        .n_writer_threads = 2,
        .write_limits = { .queue_rows_max = 1000, .queue_bytes_max = 16 << 20 },
    };
    f->policy = hth_policy_default(TEST_PROMPT_TOKENS_MAX);
    memset(fingerprint, 7, sizeof(fingerprint));
    f->model.quant_byte = 1;
    hth_keyspace_set_fingerprint(&f->model, fingerprint);
    f->salted = f->model;
    hth_keyspace_salt(&f->salted, "somebody");
    test_prompt_tokens(1, f->tokens, TEST_PROMPT_TOKENS_MAX);
    open_cache(f);
}

/* The same without a disk. */
static void set_up_in_ram(fixture *f)
{
    set_up(f);
    f->options.directory = NULL;
    reopen(f);
}

static void tear_down(fixture *f)
{
    assert_true(hth_cache_close(f->cache, FLUSH_MS));
    hth_test_directory_remove(f->directory);
}

#define TEST_IN_RAM(name) TEST_WITH(fixture, f, name, set_up_in_ram, tear_down)
#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static hth_why_answer ask_as(fixture *f, const hth_keyspace *keyspace, size_t n_tokens)
{
    return test_prompt_ask(f->cache, keyspace, HTH_LOOKUP_CELLS, &f->policy, f->tokens, n_tokens, false).why;
}

static hth_why_answer ask(fixture *f, size_t n_tokens)
{
    return ask_as(f, &f->model, n_tokens);
}

static hth_why_answer ask_of_all(fixture *f, const hth_keyspace *keyspace, size_t n_tokens)
{
    return test_prompt_ask(f->cache, keyspace, HTH_LOOKUP_CELLS, &f->policy, f->tokens, n_tokens, true).why;
}

#define assert_answer(answer, miss_expected, left_expected)                                 \
    do {                                                                                    \
        hth_why_answer given = (answer);                                                    \
        assert_string_equal(hearth_miss_name(given.miss), hearth_miss_name(miss_expected)); \
        assert_int_equal(given.left_at, left_expected);                                     \
    } while (0)

/* ---- what is known, and what never was ---- */

FIXTURE_TEST(of_a_prompt_that_is_known_nothing_is_missed)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    assert_answer(ask(f, 600), HEARTH_MISS_NONE, 600);
    assert_answer(ask(f, 601), HEARTH_MISS_NONE, 600); /* all but the last */
}

FIXTURE_TEST(a_prompt_that_nobody_asked_before_was_never_seen)
{
    assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(where_a_prompt_leaves_what_is_known_is_told_to_the_token)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 900);
    f->tokens[700] = 5;
    assert_answer(ask(f, 900), HEARTH_MISS_NEVER_SEEN, 700);
    f->tokens[520] = 5; /* fewer tokens in the third block than a lookup would restore */
    assert_int_equal(test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_CELLS, &f->policy, f->tokens, 900, false).n_cached,
                     512);
    assert_answer(ask(f, 900), HEARTH_MISS_NEVER_SEEN, 520);
    f->tokens[3] = 5;
    assert_answer(ask(f, 900), HEARTH_MISS_NEVER_SEEN, 3);
}

FIXTURE_TEST(tokens_at_hand_from_elsewhere_are_not_missed)
{
    hth_lookup_options options = { .way = HTH_LOOKUP_CELLS, .n_limit = 600 };
    hth_key_stream *stream = hth_key_stream_new(&f->model);
    hth_why_answer answer;
    hth_lookup lookup;

    assert_int_equal(hth_lookup_init(&lookup, f->cache, &f->model, stream, &options, f->tokens, 600, NULL), HEARTH_OK);
    hth_why(f->cache, &f->model, &lookup, &f->policy, f->tokens, 600, 300, &answer);
    assert_answer(answer, HEARTH_MISS_NEVER_SEEN, 300);
    hth_why(f->cache, &f->model, &lookup, &f->policy, f->tokens, 600, 599, &answer);
    assert_answer(answer, HEARTH_MISS_NONE, 599);
    hth_why(f->cache, &f->model, &lookup, &f->policy, f->tokens, 600, 700, &answer);
    assert_answer(answer, HEARTH_MISS_NONE, 600);
    hth_why(NULL, &f->model, &lookup, &f->policy, f->tokens, 600, 0, &answer);
    assert_answer(answer, HEARTH_MISS_NOT_READ, 0);
    hth_lookup_deinit(&lookup);
    hth_key_stream_free(stream);
}

FIXTURE_TEST(a_lookup_that_only_made_keys_did_not_read)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    assert_answer(test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_KEYS, &f->policy, f->tokens, 600, false).why,
                  HEARTH_MISS_NOT_READ, 0);
}

/* ---- evicted ---- */

TEST_IN_RAM(what_was_evicted_from_memory_alone_is_remembered)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    evict(f, HEARTH_EVICT_RAM);
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 600);
    assert_true(ask(f, 600).gone_time > 0);
    /* A longer prompt that begins like it: as far as it was known. */
    assert_answer(ask(f, 900), HEARTH_MISS_EVICTED, 600);
    f->tokens[300] = 5;
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 256);
    f->tokens[0] = 5;
    assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(what_left_memory_and_is_in_a_file_is_found_there)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    evict(f, HEARTH_EVICT_RAM);
    assert_answer(ask(f, 600), HEARTH_MISS_NONE, 600);
}

FIXTURE_TEST(what_was_evicted_from_disk_is_remembered_by_the_next_process)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 600);
    reopen(f);
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 600);
    assert_answer(ask(f, 900), HEARTH_MISS_EVICTED, 600);
    assert_true(ask(f, 600).gone_time > 0);
    /* It comes back, and is known. */
    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    reopen(f);
    assert_answer(ask(f, 600), HEARTH_MISS_NONE, 600);
}

FIXTURE_TEST(what_came_back_and_was_removed_by_hand_was_not_evicted)
{
    test_prompt_save_row(f->cache, &f->model, f->tokens, 256, HTH_ROW_BLOCK, NULL);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 256);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 256, HTH_ROW_BLOCK, NULL);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    hth_cache_forget(f->cache, &(hth_row_id[]){ test_prompt_row_id(&f->model, f->tokens, 256, HTH_ROW_BLOCK) }[0]);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    reopen(f);
    assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(of_many_evicted_blocks_the_last_one_is_found)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 13 * BLOCK + 10);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(ask(f, 13 * BLOCK), HEARTH_MISS_EVICTED, 13 * BLOCK);
    f->tokens[9 * BLOCK + 1] = 5;
    assert_answer(ask(f, 13 * BLOCK), HEARTH_MISS_EVICTED, 9 * BLOCK);
}

FIXTURE_TEST(a_leaf_that_was_evicted_leaves_the_rest_known)
{
    test_prompt_save_row(f->cache, &f->model, f->tokens, 256, HTH_ROW_BLOCK, NULL);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 300, HTH_ROW_TAIL, NULL);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    evict(f, HEARTH_EVICT_RAM);
    assert_true(evict_files(f, 1, HEARTH_EVICT_DISK) > 0);
    assert_int_equal(test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_CELLS, &f->policy, f->tokens, 400, false).n_cached,
                     256);
    assert_answer(ask(f, 400), HEARTH_MISS_EVICTED, 300); /* the turn before ended there */
    f->tokens[290] = 5;
    assert_answer(ask(f, 400), HEARTH_MISS_NEVER_SEEN, 256);
}

FIXTURE_TEST(a_superseded_row_counts_as_what_became_of_the_one_that_holds_it)
{
    hth_row_id first = test_prompt_row_id(&f->model, f->tokens, 40, HTH_ROW_TAIL);
    hth_row_id second = test_prompt_row_id(&f->model, f->tokens, 90, HTH_ROW_TAIL);

    test_prompt_save_row(f->cache, &f->model, f->tokens, 40, HTH_ROW_TAIL, NULL);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 90, HTH_ROW_TAIL, &first);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 150, HTH_ROW_TAIL, &second);
    assert_true(hth_cache_flush(f->cache, FLUSH_MS));
    assert_answer(ask(f, 40), HEARTH_MISS_NONE, 40); /* it lives on */
    reopen(f);
    assert_answer(ask(f, 200), HEARTH_MISS_NEVER_SEEN, 150);
    evict(f, HEARTH_EVICT_DISK);
    reopen(f);
    assert_answer(ask(f, 40), HEARTH_MISS_EVICTED, 40);
    assert_answer(ask(f, 120), HEARTH_MISS_EVICTED, 90);
}

FIXTURE_TEST(a_prompt_whose_logits_alone_are_left_was_evicted)
{
    test_prompt_save_row(f->cache, &f->model, f->tokens, 600, HTH_ROW_LOGITS, NULL);
    assert_answer(ask(f, 600), HEARTH_MISS_EVICTED, 600);
}

FIXTURE_TEST(a_state_that_was_evicted_is_told_where_it_was)
{
    test_prompt_save_row(f->cache, &f->model, f->tokens, 1024, HTH_ROW_STATE, NULL);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 1100, HTH_ROW_STATE, NULL);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_STATES, &f->policy, f->tokens, 1100, false).why,
                  HEARTH_MISS_EVICTED, 1100);
    assert_answer(test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_STATES, &f->policy, f->tokens, 2000, false).why,
                  HEARTH_MISS_EVICTED, 1024);
}

/* ---- damaged ---- */

static void damage(fixture *f, const hth_row_id *id)
{
    char hex[2 * HTH_KEY_BYTES + 1], path[8192];

    hth_hex_encode(id->key.bytes, HTH_KEY_BYTES, hex);
    (void)snprintf(path, sizeof(path), "%s/rows/%.2s/%s-%s.kvc", f->directory, hex, hex, hth_row_kind_name(id->kind));
    assert_int_equal(truncate(path, 300), 0);
}

FIXTURE_TEST(a_row_that_failed_its_checks_is_told_at_once_and_by_the_next_process)
{
    hth_row_meta meta = { .n_tokens = 0 };
    hth_row_id id = test_prompt_row_id(&f->model, f->tokens, 512, HTH_ROW_BLOCK);
    hth_borrowed_row row;

    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    reopen(f);
    damage(f, &id);
    assert_int_equal(hth_cache_find(f->cache, &id, &meta), HEARTH_TIER_DISK);
    assert_int_equal(hth_cache_borrow(f->cache, &f->model, &meta, &row, NULL), HEARTH_CORRUPT);
    assert_answer(ask(f, 600), HEARTH_MISS_DAMAGED, 512);
    reopen(f);
    assert_answer(ask(f, 600), HEARTH_MISS_DAMAGED, 512);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 512, HTH_ROW_BLOCK, NULL);
    assert_answer(ask(f, 600), HEARTH_MISS_NONE, 600);
}

FIXTURE_TEST(a_row_that_the_engine_refused_was_damaged)
{
    hth_row_id id = test_prompt_row_id(&f->model, f->tokens, 300, HTH_ROW_TAIL);

    test_prompt_save(f->cache, &f->model, f->tokens, 300);
    hth_cache_reject(f->cache, &id, "test");
    assert_answer(ask(f, 300), HEARTH_MISS_DAMAGED, 300);
    assert_answer(ask(f, 400), HEARTH_MISS_DAMAGED, 300);
}

/* ---- policy ---- */

FIXTURE_TEST(what_the_policy_does_not_keep_is_said_to_be_so)
{
    assert_answer(ask(f, 7), HEARTH_MISS_BELOW_POLICY, 0);
    f->policy.cold_max_tokens = 500;
    assert_answer(ask(f, 600), HEARTH_MISS_BELOW_POLICY, 0);
    assert_answer(ask(f, 500), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(cells_without_a_state_to_go_on_from_are_the_policys_doing)
{
    test_prompt_save(f->cache, &f->model, f->tokens, 900);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 900, HTH_ROW_STATE, NULL);
    f->tokens[800] = 5;
    assert_answer(
        test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_CELLS_AND_STATES, &f->policy, f->tokens, 900, false).why,
        HEARTH_MISS_BELOW_POLICY, 800);
    f->tokens[100] = 5;
    assert_answer(
        test_prompt_ask(f->cache, &f->model, HTH_LOOKUP_CELLS_AND_STATES, &f->policy, f->tokens, 900, false).why,
        HEARTH_MISS_NEVER_SEEN, 100);
}

/* ---- other keyspaces ---- */

static hth_keyspace of_other_parameters(const fixture *f)
{
    hth_keyspace other = f->model;

    other.ctx_params_hash[3] ^= 1;
    return other;
}

static hth_keyspace of_other_model(const fixture *f)
{
    hth_keyspace other = f->model;
    uint8_t fingerprint[32] = { 9 };

    hth_keyspace_set_fingerprint(&other, fingerprint);
    return other;
}

FIXTURE_TEST(the_same_tokens_under_other_parameters_or_of_another_model_are_told)
{
    hth_keyspace parameters = of_other_parameters(f), model = of_other_model(f);

    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    for (int i = 0; i < 2; i++) {
        assert_answer(ask_as(f, &parameters, 600), HEARTH_MISS_OTHER_PARAMETERS, 0);
        assert_answer(ask_as(f, &model, 600), HEARTH_MISS_OTHER_MODEL, 0);
        assert_answer(ask_as(f, &model, 300), HEARTH_MISS_OTHER_MODEL, 0); /* the first block says it */
        assert_answer(ask_as(f, &model, 200), HEARTH_MISS_NEVER_SEEN, 0);
        reopen(f);
    }
    /* The nearer one is told. */
    test_prompt_save(f->cache, &model, f->tokens, 600);
    assert_answer(ask_as(f, &parameters, 600), HEARTH_MISS_OTHER_PARAMETERS, 0);
}

FIXTURE_TEST(a_short_prompt_is_told_by_all_of_its_tokens)
{
    hth_keyspace model = of_other_model(f);
    hth_row_id first = test_prompt_row_id(&f->model, f->tokens, 100, HTH_ROW_TAIL);

    test_prompt_save_row(f->cache, &f->model, f->tokens, 100, HTH_ROW_TAIL, NULL);
    assert_answer(ask_as(f, &model, 100), HEARTH_MISS_OTHER_MODEL, 0);
    assert_answer(ask_as(f, &model, 99), HEARTH_MISS_NEVER_SEEN, 0);
    test_prompt_save_row(f->cache, &f->model, f->tokens, 150, HTH_ROW_TAIL, &first);
    reopen(f);
    assert_answer(ask_as(f, &model, 100), HEARTH_MISS_OTHER_MODEL, 0); /* a longer row holds it */
}

FIXTURE_TEST(what_is_no_longer_kept_elsewhere_is_not_told)
{
    hth_keyspace model = of_other_model(f);

    test_prompt_save(f->cache, &f->model, f->tokens, 600);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(ask_as(f, &model, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

/* ---- tenants ---- */

FIXTURE_TEST(nobody_is_told_of_another_salt_but_the_operator)
{
    hth_keyspace other = f->model, both = f->salted;

    hth_keyspace_salt(&other, "somebody else");
    hth_keyspace_salt(&both, "somebody else");
    test_prompt_save(f->cache, &f->salted, f->tokens, 600);
    for (int i = 0; i < 2; i++) {
        assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
        assert_answer(ask_as(f, &other, 600), HEARTH_MISS_NEVER_SEEN, 0);
        assert_answer(ask_as(f, &both, 600), HEARTH_MISS_NEVER_SEEN, 0);
        assert_answer(ask_of_all(f, &f->model, 600), HEARTH_MISS_OTHER_TENANT, 0);
        assert_answer(ask_of_all(f, &other, 600), HEARTH_MISS_OTHER_TENANT, 0);
        reopen(f);
    }
    f->tokens[0] = 5;
    assert_answer(ask_of_all(f, &other, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(a_salted_tenant_is_told_of_its_own)
{
    hth_keyspace other_model = of_other_model(f), other_parameters = f->salted;

    hth_keyspace_salt(&other_model, "somebody");
    other_parameters.ctx_params_hash[3] ^= 1;
    test_prompt_save(f->cache, &f->salted, f->tokens, 600);
    assert_answer(ask_as(f, &other_model, 600), HEARTH_MISS_OTHER_MODEL, 0);
    assert_answer(ask_as(f, &other_parameters, 600), HEARTH_MISS_OTHER_PARAMETERS, 0);
    evict(f, HEARTH_EVICT_RAM | HEARTH_EVICT_DISK);
    assert_answer(ask_as(f, &f->salted, 600), HEARTH_MISS_EVICTED, 600);
    assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
}

FIXTURE_TEST(a_fingerprint_of_an_unknown_tenant_neither_tells_nor_is_told)
{
    hth_keyspace unknown = f->model;

    unknown.fingerprint[0] ^= 1; /* salted by somebody who did not say so */
    test_prompt_save(f->cache, &unknown, f->tokens, 600);
    assert_answer(ask(f, 600), HEARTH_MISS_NEVER_SEEN, 0);
    assert_answer(ask_of_all(f, &f->model, 600), HEARTH_MISS_NEVER_SEEN, 0);
    test_prompt_save(f->cache, &f->model, f->tokens, 900);
    unknown.fingerprint[1] ^= 1;
    assert_answer(ask_as(f, &unknown, 900), HEARTH_MISS_NEVER_SEEN, 0);
}
