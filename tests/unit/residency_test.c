/*
 * residency_test.c - who enters and who leaves, case by case
 */
#include "supervisor/residency.h"

#include "support/cmocka_all.h"

#define OUT HTH_PLACE_OUT
#define IN HTH_PLACE_IN
#define LEAVING HTH_PLACE_LEAVING
#define KEPT HTH_PLACE_KEPT

enum { NOW = 1000, TURN = 100, STAY = 20, N_MAX = 4, N_POOLS = 3, DEVICE_BYTES = 20 };

/*
 * Orders as a text: '.' stay, 'E' enter, 'L' leave, 'C' close. The host has so many bytes, each of two devices
 * DEVICE_BYTES.
 */
static const char *plan(const hth_resident *models, size_t n, uint64_t bytes, size_t n_models)
{
    static const char letters[] = { [HTH_RESIDENCY_STAY] = '.',
                                    [HTH_RESIDENCY_ENTER] = 'E',
                                    [HTH_RESIDENCY_LEAVE] = 'L',
                                    [HTH_RESIDENCY_CLOSE] = 'C' };
    static char text[N_MAX + 1];
    const hth_residency_limits limits = {
        .n_pools = N_POOLS,
        .bytes = { bytes, DEVICE_BYTES, DEVICE_BYTES },
        .n_models = n_models,
        .turn_ns = TURN,
    };
    hth_residency_order orders[N_MAX];

    hth_residency_plan(models, n, &limits, NOW, orders);
    for (size_t i = 0; i < n; i++)
        text[i] = letters[orders[i]];
    text[n] = '\0';
    return text;
}

#define PLAN(bytes, n_models, ...)                                                                                    \
    plan((const hth_resident[]){ __VA_ARGS__ }, sizeof((const hth_resident[]){ __VA_ARGS__ }) / sizeof(hth_resident), \
         bytes, n_models)
#define M(where, size, ...)                                                                       \
    {                                                                                             \
        .place = (where), .bytes[0] = (size), .keep_ns = UINT64_MAX, .stay_ns = STAY, __VA_ARGS__ \
    }

TEST(a_model_enters_where_there_is_room)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 10, .wanted_ns = 990)), "E");
    assert_string_equal(PLAN(UINT64_MAX, SIZE_MAX, M(IN, 99, .n_uses = 1), M(OUT, 10, .wanted_ns = 990)), ".E");
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 10)), ".");
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 10, .is_invited = true)), "E");
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 11, .is_invited = true)), "E"); /* alone */
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 11, .is_invited = true), M(IN, 1, .used_ns = 1)), "..");
}

TEST(idle_models_leave_for_one_that_is_wanted_the_least_recently_used_first)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .used_ns = 2), M(IN, 5, .used_ns = 1), M(OUT, 5, .wanted_ns = 990)),
                        ".L.");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .used_ns = 2), M(IN, 5, .used_ns = 1), M(OUT, 9, .wanted_ns = 990)),
                        "LL.");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 5, .used_ns = 2), M(LEAVING, 5, .used_ns = 1), M(OUT, 5, .wanted_ns = 990)),
        "..."); /* its room comes */
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 10, .used_ns = 2), M(OUT, 5, .is_invited = true)), "..");
    assert_string_equal(PLAN(10, 2, M(IN, 1, .used_ns = 2), M(IN, 1, .used_ns = 1), M(OUT, 1, .wanted_ns = 990)),
                        ".L.");
}

