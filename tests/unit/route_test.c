/*
 * route_test.c - which place takes a request: equal beginnings meet, and no place gets much more than its part
 */
#include <string.h>

#include "fleet/route.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { PLACES_MAX = 16, N_BEGINNINGS = 2000, PARALLEL = 8 };

/* Places without load, of one size. */
static void make_places(hth_route_place *places, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char name[] = { 'n', (char)('a' + i) };

        places[i] = (hth_route_place){ .id = hth_route_digest(name, 2), .n_parallel = PARALLEL, .is_ready = true };
    }
}

static size_t by_hash(uint64_t beginning, const hth_route_place *places, size_t n)
{
    return hth_route_choose(&(hth_route_question){ .policy = HTH_ROUTE_BY_HASH, .beginning = beginning }, places, n);
}

static size_t by_load(uint64_t draw, const hth_route_place *places, size_t n)
{
    return hth_route_choose(&(hth_route_question){ .policy = HTH_ROUTE_LEAST, .beginning = 7, .draw = draw }, places,
                            n);
}

/* A beginning like those of prompts. */
static uint64_t beginning_of(size_t i)
{
    return hth_route_digest(&i, sizeof(i));
}

/* Up to PLACES_MAX places with anything in them, and different ids. */
static size_t draw_places(uint64_t *seed, hth_route_place *places)
{
    const size_t n = 1 + (size_t)hth_test_random(seed, PLACES_MAX);
    const uint64_t n_load_max = 1 + hth_test_random(seed, 40);

    for (size_t i = 0; i < n; i++)
        places[i] = (hth_route_place){ .id = hth_test_random(seed, UINT64_MAX),
                                       .n_load = (uint32_t)hth_test_random(seed, n_load_max),
                                       .n_parallel = (uint32_t)hth_test_random(seed, 20),
                                       .is_ready = hth_test_random(seed, 4) > 0 };
    return n;
}

static void shuffle(uint64_t *seed, hth_route_place *places, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        const size_t other = (size_t)hth_test_random(seed, i);
        const hth_route_place place = places[i - 1];

        places[i - 1] = places[other];
        places[other] = place;
    }
}

TEST(the_order_of_the_places_decides_nothing)
{
    static const hth_route_policy policies[] = { HTH_ROUTE_BY_HASH, HTH_ROUTE_LEAST };
    uint64_t seed = hth_test_seed();
    hth_route_place places[PLACES_MAX];

    for (int i = 0; i < 5000; i++) {
        const size_t n = draw_places(&seed, places);
        const hth_route_question question = { .policy = policies[hth_test_random(&seed, 2)],
                                              .beginning = hth_test_random(&seed, 3) * 0x123456789abcdefu,
                                              .draw = hth_test_random(&seed, UINT64_MAX) };
        const uint64_t id = places[hth_route_choose(&question, places, n)].id;

        shuffle(&seed, places, n);
        assert_true(places[hth_route_choose(&question, places, n)].id == id);
    }
}

TEST(the_draw_does_not_move_a_beginning)
{
    hth_route_place places[8];
    hth_route_question question = { .policy = HTH_ROUTE_BY_HASH, .beginning = 42 };
    size_t first;

    make_places(places, 8);
    first = hth_route_choose(&question, places, 8);
    for (question.draw = 1; question.draw < 100; question.draw++) {
        question.turn = question.draw;
        assert_int_equal(hth_route_choose(&question, places, 8), first);
    }
}

TEST(beginnings_spread_over_all_places)
{
    hth_route_place places[8];
    size_t counts[8] = { 0 };

    make_places(places, 8);
    for (size_t i = 0; i < N_BEGINNINGS; i++)
        counts[by_hash(beginning_of(i), places, 8)]++;
    for (size_t i = 0; i < 8; i++)
        assert_in_range(counts[i], N_BEGINNINGS / 8 * 2 / 3, N_BEGINNINGS / 8 * 4 / 3);
}

