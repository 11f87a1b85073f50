/*
 * nfa_test.c - patterns are read within their bytes, and texts are looked for within their steps
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "schema/dfa.h"
#include "support/cmocka_all.h"

enum { PLENTY = 1 << 24 };

/* Is the text in the set of the pattern? *steps is what that took. */
static bool has(const char *pattern, const char *text, uint64_t *steps)
{
    hth_nfa *nfa = NULL;
    hearth_error err = { .message = "" };
    uint64_t left = PLENTY;
    bool is_in = false;

    if (hth_nfa_new_pattern(pattern, strlen(pattern), &nfa, &err) != HEARTH_OK)
        fail_msg("%s: %s", pattern, err.message);
    assert_int_equal(hth_nfa_has(nfa, text, strlen(text), &left, &is_in), HEARTH_OK);
    *steps = PLENTY - left;
    hth_nfa_free(nfa);
    return is_in;
}

TEST(a_set_has_the_characters_of_its_ranges)
{
    static const char pattern[] = "^[b-dX1-35\\u{1F600}]$";
    static const char *const in[] = { "b", "c", "d", "X", "1", "2", "3", "5", "\xF0\x9F\x98\x80" };
    static const char *const out[] = { "", "a", "e", "W", "Y", "0", "4", "6", "\xF0\x9F\x98\x81", "bb" };
    uint64_t steps;

    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
        if (!has(pattern, in[i], &steps))
            fail_msg("'%s' is missing", in[i]);
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
        if (has(pattern, out[i], &steps))
            fail_msg("'%s' is there", out[i]);
    assert_true(has("[^b-d]", "a", &steps));
    assert_false(has("^[^b-d]$", "c", &steps));
}

/* What is looked at before the first character is paid for, too. */
TEST(a_large_machine_costs_steps_whatever_the_text)
{
    uint64_t steps;

    assert_false(has("^(a?b){5000}$", "", &steps));
    assert_true(steps >= 10000);
}

TEST(too_few_steps_are_told)
{
    static const char pattern[] = "^(a|b)*c$";
    hth_nfa *nfa = NULL;
    uint64_t none = 0, few = 40;
    bool is_in = true;
    char text[200];

    memset(text, 'a', sizeof(text));
    assert_int_equal(hth_nfa_new_pattern(pattern, strlen(pattern), &nfa, NULL), HEARTH_OK);
    assert_int_equal(hth_nfa_has(nfa, "", 0, &none, &is_in), HEARTH_MISUSE);
    assert_false(is_in);
    assert_int_equal(hth_nfa_has(nfa, text, sizeof(text), &few, &is_in), HEARTH_MISUSE);
    assert_true(few < 40);
    hth_nfa_free(nfa);
}

/* The byte behind the last one cannot be read. */
TEST(nothing_behind_a_pattern_is_read)
{
    static const char *const patterns[] = { "([\\", "([a-\\", "([a-", "([", "(\\u", "(\\", "(?<a", "a{1", "[^", "(" };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        size_t n = strlen(patterns[i]);
        hth_nfa *nfa = NULL;
        hearth_error err = { .message = "" };

        memcpy(memory + page - n, patterns[i], n);
        assert_int_equal(hth_nfa_new_pattern(memory + page - n, n, &nfa, &err), HEARTH_MISUSE);
        assert_string_not_equal(err.message, "");
    }
    assert_int_equal(munmap(memory, 2 * page), 0);
}
