/*
 * tenants_property_test.c - what one tenant is told does not depend on another one's tokens
 *
 * Two caches go through the same life of one tenant: prompts saved, superseded, damaged, evicted, asked about, in
 * several models and under several parameters, through restarts. In the second one other tenants live, too, with the
 * same prompts, and one without a salt. Every answer to the tenant must be the same in both. The seed is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/prompts.h"
#include "support/support.h"

enum {
    FLUSH_MS = 60000,
    TOKENS_MAX = 700,
    KEYSPACES = 4, /* of a tenant: two models, two kinds of parameters */
    TENANTS = 3,   /* the watched one, one with another salt, one without */
    STEPS = 400,
};

typedef struct world {
    char *directory;
    hth_cache *cache;
    hth_cache_options options;
} world;

typedef struct fixture {
    world alone, shared;
    hth_keyspace keyspaces[TENANTS][KEYSPACES];
    hth_policy policy;
    uint64_t seed;
} fixture;

static void open_world(world *w)
{
    assert_int_equal(hth_cache_open(&w->options, &w->cache, NULL), HEARTH_OK);
}

static void close_world(world *w)
{
    assert_true(hth_cache_close(w->cache, FLUSH_MS));
}

static void set_up(fixture *f)
{
    static const char *const salts[TENANTS] = { "anna", "bert", NULL };
    world *worlds[] = { &f->alone, &f->shared };

    for (size_t i = 0; i < 2; i++) {
        worlds[i]->directory = hth_test_directory_new();
        worlds[i]->options = (hth_cache_options){
            .ram_memory_fd = -1,
            .ram_bytes_max = 64 << 20,
            .ram_file_directory = worlds[i]->directory, /* files like those of a disk, without waiting for one */
            .ram_file_bytes_max = 256 << 20,
            .n_writer_threads = 1,
            .write_limits = { .queue_rows_max = 100000, .queue_bytes_max = 256 << 20 },
        };
        open_world(worlds[i]);
    }
    for (size_t i = 0; i < TENANTS; i++)
        for (size_t j = 0; j < KEYSPACES; j++) {
            uint8_t fingerprint[32] = { (uint8_t)(1 + j % 2) };

            f->keyspaces[i][j] = (hth_keyspace){ .quant_byte = 1, .ctx_params_hash = { (uint8_t)(j / 2) } };
            hth_keyspace_set_fingerprint(&f->keyspaces[i][j], fingerprint);
            hth_keyspace_salt(&f->keyspaces[i][j], salts[i]);
        }
    f->policy = hth_policy_default(TEST_PROMPT_TOKENS_MAX);
}

static void tear_down(fixture *f)
{
    close_world(&f->alone);
    close_world(&f->shared);
    hth_test_directory_remove(f->alone.directory);
    hth_test_directory_remove(f->shared.directory);
}

/* One of few prompts, so that tenants and turns meet: they part at few positions. */
static size_t draw_prompt(fixture *f, hearth_token tokens[TOKENS_MAX])
{
    static const size_t lengths[] = { 6, 20, 40, 90, 255, 256, 300, 420, 512, 640 };
    size_t n = lengths[hth_test_random(&f->seed, sizeof(lengths) / sizeof(lengths[0]))];
    size_t parts_at = hth_test_random(&f->seed, 4) * 150;

    test_prompt_tokens(7, tokens, n);
    for (size_t i = parts_at; i < n && hth_test_random(&f->seed, 8) != 0; i += 1 + n)
        tokens[i] = (hearth_token)(1 + hth_test_random(&f->seed, 2));
    return n;
}

/* Something that a tenant does; drawn beforehand, so that it is the same in both caches. */
typedef struct deed {
    unsigned what;
    const hth_keyspace *keyspace;
    hearth_token tokens[TOKENS_MAX];
    size_t n_tokens;
    size_t longer; /* tokens of a tail that supersedes */
} deed;

static void draw_deed(fixture *f, size_t tenant, deed *out)
{
    out->what = (unsigned)hth_test_random(&f->seed, 6);
    out->keyspace = &f->keyspaces[tenant][hth_test_random(&f->seed, KEYSPACES)];
    out->n_tokens = draw_prompt(f, out->tokens);
    out->longer = out->n_tokens - out->n_tokens % HTH_BLOCK_TOKENS;
    if (out->n_tokens % HTH_BLOCK_TOKENS < HTH_BLOCK_TOKENS - 20 && out->n_tokens % HTH_BLOCK_TOKENS > 0)
        out->longer = out->n_tokens + 10;
    for (size_t i = out->n_tokens; i < out->longer; i++)
        out->tokens[i] = 3;
}

