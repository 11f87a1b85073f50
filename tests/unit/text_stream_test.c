/*
 * text_stream_test.c - whole characters out, nothing of a stop text shown
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "sched/text_stream.h"
#include "support/cmocka_all.h"
#include "support/support.h"

/* Feed bytes in pieces whose sizes come from the seed; everything released, as one string. */
static char *stream_all(const char *bytes, size_t n, const char *const *stop, size_t n_stop, uint64_t seed,
                        bool *stopped_out)
{
    hth_text_stream *stream = hth_text_stream_new(stop, n_stop);
    char *all = calloc(1, 3 * n + 16);
    bool stopped = false;
    const char *text;
    size_t n_text;

    assert_non_null(stream);
    for (size_t at = 0; at < n;) {
        size_t piece = 1 + hth_test_random(&seed, 5);

        if (piece > n - at)
            piece = n - at;
        assert_true(hth_text_stream_feed(stream, bytes + at, piece, &text, &n_text, &stopped));
        assert_int_equal(strlen(text), n_text);
        assert_true(hth_utf8_is_valid(text, n_text));
        strcat(all, text);
        at += piece;
    }
    assert_true(hth_text_stream_finish(stream, &text, &n_text));
    strcat(all, text);
    hth_text_stream_free(stream);
    if (stopped_out)
        *stopped_out = stopped;
    return all;
}

TEST(text_comes_out_as_it_went_in_however_it_is_cut)
{
    static const char text[] = "Grüße, 日本語 🚀 and plain words. é";

    for (uint64_t seed = 0; seed < 200; seed++) {
        char *out = stream_all(text, sizeof(text) - 1, NULL, 0, seed, NULL);

        assert_string_equal(out, text);
        free(out);
    }
}

TEST(bytes_that_are_no_character_become_replacements)
{
    static const struct {
        const char *bytes;
        const char *text;
    } cases[] = {
        { "a\xff"
          "b",
          "a\xEF\xBF\xBD"
          "b" },
        { "a\xC3", "a\xEF\xBF\xBD" },                               /* cut off at the end */
        { "\xC3(", "\xEF\xBF\xBD(" },                               /* broken off by another character */
        { "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD" },                 /* overlong */
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" }, /* a surrogate */
        { "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" }, /* beyond U+10FFFF */
        { "\x80", "\xEF\xBF\xBD" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            char *out = stream_all(cases[i].bytes, strlen(cases[i].bytes), NULL, 0, seed, NULL);

            assert_string_equal(out, cases[i].text);
            free(out);
        }
}

TEST(a_stop_text_and_what_follows_it_are_never_shown)
{
    static const char *const stop[] = { "STOP", "\n\nUser:" };
    static const struct {
        const char *bytes;
        const char *text;
        bool stops;
    } cases[] = {
        { "one STOP two", "one ", true },
        { "one STO two", "one STO two", false },
        { "ends in STO", "ends in STO", false },
        { "SSTOP", "S", true },
        { "STSTOP rest", "ST", true },
        { "a\n\nUser: b", "a", true },
        { "a\n\nUse b", "a\n\nUse b", false },
        { "\n\n\nUser:x", "\n", true },
        { "STOP", "", true },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            bool stopped;
            char *out = stream_all(cases[i].bytes, strlen(cases[i].bytes), stop, 2, seed, &stopped);

            assert_string_equal(out, cases[i].text);
            assert_int_equal(stopped, cases[i].stops);
            free(out);
        }
}

TEST(the_stop_text_that_came_is_named_by_its_index)
{
    static const char *const stop[] = { "", "zz", "ab", "abc", "b" }; /* an empty one counts and stops nothing */
    const char *text;
    size_t n_text;
    bool stopped;

    for (int i = 0; i < 2; i++) {
        hth_text_stream *stream = hth_text_stream_new(stop, 5);

        assert_true(hth_text_stream_feed(stream, "x", 1, &text, &n_text, &stopped));
        assert_false(stopped);
        assert_true(hth_text_stream_feed(stream, i == 0 ? "abc" : "b", i == 0 ? 3 : 1, &text, &n_text, &stopped));
        assert_true(stopped);
        assert_int_equal(hth_text_stream_stop(stream), i == 0 ? 2 : 4);
        assert_true(hth_text_stream_feed(stream, "zz", 2, &text, &n_text, &stopped));
        assert_int_equal(hth_text_stream_stop(stream), i == 0 ? 2 : 4);
        hth_text_stream_free(stream);
    }
}

TEST(random_bytes_always_give_valid_text)
{
    uint64_t seed = hth_test_seed();

    for (int round = 0; round < 2000; round++) {
        char bytes[64];
        size_t n = hth_test_random(&seed, sizeof(bytes));
        char *out;

        for (size_t i = 0; i < n; i++) {
            bytes[i] = (char)(0x70 + hth_test_random(&seed, 0x90));
            if (bytes[i] == '\0')
                bytes[i] = 'x';
        }
        out = stream_all(bytes, n, NULL, 0, seed, NULL);
        assert_true(hth_utf8_is_valid(out, strlen(out)));
        free(out);
    }
}
