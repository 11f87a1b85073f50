/*
 * history_test.c - texts whose tokens are known: the longest one is found, spaces are apart, memory is bounded
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history/history.h"
#include "support/cmocka_all.h"

enum { N_VOCAB = 1000, BYTES_MAX = 1 << 20 };

static const hth_history_space one = { .bytes = { 1 } }, two = { .bytes = { 2 } };

static int set_up(void **state)
{
    *state = hth_history_new(BYTES_MAX, N_VOCAB);
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    hth_history_free(*state);
    return 0;
}

#define FIXTURE_TEST(name) TEST_IN(hth_history, history, name, set_up, tear_down)

/* A record whose tokens are first, first + 1, ... */
static void add(hth_history *history, const hth_history_space *space, const char *text, hearth_token first,
                size_t n_tokens)
{
    hearth_token tokens[64];

    assert_true(n_tokens <= 64);
    for (size_t i = 0; i < n_tokens; i++)
        tokens[i] = first + (hearth_token)i;
    hth_history_add(history, space, text, strlen(text), 0, tokens, n_tokens);
}

static bool always(size_t n_bytes, void *user_data)
{
    (void)n_bytes;
    (void)user_data;
    return true;
}

static bool not_this(size_t n_bytes, void *user_data)
{
    return n_bytes != *(const size_t *)user_data;
}

static hth_history_found find(hth_history *history, const hth_history_space *space, const char *text)
{
    hth_history_found found;

    assert_true(hth_history_find(history, space, text, strlen(text), always, NULL, &found));
    return found;
}

static size_t found_bytes(hth_history *history, const hth_history_space *space, const char *text)
{
    hth_history_found found = find(history, space, text);

    free(found.tokens);
    return found.n_bytes;
}

static void expect_tokens(hth_history *history, const char *text, hearth_token first, size_t n_tokens)
{
    hth_history_found found = find(history, &one, text);

    assert_int_equal(found.n_tokens, n_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        assert_int_equal(found.tokens[i], first + (hearth_token)i);
    free(found.tokens);
}

FIXTURE_TEST(nothing_is_known_at_the_beginning)
{
    assert_int_equal(found_bytes(history, &one, "abc"), 0);
}

FIXTURE_TEST(the_longest_beginning_is_found)
{
    add(history, &one, "The cat", 10, 3);
    add(history, &one, "The cat sat on the mat", 10, 9);
    add(history, &one, "The car", 40, 2);
    expect_tokens(history, "The cat sat on the mat and slept", 10, 9);
    expect_tokens(history, "The cat sat on the map", 10, 3);
    expect_tokens(history, "The cars", 40, 2);
    assert_int_equal(found_bytes(history, &one, "The ca"), 0);
    assert_int_equal(found_bytes(history, &one, "The dog"), 0);
}

FIXTURE_TEST(a_record_that_is_the_whole_text_is_found)
{
    add(history, &one, "abc", 1, 2);
    assert_int_equal(found_bytes(history, &one, "abc"), 3);
}

FIXTURE_TEST(a_record_that_does_not_fit_gives_way_to_a_shorter_one)
{
    size_t refused = 6;
    hth_history_found found;

    add(history, &one, "abc", 1, 2);
    add(history, &one, "abcdef", 1, 5);
    assert_true(hth_history_find(history, &one, "abcdefg", 7, not_this, &refused, &found));
    assert_int_equal(found.n_bytes, 3);
    free(found.tokens);
}

FIXTURE_TEST(records_of_one_space_are_unknown_in_another)
{
    add(history, &one, "secret", 1, 3);
    assert_int_equal(found_bytes(history, &two, "secret"), 0);
    add(history, &two, "secret", 7, 2);
    expect_tokens(history, "secret", 1, 3);
}

FIXTURE_TEST(a_record_does_not_stand_on_one_with_other_tokens)
{
    add(history, &one, "ab", 1, 2);
    add(history, &one, "abcd", 50, 4);
    expect_tokens(history, "abcd", 50, 4);
    expect_tokens(history, "abc", 1, 2);
}

FIXTURE_TEST(later_tokens_of_the_same_text_replace_those_that_nothing_stands_on)
{
    add(history, &one, "abc", 1, 3);
    add(history, &one, "abc", 20, 2);
    expect_tokens(history, "abc", 20, 2);
    add(history, &one, "abcdef", 20, 4);
    add(history, &one, "abc", 30, 3);
    expect_tokens(history, "abc", 20, 2);
    expect_tokens(history, "abcdef", 20, 4);
}

FIXTURE_TEST(more_tokens_of_the_same_text_replace_none)
{
    add(history, &one, "abc", 1, 2);
    add(history, &one, "abc", 20, 3);
    expect_tokens(history, "abc", 1, 2);
}

FIXTURE_TEST(a_token_outside_the_vocabulary_is_not_kept)
{
    add(history, &one, "abc", N_VOCAB - 1, 2);
    add(history, &one, "abd", -1, 2);
    assert_int_equal(hth_history_count(history), 0);
    assert_int_equal(hth_history_bytes(history), 0);
}

FIXTURE_TEST(a_text_goes_on_with_the_same_tokens_only)
{
    add(history, &one, "abc", 1, 3);
    add(history, &one, "abcd", 1, 3); /* a byte without a token */
    assert_int_equal(found_bytes(history, &one, "abcd"), 3);
}

TEST(memory_is_bounded_and_the_record_used_least_recently_goes_first)
{
    hth_history *history = hth_history_new(8192, N_VOCAB);
    char text[64];

    assert_non_null(history);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(text, sizeof(text), "%03d is the number of a conversation", i);
        add(history, &one, text, 1, 20);
        assert_int_not_equal(found_bytes(history, &one, "000 is the number of a conversation"), 0);
        assert_true(hth_history_bytes(history) <= 8192);
    }
    assert_int_equal(found_bytes(history, &one, "001 is the number of a conversation"), 0);
    assert_int_not_equal(found_bytes(history, &one, "199 is the number of a conversation"), 0);
    hth_history_free(history);
}