TEST(a_place_that_leaves_moves_only_its_own_requests)
{
    hth_route_place places[8], left[7];
    size_t n_moved = 0, takers[8] = { 0 };

    make_places(places, 8);
    for (size_t gone = 0; gone < 8; gone++) {
        memcpy(left, places, gone * sizeof(left[0]));
        memcpy(left + gone, places + gone + 1, (7 - gone) * sizeof(left[0]));
        for (size_t i = 0; i < N_BEGINNINGS; i++) {
            const size_t before = by_hash(beginning_of(i), places, 8), after = by_hash(beginning_of(i), left, 7);

            if (before != gone) {
                assert_true(left[after].id == places[before].id);
            } else if (gone == 0) {
                n_moved++;
                takers[after]++;
            }
        }
    }
    assert_true(n_moved > 0);
    for (size_t i = 0; i < 7; i++)
        assert_true(takers[i] < n_moved / 2); /* no single place gets them all */
}

/* Send requests with one beginning that nobody ends, and look at the bound after each. */
static void send_all(hth_route_place *places, size_t n, size_t n_requests)
{
    double n_parallel = 0;

    for (size_t i = 0; i < n; i++)
        n_parallel += places[i].n_parallel;
    for (size_t k = 1; k <= n_requests; k++) {
        const size_t at = by_hash(4711, places, n);
        double part;

        assert_true(at < n);
        part = (double)k * places[at].n_parallel / n_parallel;
        places[at].n_load++;
        assert_true(places[at].n_load < 1.25 * part + 2);
    }
}

TEST(a_beginning_that_everybody_has_spreads_out_within_the_bound)
{
    hth_route_place places[10];
    size_t n_used = 0;
    uint32_t most = 0;

    make_places(places, 10);
    send_all(places, 10, 10000);
    for (size_t i = 0; i < 10; i++) {
        n_used += places[i].n_load > 500;
        most = places[i].n_load > most ? places[i].n_load : most;
    }
    assert_in_range(most, 1200, 1252); /* the mean is 1000: the first places have as much as they may */
    assert_true(n_used >= 8);
}

TEST(the_bound_is_of_the_size_of_a_place)
{
    hth_route_place places[4];

    make_places(places, 4);
    for (size_t i = 0; i < 4; i++)
        places[i].n_parallel = (uint32_t)1 << 2 * i; /* 1, 4, 16, 64 */
    send_all(places, 4, 5000);
    assert_true(places[3].n_load > 3000);
    assert_true(places[0].n_load < 100);
}

/* What one more request may find at a place for it to go there: a quarter more than the mean, and one. */
TEST(a_beginning_stays_at_its_place_until_the_bound)
{
    hth_route_place places[4];
    size_t own;

    make_places(places, 4);
    own = by_hash(99, places, 4);
    for (size_t i = 0; i < 4; i++)
        places[i].n_load = 4;
    for (uint32_t n_load = 0; n_load < 20; n_load++) {
        places[own].n_load = n_load;
        assert_int_equal(by_hash(99, places, 4) == own, n_load < 1.25 * (12 + n_load + 1) / 4 + 1);
    }
}

TEST(a_beginning_comes_back_when_its_place_has_room_again)
{
    hth_route_place places[4];
    size_t own, second;

    make_places(places, 4);
    own = by_hash(99, places, 4);
    places[own].n_load = 8;
    second = by_hash(99, places, 4);
    assert_true(second != own);
    assert_int_equal(by_hash(99, places, 4), second); /* those that go elsewhere meet there */
    places[own].n_load = 0;
    assert_int_equal(by_hash(99, places, 4), own);
}

static const hth_route_question questions[] = {
    { .policy = HTH_ROUTE_BY_HASH, .beginning = 99 },
    { .policy = HTH_ROUTE_BY_HASH, .draw = 3 },
    { .policy = HTH_ROUTE_LEAST, .beginning = 99, .draw = 5 },
    { .policy = HTH_ROUTE_ROUND_ROBIN, .turn = 1 },
};

enum { N_QUESTIONS = sizeof(questions) / sizeof(questions[0]) };

TEST(a_place_that_is_not_ready_takes_nothing_while_a_ready_one_has_room)
{
    hth_route_place places[4];

    for (size_t i = 0; i < N_QUESTIONS; i++)
        for (size_t ready = 0; ready < 4; ready++) {
            make_places(places, 4);
            for (size_t k = 0; k < 4; k++)
                places[k].is_ready = k == ready;
            places[ready].n_load = PARALLEL - 1;
            assert_int_equal(hth_route_choose(&questions[i], places, 4), ready);
        }
}