static void do_deed(hth_cache *cache, const deed *d)
{
    hth_row_kind kind = d->n_tokens % HTH_BLOCK_TOKENS ? HTH_ROW_TAIL : HTH_ROW_BLOCK;
    hth_row_id end = test_prompt_row_id(d->keyspace, d->tokens, d->n_tokens, kind);

    switch (d->what) {
    case 0: hth_cache_reject(cache, &end, "test"); break;
    case 1:
        test_prompt_save(cache, d->keyspace, d->tokens, d->n_tokens);
        if (d->longer > d->n_tokens)
            test_prompt_save_row(cache, d->keyspace, d->tokens, d->longer, HTH_ROW_TAIL, &end);
        break;
    default: test_prompt_save(cache, d->keyspace, d->tokens, d->n_tokens); break;
    }
    assert_true(hth_cache_flush(cache, FLUSH_MS));
}

static void both(fixture *f, void (*function)(world *w))
{
    function(&f->alone);
    function(&f->shared);
}

static void restart(world *w)
{
    close_world(w);
    open_world(w);
}

static void evict_all(world *w)
{
    uint64_t freed;

    assert_true(hth_cache_flush(w->cache, FLUSH_MS));
    assert_int_equal(hth_cache_evict(w->cache, UINT64_MAX, HEARTH_EVICT_RAM | HEARTH_EVICT_RAM_FILE, &freed, NULL),
                     HEARTH_OK);
}

static void compare_answers(fixture *f, size_t step, unsigned n_by_miss[])
{
    hearth_token tokens[TOKENS_MAX];
    size_t n = draw_prompt(f, tokens);
    const hth_keyspace *keyspace = &f->keyspaces[0][hth_test_random(&f->seed, KEYSPACES)];
    test_prompt_answer alone =
        test_prompt_ask(f->alone.cache, keyspace, HTH_LOOKUP_CELLS, &f->policy, tokens, n, false);
    test_prompt_answer shared =
        test_prompt_ask(f->shared.cache, keyspace, HTH_LOOKUP_CELLS, &f->policy, tokens, n, false);

    n_by_miss[alone.why.miss]++;
    if (alone.n_cached != shared.n_cached || alone.why.miss != shared.why.miss ||
        alone.why.left_at != shared.why.left_at)
        fail_msg("step %zu, %zu tokens: alone %u cached, %s, left at %u; among others %u cached, %s, left at %u", step,
                 n, alone.n_cached, hearth_miss_name(alone.why.miss), alone.why.left_at, shared.n_cached,
                 hearth_miss_name(shared.why.miss), shared.why.left_at);
}

TEST_WITH(fixture, f, other_tenants_change_no_answer, set_up, tear_down)
{
    uint64_t n_steps = hth_test_number("HTH_STEPS", STEPS);
    unsigned n_by_miss[HEARTH_MISS_REFUSED + 1] = { 0 };
    deed d;

    f->seed = hth_test_seed();
    for (uint64_t step = 0; step < n_steps; step++) {
        if (hth_test_random(&f->seed, 2) == 0) {
            draw_deed(f, 0, &d);
            do_deed(f->alone.cache, &d);
            do_deed(f->shared.cache, &d);
        }
        draw_deed(f, 1 + hth_test_random(&f->seed, TENANTS - 1), &d);
        do_deed(f->shared.cache, &d);
        for (int i = 0; i < 5; i++)
            compare_answers(f, step, n_by_miss);
        if (hth_test_random(&f->seed, 40) == 0)
            both(f, evict_all);
        if (hth_test_random(&f->seed, 40) == 0)
            both(f, restart);
    }
    /* The life was rich enough for every answer that there is. */
    if (n_steps >= STEPS) {
        assert_true(n_by_miss[HEARTH_MISS_NONE] > 0);
        assert_true(n_by_miss[HEARTH_MISS_NEVER_SEEN] > 0);
        assert_true(n_by_miss[HEARTH_MISS_EVICTED] > 0);
        assert_true(n_by_miss[HEARTH_MISS_DAMAGED] > 0);
        assert_true(n_by_miss[HEARTH_MISS_BELOW_POLICY] > 0);
        assert_true(n_by_miss[HEARTH_MISS_OTHER_MODEL] > 0);
        assert_true(n_by_miss[HEARTH_MISS_OTHER_PARAMETERS] > 0);
    }
    assert_int_equal(n_by_miss[HEARTH_MISS_OTHER_TENANT], 0);
}
