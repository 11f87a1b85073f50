/*
 * credit_test.c - what is known of the caches of nodes: by anchors, of places that are still there, and in exchange
 */
#include <string.h>

#include "fleet/credit.h"
#include "support/cmocka_all.h"
#include "support/support.h"

enum { A = 11, B = 12, C = 13, BYTES = 4000, TOKENS = 1000 };

static const uint64_t holders[] = { A, B, C };

static hth_credit *credit_new(void)
{
    hth_credit *credit;

    assert_int_equal(hth_credit_new(1 << 12, &credit, NULL), HEARTH_OK);
    return credit;
}

/* A prompt of n anchors, one each BYTES; prompts of one family are equal up to n_shared. */
static void make_anchors(hth_anchor *anchors, size_t n, uint64_t family, size_t n_shared, uint64_t own)
{
    for (size_t i = 0; i < n; i++)
        anchors[i] = (hth_anchor){ .digest = ((i < n_shared ? family : own) << 20) + i + 1,
                                   .n_bytes = (uint32_t)(i + 1) * BYTES };
}

static void expect(hth_credit *credit, const hth_anchor *anchors, size_t n, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t n_cached[3];

    (void)hth_credit_ask(credit, holders, 3, anchors, n, n_cached);
    assert_int_equal(n_cached[0], a);
    assert_int_equal(n_cached[1], b);
    assert_int_equal(n_cached[2], c);
}

TEST(the_deepest_anchor_that_a_node_has_counts)
{
    hth_credit *credit = credit_new();
    hth_anchor first[4], longer[6], other[6];

    make_anchors(first, 4, 1, 4, 1);
    make_anchors(longer, 6, 1, 6, 1);
    make_anchors(other, 6, 1, 2, 9);
    expect(credit, first, 4, 0, 0, 0);
    hth_credit_note(credit, A, first, 4, 4 * TOKENS);
    expect(credit, first, 4, 4 * TOKENS, 0, 0);
    expect(credit, longer, 6, 4 * TOKENS, 0, 0);
    expect(credit, other, 6, 2 * TOKENS + 1, 0, 0); /* between known places, tokens are spread evenly */
    hth_credit_note(credit, B, longer, 6, 7 * TOKENS);
    expect(credit, longer, 6, 4 * TOKENS, 7 * TOKENS, 0);
    expect(credit, first, 4, 4 * TOKENS, 4 * TOKENS, 0);
    hth_credit_free(credit);
}

TEST(a_prompt_that_was_only_sent_counts_with_its_expected_tokens)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[5];
    uint32_t n_cached[3];
    hth_credit_answer answer;

    make_anchors(anchors, 5, 1, 5, 1);
    answer = hth_credit_ask(credit, holders, 3, anchors, 5, n_cached);
    assert_int_equal(answer.n_prompt,
                     5 * TOKENS); /* four bytes of text are a token, as long as nothing else is known */
    hth_credit_note(credit, A, anchors, 5, 0);
    expect(credit, anchors, 5, 5 * TOKENS + 1, 0, 0);
    hth_credit_note(credit, A, anchors, 5, 6000);
    expect(credit, anchors, 5, 6000, 0, 0);
    answer = hth_credit_ask(credit, holders, 3, NULL, 0, n_cached);
    assert_int_equal(answer.n_prompt, 1);
    assert_int_equal(n_cached[0], 0);
    hth_credit_free(credit);
}