TEST(an_idle_model_stays_for_a_moment_unless_another_one_has_its_turn)
{
    const hth_resident stays[] = { M(IN, 9, .used_ns = 981), M(OUT, 9, .wanted_ns = 950) };
    const hth_resident two[] = { M(IN, 5, .used_ns = 985), M(IN, 5, .used_ns = 983), M(OUT, 5, .wanted_ns = 990) };
    const hth_residency_limits limits = { .n_pools = 1, .bytes = { 10 }, .n_models = SIZE_MAX };
    hth_residency_limits external = limits;

    assert_string_equal(plan(stays, 2, 10, SIZE_MAX), "..");
    assert_true(hth_residency_stay_end(stays, 2, &limits, NOW) == 981 + STAY);
    assert_true(hth_residency_stay_end(stays, 2, &limits, 981 + STAY) == UINT64_MAX);
    assert_true(hth_residency_stay_end(stays, 1, &limits, NOW) == UINT64_MAX); /* nobody waits */
    external.is_external = true;
    assert_true(hth_residency_stay_end(stays, 2, &external, NOW) == UINT64_MAX);
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 9, .used_ns = 980), M(OUT, 9, .wanted_ns = 950)), "L.");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 9, .used_ns = 999), M(OUT, 9, .wanted_ns = 900)), "L.");
    assert_true(hth_residency_stay_end(two, 3, &limits, NOW) == 983 + STAY);
    /* One whose clients do not come back does not stay. */
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 9, .used_ns = 999, .keep_ns = UINT64_MAX },
                             M(OUT, 9, .wanted_ns = 950)),
                        "L.");
    /* One that has stayed goes before one that was used before it, and a smaller one may pass meanwhile. */
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 5, .used_ns = 990), M(IN, 5, .used_ns = 970), M(OUT, 5, .wanted_ns = 995)), ".L.");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 7, .used_ns = 990), M(OUT, 9, .wanted_ns = 980), M(OUT, 3, .wanted_ns = 990)), "..E");
    /* Orders, rests and a pool that is too full do not wait. */
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 9, .used_ns = 999, .is_dismissed = true)), "L");
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 1, .used_ns = 999, .keep_ns = 1 }), "L");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 8, .used_ns = 998), M(IN, 8, .used_ns = 999)), "L.");
}

TEST(nobody_leaves_in_vain)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .n_uses = 1), M(IN, 5, .used_ns = 1), M(OUT, 9, .wanted_ns = 990)),
                        "...");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 10, .is_pinned = true), M(OUT, 9, .wanted_ns = 990)), ".E");
}

TEST(a_smaller_model_passes_one_that_waits_until_its_turn_has_come)
{
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 7, .n_uses = 1), M(OUT, 9, .wanted_ns = 980), M(OUT, 3, .wanted_ns = 990)), "..E");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 7, .n_uses = 1), M(OUT, 9, .wanted_ns = 900), M(OUT, 3, .wanted_ns = 990)), "C..");
}

TEST(busy_models_are_closed_the_one_first_that_entered_first)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .n_uses = 1, .since_ns = 20), M(IN, 5, .n_uses = 1, .since_ns = 10),
                             M(OUT, 5, .wanted_ns = 900)),
                        ".C.");
    /* One whose own request waits for longer is not closed. */
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 10, .n_uses = 1, .wanted_ns = 800), M(OUT, 5, .wanted_ns = 900)),
                        "..");
}

TEST(a_model_larger_than_the_pool_is_alone)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 1, .used_ns = 1), M(OUT, 99, .wanted_ns = 990)), "L.");
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 99, .wanted_ns = 990)), "E");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 99, .used_ns = 1)), ".");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 99, .used_ns = 1), M(IN, 1, .used_ns = 2)), "L.");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(IN, 10, .is_pinned = true), M(OUT, 1, .wanted_ns = 980), M(OUT, 1, .wanted_ns = 990)),
        ".E."); /* pinned models took all: one other at a time */
}

TEST(a_model_that_rests_for_too_long_leaves)
{
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 1, .used_ns = 900, .keep_ns = 100 }), "L");
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 1, .used_ns = 901, .keep_ns = 100 }), ".");
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 1, .n_uses = 1, .keep_ns = 0 }), ".");
    assert_string_equal(PLAN(10, SIZE_MAX, { .place = IN, .bytes[0] = 1, .keep_ns = 0, .is_pinned = true }), ".");
}

TEST(a_pool_that_is_too_full_loses_rows_too)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 8, .used_ns = 1), M(KEPT, 4, .used_ns = 5)), ".L");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 8, .used_ns = 1), M(KEPT, 2, .used_ns = 5)), "..");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 8, .used_ns = 1), M(IN, 4, .used_ns = 5)), "L.");
}

