/*
 * pool_test.c - who gets which sequence: sharing, going on in place, and in which order finished ones make room
 */
#include "sched/pool.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/stage.h"

enum { ENTRIES = 4, TOKENS_MAX = 1000 };

typedef struct fixture {
    test_stage stage; /* its batcher stands still */
    hth_pool *pool;
    hearth_token tokens[TOKENS_MAX];
    hearth_token others[TOKENS_MAX];
    uint8_t another_tenant[32];
} fixture;

static fixture f;

static void open_pool(const char *model, uint64_t ram_bytes)
{
    test_stage_options options = test_stage_options_default();
    hearth_error err;

    options.model = model;
    options.n_ctx = 1000;
    options.n_parallel = 3;
    options.n_sequences = ENTRIES;
    options.ram_bytes = ram_bytes;
    test_stage_open(&f.stage, &options);
    assert_ok(hth_pool_open(&f.stage.batcher->place, ENTRIES, &f.pool, &err), err);
    test_tokens(1, f.tokens, TOKENS_MAX);
    test_tokens(2, f.others, TOKENS_MAX);
    f.others[0] = 'A';
    memset(f.another_tenant, 7, sizeof(f.another_tenant));
}

static void close_pool(void)
{
    hth_pool_save(f.pool, HEARTH_SAVE_EVICT);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    assert_int_equal(hth_cells_n_unused(hth_pool_cells(f.pool)), hth_cells_n_total(hth_pool_cells(f.pool)));
    hth_pool_close(f.pool);
    test_stage_close(&f.stage);
}

static hth_pool_query query_of(const hearth_token *tokens, uint32_t n)
{
    return (hth_pool_query){ .keyspace = &f.stage.place.keyspace, .tokens = tokens, .n_tokens = n, .n_limit = n };
}

static hth_pool_entry *assigned(const hth_pool_query *query, uint32_t *n_live)
{
    hth_pool_entry *taken;
    hearth_error err;

    assert_ok(hth_pool_assign(f.pool, query, &taken, n_live, &err), err);
    assert_true(taken->is_running);
    assert_int_equal(hth_sequence_n_tokens(taken->sequence), *n_live);
    assert_int_equal(test_watch_n_tokens(&f.stage.watch, hth_sequence_id(taken->sequence)), *n_live);
    return taken;
}

/* Evaluate the rest of a request's tokens. */
static void evaluate(const hth_pool_entry *at, const hth_pool_query *query)
{
    const hth_workplace *place = &f.stage.batcher->place;
    uint32_t begin = hth_sequence_n_tokens(at->sequence), n = query->n_tokens - begin;
    hth_batch_row rows[TOKENS_MAX];
    hth_decode_result result;
    hth_lookup lookup;

    assert_int_equal(
        hth_sequence_lookup(at->sequence, query->tokens, query->n_tokens, query->n_tokens, false, &lookup, NULL),
        HEARTH_OK);
    hth_lookup_deinit(&lookup);
    for (uint32_t done = 0; done < n;) { /* as much as a batch takes, and never beyond a block */
        uint32_t now = 256 - (begin + done) % 256;

        now = now < n - done ? now : n - done;
        for (uint32_t i = 0; i < now; i++)
            rows[i] = (hth_batch_row){
                .token = query->tokens[begin + done + i],
                .position = begin + done + i,
                .sequence = hth_sequence_id(at->sequence),
            };
        assert_int_equal(place->backend->decode(place->context, rows, now, &result, NULL), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
        hth_sequence_extend(at->sequence, query->tokens + begin + done, now);
        hth_sequence_save_block(at->sequence, HEARTH_SAVE_COLD);
        done += now;
    }
}

/* A request gets a sequence, evaluates its tokens, and releases it. */
static hth_pool_entry *stay(const hearth_token *tokens, uint32_t n, const char *session, uint64_t until_ns)
{
    hth_pool_query query = query_of(tokens, n);
    uint32_t n_live;
    hth_pool_entry *taken;

    query.session = session;
    taken = assigned(&query, &n_live);
    evaluate(taken, &query);
    hth_pool_release(f.pool, taken, session, until_ns);
    return taken;
}

TEST(a_request_shares_the_longest_prefix_of_whoever_has_it)
{
    hth_pool_query runner = query_of(f.tokens, 300), query;
    hearth_token mixed[TOKENS_MAX];
    hth_pool_entry *running, *taken;
    uint32_t n, n_held;

    open_pool("stub:", 0);
    (void)stay(f.tokens, 100, NULL, 0);
    hth_pool_save(f.pool, HEARTH_SAVE_SHUTDOWN);
    running = assigned(&runner, &n); /* goes on from the one that ended */
    assert_int_equal(n, 100);
    evaluate(running, &runner);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);

    memcpy(mixed, f.tokens, 222 * sizeof(*mixed));
    memcpy(mixed + 222, f.others, 100 * sizeof(*mixed));
    query = query_of(mixed, 322);
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 222);
    assert_int_equal(n_held, 222);
    taken = assigned(&query, &n);
    assert_int_equal(n, 222);
    assert_ptr_not_equal(taken, running);
    evaluate(taken, &query);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300 + 100);
    assert_int_equal(hth_cells_n_unused(hth_pool_cells(f.pool)), 1000 - 400);
    hth_pool_release(f.pool, running, NULL, 0);
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 322);
    assert_int_equal(hth_cells_n_unheld(hth_pool_cells(f.pool)), 1000 - 322);
    query.n_limit = 50; /* no more than is wanted */
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 50);
    query.n_limit = 0;
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 0);
    hth_pool_release(f.pool, taken, NULL, 0);
    close_pool();
}

