/*
 * keys_test.c - who is known, and what a key's limits let through
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "front/keys.h"
#include "support/cmocka_all.h"

#define SECOND UINT64_C(1000000000)

enum { KEYS = 3 };

typedef struct fixture {
    hth_server_key list[KEYS];
    hth_server_options options;
    hth_keys *keys;
} fixture;

static hth_server_key key_of(const char *name, const char *secret)
{
    hth_server_key key = { .name = name };

    hth_sha256_of(secret, strlen(secret), key.sha256);
    return key;
}

static void set_up(fixture *f)
{
    f->list[0] = key_of("alice", "secret-of-alice");
    f->list[1] = key_of("bob", "secret-of-bob");
    f->list[2] = key_of("carol", "secret-of-carol");
    f->options = (hth_server_options){ .keys = f->list, .n_keys = KEYS };
    f->keys = hth_keys_new();
    assert_non_null(f->keys);
    assert_true(hth_keys_set(f->keys, &f->options));
}

static void tear_down(fixture *f)
{
    hth_keys_free(f->keys);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static const char *name_found(fixture *f, const char *authorization, const char *bare)
{
    const hth_key_use *use = hth_keys_find(f->keys, authorization, bare);

    return use ? hth_key_use_key(use)->name : "nobody";
}

FIXTURE_TEST(a_key_is_known_in_either_header)
{
    assert_string_equal(name_found(f, "Bearer secret-of-bob", NULL), "bob");
    assert_string_equal(name_found(f, "bearer   secret-of-carol", NULL), "carol");
    assert_string_equal(name_found(f, NULL, "secret-of-alice"), "alice");
    assert_string_equal(name_found(f, "Basic eDp5", "secret-of-alice"), "alice");
    assert_string_equal(name_found(f, "Bearer nonsense", "secret-of-alice"), "alice");
}

FIXTURE_TEST(what_is_no_key_is_nobody)
{
    assert_string_equal(name_found(f, NULL, NULL), "nobody");
    assert_string_equal(name_found(f, "", ""), "nobody");
    assert_string_equal(name_found(f, "Bearer", NULL), "nobody");
    assert_string_equal(name_found(f, "Bearer ", NULL), "nobody");
    assert_string_equal(name_found(f, "Bearersecret-of-bob", NULL), "nobody");
    assert_string_equal(name_found(f, "secret-of-bob", NULL), "nobody");
    assert_string_equal(name_found(f, "Bearer secret-of-bo", NULL), "nobody");
    assert_string_equal(name_found(f, "Bearer secret-of-bob ", NULL), "nobody");
    assert_string_equal(name_found(f, NULL, "alice"), "nobody");
}

FIXTURE_TEST(a_key_without_models_may_use_all)
{
    static const char *const models[] = { "chat", "code" };
    hth_server_key key = { .name = "x" };

    assert_true(hth_key_allows_model(&key, "anything"));
    key.models = models;
    key.n_models = 2;
    assert_true(hth_key_allows_model(&key, "code"));
    assert_false(hth_key_allows_model(&key, "cod"));
    assert_false(hth_key_allows_model(&key, "codex"));
}

TEST(a_key_is_refused_from_its_last_second_on)
{
    hth_server_key key = { .name = "x" };

    assert_false(hth_key_is_expired(&key, INT64_MAX));
    key.expires_s = 1000;
    assert_false(hth_key_is_expired(&key, 999));
    assert_true(hth_key_is_expired(&key, 1000));
    assert_true(hth_key_is_expired(&key, 5000));
}

static hth_key_verdict begin(hth_key_use *use, uint64_t now_ns, uint32_t *retry_after_s)
{
    *retry_after_s = 0;
    return hth_key_use_begin(use, now_ns, retry_after_s);
}

FIXTURE_TEST(requests_come_back_one_by_one)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-alice");
    uint32_t retry;
    uint64_t now = 5 * SECOND;

    f->list[0].requests_per_minute = 6;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(begin(use, now, &retry), HTH_KEY_OK);
        hth_key_use_end(use, now, 1000000);
    }
    assert_int_equal(begin(use, now, &retry), HTH_KEY_TOO_MANY_REQUESTS);
    assert_int_equal(retry, 10);
    assert_int_equal(begin(use, now + 4 * SECOND, &retry), HTH_KEY_TOO_MANY_REQUESTS);
    assert_int_equal(retry, 6);
    /* What was refused cost nothing. */
    assert_int_equal(begin(use, now + 10 * SECOND + 1, &retry), HTH_KEY_OK);
    assert_int_equal(begin(use, now + 10 * SECOND + 2, &retry), HTH_KEY_TOO_MANY_REQUESTS);
    hth_key_use_end(use, now, 0);
}

FIXTURE_TEST(an_idle_key_saves_no_more_than_a_minute)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-alice");
    uint32_t retry;
    uint64_t now = 100000 * SECOND;

    f->list[0].requests_per_minute = 2;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(begin(use, now, &retry), HTH_KEY_OK);
        hth_key_use_end(use, now, 0);
    }
    assert_int_equal(begin(use, now, &retry), HTH_KEY_TOO_MANY_REQUESTS);
}

