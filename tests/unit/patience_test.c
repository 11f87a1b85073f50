/*
 * patience_test.c - departures in vain make models stay longer; those that help, and the end of pressure, end the wait
 */
#include "supervisor/pressure.h"

#include "support/cmocka_all.h"

enum { FIRST = 2, WANTED = 1000, MODEL = 800 };

/* A model leaves, and this many bytes are wanted afterwards. */
static void leave(hth_patience *patience, uint64_t wanted_bytes)
{
    hth_patience_note(patience, WANTED, MODEL);
    hth_patience_judge(patience, WANTED, MODEL); /* not before it has left */
    hth_patience_judge(patience, wanted_bytes, 0);
}

TEST(each_departure_in_vain_doubles_the_wait_up_to_its_limit)
{
    hth_patience patience = { .first_ns = FIRST };

    for (unsigned i = 0; i < 2 * HTH_PATIENCE_DOUBLINGS; i++) {
        leave(&patience, WANTED - MODEL / 8 + 1);
        assert_int_equal(patience.wait_ns, FIRST << (i < HTH_PATIENCE_DOUBLINGS ? i : HTH_PATIENCE_DOUBLINGS));
    }
}

TEST(a_departure_that_helps_ends_the_wait)
{
    hth_patience patience = { .first_ns = FIRST };

    leave(&patience, WANTED + 500);
    assert_int_equal(patience.wait_ns, FIRST);
    leave(&patience, WANTED - MODEL / 8);
    assert_int_equal(patience.wait_ns, 0);
}

TEST(nothing_is_judged_while_it_leaves_nor_twice)
{
    hth_patience patience = { .first_ns = FIRST };

    hth_patience_judge(&patience, WANTED, 0); /* nobody has left */
    assert_int_equal(patience.wait_ns, 0);
    hth_patience_note(&patience, WANTED, MODEL);
    hth_patience_note(&patience, WANTED - 50, MODEL); /* both are judged together */
    hth_patience_judge(&patience, WANTED, 1);
    assert_int_equal(patience.wait_ns, 0);
    hth_patience_judge(&patience, WANTED - 100, 0);
    assert_int_equal(patience.wait_ns, FIRST);
    hth_patience_judge(&patience, WANTED, 0);
    assert_int_equal(patience.wait_ns, FIRST);
}

TEST(the_end_of_the_pressure_ends_the_wait)
{
    hth_patience patience = { .first_ns = FIRST };

    leave(&patience, WANTED);
    leave(&patience, WANTED);
    hth_patience_note(&patience, WANTED, MODEL);
    hth_patience_judge(&patience, 0, MODEL);
    assert_int_equal(patience.wait_ns, 0);
    assert_int_equal(patience.leaving_bytes, 0);
    assert_int_equal(patience.first_ns, FIRST);
}