TEST(nothing_is_shared_with_another_tenant)
{
    hth_keyspace another_tenant;
    hth_pool_query query;
    uint32_t n, n_held;
    hth_pool_entry *taken;

    open_pool("stub:", 0);
    (void)stay(f.tokens, 100, NULL, 0);
    query = query_of(f.tokens, 100);
    another_tenant = f.stage.place.keyspace;
    hth_keyspace_salt(&another_tenant, "another");
    query.keyspace = &another_tenant;
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 0);
    taken = assigned(&query, &n);
    assert_int_equal(n, 0);
    evaluate(taken, &query);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    hth_pool_release(f.pool, taken, NULL, 0);
    close_pool();
}

TEST(only_whole_finished_sequences_go_on_where_none_can_be_shortened)
{
    static const char *const models[] = { "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    for (size_t m = 0; m < 3; m++) {
        hth_pool_query query, whole;
        uint32_t n, n_held;
        hth_pool_entry *taken;

        open_pool(models[m], 0);
        taken = stay(f.tokens, 100, NULL, 0);
        query = query_of(f.tokens, 90);
        assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 0);
        whole = query_of(f.tokens, 150);
        assert_int_equal(hth_pool_n_shared(f.pool, &whole, &n_held), 100);
        assert_ptr_equal(assigned(&whole, &n), taken);
        assert_int_equal(n, 100);
        assert_int_equal(hth_pool_n_shared(f.pool, &whole, &n_held), 0); /* it runs now */
        hth_pool_release(f.pool, taken, NULL, 0);
        close_pool();
    }
}

TEST(a_session_gets_its_own_sequence_back)
{
    hth_pool_query query;
    hth_keyspace another;
    uint32_t n;
    hth_pool_entry *of_session, *of_other, *stranger;

    open_pool("stub:", 0);
    of_session = stay(f.tokens, 100, "talk", UINT64_MAX);
    of_other = stay(f.others, 80, NULL, 0);
    assert_ptr_not_equal(of_session, of_other);
    query = query_of(f.tokens, 130); /* a stranger with the same words shares them, and leaves them where they are */
    stranger = assigned(&query, &n);
    assert_ptr_not_equal(stranger, of_session);
    assert_int_equal(n, 100);
    query.session = "talk";
    assert_ptr_equal(assigned(&query, &n), of_session);
    assert_int_equal(n, 100);
    assert_false(hth_pool_end_session(f.pool, &f.stage.place.keyspace, "talk")); /* it runs */
    hth_pool_release(f.pool, of_session, "talk", 1000);
    another = f.stage.place.keyspace;
    hth_keyspace_salt(&another, "another");
    assert_false(hth_pool_end_session(f.pool, &another, "talk"));
    assert_true(hth_pool_end_session(f.pool, &f.stage.place.keyspace, "talk"));
    assert_false(hth_pool_end_session(f.pool, &f.stage.place.keyspace, "talk"));
    hth_pool_release(f.pool, stranger, NULL, 0);
    close_pool();
}