TEST(a_place_that_is_not_ready_takes_requests_when_all_ready_ones_are_full)
{
    hth_route_place places[4];

    for (size_t i = 0; i < 3; i++) /* the turn of ROUND_ROBIN does not ask how full a place is */
        for (size_t cold = 0; cold < 4; cold++) {
            make_places(places, 4);
            for (size_t k = 0; k < 4; k++) {
                places[k].is_ready = k != cold;
                places[k].n_load = k != cold ? 3 * PARALLEL : 0; /* beyond the bound, too */
            }
            assert_int_equal(hth_route_choose(&questions[i], places, 4), cold);
            places[(cold + 1) % 4].n_load = PARALLEL - 1; /* room for one */
            assert_int_not_equal(hth_route_choose(&questions[i], places, 4), cold);
        }
}

TEST(a_place_of_unknown_size_has_room_for_eight)
{
    hth_route_place places[2];

    make_places(places, 2);
    places[0].n_parallel = 0;
    places[1].is_ready = false;
    places[0].n_load = 7;
    assert_int_equal(by_load(0, places, 2), 0);
    places[0].n_load = 8;
    assert_int_equal(by_load(0, places, 2), 1);
}

TEST(where_no_place_is_ready_all_count)
{
    hth_route_place places[4];
    size_t expected[N_QUESTIONS];

    make_places(places, 4);
    for (size_t i = 0; i < N_QUESTIONS; i++)
        expected[i] = hth_route_choose(&questions[i], places, 4);
    for (size_t k = 0; k < 4; k++)
        places[k].is_ready = false;
    for (size_t i = 0; i < N_QUESTIONS; i++)
        assert_int_equal(hth_route_choose(&questions[i], places, 4), expected[i]);
}

TEST(one_place_takes_everything)
{
    hth_route_place place = { .id = 5, .n_load = 1000, .n_parallel = 1 };

    for (size_t i = 0; i < N_QUESTIONS; i++)
        assert_int_equal(hth_route_choose(&questions[i], &place, 1), 0);
}

TEST(round_robin_visits_all_in_turn)
{
    hth_route_question question = { .policy = HTH_ROUTE_ROUND_ROBIN, .beginning = 99 };
    hth_route_place places[64] = { { 0 } };

    for (size_t i = 0; i < 64; i++)
        places[i] = (hth_route_place){ .id = i, .n_load = (uint32_t)(i % 7), .is_ready = true };
    for (question.turn = 0; question.turn < UINT64_C(192); question.turn++)
        assert_int_equal(hth_route_choose(&question, places, 64), question.turn % 64);
    for (size_t i = 0; i < 64; i += 2)
        places[i].is_ready = false;
    for (question.turn = 0; question.turn < 64; question.turn++)
        assert_int_equal(hth_route_choose(&question, places, 64), 2 * (question.turn % (64 / 2)) + 1);
}

TEST(least_takes_the_smallest_load_for_its_size)
{
    hth_route_place places[3];

    for (uint64_t draw = 0; draw < 50; draw++) {
        make_places(places, 3);
        places[0].n_load = 5; /* of 16: the smallest part, though the greatest load */
        places[0].n_parallel = 16;
        places[1].n_load = 3;
        places[2].n_load = 1;
        places[2].n_parallel = 2;
        assert_int_equal(by_load(draw, places, 3), 0);
        places[0].n_load = 7;
        assert_int_equal(by_load(draw, places, 3), 1);
        places[2].n_load = 0;
        assert_int_equal(by_load(draw, places, 3), 2);
        places[2].n_load = places[1].n_load = UINT32_MAX; /* no number is too great */
        places[0].n_load = UINT32_MAX;
        assert_int_equal(by_load(draw, places, 3), 0);
    }
}

TEST(the_draw_decides_between_equal_places)
{
    hth_route_place places[4];
    size_t counts[4] = { 0 };

    make_places(places, 4);
    places[3].n_load = 1;
    for (uint64_t draw = 0; draw < 300; draw++)
        counts[by_load(draw, places, 4)]++;
    assert_int_equal(counts[3], 0);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(counts[i], 50, 150);
}

TEST(an_unknown_beginning_goes_to_the_least_load)
{
    uint64_t seed = hth_test_seed();
    hth_route_place places[PLACES_MAX];

    for (int i = 0; i < 2000; i++) {
        const size_t n = draw_places(&seed, places);
        const uint64_t draw = hth_test_random(&seed, UINT64_MAX);

        assert_int_equal(
            hth_route_choose(&(hth_route_question){ .policy = HTH_ROUTE_BY_HASH, .draw = draw }, places, n),
            by_load(draw, places, n));
    }
}

