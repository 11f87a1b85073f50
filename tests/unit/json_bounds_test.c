/*
 * json_bounds_test.c - what is measured of a JSON text is what a parser will meet, whatever is in its strings
 */
#include <stdlib.h>
#include <string.h>

#include "base/json_bounds.h"
#include "support/cmocka_all.h"

static hth_json_bounds measure(const char *text)
{
    return hth_json_measure(text, strlen(text));
}

TEST(depth_values_and_pairs_are_counted)
{
    static const struct {
        const char *text;
        size_t depth, n_values;
        uint64_t n_pairs;
    } cases[] = {
        { "", 0, 1, 0 },
        { "1", 0, 1, 0 },
        { "[]", 1, 2, 0 },
        { "[1,2,3]", 1, 4, 0 },
        { "{\"a\":1}", 1, 2, 0 },
        { "{\"a\":1,\"b\":2,\"c\":3}", 1, 4, 3 },
        { "{\"a\":[1,2,3,4],\"b\":{\"c\":1,\"d\":2}}", 2, 9, 2 },
        { "[{\"a\":1,\"b\":2},{\"c\":1,\"d\":2}]", 2, 7, 2 },
        { "{\"a\":{\"x\":{\"y\":1}},\"b\":2,\"c\":[[[]]]}", 4, 9, 3 },
        { "\"[{,}]\"", 0, 1, 0 },
        { "[\"\\\"[\", \"\\\\\", \",\"]", 1, 4, 0 },
        { "]]}}[", 1, 2, 0 }, /* no JSON, but no harm either */
        { "{\"unfinished", 1, 2, 0 },
        { "\"\\", 0, 1, 0 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hth_json_bounds bounds = measure(cases[i].text);

        if (bounds.depth != cases[i].depth || bounds.n_values != cases[i].n_values ||
            bounds.n_pairs != cases[i].n_pairs)
            fail_msg("%s: %zu deep, %zu values, %llu pairs", cases[i].text, bounds.depth, bounds.n_values,
                     (unsigned long long)bounds.n_pairs);
    }
}

TEST(a_text_that_is_deeper_than_levels_are_kept_is_measured)
{
    enum { DEPTH = 1000 };
    char *text = malloc(DEPTH + 1);

    memset(text, '{', DEPTH);
    text[DEPTH] = '\0';
    assert_int_equal(measure(text).depth, DEPTH);
    memset(text + DEPTH / 2, ',', DEPTH / 2);
    assert_int_equal(measure(text).depth, DEPTH / 2);
    assert_int_equal(measure(text).n_values, 1 + DEPTH);
    assert_false(hth_json_is_within(text, DEPTH, 64, DEPTH * 2));
    free(text);
}