TEST(sessions_expire_into_the_cache)
{
    open_pool("stub:", 64 << 20);
    (void)stay(f.tokens, 100, "one", 1000);
    (void)stay(f.others, 100, "two", 2000);
    hth_pool_expire_sessions(f.pool, 999);
    assert_int_equal(hth_pool_n_idle(f.pool), 2);
    assert_int_equal(hth_pool_next_expiry(f.pool), 1000);
    hth_pool_expire_sessions(f.pool, 1000);
    assert_int_equal(hth_pool_n_idle(f.pool), 1);
    assert_int_equal(hth_pool_next_expiry(f.pool), 2000);
    hth_pool_keep_session(f.pool, f.another_tenant, "two", 3000); /* that is another session */
    assert_int_equal(hth_pool_next_expiry(f.pool), 2000);
    hth_pool_keep_session(f.pool, f.stage.place.keyspace.fingerprint, "two", 4000);
    assert_int_equal(hth_pool_next_expiry(f.pool), 4000);
    hth_pool_expire_sessions(f.pool, 5000);
    assert_int_equal(hth_pool_next_expiry(f.pool), UINT64_MAX);
    assert_int_equal(hth_pool_n_idle(f.pool), 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    for (unsigned i = 0; i < 2; i++) {
        hth_lookup lookup;

        assert_int_equal(hth_prompt_lookup(&f.stage.place, &f.stage.place.keyspace, i ? f.others : f.tokens, 100, true,
                                           &lookup, NULL),
                         HEARTH_OK);
        assert_int_equal(lookup.n_cached, 100);
        hth_lookup_deinit(&lookup);
    }
    close_pool();
}

TEST(the_least_recently_used_goes_first_and_sessions_last)
{
    hth_pool_query query;
    uint32_t n, n_held;

    open_pool("stub:", 64 << 20);
    (void)stay(f.tokens, 100, "talk", UINT64_MAX); /* the oldest, but a session */
    (void)stay(f.tokens + 200, 110, NULL, 0);
    (void)stay(f.tokens + 400, 120, NULL, 0);
    (void)stay(f.tokens + 600, 130, NULL, 0);
    query = query_of(f.tokens + 200, 110); /* used once more */
    hth_pool_release(f.pool, assigned(&query, &n), NULL, 0);
    assert_int_equal(n, 110);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 460);

    assert_true(hth_pool_make_room(f.pool, 1000 - 460)); /* as it is */
    assert_int_equal(test_watch_n_used(&f.stage.watch), 460);
    assert_true(hth_pool_make_room(f.pool, 1000 - 460 + 1));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 340);
    query = query_of(f.tokens + 400, 120);
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 0);
    assert_true(hth_pool_make_room(f.pool, 1000 - 340 + 1));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 210);
    query = query_of(f.tokens + 200, 110);
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 110);
    assert_true(hth_pool_make_room(f.pool, 1000 - 100));
    assert_int_equal(hth_pool_n_shared(f.pool, &query, &n_held), 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 100);
    assert_true(hth_pool_make_room(f.pool, 1000));
    assert_false(hth_pool_end_session(f.pool, &f.stage.place.keyspace, "talk"));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    assert_false(hth_pool_make_room(f.pool, 1001)); /* there are not so many */
    close_pool();
}

TEST(cells_that_a_runner_holds_are_not_freed_by_letting_others_go)
{
    hth_pool_query query;
    uint32_t n;
    hth_pool_entry *taken;

    open_pool("stub:", 0);
    (void)stay(f.tokens, 300, "talk", UINT64_MAX);
    query = query_of(f.tokens, 200);
    taken = assigned(&query, &n); /* shares with the session's */
    assert_int_equal(n, 200);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);
    assert_int_equal(hth_cells_n_unheld(hth_pool_cells(f.pool)), 800);
    assert_false(hth_pool_make_room(f.pool, 801));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    assert_int_equal(hth_sequence_n_tokens(taken->sequence), 200);
    hth_pool_release(f.pool, taken, NULL, 0);
    close_pool();
}

/* How many tokens of a prompt the cache has; of a sequence that is emptied for that. */
static size_t n_cached(hth_pool_entry *at, const hearth_token *tokens, uint32_t n)
{
    hth_lookup lookup;
    size_t n_found;

    (void)hth_sequence_shorten(at->sequence, 0);
    assert_int_equal(hth_sequence_lookup(at->sequence, tokens, n, n, true, &lookup, NULL), HEARTH_OK);
    n_found = lookup.n_cached;
    hth_lookup_deinit(&lookup);
    return n_found;
}

