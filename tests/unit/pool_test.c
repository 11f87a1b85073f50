/*
 * pool_test.c - who gets which sequence: sharing, going on in place, and in which order finished ones make room
 */
#include "sched/pool.h"

#include <string.h>

#include "support/cmocka_all.h"
#include "support/stage.h"

enum { SEATS = 4, TOKENS_MAX = 1000 };

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
    options.n_sequences = SEATS;
    options.ram_bytes = ram_bytes;
    test_stage_open(&f.stage, &options);
    if (hth_pool_open(hth_batcher_workplace(f.stage.batcher), SEATS, &f.pool, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
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

static hth_guest guest_of(const hearth_token *tokens, uint32_t n)
{
    return (hth_guest){ .keyspace = &f.stage.place.keyspace, .tokens = tokens, .n_tokens = n, .n_limit = n };
}

static hth_seat *seat(const hth_guest *guest, uint32_t *n_live)
{
    hth_seat *taken;
    hearth_error err;

    if (hth_pool_seat(f.pool, guest, &taken, n_live, &err) != HEARTH_OK)
        fail_msg("%s", err.message);
    assert_true(taken->is_running);
    assert_int_equal(hth_sequence_n_tokens(taken->sequence), *n_live);
    assert_int_equal(test_watch_n_tokens(&f.stage.watch, hth_sequence_id(taken->sequence)), *n_live);
    return taken;
}

/* Evaluate what is left of a guest's tokens. */
static void evaluate(const hth_seat *at, const hth_guest *guest)
{
    const hth_workplace *place = hth_batcher_workplace(f.stage.batcher);
    uint32_t begin = hth_sequence_n_tokens(at->sequence), n = guest->n_tokens - begin;
    hth_batch_row rows[TOKENS_MAX];
    hth_decode_result result;
    hth_lookup lookup;

    assert_int_equal(
        hth_sequence_lookup(at->sequence, guest->tokens, guest->n_tokens, guest->n_tokens, false, &lookup, NULL),
        HEARTH_OK);
    hth_lookup_deinit(&lookup);
    for (uint32_t done = 0; done < n;) { /* as much as a batch takes, and never beyond a block */
        uint32_t now = 256 - (begin + done) % 256;

        now = now < n - done ? now : n - done;
        hth_sequence_fill_rows(at->sequence, guest->tokens + begin + done, now, false, rows);
        assert_int_equal(place->backend->decode(place->context, rows, now, &result, NULL), HEARTH_OK);
        assert_int_equal(result, HTH_DECODE_OK);
        hth_sequence_extend(at->sequence, guest->tokens + begin + done, now);
        hth_sequence_save_block(at->sequence, HEARTH_SAVE_COLD);
        done += now;
    }
}

/* A guest comes, evaluates its tokens, and goes. */
static hth_seat *stay(const hearth_token *tokens, uint32_t n, const char *session, uint64_t until_ns)
{
    hth_guest guest = guest_of(tokens, n);
    uint32_t n_live;
    hth_seat *taken;

    guest.session = session;
    taken = seat(&guest, &n_live);
    evaluate(taken, &guest);
    hth_pool_leave(f.pool, taken, session, until_ns);
    return taken;
}

static void a_guest_shares_the_longest_prefix_of_whoever_has_it(void **state)
{
    hth_guest runner = guest_of(f.tokens, 300), guest;
    hearth_token mixed[TOKENS_MAX];
    hth_seat *running, *taken;
    uint32_t n, n_held;

    (void)state;
    open_pool("stub:", 0);
    (void)stay(f.tokens, 100, NULL, 0);
    hth_pool_save(f.pool, HEARTH_SAVE_SHUTDOWN);
    running = seat(&runner, &n); /* goes on from the one that ended */
    assert_int_equal(n, 100);
    evaluate(running, &runner);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);

    memcpy(mixed, f.tokens, 222 * sizeof(*mixed));
    memcpy(mixed + 222, f.others, 100 * sizeof(*mixed));
    guest = guest_of(mixed, 322);
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 222);
    assert_int_equal(n_held, 222);
    taken = seat(&guest, &n);
    assert_int_equal(n, 222);
    assert_ptr_not_equal(taken, running);
    evaluate(taken, &guest);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300 + 100);
    assert_int_equal(hth_cells_n_unused(hth_pool_cells(f.pool)), 1000 - 400);
    hth_pool_leave(f.pool, running, NULL, 0);
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 322);
    assert_int_equal(hth_cells_n_unheld(hth_pool_cells(f.pool)), 1000 - 322);
    guest.n_limit = 50; /* no more than is wanted */
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 50);
    guest.n_limit = 0;
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 0);
    hth_pool_leave(f.pool, taken, NULL, 0);
    close_pool();
}

static void nothing_is_shared_with_another_tenant(void **state)
{
    hth_keyspace another_tenant;
    hth_guest guest;
    uint32_t n, n_held;
    hth_seat *taken;

    (void)state;
    open_pool("stub:", 0);
    (void)stay(f.tokens, 100, NULL, 0);
    guest = guest_of(f.tokens, 100);
    another_tenant = f.stage.place.keyspace;
    hth_keyspace_salt(&another_tenant, "another");
    guest.keyspace = &another_tenant;
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 0);
    taken = seat(&guest, &n);
    assert_int_equal(n, 0);
    evaluate(taken, &guest);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    hth_pool_leave(f.pool, taken, NULL, 0);
    close_pool();
}

