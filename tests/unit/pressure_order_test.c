/*
 * pressure_order_test.c - an order about pressure has the keys, checks and units of the configuration
 */
#include <string.h>

#include "options/serve_config.h"
#include "support/cmocka_all.h"
#include "support/support.h"

static hth_pressure_settings usual(void)
{
    return hth_server_options_default().pressure;
}

static void refuse(const char *text, const char *message)
{
    hth_pressure_settings settings = usual();
    const hth_pressure_settings before = settings;
    hearth_error err = { .message = "" };

    assert_int_equal(hth_serve_pressure_read(text, &settings, &err), HEARTH_MISUSE);
    if (!strstr(err.message, message))
        fail_msg("'%s' is not said of '%s', but '%s'", message, text, err.message);
    assert_memory_equal(&settings, &before, sizeof(settings));
}

TEST(an_order_changes_the_settings_that_it_names)
{
    hth_pressure_settings settings = usual();
    hearth_error err;

    assert_ok(hth_serve_pressure_read("{\"high_percent\":80,\"poll_ms\":\"2s\",\"min_evict_bytes\":\"1mb\"}", &settings,
                                      &err),
              err);
    assert_int_equal(settings.marks.high_percent, 80);
    assert_int_equal(settings.marks.low_percent, 90);
    assert_int_equal(settings.marks.evict_bytes_min, 1 << 20);
    assert_int_equal(settings.poll_ms, 2000);
    assert_ok(hth_serve_pressure_read("{\"low_percent\":70,\"stall_percent\":0,\"off\":true,\"min_evict_bytes\":5}",
                                      &settings, &err),
              err);
    assert_int_equal(settings.marks.high_percent, 80);
    assert_int_equal(settings.marks.low_percent, 70);
    assert_int_equal(settings.marks.stall_percent, 0);
    assert_int_equal(settings.marks.evict_bytes_min, 5);
    assert_true(settings.is_off);
}

TEST(an_order_with_a_fault_changes_nothing_and_names_it)
{
    refuse("{\"high_percent\":101}", "high_percent is '101'");
    refuse("{\"low_percent\":50,\"poll_ms\":49}", "poll_ms is '49'");
    refuse("{\"stall_percent\":\"much\"}", "stall_percent");
    refuse("{\"off\":1}", "off is '1'; it must be true or false");
    refuse("{\"hihg_percent\":80}", "did you mean 'high_percent'?");
    refuse("{\"command\":\"cat /proc/meminfo\"}", "'command' is no key that an order may change");
    refuse("{\"library\":\"a.so:f\"}", "'library' is no key that an order may change");
}
