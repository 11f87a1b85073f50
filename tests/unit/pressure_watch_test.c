/*
 * pressure_watch_test.c - settings of pressure change while it is watched, and its programs may fail
 *
 * The machine is a source, too, in any state; so tests look at another one.
 */
#include "supervisor/pressure_watch.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

typedef struct fixture {
    struct event_base *base;
    hth_event_feed *feed;
    hth_log log;
    char logged[4096];
    hth_server_options options;
    hth_pressure_watch *watch;
    bool is_held;
} fixture;

static json_t *snapshot(void *user_data)
{
    (void)user_data;
    return json_object();
}

static uint64_t relieve(uint64_t n_bytes, bool is_device, hth_departures *departures, void *user_data)
{
    (void)n_bytes;
    (void)is_device;
    (void)departures;
    (void)user_data;
    return 0;
}

static void hold(bool is_held, void *user_data)
{
    fixture *f = user_data;

    f->is_held = is_held;
}

static void note(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    fixture *f = user_data;
    const size_t n = strlen(f->logged);

    (void)level;
    (void)source;
    (void)snprintf(f->logged + n, sizeof(f->logged) - n, "%s\n", message); /* cut */
}

static void set_up(fixture *f)
{
    hearth_error err;

    f->base = event_base_new();
    assert_non_null(f->base);
    assert_ok(hth_event_feed_new(f->base, snapshot, f, &f->feed, &err), err);
    f->log = (hth_log){ .level = HEARTH_LOG_INFO, .write = note, .user_data = f };
    f->options = hth_server_options_default();
    f->options.pressure.poll_ms = 50;
}

static void tear_down(fixture *f)
{
    hth_pressure_watch_free(f->watch);
    hth_event_feed_free(f->feed);
    event_base_free(f->base);
}

#define FIXTURE_TEST(name) TEST_WITH(fixture, f, name, set_up, tear_down)

static void begin(fixture *f)
{
    const hth_pressure_orders orders = { .relieve = relieve, .hold = hold, .user_data = f };
    hearth_error err;

    assert_ok(hth_pressure_watch_new(f->base, HTH_TEST_HEARTH, &f->options, &orders, &f->log, f->feed, &f->watch, &err),
              err);
}

/* Of a source: does it have samples, and is it under pressure? */
static bool is_seen(fixture *f, const char *source)
{
    json_t *page = hth_pressure_watch_json(f->watch);
    const bool is_seen_now = json_array_size(json_object_get(json_object_get(page, source), "limits")) > 0;

    json_decref(page);
    return is_seen_now;
}

static bool is_pressed(fixture *f, const char *source)
{
    json_t *page = hth_pressure_watch_json(f->watch);
    const bool is_pressed_now = json_is_true(json_object_get(json_object_get(page, source), "pressed"));

    json_decref(page);
    return is_pressed_now;
}

#define run_until(f, condition) \
    while (!(condition))        \
    assert_true(event_base_loop((f)->base, EVLOOP_ONCE) >= 0)

static void set_marks(fixture *f, uint32_t high_percent, uint32_t low_percent)
{
    hth_pressure_settings settings = *hth_pressure_watch_settings(f->watch);

    settings.marks.high_percent = high_percent;
    settings.marks.low_percent = low_percent;
    hth_pressure_watch_set_settings(f->watch, &settings);
}

FIXTURE_TEST(other_marks_hold_from_the_next_look_on_and_other_options_leave_them)
{
    hth_server_options others = f->options;

    f->options.pressure_command = others.pressure_command = "echo 920 1000";
    begin(f);
    run_until(f, is_seen(f, "command"));
    assert_false(is_pressed(f, "command"));
    set_marks(f, 91, 90);
    run_until(f, is_pressed(f, "command"));
    assert_true(f->is_held);

    hth_pressure_watch_set_options(f->watch, &others);
    assert_int_equal(hth_pressure_watch_settings(f->watch)->marks.high_percent, 91);
    set_marks(f, 95, 93);
    run_until(f, !is_pressed(f, "command"));
}

FIXTURE_TEST(turning_it_off_ends_the_pressure_at_once)
{
    hth_pressure_settings settings = f->options.pressure;

    f->options.pressure_command = "echo 990 1000";
    begin(f);
    run_until(f, is_pressed(f, "command"));
    settings.is_off = true;
    hth_pressure_watch_set_settings(f->watch, &settings);
    assert_false(f->is_held);
    assert_false(is_seen(f, "command"));
    assert_false(is_seen(f, "system"));
    settings.is_off = false;
    hth_pressure_watch_set_settings(f->watch, &settings);
    run_until(f, is_pressed(f, "command"));
    assert_true(f->is_held);
}

FIXTURE_TEST(orders_that_come_all_the_time_do_not_put_off_the_looks)
{
    f->options.pressure_command = "echo 1 1000";
    begin(f);
    while (!is_seen(f, "command")) {
        set_marks(f, 80, 70);
        assert_true(event_base_loop(f->base, EVLOOP_NONBLOCK) >= 0);
    }
}

FIXTURE_TEST(a_function_of_a_library_is_a_source)
{
    f->options.pressure_library = HTH_TEST_MEMORY_USE ":full";
    begin(f);
    run_until(f, is_pressed(f, "library"));
    f->options.pressure_library = HTH_TEST_MEMORY_USE ":half";
    run_until(f, !is_pressed(f, "library"));
    run_until(f, is_seen(f, "library"));
    f->options.pressure_library = HTH_TEST_MEMORY_USE ":nobody";
    run_until(f, strstr(f->logged, "has no function 'nobody'"));
    assert_false(is_pressed(f, "library"));
}

FIXTURE_TEST(a_library_that_crashes_is_told_once_and_is_no_pressure)
{
    static const char told[] = "the source of memory pressure 'library' fails";

    f->options.pressure_library = HTH_TEST_MEMORY_USE ":crashes";
    begin(f);
    run_until(f, strstr(f->logged, told));
    assert_false(is_pressed(f, "library"));
    f->options.pressure_command = "echo 1 1000"; /* both are asked again */
    run_until(f, is_seen(f, "command"));
    assert_null(strstr(strstr(f->logged, told) + 1, told));
    f->options.pressure_library = HTH_TEST_MEMORY_USE ":full";
    run_until(f, is_pressed(f, "library"));
}