static void only_whole_finished_sequences_go_on_where_none_can_be_shortened(void **state)
{
    static const char *const models[] = { "stub:kind=window", "stub:kind=recurrent", "stub:kind=hybrid" };

    (void)state;
    for (size_t m = 0; m < 3; m++) {
        hth_guest guest, whole;
        uint32_t n, n_held;
        hth_seat *taken;

        open_pool(models[m], 0);
        taken = stay(f.tokens, 100, NULL, 0);
        guest = guest_of(f.tokens, 90);
        assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 0);
        whole = guest_of(f.tokens, 150);
        assert_int_equal(hth_pool_n_shared(f.pool, &whole, &n_held), 100);
        assert_ptr_equal(seat(&whole, &n), taken);
        assert_int_equal(n, 100);
        assert_int_equal(hth_pool_n_shared(f.pool, &whole, &n_held), 0); /* it runs now */
        hth_pool_leave(f.pool, taken, NULL, 0);
        close_pool();
    }
}

static void a_session_gets_its_own_sequence_back(void **state)
{
    hth_guest guest;
    uint32_t n;
    hth_seat *of_session, *of_other, *stranger;

    (void)state;
    open_pool("stub:", 0);
    of_session = stay(f.tokens, 100, "talk", UINT64_MAX);
    of_other = stay(f.others, 80, NULL, 0);
    assert_ptr_not_equal(of_session, of_other);
    guest = guest_of(f.tokens, 130); /* a stranger with the same words shares them, and leaves them where they are */
    stranger = seat(&guest, &n);
    assert_ptr_not_equal(stranger, of_session);
    assert_int_equal(n, 100);
    guest.session = "talk";
    assert_ptr_equal(seat(&guest, &n), of_session);
    assert_int_equal(n, 100);
    assert_false(hth_pool_end_session(f.pool, f.stage.place.keyspace.fingerprint, "talk")); /* it runs */
    hth_pool_leave(f.pool, of_session, "talk", 1000);
    assert_false(hth_pool_end_session(f.pool, f.another_tenant, "talk"));
    assert_true(hth_pool_end_session(f.pool, f.stage.place.keyspace.fingerprint, "talk"));
    assert_false(hth_pool_end_session(f.pool, f.stage.place.keyspace.fingerprint, "talk"));
    hth_pool_leave(f.pool, stranger, NULL, 0);
    close_pool();
}

static void sessions_expire_into_the_cache(void **state)
{
    (void)state;
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
        hth_prompt_place place = hth_workplace_prompt_place(&f.stage.place);
        hth_lookup lookup;

        assert_int_equal(
            hth_prompt_lookup(&place, &f.stage.place.keyspace, i ? f.others : f.tokens, 100, true, &lookup, NULL),
            HEARTH_OK);
        assert_int_equal(lookup.n_cached, 100);
        hth_lookup_deinit(&lookup);
    }
    close_pool();
}

static void the_least_recently_used_goes_first_and_sessions_last(void **state)
{
    hth_guest guest;
    uint32_t n, n_held;

    (void)state;
    open_pool("stub:", 64 << 20);
    (void)stay(f.tokens, 100, "talk", UINT64_MAX); /* the oldest, but a session */
    (void)stay(f.tokens + 200, 110, NULL, 0);
    (void)stay(f.tokens + 400, 120, NULL, 0);
    (void)stay(f.tokens + 600, 130, NULL, 0);
    guest = guest_of(f.tokens + 200, 110); /* used once more */
    hth_pool_leave(f.pool, seat(&guest, &n), NULL, 0);
    assert_int_equal(n, 110);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 460);

    assert_true(hth_pool_make_room(f.pool, 1000 - 460)); /* as it is */
    assert_int_equal(test_watch_n_used(&f.stage.watch), 460);
    assert_true(hth_pool_make_room(f.pool, 1000 - 460 + 1));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 340);
    guest = guest_of(f.tokens + 400, 120);
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 0);
    assert_true(hth_pool_make_room(f.pool, 1000 - 340 + 1));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 210);
    guest = guest_of(f.tokens + 200, 110);
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 110);
    assert_true(hth_pool_make_room(f.pool, 1000 - 100));
    assert_int_equal(hth_pool_n_shared(f.pool, &guest, &n_held), 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 100);
    assert_true(hth_pool_make_room(f.pool, 1000));
    assert_false(hth_pool_end_session(f.pool, f.stage.place.keyspace.fingerprint, "talk"));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    assert_false(hth_pool_make_room(f.pool, 1001)); /* there are not so many */
    close_pool();
}

