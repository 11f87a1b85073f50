/*
 * ram_shares_test.c - who gets memory for rows, and who gives it, case by case
 */
#include "supervisor/ram_shares.h"

#include <stdio.h>

#include "support/cmocka_all.h"

enum { BUDGET = 1600, STEP = 100, N_MAX = 5 };

/* The new shares as a text. */
static const char *plan(const hth_ram_holder *holders, size_t n, uint64_t budget)
{
    static char text[N_MAX * 8];
    uint64_t shares[N_MAX];
    size_t at = 0;

    hth_ram_shares_plan(holders, n, budget, shares);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%d", i > 0 ? " " : "", (int)shares[i]);
    return text;
}

#define PLAN(budget, ...)                         \
    plan((const hth_ram_holder[]){ __VA_ARGS__ }, \
         sizeof((const hth_ram_holder[]){ __VA_ARGS__ }) / sizeof(hth_ram_holder), budget)
/* A worker, one that is ready, and a model without one. */
#define W(share, used, ...) LATE(share, used, .takes_orders = true, __VA_ARGS__)
#define LATE(share, used, ...)                                                                              \
    {                                                                                                       \
        .share_bytes = (share), .used_bytes = (used), .most_bytes = BUDGET, .has_worker = true, __VA_ARGS__ \
    }
#define ABSENT(rows, ...)                                                              \
    {                                                                                  \
        .share_bytes = (rows), .used_bytes = (rows), .most_bytes = BUDGET, __VA_ARGS__ \
    }
#define BUSY .is_busy = true
#define SHORT .is_busy = true, .is_short = true

TEST(a_busy_worker_gets_free_memory_before_its_share_is_full)
{
    assert_string_equal(PLAN(BUDGET, W(400, 100, BUSY)), "400");
    assert_string_equal(PLAN(BUDGET, W(400, 250, BUSY)), "650");
    assert_string_equal(PLAN(BUDGET, W(1500, 1500, BUSY)), "1600");
    assert_string_equal(PLAN(BUDGET, W(400, 400)), "400"); /* nobody computes rows */
    assert_string_equal(PLAN(BUDGET, W(400, 400, BUSY), W(1000, 900, BUSY, .used_ns = 1)), "400 1200"); /* used later */
}

TEST(unused_parts_of_other_shares_come_first_and_busy_models_give_them_too)
{
    assert_string_equal(PLAN(BUDGET, W(400, 400, BUSY, .used_ns = 2), W(1200, 300, BUSY, .used_ns = 1)), "400 800");
    assert_string_equal(PLAN(BUDGET, W(400, 400, BUSY, .used_ns = 2), W(1200, 1000, .used_ns = 1)), "400 1200");
}

TEST(rows_that_found_no_room_take_those_of_the_least_recently_used_idle_model)
{
    assert_string_equal(
        PLAN(BUDGET, W(400, 400, SHORT, .used_ns = 9), W(600, 600, .used_ns = 2), W(600, 600, .used_ns = 1)),
        "400 600 200");
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT, .used_ns = 9), W(600, 600, .used_ns = 2), ABSENT(500)),
                        "400 600 0"); /* without a worker, all rows go */
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT, .used_ns = 9), W(1200, 1200, .used_ns = 2, .is_pinned = true)),
                        "400 800"); /* a pinned model keeps its fair part */
    assert_string_equal(PLAN(BUDGET, W(700, 700, .is_short = true, .used_ns = 1), W(900, 900, .used_ns = 2)),
                        "700 800"); /* the other was used later, and has more than its fair part */
}

TEST(busy_models_share_fairly)
{
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT), W(1200, 1200, SHORT)), "400 800");
    assert_string_equal(PLAN(BUDGET, W(800, 800, SHORT), W(800, 800, SHORT)), "800 800");
    assert_string_equal(PLAN(BUDGET, W(900, 900, SHORT), W(700, 700, SHORT)), "800 700");
}

