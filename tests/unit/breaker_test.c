/*
 * breaker_test.c - when a place that failed is asked again, and by how many requests
 */
#include <string.h>

#include "fleet/breaker.h"
#include "support/cmocka_all.h"

enum { MS = 1000000 };

static const uint64_t start_ns = UINT64_C(5000) * MS;

/* A breaker that opened at start_ns. */
static hth_breaker open_breaker(void)
{
    hth_breaker breaker = { 0 };

    for (int i = 0; i < HTH_BREAKER_FAILURES; i++)
        hth_breaker_note_failure(&breaker, false, start_ns);
    return breaker;
}

static void assert_pauses(const hth_breaker *breaker, uint64_t since_ns, uint64_t pause_ms)
{
    assert_false(hth_breaker_is_closed(breaker));
    assert_false(hth_breaker_allows(breaker, since_ns));
    assert_false(hth_breaker_allows(breaker, since_ns + pause_ms * MS - 1));
    assert_true(hth_breaker_allows(breaker, since_ns + pause_ms * MS));
}

/* Let the only trial fail at that time. */
static void fail_trial(hth_breaker *breaker, uint64_t now_ns)
{
    assert_true(hth_breaker_allows(breaker, now_ns));
    assert_true(hth_breaker_note_try(breaker));
    hth_breaker_note_failure(breaker, true, now_ns);
}

TEST(it_is_closed_until_three_failures_in_a_row)
{
    hth_breaker breaker = { 0 };

    assert_true(hth_breaker_is_closed(&breaker));
    assert_true(hth_breaker_allows(&breaker, 0));
    for (int i = 0; i < 2; i++) {
        (void)hth_breaker_note_try(&breaker);
        hth_breaker_note_failure(&breaker, false, start_ns);
        assert_true(hth_breaker_is_closed(&breaker));
        assert_true(hth_breaker_allows(&breaker, start_ns));
    }
    (void)hth_breaker_note_try(&breaker);
    hth_breaker_note_failure(&breaker, false, start_ns);
    assert_pauses(&breaker, start_ns, 1000);
}

TEST(any_number_of_requests_go_to_a_closed_one)
{
    hth_breaker breaker = { 0 };

    for (int i = 0; i < 10; i++) {
        assert_true(hth_breaker_allows(&breaker, start_ns));
        assert_false(hth_breaker_note_try(&breaker));
    }
}

TEST(a_success_forgets_the_failures_before_it)
{
    hth_breaker breaker = { 0 };

    for (int round = 0; round < 5; round++) {
        hth_breaker_note_failure(&breaker, false, start_ns);
        hth_breaker_note_failure(&breaker, false, start_ns);
        hth_breaker_note_success(&breaker);
        assert_true(hth_breaker_allows(&breaker, start_ns));
    }
}

TEST(another_end_is_no_failure_and_forgets_none)
{
    hth_breaker breaker = { 0 };

    hth_breaker_note_failure(&breaker, false, start_ns);
    hth_breaker_note_failure(&breaker, false, start_ns);
    for (int i = 0; i < 5; i++)
        hth_breaker_note_end(&breaker, false);
    assert_true(hth_breaker_is_closed(&breaker));
    hth_breaker_note_failure(&breaker, false, start_ns);
    assert_false(hth_breaker_is_closed(&breaker));
}

TEST(the_pause_doubles_with_each_trial_that_fails)
{
    const uint64_t expected_ms[] = { 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000 };
    hth_breaker breaker = open_breaker();
    uint64_t now_ns = start_ns;

    for (size_t i = 0; i < sizeof(expected_ms) / sizeof(expected_ms[0]); i++) {
        assert_pauses(&breaker, now_ns, expected_ms[i]);
        now_ns += expected_ms[i] * MS;
        fail_trial(&breaker, now_ns);
    }
}

TEST(the_pause_begins_when_the_trial_fails_and_not_when_it_begins)
{
    hth_breaker breaker = open_breaker();

    assert_true(hth_breaker_allows(&breaker, start_ns + UINT64_C(1000) * MS));
    assert_true(hth_breaker_note_try(&breaker));
    hth_breaker_note_failure(&breaker, true, start_ns + UINT64_C(90000) * MS);
    assert_pauses(&breaker, start_ns + UINT64_C(90000) * MS, 2000);
}

TEST(after_the_pause_exactly_one_request_tries)
{
    hth_breaker breaker = open_breaker();
    const uint64_t later_ns = start_ns + UINT64_C(3600000) * MS;

    assert_true(hth_breaker_allows(&breaker, later_ns));
    assert_true(hth_breaker_allows(&breaker, later_ns)); /* to ask is not to try */
    (void)hth_breaker_note_try(&breaker);
    assert_false(hth_breaker_allows(&breaker, later_ns));
    assert_false(hth_breaker_allows(&breaker, UINT64_MAX));
    assert_false(hth_breaker_is_closed(&breaker));
}

TEST(a_trial_that_succeeds_closes_it_and_forgets_the_long_pause)
{
    hth_breaker breaker = open_breaker();
    const uint64_t later_ns = start_ns + UINT64_C(1000) * MS;

    fail_trial(&breaker, later_ns);
    (void)hth_breaker_note_try(&breaker);
    hth_breaker_note_success(&breaker);
    assert_true(hth_breaker_is_closed(&breaker));
    for (int i = 0; i < 2; i++) {
        assert_true(hth_breaker_allows(&breaker, later_ns));
        hth_breaker_note_failure(&breaker, false, later_ns);
    }
    assert_true(hth_breaker_allows(&breaker, later_ns)); /* it takes three again */
    hth_breaker_note_failure(&breaker, false, later_ns);
    assert_pauses(&breaker, later_ns, 1000);
}

TEST(a_trial_that_ends_otherwise_lets_the_next_one_try)
{
    hth_breaker breaker = open_breaker();
    const uint64_t later_ns = start_ns + UINT64_C(1000) * MS;

    assert_true(hth_breaker_note_try(&breaker));
    hth_breaker_note_end(&breaker, true);
    assert_false(hth_breaker_is_closed(&breaker));
    assert_true(hth_breaker_allows(&breaker, later_ns));
    (void)hth_breaker_note_try(&breaker);
    assert_false(hth_breaker_allows(&breaker, later_ns)); /* again exactly one */
    hth_breaker_note_failure(&breaker, true, later_ns);
    assert_pauses(&breaker, later_ns, 2000); /* a trial without a result was no failure */
}

TEST(late_failures_of_requests_from_before_the_opening_change_nothing)
{
    hth_breaker breaker = open_breaker();
    const hth_breaker before = breaker;

    for (uint64_t i = 0; i < 20; i++)
        hth_breaker_note_failure(&breaker, false, start_ns + i * 200 * MS); /* during the pause, and after it */
    assert_memory_equal(&breaker, &before, sizeof(before));
    assert_pauses(&breaker, start_ns, 1000);
}

TEST(requests_from_before_the_opening_do_not_end_the_trial)
{
    hth_breaker breaker = open_breaker();
    const uint64_t later_ns = start_ns + UINT64_C(1000) * MS;

    assert_true(hth_breaker_note_try(&breaker));
    hth_breaker_note_failure(&breaker, false, later_ns);
    hth_breaker_note_end(&breaker, false);
    assert_false(hth_breaker_allows(&breaker, UINT64_MAX));
    hth_breaker_note_failure(&breaker, true, later_ns);
    assert_pauses(&breaker, later_ns, 2000);
}
