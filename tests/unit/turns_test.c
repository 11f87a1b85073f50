/*
 * turns_test.c - requests with different adapters take turns, and nobody starves
 */
#include "sched/turns.h"

#include <string.h>

#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { SLOTS = 4 };

typedef struct scene {
    hth_turns turns;
    hth_adapter_set *sets[3]; /* the first is none */
    hth_request requests[SLOTS];
    hth_slot slots[SLOTS];
    hth_slot *ready[SLOTS];
    uint32_t n_ready;
} scene;

static void free_nothing(hth_engine_adapter *adapter)
{
    (void)adapter;
}

static hth_adapter_set *set_of(uint8_t first_byte)
{
    static const hth_backend backend = { .adapter_free = free_nothing };
    uint8_t sha256[32] = { first_byte };
    hth_adapter_use use = { hth_adapter_new(&backend, NULL, sha256), 1 };
    hth_adapter_set *set = NULL;

    assert_non_null(use.adapter);
    assert_int_equal(hth_adapter_set_new(&use, 1, &set, NULL), HEARTH_OK);
    hth_adapter_unref(use.adapter);
    return set;
}

static void set_up(scene *s)
{
    *s = (scene){ .sets = { NULL, set_of(1), set_of(2) } };
    for (int i = 0; i < SLOTS; i++)
        s->slots[i].request = &s->requests[i];
}

static void tear_down(scene *s)
{
    hth_adapter_set_unref(s->sets[1]);
    hth_adapter_set_unref(s->sets[2]);
}

#define FIXTURE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

/* These sets are ready; returns the slots whose turn it is, as a set of bits. */
static unsigned turn(scene *s, uint64_t ms, const int *sets, uint32_t n, bool keeps)
{
    unsigned runs = 0;

    for (uint32_t i = 0; i < n; i++) {
        s->requests[i].adapters = s->sets[sets[i]];
        s->ready[i] = &s->slots[i];
    }
    hth_turns_next(&s->turns, s->ready, n, ms * 1000000, keeps);
    for (uint32_t i = 0; i < n; i++)
        runs |= (unsigned)(s->slots[i].turn_wait == 0) << i;
    return runs;
}

FIXTURE_TEST(requests_with_one_set_run_together)
{
    assert_int_equal(turn(s, 0, (int[]){ 0, 0, 0 }, 3, false), 7);
    assert_int_equal(turn(s, 1000, (int[]){ 0, 0, 0 }, 3, false), 7);
    assert_int_equal(turn(s, 1001, (int[]){ 1, 1 }, 2, false), 3);
}

FIXTURE_TEST(a_turn_ends_when_its_time_is_over_and_others_wait)
{
    assert_int_equal(turn(s, 0, (int[]){ 1, 2, 1 }, 3, false), 5);
    assert_int_equal(turn(s, HTH_TURN_MS - 1, (int[]){ 1, 2, 1 }, 3, false), 5);
    assert_int_equal(turn(s, HTH_TURN_MS, (int[]){ 1, 2, 1 }, 3, true), 5); /* it is kept */
    assert_int_equal(turn(s, HTH_TURN_MS, (int[]){ 1, 2, 1 }, 3, false), 2);
    assert_int_equal(turn(s, 2 * HTH_TURN_MS - 1, (int[]){ 1, 2, 1 }, 3, false), 2);
    assert_int_equal(turn(s, 2 * HTH_TURN_MS, (int[]){ 1, 2, 1 }, 3, false), 5);
}

FIXTURE_TEST(each_set_has_as_many_turns_as_requests)
{
    static const int sets[] = { 0, 1, 2, 0 };
    unsigned n_turns[SLOTS] = { 0 };

    for (unsigned i = 0; i < 40; i++) {
        unsigned runs = turn(s, (uint64_t)i * HTH_TURN_MS, sets, 4, false);

        assert_int_equal(runs & 1, runs >> 3);
        for (unsigned k = 0; k < SLOTS; k++)
            n_turns[k] += runs >> k & 1;
        if (i % 4 == 3)
            for (unsigned k = 0; k < SLOTS; k++)
                assert_in_range(n_turns[k], (i + 1) / 4 * (1 + (k % 3 == 0)) - 1, (i + 1) / 4 * (1 + (k % 3 == 0)) + 1);
    }
}

FIXTURE_TEST(who_deals_requests_out_to_many_sets_gains_nothing)
{
    static const int sets[] = { 0, 0, 1, 2 };
    unsigned n_together = 0;

    for (unsigned i = 0; i < 40; i++)
        n_together += turn(s, (uint64_t)i * HTH_TURN_MS, sets, 4, false) == 3;
    assert_in_range(n_together, 19, 21);
}

FIXTURE_TEST(newcomers_do_not_pass_who_waits)
{
    assert_int_equal(turn(s, 0, (int[]){ 0, 1 }, 2, false), 2);
    for (uint64_t ms = HTH_TURN_MS; ms < 6 * HTH_TURN_MS; ms += HTH_TURN_MS) { /* each time with a new request */
        s->slots[2].turn_wait = s->slots[2].turn_due = 0;
        assert_int_equal(turn(s, ms, (int[]){ 0, 1, 2 }, 3, false), ms / HTH_TURN_MS % 2 ? 1 : 2);
    }
}

FIXTURE_TEST(many_short_requests_do_not_keep_a_long_one_waiting)
{
    unsigned n_long = 0;

    for (unsigned i = 0; i < 20; i++) {
        unsigned runs = turn(s, (uint64_t)i * HTH_TURN_MS, (int[]){ 0, 1, 1, 1 }, 4, false);

        n_long += runs & 1;
        for (int k = 1; k < SLOTS && runs > 1; k++) /* they end with their turn, and others come */
            s->slots[k].turn_wait = s->slots[k].turn_due = 0;
    }
    assert_in_range(n_long, 5, 15); /* its share: one of four requests */
}

FIXTURE_TEST(who_comes_after_a_long_time_alone_does_not_wait_longer)
{
    assert_int_equal(turn(s, 0, (int[]){ 0, 0, 0 }, 3, false), 7);
    assert_int_equal(turn(s, 60000, (int[]){ 0, 0, 0, 1 }, 4, false), 8);
}