TEST(rows_of_a_worker_that_died_wait_for_the_next_one)
{
    const char *kept = "400 200 1000";

    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT), W(200, 200, BUSY), ABSENT(1000, BUSY)), kept);
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT), W(200, 200, BUSY), ABSENT(1000, .is_pinned = true)), kept);
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT), W(200, 200, BUSY), ABSENT(1000)), "400 200 0");
}

TEST(each_worker_has_a_least_share_and_the_next_one_too)
{
    assert_string_equal(PLAN(BUDGET, W(0, 0), W(1600, 1600)), "0 1500");
    assert_string_equal(PLAN(BUDGET, W(1600, 1600), ABSENT(0)), "1500 0"); /* it may start */
    assert_string_equal(PLAN(BUDGET, W(1600, 1600), { .most_bytes = 0 }), "1600 0");
}

TEST(a_worker_that_loads_gets_room_for_its_first_request)
{
    assert_string_equal(PLAN(BUDGET, W(100, 100, BUSY, .is_starting = true, .used_ns = 9), ABSENT(1500)), "100 0");
    assert_string_equal(PLAN(BUDGET, W(100, 100, BUSY, .is_starting = true, .used_ns = 9), W(1000, 1000)), "400 1000");
    assert_string_equal(PLAN(BUDGET, W(400, 400, BUSY, .is_starting = true), W(1200, 1200)), "400 1200");
}

TEST(one_order_at_a_time)
{
    assert_string_equal(PLAN(BUDGET, W(400, 400, SHORT), LATE(1200, 1200, .coming_bytes = 400)), "400 1200");
    assert_string_equal(PLAN(BUDGET, LATE(400, 400, SHORT), W(1200, 1200)), "400 1200");
}

TEST(rows_in_use_that_hold_a_share_up_are_not_asked_for_again)
{
    assert_string_equal(
        PLAN(BUDGET, W(400, 400, SHORT, .used_ns = 9), W(1200, 1200, .used_ns = 1, .coming_bytes = 400)), "400 1200");
    assert_string_equal(
        PLAN(BUDGET, W(400, 400, SHORT, .used_ns = 9), W(1200, 1200, .used_ns = 1, .coming_bytes = 100)), "400 800");
}

TEST(a_worker_that_asks_waits_for_no_bytes_of_its_own)
{
    /* Its requests use the rows that hold its share up: only the least recently used idle model has room for them. */
    assert_string_equal(PLAN(BUDGET, W(900, 900, SHORT, .used_ns = 9, .coming_bytes = 600), W(500, 500, .used_ns = 1)),
                        "1100 300");
    /* They do pay for a budget that became smaller. */
    assert_string_equal(
        PLAN(BUDGET, W(1100, 1100, SHORT, .used_ns = 9, .coming_bytes = 800), W(700, 700, .used_ns = 1)), "1100 300");
}

TEST(a_smaller_budget_takes_from_all)
{
    assert_string_equal(PLAN(BUDGET / 2, W(800, 800, BUSY), W(800, 100, BUSY)), "600 200");
    assert_string_equal(PLAN(0, W(800, 800, BUSY), ABSENT(800)), "0 0");
}

TEST(a_worker_starts_with_a_part_for_each_model_or_what_is_free)
{
    const hth_ram_holder alone[] = { ABSENT(0) }, two[] = { ABSENT(0), ABSENT(300) };
    const hth_ram_holder full[] = { W(1500, 1500), ABSENT(0), ABSENT(0) };
    const hth_ram_holder small[] = { { .most_bytes = 50 } };

    assert_int_equal(hth_ram_share_at_start(alone, 1, BUDGET, 0), BUDGET);
    assert_int_equal(hth_ram_share_at_start(two, 2, BUDGET, 0), 800);
    assert_int_equal(hth_ram_share_at_start(two, 2, BUDGET, 1), 800);
    assert_int_equal(hth_ram_share_at_start(full, 3, BUDGET, 1), STEP); /* that was kept for it */
    assert_int_equal(hth_ram_share_at_start(small, 1, BUDGET, 0), 50);
}