TEST(another_front_learns_by_records_and_garbage_does_no_harm)
{
    hth_credit *one = credit_new(), *other = credit_new();
    hth_anchor anchors[5], more[6];
    hth_buffer records = { .text = NULL };
    uint64_t seed = hth_test_seed();

    make_anchors(anchors, 5, 1, 5, 1);
    make_anchors(more, 6, 1, 6, 1);
    hth_credit_note(one, B, anchors, 5, 5 * TOKENS);
    hth_credit_export(one, &records);
    assert_int_equal(records.n, 5 * HTH_CREDIT_RECORD_BYTES);
    hth_credit_import(other, records.text, records.n); /* it does not know B yet */
    expect(other, anchors, 5, 0, 0, 0);
    hth_credit_import(other, records.text, records.n - 1); /* the last record is cut */
    expect(other, more, 6, 0, 4 * TOKENS + 1, 0);
    hth_credit_import(other, records.text, records.n);
    expect(other, more, 6, 0, 5 * TOKENS, 0);
    hth_buffer_clear(&records);
    hth_credit_export(other, &records); /* what came from others does not go out again */
    assert_int_equal(records.n, 0);
    hth_credit_note(one, B, anchors, 5, 5 * TOKENS); /* nor what is not new */
    hth_credit_export(one, &records);
    assert_int_equal(records.n, 0);
    for (int i = 0; i < 2000; i++) {
        uint8_t garbage[100];

        for (size_t k = 0; k < sizeof(garbage); k++)
            garbage[k] = (uint8_t)hth_test_random(&seed, 256);
        if (i % 2 == 0)
            memcpy(garbage, &(uint64_t){ B }, 8);
        hth_credit_import(other, garbage, (size_t)hth_test_random(&seed, sizeof(garbage)));
    }
    expect(other, more, 6, 0, 5 * TOKENS, 0);
    hth_buffer_deinit(&records);
    hth_credit_free(one);
    hth_credit_free(other);
}

TEST(a_cache_that_is_lost_has_no_credit_in_its_next_life)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[3];
    uint32_t n_cached[1];

    make_anchors(anchors, 3, 1, 3, 1);
    /* Far more lives than there is room for: their places are used again, but not their credits. */
    for (uint64_t life = 1; life < 300; life++) {
        for (int i = 0; i < 5000; i++)
            (void)hth_credit_ask(credit, &life, 1, anchors, 3, n_cached);
        assert_int_equal(n_cached[0], 0);
        hth_credit_note(credit, life, anchors, 3, 3 * TOKENS);
        (void)hth_credit_ask(credit, &life, 1, anchors, 3, n_cached);
        assert_int_equal(n_cached[0], 3 * TOKENS);
    }
    hth_credit_free(credit);
}

TEST(what_everybody_begins_with_is_popular_until_enough_nodes_have_it)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[4];
    uint32_t n_cached[3];
    hth_credit_answer answer;

    for (uint64_t i = 0; i < 200; i++) {
        make_anchors(anchors, 4, 1, 2, 100 + i);
        answer = hth_credit_ask(credit, holders, 3, anchors, 4, n_cached);
        if (i == 0)
            assert_int_equal(answer.n_popular, 0);
        else if (i > 10)
            assert_in_range(answer.n_popular, 2 * TOKENS, 2 * TOKENS + 2);
        hth_credit_note(credit, A, anchors, 4, 4 * TOKENS);
    }
    hth_credit_note(credit, B, anchors, 4, 4 * TOKENS);
    hth_credit_note(credit, C, anchors, 4, 4 * TOKENS);
    answer = hth_credit_ask(credit, holders, 3, anchors, 2, n_cached);
    assert_int_equal(answer.n_popular, 0);
    /* A conversation among many others is not. */
    for (uint64_t i = 0; i < 2000; i++) {
        make_anchors(anchors, 4, 1000 + i % 20, 4, 1);
        answer = hth_credit_ask(credit, holders, 3, anchors, 4, n_cached);
        hth_credit_note(credit, A, anchors, 4, 4 * TOKENS);
        if (i > 1000)
            assert_int_equal(answer.n_popular, 0);
    }
    hth_credit_free(credit);
}

TEST(popular_counts_only_nodes_that_are_there_and_fleets_of_two_copy_too)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[4];
    uint32_t n_cached[3];
    hth_credit_answer answer = { 0 };
    static const uint64_t anew[] = { 21, 22 };

    for (uint64_t i = 0; i < 200; i++) {
        make_anchors(anchors, 4, 1, 2, 100 + i);
        (void)hth_credit_ask(credit, holders, 2, anchors, 4, n_cached);
        hth_credit_note(credit, A, anchors, 4, 4 * TOKENS);
        hth_credit_note(credit, B, anchors, 4, 4 * TOKENS);
    }
    for (uint64_t i = 0; i < 20; i++) { /* both start anew, and one of ten prompts is another one */
        make_anchors(anchors, 4, i % 10 == 9 ? 50 + i : 1, 2, 500 + i);
        answer = hth_credit_ask(credit, anew, 2, anchors, 4, n_cached);
        hth_credit_note(credit, anew[0], anchors, 4, 4 * TOKENS);
        if (i > 0 && i % 10 != 9)
            assert_int_not_equal(answer.n_popular, 0);
    }
    hth_credit_free(credit);
}