TEST(a_digest_is_the_same_for_ever_and_never_0)
{
    static const unsigned char of_zero[] = { 0xd5, 0x6b, 0xb9, 0x53, 0x42, 0x87, 0x08, 0x36 }; /* its FNV-1a is 0 */

    assert_true(hth_route_digest(NULL, 0) == UINT64_C(0xf52a15e9a9b5e89b));
    assert_true(hth_route_digest("a", 1) == UINT64_C(0x02c0bdbf481420f8));
    assert_true(hth_route_digest("hearth", 6) == UINT64_C(0xd6e0cdf09aaafd13));
    assert_true(hth_route_digest("hearth", 5) != hth_route_digest("hearth", 6));
    assert_true(hth_route_digest("a\0b", 3) != hth_route_digest("a\0c", 3));
    assert_true(hth_route_digest(of_zero, sizeof(of_zero)) == 1);
}

/* ---- by time ---- */

static const hth_route_place warm = { .id = 1,
                                      .n_parallel = PARALLEL,
                                      .is_ready = true,
                                      .n_cached = 4000,
                                      .prompt_token_ns = 1000000,
                                      .reply_token_ns = 20000000 };

static size_t by_time(uint32_t n_prompt, const hth_route_place *places, size_t n)
{
    return hth_route_choose(&(hth_route_question){ .n_prompt = n_prompt, .beginning = 5, .n_reply = 100 }, places, n);
}

TEST(the_node_that_has_the_prompt_takes_it_until_waiting_there_costs_more)
{
    hth_route_place places[] = { warm, warm, warm };

    places[0].n_cached = places[2].n_cached = 0;
    places[0].id = 2;
    places[2].id = 3;
    assert_int_equal(by_time(4100, places, 3), 1);
    places[1].n_prompt_left = 15000; /* 15 s, and computing it elsewhere counts four times 4.1 s */
    assert_int_equal(by_time(4100, places, 3), 1);
    places[1].n_prompt_left = 18000;
    assert_int_not_equal(by_time(4100, places, 3), 1);
}

TEST(a_slow_node_takes_what_it_has_and_a_fast_one_what_nobody_has)
{
    hth_route_place places[] = { warm, warm };

    places[0].id = 2;
    places[0].n_cached = 0;
    places[1].prompt_token_ns = 5000000;
    assert_int_equal(by_time(4100, places, 2), 1);
    places[1].n_cached = 0;
    assert_int_equal(by_time(4100, places, 2), 0);
    places[0].prompt_token_ns = 0; /* unknown: as slow as the slowest that is known */
    places[1].n_cached = 100;
    assert_int_equal(by_time(4100, places, 2), 1);
}

TEST(a_busy_node_is_left_for_one_that_can_fetch_its_rows)
{
    hth_route_place places[] = { warm, warm };
    const hth_route_question question = { .n_prompt = 4100, .beginning = 5, .n_reply = 100 };
    hth_route_time time;

    places[0].id = 2;
    places[0].n_cached = 0;
    places[0].n_elsewhere = 4000;
    places[1].n_prompt_left = 2000; /* 2 s, and computing elsewhere counts four times 4.1 s */
    assert_int_equal(by_time(4100, places, 2), 1);
    places[0].pull_token_ns = 100000; /* 0.4 s for 4,000 tokens */
    assert_int_equal(by_time(4100, places, 2), 0);
    time = hth_route_time_of(&question, places, 2, 0);
    assert_true(time.pull_s > 0.399 && time.pull_s < 0.401);
    assert_true(time.prompt_s > 0.499 && time.prompt_s < 0.501);
    assert_true(time.cost_s > 0.799 && time.cost_s < 0.801);
    places[1].n_prompt_left = 0; /* an idle node that has them needs no copy */
    assert_int_equal(by_time(4100, places, 2), 1);
    places[1].n_prompt_left = 2000;
    places[0].pull_token_ns = 1000000; /* no faster than computing: nothing comes */
    assert_int_equal(by_time(4100, places, 2), 1);
    places[0].pull_token_ns = 1;
    places[0].n_elsewhere = UINT32_MAX; /* at least one token is computed */
    time = hth_route_time_of(&question, places, 2, 0);
    assert_true(time.prompt_s - time.pull_s > 0.0009 && time.prompt_s - time.pull_s < 0.0011);
}