TEST(rows_of_absent_models_leave_like_models_and_take_no_place)
{
    assert_string_equal(PLAN(10, 1, M(KEPT, 6, .used_ns = 1), M(OUT, 5, .wanted_ns = 990)), "L.");
    assert_string_equal(PLAN(10, 1, M(KEPT, 5, .used_ns = 1), M(OUT, 5, .wanted_ns = 990)), ".E");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(KEPT, 6, .used_ns = 2), M(IN, 4, .used_ns = 1), M(OUT, 4, .wanted_ns = 990)), ".L.");
}

/* ---- devices ---- */

#define ON(device, size) .bytes[device] = (size)

TEST(a_device_without_room_is_a_reason_to_wait)
{
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .n_uses = 1, ON(1, 15)), M(OUT, 1, .wanted_ns = 990, ON(1, 10))),
                        "..");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .n_uses = 1, ON(1, 15)), M(OUT, 1, .wanted_ns = 990, ON(1, 5))),
                        ".E");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .n_uses = 1, ON(1, 15)), M(OUT, 1, .wanted_ns = 990, ON(2, 20))),
                        ".E");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 9, .n_uses = 1), M(OUT, 5, .wanted_ns = 990, ON(2, 1))), "..");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .n_uses = 1, ON(1, 15)), M(OUT, 1, .wanted_ns = 900, ON(1, 10)),
                             M(OUT, 1, .wanted_ns = 990)),
                        "C.."); /* in its turn, nobody passes it, also not on the host */
}

TEST(only_models_of_the_device_leave_for_its_memory)
{
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .used_ns = 1), M(IN, 1, .used_ns = 3, ON(1, 15)),
                             M(IN, 1, .used_ns = 2, ON(2, 15)), M(OUT, 1, .wanted_ns = 990, ON(1, 10))),
                        ".L..");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 9, .used_ns = 1), M(IN, 1, .used_ns = 3, ON(1, 15)),
                             M(OUT, 2, .wanted_ns = 990, ON(1, 10))),
                        "LL."); /* both are short */
    assert_string_equal(PLAN(99, SIZE_MAX, M(KEPT, 5, .used_ns = 1), M(IN, 1, .used_ns = 3, ON(1, 15)),
                             M(OUT, 1, .wanted_ns = 990, ON(1, 10))),
                        ".L.");
}

TEST(a_model_larger_than_a_device_is_alone_there)
{
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .used_ns = 1), M(IN, 1, .used_ns = 1, ON(1, 1)),
                             M(OUT, 1, .wanted_ns = 990, ON(1, 30))),
                        ".L.");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .n_uses = 1), M(OUT, 1, .wanted_ns = 990, ON(1, 30))), ".E");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .used_ns = 2), M(IN, 1, .used_ns = 1, ON(1, 30))), "..");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .used_ns = 2, ON(1, 1)), M(IN, 1, .used_ns = 1, ON(1, 30))), ".L");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .used_ns = 2, ON(1, 1)), M(OUT, 1, .is_invited = true, ON(1, 30))),
                        "..");
}

TEST(pinned_models_leave_the_rest_of_a_device_to_the_others)
{
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .is_pinned = true, ON(1, 15)),
                             M(OUT, 1, .wanted_ns = 980, ON(1, 5)), M(OUT, 1, .wanted_ns = 990, ON(1, 5))),
                        ".E.");
    assert_string_equal(PLAN(99, SIZE_MAX, M(IN, 1, .is_pinned = true, ON(1, 20)),
                             M(OUT, 1, .wanted_ns = 980, ON(1, 1)), M(OUT, 1, .wanted_ns = 985, ON(1, 1)),
                             M(OUT, 1, .wanted_ns = 990)),
                        ".E.E"); /* one other at a time */
    assert_string_equal(
        PLAN(99, SIZE_MAX, M(IN, 1, .is_pinned = true, ON(1, 20)), M(OUT, 1, .is_invited = true, ON(1, 1))), "..");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 1, .is_pinned = true, ON(1, 20)), M(LEAVING, 5),
                             M(OUT, 6, .wanted_ns = 980, ON(1, 1)), M(OUT, 1, .wanted_ns = 985, ON(1, 1))),
                        "...."); /* it keeps the device for the first in line */
}