TEST(a_node_that_lacks_what_it_should_have_counts_less_until_it_has_it)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[4];
    uint32_t n_cached[3], n_before = 4 * TOKENS;

    make_anchors(anchors, 4, 1, 4, 1);
    (void)hth_credit_ask(credit, holders, 3, anchors, 4, n_cached);
    hth_credit_note(credit, A, anchors, 4, 4 * TOKENS);
    for (int i = 0; i < 10; i++) {
        (void)hth_credit_ask(credit, holders, 3, anchors, 4, n_cached);
        assert_true(i == 0 || n_cached[0] < n_before);
        n_before = n_cached[0];
        hth_credit_learn(credit, A, n_cached[0], 0);
    }
    assert_in_range(n_before, 512, 2 * TOKENS);
    for (int i = 0; i < 100; i++) {
        (void)hth_credit_ask(credit, holders, 3, anchors, 4, n_cached);
        hth_credit_learn(credit, A, n_cached[0], 4 * TOKENS);
    }
    assert_in_range(n_cached[0], 4 * TOKENS - 10, 4 * TOKENS);
    hth_credit_free(credit);
}

TEST(a_holder_that_is_not_known_yet_has_nothing_and_one_odd_prompt_spoils_little)
{
    hth_credit *credit = credit_new();
    hth_anchor anchors[4], odd[1] = { { .digest = 99, .n_bytes = 1 << 20 } };
    const uint64_t none[] = { 0, A };
    uint32_t n_cached[2];

    make_anchors(anchors, 4, 1, 4, 1);
    hth_credit_note(credit, 0, anchors, 4, 4 * TOKENS);
    (void)hth_credit_ask(credit, none, 2, anchors, 4, n_cached);
    assert_int_equal(n_cached[0] + n_cached[1], 0);
    hth_credit_note(credit, A, odd, 1, 20); /* a megabyte of text that becomes 20 tokens */
    make_anchors(anchors, 4, 2, 4, 2);
    hth_credit_note(credit, A, anchors, 4, 0);
    (void)hth_credit_ask(credit, none, 2, anchors, 4, n_cached);
    assert_in_range(n_cached[1], 3 * TOKENS, 4 * TOKENS);
    (void)hth_credit_ask(credit, none, 2, anchors, 3, n_cached);
    hth_credit_note(credit, A, anchors, 4, 8 * TOKENS); /* the truth also mends what was estimated */
    (void)hth_credit_ask(credit, none, 2, anchors, 2, n_cached);
    assert_in_range(n_cached[1], 3 * TOKENS, 5 * TOKENS);
    hth_credit_free(credit);
}

TEST(a_full_table_forgets_what_was_used_least_recently)
{
    hth_credit *credit;
    hth_anchor used[2], anchors[2];

    assert_int_equal(hth_credit_new(256, &credit, NULL), HEARTH_OK);
    make_anchors(used, 2, 1, 2, 1);
    expect(credit, used, 2, 0, 0, 0);
    hth_credit_note(credit, A, used, 2, 2 * TOKENS);
    for (uint64_t i = 0; i < 5000; i++) {
        for (size_t k = 0; k < 2; k++)
            anchors[k] = (hth_anchor){ .digest = (i * 2 + k + 77) * 0x9e3779b97f4a7c15u, .n_bytes = (uint32_t)k + 1 };
        hth_credit_note(credit, B, anchors, 2, 2);
        expect(credit, used, 2, 2 * TOKENS, 0, 0);
    }
    hth_credit_free(credit);
}