TEST(a_full_node_is_left_when_its_replies_take_longer_than_computing)
{
    hth_route_place places[] = { warm, warm };

    places[0].id = 2;
    places[0].n_cached = 0;
    places[1].n_load = PARALLEL + 4;
    assert_int_equal(by_time(4100, places, 2), 1);
    places[1].n_load = 20 * PARALLEL;
    assert_int_equal(by_time(4100, places, 2), 0);
}

TEST(an_idle_node_loads_the_model_when_the_wait_for_a_loaded_one_is_longer)
{
    hth_route_place places[] = { warm, warm };

    places[0].id = 2;
    places[0].is_ready = false;
    places[0].load_ms = 5000;
    places[0].n_cached = places[1].n_cached = 0;
    assert_int_equal(by_time(500, places, 2), 1);
    places[1].n_prompt_left = 8000; /* 8 s, and 5 s of a load count twice */
    assert_int_equal(by_time(500, places, 2), 1);
    places[1].n_prompt_left = 14000;
    assert_int_equal(by_time(500, places, 2), 0);
    places[0].load_ms = 0; /* unknown: long */
    assert_int_equal(by_time(500, places, 2), 1);
    places[0].load_ms = 1; /* it is almost loaded: no other one begins */
    places[1].is_ready = false;
    places[1].load_ms = 4000;
    places[1].n_prompt_left = 0;
    assert_int_equal(by_time(500, places, 2), 0);
}

TEST(what_is_popular_gets_copies_when_its_nodes_have_more_than_their_part)
{
    hth_route_place places[] = { warm, warm, warm, warm };
    hth_route_question question = { .n_prompt = 4100, .n_popular = 4000, .beginning = 5, .n_reply = 100 };

    for (size_t i = 0; i < 4; i++) {
        places[i].id = i + 10;
        places[i].n_cached = i == 2 ? 4000 : 0;
    }
    assert_int_equal(hth_route_choose(&question, places, 4), 2);
    places[2].n_load = 6;
    assert_int_not_equal(hth_route_choose(&question, places, 4), 2);
    question.n_popular = 0;
    assert_int_equal(hth_route_choose(&question, places, 4), 2);
}

TEST(equal_beginnings_meet_while_nothing_else_is_known)
{
    hth_route_place places[PLACES_MAX];
    size_t n_of[PLACES_MAX] = { 0 };

    make_places(places, PLACES_MAX);
    for (size_t i = 0; i < N_BEGINNINGS; i++) {
        const hth_route_question question = { .n_prompt = 500, .beginning = beginning_of(i), .draw = i };
        const size_t first = hth_route_choose(&question, places, PLACES_MAX);

        assert_int_equal(hth_route_choose(&question, places, PLACES_MAX), first);
        n_of[first]++;
    }
    for (size_t i = 0; i < PLACES_MAX; i++)
        assert_in_range(n_of[i], N_BEGINNINGS / PLACES_MAX / 2, N_BEGINNINGS / PLACES_MAX * 3 / 2);
}

TEST(the_greatest_numbers_of_others_do_no_harm)
{
    uint64_t seed = hth_test_seed();
    hth_route_place places[PLACES_MAX];

    for (int i = 0; i < 5000; i++) {
        const size_t n = draw_places(&seed, places);
        hth_route_question question = { .n_prompt = (uint32_t)hth_test_random(&seed, UINT32_MAX),
                                        .n_popular = (uint32_t)hth_test_random(&seed, UINT32_MAX),
                                        .beginning = hth_test_random(&seed, 3),
                                        .n_reply = UINT32_MAX };

        for (size_t k = 0; k < n; k++) {
            places[k].n_load = hth_test_random(&seed, 2) ? UINT32_MAX : places[k].n_load;
            places[k].n_cached = hth_test_random(&seed, 2) ? UINT32_MAX : 0;
            places[k].n_prompt_left = hth_test_random(&seed, 2) ? UINT64_MAX : 0;
            places[k].prompt_token_ns = places[k].reply_token_ns = hth_test_random(&seed, 2) ? UINT64_MAX : 0;
        }
        assert_true(hth_route_choose(&question, places, n) < n);
    }
}
