/*
 * pattern_test.c - patterns match what they should, where they should, in bounded time
 */
#include <string.h>

#include "grammar/pattern.h"
#include "support/cmocka_all.h"

/* Where the grammar would begin when text is read as one token; -1: no match. */
static long find(const char *pattern_text, const char *text)
{
    hth_pattern *pattern = NULL;
    hth_pattern_run *run;
    uint64_t begin = 0, n_steps = 0;
    bool found = false;
    hearth_error err;

    if (hth_pattern_new(pattern_text, &pattern, &err) != HEARTH_OK)
        fail_msg("%s: %s", pattern_text, err.message);
    run = hth_pattern_run_new(pattern, &n_steps);
    assert_non_null(run);
    for (size_t i = 0; text[i] && !found; i++)
        found = hth_pattern_read(run, (uint8_t)text[i], &begin);
    found = found || hth_pattern_at_end(run, &begin);
    hth_pattern_run_free(run);
    hth_pattern_free(pattern);
    return found ? (long)begin : -1;
}

TEST(patterns_match_where_they_should)
{
    static const struct {
        const char *pattern, *text;
        long begin;
    } cases[] = {
        { "abc", "xxabcx", 2 },
        { "a|bc", "xbc", 1 },
        { "(?:ab)+c", "ababc", 0 },
        { "[\\s\\S]*?(<tool>)[\\s\\S]*", "say <tool>x", 4 },
        { "[\\s\\S]*(<tool>)", "say\n<tool>", 4 },
        { "(x)?y(z)", "yz", 1 },
        { "^abc", "xabc", -1 },
        { "^abc", "abc", 0 },
        { "^ab$", "abc", -1 },
        { "^(?:a|(b))+$", "ab", 1 },
        { "a{2,3}b", "aab", 0 },
        { "a{2,3}b", "ab", -1 },
        { "[^a-c]\\d\\.", "ad5.", 1 },
        { "\\w+@\\x41", "me@A", 0 },
        { "é+!", "xéé!", 1 },
        { ".b", "\nb", -1 },
        { "(a*)*b", "aab", 0 },
        { "", "x", 0 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (find(cases[i].pattern, cases[i].text) != cases[i].begin)
            fail_msg("%s in %s: %ld", cases[i].pattern, cases[i].text, find(cases[i].pattern, cases[i].text));
}

TEST(bad_patterns_are_errors)
{
    static const char *const bad[] = { "(",       ")",       "[a",
                                       "*a",      "a**b",    "a{2,1}",
                                       "a{x}",    "\\1",     "(?=a)",
                                       "(?<n>a)", "\\q",     "[z-a]",
                                       "\\",      "a{1001}", "((((a{99}){99}){99}))",
                                       "[é]",     "\\x4",    "(a)(a)(a)(a)(a)(a)(a)(a)(a)(a)" };
    hth_pattern *pattern = NULL;
    hearth_error err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (hth_pattern_new(bad[i], &pattern, &err) != HEARTH_MISUSE)
            fail_msg("%s is taken", bad[i]);
        assert_non_null(strstr(err.message, "the pattern has "));
    }
    assert_null(pattern);
}

/* A pattern whose first n instructions are there when rest begins; one more marks the beginning. */
static void expect_too_long(size_t n, const char *rest)
{
    char text[1024] = "";
    size_t n_text = 0;
    hth_pattern *pattern = NULL;
    hearth_error err;

    for (n--; n >= 1000; n -= 1000) {
        memcpy(text + n_text, "a{1000}", 7);
        n_text += 7;
    }
    memset(text + n_text, 'x', n);
    n_text += n;
    memcpy(text + n_text, rest, strlen(rest) + 1);
    if (hth_pattern_new(text, &pattern, &err) != HEARTH_MISUSE)
        fail_msg("%s is taken", text);
    assert_non_null(strstr(err.message, "too long"));
}

TEST(a_pattern_that_fills_the_code_to_its_last_instruction_is_an_error)
{
    static const char *const rests[] = { "b{2}", "b{1000}", "b*", "b?", "(?:bcd){0,1000}", "(?:|b)", "b|c", "(b|)*" };

    for (size_t n = 4090; n <= 4096; n++)
        for (size_t i = 0; i < sizeof(rests) / sizeof(rests[0]); i++)
            if (n >= 4095 || i == 1 || i == 4)
                expect_too_long(n, rests[i]);
}

/* With backtracking these would not end. */
TEST(catastrophic_patterns_cost_no_more_than_others)
{
    static char text[20001];

    memset(text, 'a', 20000);
    assert_int_equal(find("(a*)*(a*)*(a|a)*x", text), -1);
    assert_int_equal(find("^(a|aa|aaa)+$x", text), -1);
    assert_int_equal(find("(?:(?:(?:a?){9}){9}){9}x", text), -1);
}