TEST(of_two_models_that_are_wanted_at_once_the_first_one_gets_the_room_of_weights_of_the_other)
{
    hth_resident models[] = { M(OUT, 118, .wanted_ns = 900), M(OUT, 5, .wanted_ns = 900),
                              M(KEPT, 4, .wanted_ns = 900) };

    models[1].kept = &models[2];
    assert_string_equal(plan(models, 3, 10, SIZE_MAX), "..L"); /* else both would wait for ever */
}

TEST(kept_weights_stay_for_the_model_that_would_map_them)
{
    hth_resident models[] = { M(OUT, 5, .wanted_ns = 990), M(KEPT, 4), M(IN, 3, .n_uses = 1),
                              M(OUT, 6, .wanted_ns = 995) };

    models[0].kept = &models[1];
    models[1].wanted_ns = 990;
    assert_string_equal(plan(models, 3, 10, SIZE_MAX), "...");
    models[3].bytes[0] = 7;
    assert_string_equal(plan(models, 4, 10, SIZE_MAX), "...."); /* nor do they leave for a later one */
    models[3].wanted_ns = 990;
    assert_string_equal(plan(models, 4, 10, SIZE_MAX),
                        "...."); /* nor for one that came with theirs, and is behind it */
    models[3].wanted_ns = 989;
    assert_string_equal(plan(models, 4, 10, SIZE_MAX), ".L.."); /* but for an earlier one */
    models[0].wanted_ns = models[1].wanted_ns = 1;
    assert_string_equal(plan(models, 3, 10, SIZE_MAX), "..C");
    models[0].bytes[0] = 9; /* with its weights it is larger than the pool */
    assert_string_equal(plan(models, 2, 10, SIZE_MAX), "E.");
    models[0].bytes[0] = 6;
    assert_string_equal(plan(models, 2, 10, SIZE_MAX), "E.");
}

TEST(models_that_came_at_once_have_one_order)
{
    hth_resident models[] = { M(OUT, 30, .wanted_ns = 800), M(OUT, 2, .wanted_ns = 800), M(KEPT, 3, .wanted_ns = 800),
                              M(IN, 5, .wanted_ns = 800) };

    models[1].kept = &models[2];
    assert_string_equal(plan(models, 3, 10, SIZE_MAX), "..L"); /* for the first one, which must be alone */
    models[0].bytes[0] = 4;
    assert_string_equal(plan(models, 4, 10, SIZE_MAX), "..L.");
    models[2].bytes[0] = 0;
    models[1] = (hth_resident)M(IN, 8, .wanted_ns = 800);
    models[0] = (hth_resident)M(IN, 1, .n_uses = 1);
    models[3] = (hth_resident)M(OUT, 5, .wanted_ns = 800);
    assert_string_equal(plan(models, 4, 10, SIZE_MAX), "C..."); /* the second one, which loads, is before it */
}

/* Without its weights it needs more than the plan counts. */
TEST(no_model_enters_while_its_kept_weights_leave)
{
    hth_resident models[] = { M(OUT, 20, .wanted_ns = 990), M(KEPT, 40, .wanted_ns = 990),
                              M(OUT, 80, .wanted_ns = 980) };

    models[0].kept = &models[1];
    assert_string_equal(plan(models, 3, 100, SIZE_MAX), ".L.");
}

TEST(a_model_that_is_dismissed_takes_no_new_requests_and_leaves)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .n_uses = 1, .is_dismissed = true)), "C");
    assert_string_equal(PLAN(10, SIZE_MAX, M(IN, 5, .wanted_ns = 990, .is_dismissed = true)), "L");
}

TEST(rows_leave_for_a_model_that_is_invited_and_models_do_not)
{
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 6, .is_invited = true), M(KEPT, 5), M(IN, 4, .used_ns = 1)), ".L.");
    assert_string_equal(PLAN(10, SIZE_MAX, M(OUT, 7, .is_invited = true), M(KEPT, 5), M(IN, 4, .used_ns = 1)), "...");
    assert_string_equal(
        PLAN(10, SIZE_MAX, M(OUT, 6, .is_invited = true), M(KEPT, 5, .wanted_ns = 990), M(IN, 4, .used_ns = 1)), "...");
}