static void cells_that_a_runner_holds_are_not_freed_by_letting_others_go(void **state)
{
    hth_guest guest;
    uint32_t n;
    hth_seat *taken;

    (void)state;
    open_pool("stub:", 0);
    (void)stay(f.tokens, 300, "talk", UINT64_MAX);
    guest = guest_of(f.tokens, 200);
    taken = seat(&guest, &n); /* shares with the session's */
    assert_int_equal(n, 200);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);
    assert_int_equal(hth_cells_n_unheld(hth_pool_cells(f.pool)), 800);
    assert_false(hth_pool_make_room(f.pool, 801));
    assert_int_equal(test_watch_n_used(&f.stage.watch), 200);
    assert_int_equal(hth_sequence_n_tokens(taken->sequence), 200);
    hth_pool_leave(f.pool, taken, NULL, 0);
    close_pool();
}

/* How many tokens of a prompt the cache has; of a sequence that is emptied for that. */
static size_t n_cached(hth_seat *at, const hearth_token *tokens, uint32_t n)
{
    hth_lookup lookup;
    size_t n_found;

    (void)hth_sequence_shorten(at->sequence, 0);
    assert_int_equal(hth_sequence_lookup(at->sequence, tokens, n, n, true, &lookup, NULL), HEARTH_OK);
    n_found = lookup.n_cached;
    hth_lookup_deinit(&lookup);
    return n_found;
}

static void too_many_idle_cells_go_to_the_cache_when_somebody_comes_and_nobody_runs(void **state)
{
    hth_guest runner = guest_of(f.tokens, 200), other = guest_of(f.others, 100);
    hth_seat *running, *second;
    uint32_t n;

    (void)state;
    open_pool("stub:", 8 << 20);
    (void)stay(f.others, 100, "a talk", UINT64_MAX);
    (void)stay(f.tokens, 150, NULL, 0);
    hth_pool_limit_idle(f.pool, 250);
    running = seat(&runner, &n); /* as many as may be */
    assert_int_equal(n, 150);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 250);
    evaluate(running, &runner);
    hth_pool_limit_idle(f.pool, 50);
    second = seat(&other, &n); /* somebody runs: what lies below him stays */
    assert_int_equal(n, 100);
    hth_pool_leave(f.pool, running, NULL, 0);
    hth_pool_leave(f.pool, second, NULL, 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 300);

    running =
        seat(&runner, &n); /* also what he could have shared: it comes back from rows, in the order of its tokens */
    assert_int_equal(n, 0);
    assert_int_equal(test_watch_n_used(&f.stage.watch), 0);
    assert_int_equal(n_cached(running, f.others, 100), 100);
    assert_int_equal(n_cached(running, f.tokens, 200), 200);
    hth_pool_leave(f.pool, running, NULL, 0);
    close_pool();
}

static void far_too_many_idle_cells_go_though_somebody_runs_those_of_sessions_last(void **state)
{
    hearth_token third[TOKENS_MAX];
    hth_guest runner = guest_of(f.tokens, 200);
    hth_seat *running;
    uint32_t n;

    (void)state;
    open_pool("stub:", 8 << 20);
    memcpy(third, f.others, sizeof(third));
    third[0] = 'B';
    running = seat(&runner, &n);
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
    hth_pool_leave(f.pool, running, NULL, 0);
    close_pool();
}

static bool refuse_copy(test_watch *watch, void *user_data)
{
    (void)watch, (void)user_data;
    return true;
}

static void what_the_cache_does_not_have_stays_however_many_cells_are_idle(void **state)
{
    (void)state;
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

static void a_full_house_gives_the_next_guest_the_oldest_seat(void **state)
{
    hth_seat *first, *taken;
    hth_guest guest = guest_of(f.others, 50);
    uint32_t n;

    (void)state;
    open_pool("stub:", 0);
    first = stay(f.tokens, 100, NULL, 0);
    for (unsigned i = 1; i < SEATS; i++)
        (void)stay(f.tokens + 100 * i, 100, NULL, 0);
    assert_int_equal(hth_pool_n_idle(f.pool), SEATS);
    guest = guest_of(f.others, 50);
    taken = seat(&guest, &n);
    assert_ptr_equal(taken, first);
    assert_int_equal(n, 0);
    assert_int_equal(hth_pool_n_idle(f.pool), SEATS - 1);
    hth_pool_leave(f.pool, taken, NULL, 0);
    close_pool();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guest_shares_the_longest_prefix_of_whoever_has_it),
        cmocka_unit_test(nothing_is_shared_with_another_tenant),
        cmocka_unit_test(only_whole_finished_sequences_go_on_where_none_can_be_shortened),
        cmocka_unit_test(a_session_gets_its_own_sequence_back),
        cmocka_unit_test(sessions_expire_into_the_cache),
        cmocka_unit_test(the_least_recently_used_goes_first_and_sessions_last),
        cmocka_unit_test(cells_that_a_runner_holds_are_not_freed_by_letting_others_go),
        cmocka_unit_test(too_many_idle_cells_go_to_the_cache_when_somebody_comes_and_nobody_runs),
        cmocka_unit_test(far_too_many_idle_cells_go_though_somebody_runs_those_of_sessions_last),
        cmocka_unit_test(what_the_cache_does_not_have_stays_however_many_cells_are_idle),
        cmocka_unit_test(a_full_house_gives_the_next_guest_the_oldest_seat),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