TEST(too_many_idle_cells_go_to_the_cache_when_somebody_comes_and_nobody_runs)
{
    hth_pool_query runner = query_of(f.tokens, 200), other = query_of(f.others, 100);
    hth_pool_entry *running, *second;
    uint32_t n;

    open_pool("stub:", 8 << 20);
    (void)stay(f.others, 100, "a talk", UINT64_MAX);
    (void)stay(f.tokens, 150, NULL, 0);
    hth_pool_limit_idle(f.pool, 250);
    running = assigned(&runner, &n); /* as many as may be */
    assert_int_equal(n, 150);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 250);
    evaluate(running, &runner);
    hth_pool_limit_idle(f.pool, 50);
    second = assigned(&other, &n); /* somebody runs: what lies below him stays */
    assert_int_equal(n, 100);
    hth_pool_release(f.pool, running, NULL, 0);
    hth_pool_release(f.pool, second, NULL, 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);

    running =
        assigned(&runner, &n); /* also what he could have shared: it comes back from rows, in the order of its tokens */
    assert_int_equal(n, 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    assert_int_equal(n_cached(running, f.others, 100), 100);
    assert_int_equal(n_cached(running, f.tokens, 200), 200);
    hth_pool_release(f.pool, running, NULL, 0);
    close_pool();
}

TEST(far_too_many_idle_cells_go_though_somebody_runs_those_of_sessions_last)
{
    hearth_token third[TOKENS_MAX];
    hth_pool_query runner = query_of(f.tokens, 200);
    hth_pool_entry *running;
    uint32_t n;

    open_pool("stub:", 8 << 20);
    memcpy(third, f.others, sizeof(third));
    third[0] = 'B';
    running = assigned(&runner, &n);
    evaluate(running, &runner);
    (void)stay(f.others, 100, "a talk", UINT64_MAX);
    (void)stay(third, 300, NULL, 0);
    hth_pool_limit_idle(f.pool, 400);
    hth_pool_limit_idle(f.pool, 100);
    hth_pool_limit_idle(f.pool, 33);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 600);
    hth_pool_limit_idle(f.pool, 30);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    (void)stay(f.others, 100, "a talk", UINT64_MAX);
    (void)stay(third, 300, NULL, 0);
    hth_pool_limit_idle(f.pool, 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    hth_pool_release(f.pool, running, NULL, 0);
    close_pool();
}

static bool refuse_copy(test_watch *watch, void *user_data)
{
    (void)watch, (void)user_data;
    return true;
}

TEST(what_the_cache_does_not_have_stays_however_many_cells_are_idle)
{
    for (int has_cache = 0; has_cache <= 1; has_cache++) {
        open_pool("stub:", has_cache ? 8 << 20 : 0);
        (void)stay(f.tokens, 250, NULL, 0);
        f.stage.watch.hooks.refuses_copy = refuse_copy; /* nothing can be cut into rows */
        hth_pool_limit_idle(f.pool, 0);
        hth_pool_limit_idle(f.pool, 0);
        assert_int_equal(test_watch_n_used(&f.stage.watch), 250);
        assert_true(hth_pool_make_room(f.pool, 1000)); /* but makes room where its cells are needed */
        close_pool();
    }
}

TEST(a_full_house_gives_the_next_guest_the_oldest_seat)
{
    hth_pool_entry *first, *taken;
    hth_pool_query query = query_of(f.others, 50);
    uint32_t n;

    open_pool("stub:", 0);
    first = stay(f.tokens, 100, NULL, 0);
    for (unsigned i = 1; i < ENTRIES; i++)
        (void)stay(f.tokens + 100 * i, 100, NULL, 0);
    assert_int_equal(hth_pool_n_idle(f.pool), ENTRIES);
    query = query_of(f.others, 50);
    taken = assigned(&query, &n);
    assert_ptr_equal(taken, first);
    assert_int_equal(n, 0);
    assert_int_equal(hth_pool_n_idle(f.pool), ENTRIES - 1);
    hth_pool_release(f.pool, taken, NULL, 0);
    close_pool();
}
