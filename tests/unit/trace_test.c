/*
 * trace_test.c - a client's trace goes on with a span of our own, and what is no trace or no id is replaced
 */
#include <string.h>

#include "http/trace.h"
#include "support/cmocka_all.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"

static bool is_hexadecimal(const char *text, size_t n)
{
    return strlen(text) == n && strspn(text, "0123456789abcdef") == n && strspn(text, "0") < n;
}

static void assert_written(const hth_trace *trace, const char *expected_flags)
{
    char text[HTH_TRACEPARENT_BYTES];

    hth_trace_write(trace, text);
    assert_int_equal(strlen(text), HTH_TRACEPARENT_BYTES - 1);
    assert_memory_equal(text, "00-", 3);
    assert_memory_equal(text + 3, trace->trace_id, 32);
    assert_int_equal(text[35], '-');
    assert_memory_equal(text + 36, trace->span_id, 16);
    assert_int_equal(text[52], '-');
    assert_string_equal(text + 53, expected_flags);
}

TEST(a_trace_goes_on_with_a_span_of_our_own)
{
    hth_trace trace;

    assert_true(hth_trace_begin("00-" TRACE "-" SPAN "-01", &trace));
    assert_string_equal(trace.trace_id, TRACE);
    assert_string_equal(trace.parent_id, SPAN);
    assert_true(is_hexadecimal(trace.span_id, 16));
    assert_string_not_equal(trace.span_id, SPAN);
    assert_int_equal(trace.flags, 1);
    assert_written(&trace, "01");
}

TEST(the_flags_that_are_defined_are_passed_on_and_no_others)
{
    hth_trace trace;

    assert_true(hth_trace_begin("00-" TRACE "-" SPAN "-00", &trace));
    assert_written(&trace, "00");
    assert_true(hth_trace_begin("00-" TRACE "-" SPAN "-03", &trace));
    assert_written(&trace, "03");
    assert_true(hth_trace_begin("00-" TRACE "-" SPAN "-fd", &trace));
    assert_written(&trace, "01");
}

TEST(a_later_version_is_read_as_far_as_it_is_known)
{
    hth_trace trace;

    assert_true(hth_trace_begin("01-" TRACE "-" SPAN "-01", &trace));
    assert_true(hth_trace_begin("cc-" TRACE "-" SPAN "-01-what-the-future-brings", &trace));
    assert_string_equal(trace.trace_id, TRACE);
    assert_written(&trace, "01");
}

TEST(what_is_no_traceparent_begins_a_new_trace)
{
    static const char *const headers[] = {
        NULL,
        "",
        "00",
        "-",
        "00-" TRACE "-" SPAN,                              /* no flags */
        "00-" TRACE "-" SPAN "-0",                         /* half of them */
        "00-" TRACE "-" SPAN "-01-",                       /* version 00 has nothing more */
        "00-" TRACE "-" SPAN "-01 ",                       /* nor a space */
        "01-" TRACE "-" SPAN "-01.",                       /* later ones have another dash first */
        "01-" TRACE "-" SPAN "-0100",                      /* likewise */
        "ff-" TRACE "-" SPAN "-01",                        /* no version */
        "0g-" TRACE "-" SPAN "-01",                        /* likewise */
        "00-" TRACE "-" SPAN "-0g",                        /* no flags */
        "00-00000000000000000000000000000000-" SPAN "-01", /* no id */
        "00-" TRACE "-0000000000000000-01",                /* no id */
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01", /* upper case */
        "00-0af7651916cd43dd8448eb211c80319-" SPAN "-01x", /* too short */
        "00_" TRACE "-" SPAN "-01",                        /* no dash */
        "00-" TRACE "_" SPAN "-01",                        /* likewise */
        "00-" TRACE "-" SPAN "_01",                        /* likewise */
        " 00-" TRACE "-" SPAN "-01",
    };
    hth_trace trace, other;

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_false(hth_trace_begin(headers[i], &trace));
        assert_true(is_hexadecimal(trace.trace_id, 32));
        assert_string_not_equal(trace.trace_id, TRACE);
        assert_string_equal(trace.parent_id, "");
        assert_true(is_hexadecimal(trace.span_id, 16));
        assert_written(&trace, "02");
    }
    assert_false(hth_trace_begin(NULL, &other));
    assert_string_not_equal(trace.trace_id, other.trace_id);
    assert_string_not_equal(trace.span_id, other.span_id);
}

TEST(a_good_request_id_is_kept)
{
    static const char *const headers[] = { "a",
                                           "0",
                                           ".",
                                           "-",
                                           "_",
                                           "8f14e45f-ceea-467f-a0e6-8d31c8b3a7f2",
                                           "req_ABC.xyz-09",
                                           "0123456789012345678901234567890123456789012345678901234567890123" };
    char id[HTH_REQUEST_ID_BYTES];

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_true(hth_request_id_begin(headers[i], id));
        assert_string_equal(id, headers[i]);
    }
}

TEST(another_request_id_is_replaced)
{
    static const char *const headers[] = {
        NULL,   "",    "a b",      "a\"b",
        "a\nb", "a/b", "\xc3\xa4", "01234567890123456789012345678901234567890123456789012345678901234"
    };
    char id[HTH_REQUEST_ID_BYTES], other[HTH_REQUEST_ID_BYTES];

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        assert_false(hth_request_id_begin(headers[i], id));
        assert_true(is_hexadecimal(id, 24));
    }
    assert_false(hth_request_id_begin(NULL, other));
    assert_string_not_equal(id, other);
}
