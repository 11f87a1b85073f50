/*
 * dialog_signals_test.c - waits of `hearth chat`: a signal ends them, also one that came before, whatever can be read
 */
#include "chat/dialog_signals.h"

#include <sys/resource.h>
#include <unistd.h>

#include "support/cmocka_all.h"

enum { HIGH_FD = 1500 }; /* above FD_SETSIZE */

static void open_readable(int ends[2])
{
    hth_dialog_signals_catch();
    hth_dialog_stop = hth_dialog_ends = 0;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
}

static void close_both(const int ends[2])
{
    (void)close(ends[0]);
    (void)close(ends[1]);
    hth_dialog_stop = hth_dialog_ends = 0;
}

TEST(a_signal_that_came_before_wins_over_what_can_be_read)
{
    int ends[2];

    open_readable(ends);
    assert_true(hth_dialog_wait(ends[0]));
    assert_int_equal(raise(SIGINT), 0);
    assert_true(hth_dialog_signals_pending());
    assert_false(hth_dialog_wait(ends[0]));
    assert_int_equal(hth_dialog_stop, 1);
    assert_int_equal(hth_dialog_ends, 0);
    assert_int_equal(hth_dialog_signals_exit_code(), 130);
    close_both(ends);
}

TEST(a_signal_that_ends_the_program_is_its_exit_code)
{
    int ends[2];

    open_readable(ends);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(hth_dialog_signals_exit_code(), 143);
    assert_false(hth_dialog_wait(ends[0]));
    close_both(ends);
}

TEST(descriptors_of_any_number_can_be_waited_for)
{
    struct rlimit limit;
    int ends[2];

    open_readable(ends);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max <= HIGH_FD)
        skip();
    limit.rlim_cur = limit.rlim_max < 4096 ? limit.rlim_max : 4096;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(dup2(ends[0], HIGH_FD), HIGH_FD);
    assert_true(hth_dialog_wait(HIGH_FD));
    (void)close(HIGH_FD);
    close_both(ends);
    assert_false(hth_dialog_wait(ends[0])); /* it is closed */
}