FIXTURE_TEST(who_took_too_many_tokens_waits_for_them)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-alice");
    uint32_t retry;

    f->list[0].tokens_per_minute = 600;
    assert_int_equal(begin(use, SECOND, &retry), HTH_KEY_OK);
    assert_int_equal(begin(use, SECOND, &retry), HTH_KEY_OK); /* not known yet what the first one takes */
    hth_key_use_end(use, SECOND, 900);
    hth_key_use_end(use, SECOND, 0);
    assert_int_equal(begin(use, SECOND, &retry), HTH_KEY_TOO_MANY_TOKENS);
    assert_int_equal(retry, 30);
    assert_int_equal(begin(use, 32 * SECOND, &retry), HTH_KEY_OK);
    hth_key_use_end(use, 32 * SECOND, 5);
}

FIXTURE_TEST(so_many_at_once_and_no_more)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-alice");
    uint32_t retry;

    f->list[0].concurrency = 2;
    assert_int_equal(begin(use, 1, &retry), HTH_KEY_OK);
    assert_int_equal(begin(use, 1, &retry), HTH_KEY_OK);
    assert_int_equal(begin(use, 1, &retry), HTH_KEY_TOO_MANY_AT_ONCE);
    assert_int_equal(retry, 1);
    hth_key_use_end(use, 2, 0);
    assert_int_equal(begin(use, 2, &retry), HTH_KEY_OK);
    hth_key_use_end(use, 3, 0);
    hth_key_use_end(use, 3, 0);
}

FIXTURE_TEST(a_clock_that_stands_still_gives_nothing_back)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-alice");
    uint32_t retry;

    f->list[0].requests_per_minute = 1;
    assert_int_equal(begin(use, 90 * SECOND, &retry), HTH_KEY_OK);
    hth_key_use_end(use, 90 * SECOND, 0);
    assert_int_equal(begin(use, 30 * SECOND, &retry), HTH_KEY_TOO_MANY_REQUESTS);
}

FIXTURE_TEST(what_was_used_outlives_a_reload)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-bob");
    hth_server_key list[2] = { key_of("dave", "secret-of-dave"), key_of("bob", "another secret") };
    hth_server_options options = { .keys = list, .n_keys = 2 };
    uint32_t retry;

    f->list[1].requests_per_minute = list[1].requests_per_minute = 1;
    assert_int_equal(begin(use, SECOND, &retry), HTH_KEY_OK);
    hth_key_use_end(use, SECOND, 0);
    assert_true(hth_keys_set(f->keys, &options));
    assert_null(hth_keys_find(f->keys, NULL, "secret-of-bob"));
    assert_null(hth_keys_find(f->keys, NULL, "secret-of-alice"));
    assert_non_null(hth_keys_find(f->keys, NULL, "secret-of-dave"));
    use = hth_keys_find(f->keys, NULL, "another secret");
    assert_non_null(use);
    assert_int_equal(begin(use, SECOND, &retry), HTH_KEY_TOO_MANY_REQUESTS);
}

FIXTURE_TEST(a_key_that_is_taken_away_lets_its_requests_end)
{
    hth_key_use *use = hth_keys_find(f->keys, NULL, "secret-of-carol");
    const hth_server_options none = { .n_keys = 0 };
    uint32_t retry;

    assert_int_equal(begin(use, 1, &retry), HTH_KEY_OK);
    assert_int_equal(begin(use, 1, &retry), HTH_KEY_OK);
    assert_true(hth_keys_set(f->keys, &none));
    assert_null(hth_keys_find(f->keys, NULL, "secret-of-carol"));
    assert_null(hth_key_use_key(use));
    hth_key_use_end(use, 2, 10);
    /* And it may come back meanwhile. */
    assert_true(hth_keys_set(f->keys, &f->options));
    assert_ptr_equal(hth_keys_find(f->keys, NULL, "secret-of-carol"), use);
    assert_true(hth_keys_set(f->keys, &none));
    hth_key_use_end(use, 3, 10);
}

/* ---- the same limits on several nodes ---- */

/* How many of these requests a key takes; they end at once. */
static unsigned taken(fixture *f, const char *secret, unsigned n, uint64_t now_ns)
{
    unsigned n_taken = 0;
    uint32_t retry_after_s;

    for (unsigned i = 0; i < n; i++) {
        hth_key_use *use = hth_keys_find(f->keys, NULL, secret);

        assert_non_null(use);
        if (hth_key_use_begin(use, now_ns, &retry_after_s) != HTH_KEY_OK)
            continue;
        hth_key_use_end(use, now_ns, 10);
        n_taken++;
    }
    return n_taken;
}