TEST(a_record_goes_before_those_that_it_stands_on)
{
    hth_history *history = hth_history_new(4096, N_VOCAB);
    char text[256] = "";

    assert_non_null(history);
    for (size_t i = 1; i <= 60; i++) {
        (void)snprintf(text + strlen(text), 4, "abc");
        add(history, &one, text, 1, i);
    }
    /* What is left is the beginning of the chain: it is whole. */
    for (size_t n = found_bytes(history, &one, text) / 3; n > 0; n--) {
        text[3 * n] = '\0';
        expect_tokens(history, text, 1, n);
    }
    hth_history_free(history);
}

TEST(records_and_bytes_are_none_when_everything_is_gone)
{
    hth_history *history = hth_history_new(0, N_VOCAB);

    assert_non_null(history);
    add(history, &one, "abc", 1, 3);
    assert_int_equal(hth_history_count(history), 0);
    assert_int_equal(hth_history_bytes(history), 0);
    hth_history_free(history);
}

/* ---- records by themselves ---- */

/* Add the records that are new, n_max at most, to another history. How many. */
static size_t copy_new(hth_history *from, hth_history *to, size_t n_max)
{
    hth_history_record *record;
    hth_history_digest digest;
    size_t n = 0;

    for (; n < n_max && hth_history_take_new(from, &record); n++) {
        assert_non_null(record);
        assert_true(hth_history_digest_of(record, &digest));
        hth_history_add_record(to, record, &digest);
        free(record);
    }
    return n;
}

FIXTURE_TEST(records_that_are_taken_make_the_same_history)
{
    hth_history *second = hth_history_new(BYTES_MAX, N_VOCAB);

    assert_non_null(second);
    add(history, &one, "abc", 1, 2);
    add(history, &one, "abcdef", 1, 5);
    add(history, &one, "abcdxy", 1, 6);
    add(history, &two, "abc", 9, 1);
    assert_int_equal(copy_new(history, second, 2), 2);
    assert_int_equal(copy_new(history, second, 100), 2);
    assert_int_equal(copy_new(history, second, 100), 0);
    expect_tokens(second, "abcdefgh", 1, 5);
    expect_tokens(second, "abcdxy", 1, 6);
    assert_int_equal(found_bytes(second, &two, "abcd"), 3);
    assert_int_equal(hth_history_bytes(second), hth_history_bytes(history));

    hth_history_all_are_new(history);
    assert_int_equal(copy_new(history, second, 100), 4);
    assert_int_equal(hth_history_count(second), 4);
    hth_history_free(second);
}

FIXTURE_TEST(a_record_on_an_unknown_one_is_ignored)
{
    static const hearth_token tokens[] = { 1, 2 };
    hth_history_record orphan = {
        .space = one, .below = { .bytes = { 99 } }, .text = "abc", .n_bytes = 3, .tokens = tokens, .n_tokens = 2
    };

    hth_history_add_record(history, &orphan, &orphan.below);
    assert_int_equal(hth_history_count(history), 0);
    assert_int_equal(hth_history_bytes(history), 0);
}

FIXTURE_TEST(the_end_of_a_record_is_told)
{
    hth_history_record *record;
    hth_history_digest digest;
    hth_history_end end;

    hth_history_space_digest(&one, &digest);
    assert_true(hth_history_end_of(history, &one, &digest, &end)); /* the beginning of every text */
    assert_int_equal(end.n_bytes, 0);
    assert_int_equal(end.last, -1);
    add(history, &one, "abc", 1, 2);
    add(history, &one, "abcd", 1, 3);
    assert_true(hth_history_take_new(history, &record));
    assert_true(hth_history_digest_of(record, &digest));
    free(record);
    assert_true(hth_history_end_of(history, &one, &digest, &end));
    assert_int_equal(end.n_bytes, 3);
    assert_memory_equal(end.bytes, "abc", 3);
    assert_int_equal(end.last, 2);
    assert_false(hth_history_end_of(history, &two, &digest, &end));
}
