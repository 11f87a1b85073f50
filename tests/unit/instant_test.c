/*
 * instant_test.c - dates as people write them, and as they are written
 */
#include "console/instant.h"
#include "support/cmocka_all.h"

TEST(dates_are_their_seconds_in_utc)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } cases[] = {
        { "1970-01-02", 86400 },
        { "1970-01-01T00:00:01Z", 1 },
        { "2000-02-29", 951782400 },
        { "2000-03-01", 951868800 },
        { "2024-12-31T23:59:59Z", 1735689599 },
        { "2027-01-31", 1801353600 },
        { "2027-01-31T18:00Z", 1801418400 },
        { "2100-03-01", 4107542400 },
        { "9999-12-31T23:59:59Z", INT64_C(253402300799) },
    };
    char text[HTH_INSTANT_BYTES];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t found = -1, again = -1;

        if (!hth_instant_read(cases[i].text, 0, &found) || found != cases[i].seconds)
            fail_msg("'%s' is %lld, not %lld", cases[i].text, (long long)found, (long long)cases[i].seconds);
        hth_instant_write(found, text);
        assert_true(hth_instant_read(text, 0, &again));
        assert_int_equal(again, found);
    }
    hth_instant_write(1801418400, text);
    assert_string_equal(text, "2027-01-31T18:00:00Z");
    hth_instant_write(0, text);
    assert_string_equal(text, "never");
}

TEST(times_from_now_are_for_command_lines)
{
    int64_t found = -1;

    assert_true(hth_instant_read("90d", 1000, &found));
    assert_int_equal(found, 1000 + 90 * 86400);
    assert_true(hth_instant_read("12h", 1000, &found));
    assert_int_equal(found, 1000 + 12 * 3600);
    assert_true(hth_instant_read("5min", 1000, &found));
    assert_int_equal(found, 1300);
    assert_true(hth_instant_read("2w", 1000, &found));
    assert_int_equal(found, 1000 + 14 * 86400);
    assert_true(hth_instant_read("now", 1000, &found));
    assert_int_equal(found, 1000);
    assert_true(hth_instant_read("never", 1000, &found));
    assert_int_equal(found, 0);
    found = 7;
    assert_false(hth_instant_read("90d", 0, &found));
    assert_false(hth_instant_read("never", 0, &found));
    assert_false(hth_instant_read("now", 0, &found));
    assert_int_equal(found, 7);
}

TEST(what_is_no_date_is_refused)
{
    static const char *const wrong[] = { "",
                                         "2027",
                                         "2027-1-31",
                                         "2027-13-01",
                                         "2027-00-01",
                                         "2027-02-29",
                                         "2100-02-29",
                                         "2027-04-31",
                                         "2027-01-00",
                                         "1969-12-31",
                                         "1970-01-01",
                                         "2027-01-31T",
                                         "2027-01-31T18:00",
                                         "2027-01-31T24:00Z",
                                         "2027-01-31T18:60Z",
                                         "2027-01-31T18:00:60Z",
                                         "2027-01-31T18:00+01:00",
                                         "2027-01-31 18:00Z",
                                         "2027-01-31x",
                                         "31.01.2027",
                                         "d",
                                         "-5d",
                                         "5y",
                                         "5 d",
                                         "9999999999d",
                                         "999999999w" };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int64_t found = 7;

        if (hth_instant_read(wrong[i], 1000, &found))
            fail_msg("'%s' is taken for %lld", wrong[i], (long long)found);
        assert_int_equal(found, 7);
    }
}