FIXTURE_TEST(what_was_used_is_counted_once_for_others)
{
    hth_key_count counts[2];
    size_t cursor = 0;

    f->list[0].requests_per_minute = 10;
    f->list[2].tokens_per_minute = 1000;
    assert_int_equal(taken(f, "secret-of-alice", 3, SECOND), 3);
    assert_int_equal(taken(f, "secret-of-bob", 3, SECOND), 3);
    assert_int_equal(taken(f, "secret-of-carol", 2, SECOND), 2);
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, counts, 1), 1);
    assert_string_equal(counts[0].key->name, "alice");
    assert_true(counts[0].requests == 3 && counts[0].n_running == 0);
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, counts, 2), 1); /* bob has no limits */
    assert_string_equal(counts[0].key->name, "carol");
    assert_true(counts[0].tokens == 20);
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, counts, 2), 0);
    cursor = 0;
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, counts, 2), 2);
    assert_true(counts[0].requests == 0 && counts[1].tokens == 0);
}

FIXTURE_TEST(what_others_used_counts_and_what_came_since_on_top)
{
    hth_key_count counts[KEYS];
    size_t cursor = 0;

    f->list[0].requests_per_minute = 10;
    assert_int_equal(taken(f, "secret-of-alice", 2, SECOND), 2);
    (void)hth_keys_take_counts(f->keys, &cursor, SECOND, counts, KEYS);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 1); /* while the store answers */
    hth_keys_set_counts(f->keys, "alice", 7, 0, 0, SECOND);
    assert_int_equal(taken(f, "secret-of-alice", 10, SECOND), 2);
    hth_keys_set_counts(f->keys, "nobody", 7, 0, 0, SECOND);
}

FIXTURE_TEST(what_runs_elsewhere_counts)
{
    f->list[0].concurrency = 2;
    hth_keys_set_counts(f->keys, "alice", 0, 0, 2, SECOND);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 0);
    hth_keys_set_counts(f->keys, "alice", 0, 0, 1, SECOND);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 1);
}

FIXTURE_TEST(alone_a_node_has_its_part_of_each_limit)
{
    f->list[0].requests_per_minute = 10;
    f->list[1].concurrency = 2;
    hth_keys_set_counts(f->keys, "bob", 0, 0, 2, SECOND);
    hth_keys_divide(f->keys, 3);
    assert_int_equal(taken(f, "secret-of-alice", 10, SECOND), 4); /* rounded up */
    assert_int_equal(taken(f, "secret-of-bob", 1, SECOND), 1);    /* what ran elsewhere is not known any more */
    hth_keys_unite(f->keys);
    assert_int_equal(taken(f, "secret-of-alice", 10, SECOND), 0); /* the others are taken to have used as much */
    hth_keys_set_counts(f->keys, "alice", 0, 0, 0, SECOND);       /* nobody had, but for what is new here */
    assert_int_equal(taken(f, "secret-of-alice", 10, SECOND), 6);
}

FIXTURE_TEST(what_was_used_is_divided_as_its_limit_is)
{
    f->list[0].requests_per_minute = 60;
    hth_keys_set_counts(f->keys, "alice", 30, 0, 0, SECOND);
    hth_keys_divide(f->keys, 3);
    assert_int_equal(taken(f, "secret-of-alice", 20, SECOND), 10);
    hth_keys_divide(f->keys, 2);
    hth_keys_divide(f->keys, 2);
    assert_int_equal(taken(f, "secret-of-alice", 20, SECOND), 0);
    assert_int_equal(taken(f, "secret-of-alice", 20, 11 * SECOND), 5);
}

FIXTURE_TEST(the_last_node_does_not_count_what_ran_elsewhere)
{
    f->list[0].concurrency = 1;
    hth_keys_set_counts(f->keys, "alice", 0, 0, 1, SECOND);
    hth_keys_unite(f->keys);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 0);
    hth_keys_divide(f->keys, 1);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 1);
}

FIXTURE_TEST(a_long_time_alone_is_not_charged_at_once)
{
    hth_key_count count;
    size_t cursor = 0;

    f->list[0].requests_per_minute = 6;
    for (unsigned minute = 0; minute < 60; minute++)
        assert_int_equal(taken(f, "secret-of-alice", 10, (1 + 60 * minute) * SECOND), 6);
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, (31 + 60 * 59) * SECOND, &count, 1), 1);
    assert_true(count.requests > 3 - 1e-6 && count.requests < 3.2);
}

FIXTURE_TEST(counts_that_were_not_told_are_told_later)
{
    hth_key_count count;
    size_t cursor = 0;

    f->list[0].tokens_per_minute = 1000;
    f->list[0].requests_per_minute = 10;
    assert_int_equal(taken(f, "secret-of-alice", 2, SECOND), 2);
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, &count, 1), 1);
    assert_int_equal(taken(f, "secret-of-alice", 1, SECOND), 1);
    hth_keys_return_counts(f->keys, "alice", count.requests, count.tokens);
    hth_keys_return_counts(f->keys, "nobody", 1, 1);
    cursor = 0;
    assert_int_equal(hth_keys_take_counts(f->keys, &cursor, SECOND, &count, 1), 1);
    assert_true(count.requests == 3 && count.tokens == 30);
}
