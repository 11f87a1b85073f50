/*
 * departures_test.c - departures in vain make models stay longer; those that help, and the end of pressure, end the
 * wait
 */
#include "supervisor/pressure.h"

#include "support/cmocka_all.h"

enum { FIRST = 2, WANTED = 1000, MODEL = 800 };

/* A model leaves, and this many bytes are wanted afterwards. */
static void leave(hth_departures *departures, uint64_t wanted_bytes)
{
    hth_departures_note(departures, WANTED, MODEL);
    hth_departures_judge(departures, WANTED, MODEL); /* not before it has left */
    hth_departures_judge(departures, wanted_bytes, 0);
}

TEST(each_departure_in_vain_doubles_the_wait_up_to_its_limit)
{
    hth_departures departures = { .first_ns = FIRST };

    for (unsigned i = 0; i < 2 * HTH_DEPARTURES_DOUBLINGS; i++) {
        leave(&departures, WANTED - MODEL / 8 + 1);
        assert_int_equal(departures.wait_ns, FIRST << (i < HTH_DEPARTURES_DOUBLINGS ? i : HTH_DEPARTURES_DOUBLINGS));
    }
}

TEST(a_departure_that_helps_ends_the_wait)
{
    hth_departures departures = { .first_ns = FIRST };

    leave(&departures, WANTED + 500);
    assert_int_equal(departures.wait_ns, FIRST);
    leave(&departures, WANTED - MODEL / 8);
    assert_int_equal(departures.wait_ns, 0);
}

TEST(nothing_is_judged_while_it_leaves_nor_twice)
{
    hth_departures departures = { .first_ns = FIRST };

    hth_departures_judge(&departures, WANTED, 0); /* no model has left */
    assert_int_equal(departures.wait_ns, 0);
    hth_departures_note(&departures, WANTED, MODEL);
    hth_departures_note(&departures, WANTED - 50, MODEL); /* both are judged together */
    hth_departures_judge(&departures, WANTED, 1);
    assert_int_equal(departures.wait_ns, 0);
    hth_departures_judge(&departures, WANTED - 100, 0);
    assert_int_equal(departures.wait_ns, FIRST);
    hth_departures_judge(&departures, WANTED, 0);
    assert_int_equal(departures.wait_ns, FIRST);
}

TEST(the_end_of_the_pressure_ends_the_wait)
{
    hth_departures departures = { .first_ns = FIRST };

    leave(&departures, WANTED);
    leave(&departures, WANTED);
    hth_departures_note(&departures, WANTED, MODEL);
    hth_departures_judge(&departures, 0, MODEL);
    assert_int_equal(departures.wait_ns, 0);
    assert_int_equal(departures.leaving_bytes, 0);
    assert_int_equal(departures.first_ns, FIRST);
}
