/*
 * short_program_test.c - programs that print and end, and others
 */
#include "supervisor/short_program.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum { LONG_MS = 120000 };

typedef struct fixture {
    struct event_base *base;
    hth_short_program *program;
    int n_ended;
    bool is_good;
    char output[8192];
} fixture;

static void on_ended(const char *output, bool is_good, void *user_data)
{
    fixture *f = user_data;

    f->n_ended++;
    f->is_good = is_good;
    (void)snprintf(f->output, sizeof(f->output), "%s", output);
}

static void set_up(fixture *f)
{
    hearth_error err;

    f->base = event_base_new();
    assert_non_null(f->base);
    assert_ok(hth_short_program_new(f->base, on_ended, f, &f->program, &err), err);
}

static void tear_down(fixture *f)
{
    hth_short_program_free(f->program);
    event_base_free(f->base);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void start(fixture *f, const char *command, uint32_t timeout_ms)
{
    hearth_error err;

    assert_ok(hth_short_program_start_shell(f->program, command, timeout_ms, &err), err);
}

/* Its end. */
static void run(fixture *f, const char *command, uint32_t timeout_ms)
{
    const int n_ended = f->n_ended;

    start(f, command, timeout_ms);
    while (f->n_ended == n_ended)
        assert_true(event_base_loop(f->base, EVLOOP_ONCE) >= 0);
}

FIXTURE_TEST(its_output_and_its_success_are_told)
{
    run(f, "echo 5 10", LONG_MS);
    assert_true(f->is_good);
    assert_string_equal(f->output, "5 10\n");
    run(f, "echo trouble >&2; exit 3", LONG_MS);
    assert_false(f->is_good);
    assert_string_equal(f->output, "trouble\n");
    run(f, "kill -SEGV $$", LONG_MS);
    assert_false(f->is_good);
    run(f, "/no/such/program", LONG_MS);
    assert_false(f->is_good);
    run(f, "true", LONG_MS);
    assert_true(f->is_good);
    assert_string_equal(f->output, "");
}

FIXTURE_TEST(endless_output_is_cut_and_ends_the_program)
{
    run(f, "yes", LONG_MS);
    assert_false(f->is_good);
    assert_int_equal(strlen(f->output), 4095);
}

FIXTURE_TEST(one_that_does_not_end_in_time_is_killed_with_its_children)
{
    run(f, "echo begun; sleep 1000 & sleep 1000", 50);
    assert_false(f->is_good);
    run(f, "sleep 1000 >/dev/null 2>&1 & echo left a child", LONG_MS);
    assert_true(f->is_good);
    assert_string_equal(f->output, "left a child\n");
}

FIXTURE_TEST(one_runs_at_a_time_and_none_outlives_its_owner)
{
    hearth_error err;

    start(f, "sleep 1000", LONG_MS);
    assert_int_equal(hth_short_program_start_shell(f->program, "true", LONG_MS, &err), HEARTH_BUSY);
    assert_int_equal(f->n_ended, 0);
}
