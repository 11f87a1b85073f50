/*
 * draft_test.c - where the text repeats itself, the source of drafts guesses what follows
 */
#include "sched/draft.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum { TEXT_MAX = 4096 };

static size_t read_text(const char *text, hearth_token *out)
{
    size_t n = strlen(text);

    assert_true(n <= TEXT_MAX);
    for (size_t i = 0; i < n; i++)
        out[i] = (hearth_token)text[i];
    return n;
}

/* A source whose tokens are characters. */
static hth_draft *source(const char *prompt, const char *expected, const char *reply)
{
    hearth_token tokens[TEXT_MAX], more[TEXT_MAX];
    size_t n = read_text(prompt, tokens);
    hth_draft *draft = hth_draft_new(tokens, n, more, read_text(expected, more));

    assert_non_null(draft);
    assert_true(hth_draft_append(draft, tokens, read_text(reply, tokens)));
    return draft;
}

static void append(hth_draft *draft, const char *reply)
{
    hearth_token tokens[TEXT_MAX];

    assert_true(hth_draft_append(draft, tokens, read_text(reply, tokens)));
}

static void expect_guess(hth_draft *draft, float least, uint32_t n_max, const char *expected)
{
    hearth_token guess[HEARTH_DRAFT_MAX];
    float right[HEARTH_DRAFT_MAX], before = 1;
    char text[HEARTH_DRAFT_MAX + 1];
    uint32_t n = hth_draft_guess(draft, least, n_max, guess, right);

    for (uint32_t i = 0; i < n; before = right[i++])
        assert_true(right[i] <= before && right[i] > least);
    for (uint32_t i = 0; i < n; i++)
        text[i] = (char)guess[i];
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void expect(const char *prompt, const char *reply, const char *expected)
{
    hth_draft *draft = source(prompt, "", reply);

    expect_guess(draft, 0, 5, expected);
    hth_draft_free(draft);
}

TEST(three_known_tokens_are_followed_by_what_followed_them_before)
{
    expect("the quick brown fox", "a qui", "ck br");
    expect("the quick brown fox", "a qu", "ick b"); /* the space counts */
    expect("the quick brown fox", "a q", "");
    expect("the quick brown fox", "", "");
    expect("", "abcdef abc", "def a"); /* the reply repeats itself */
    expect("ab", "", "");
}

TEST(the_longest_repetition_wins_and_of_equals_the_latest)
{
    expect("1 we say hello. 2 they say goodbye. ", "we say ", "hello");
    expect("say hello. say goodbye. ", "x say ", "goodb");
}

TEST(a_loop_is_continued_beyond_the_end)
{
    expect("", "abababab", "ababa");
    expect("", "xxxx", "xxxxx");
}

TEST(an_expected_reply_is_guessed_from_its_beginning)
{
    hth_draft *draft = source("question", "the answer is yes", "");

    expect_guess(draft, 0, 5, "the a");
    append(draft, "the");
    expect_guess(draft, 0, 14, " answer is yes");
    append(draft, " answers are ");
    expect_guess(draft, 0, 5, ""); /* it went another way, and nothing like it was there */
    append(draft, "yes: the an");
    expect_guess(draft, 0, 5, "swers"); /* the latest place */
    hth_draft_free(draft);
}

TEST(a_guess_ends_with_the_expected_reply)
{
    hth_draft *draft = source("question", "yes", "ye");

    expect_guess(draft, 0, 5, "s");
    append(draft, "s");
    expect_guess(draft, 0, 5, "");
    hth_draft_free(draft);
}

TEST(a_guess_ends_where_it_is_unlikely)
{
    hth_draft *draft = source("a small step for a man", "", "a sm");

    expect_guess(draft, 0, HEARTH_DRAFT_MAX, "all step for a");
    expect_guess(draft, 0.3f, HEARTH_DRAFT_MAX, "a"); /* the first guess of a short repetition is right 4 times in 10 */
    expect_guess(draft, 1, HEARTH_DRAFT_MAX, "");
    expect_guess(draft, 0, 0, "");
    hth_draft_free(draft);
}

TEST(guesses_become_longer_where_they_are_right_and_end_where_they_are_wrong)
{
    hth_draft *draft = source("", "", "");
    hearth_token guess[HEARTH_DRAFT_MAX];
    float right[HEARTH_DRAFT_MAX];

    for (int i = 0; i < 20; i++) {
        append(draft, "all the same. ");
        (void)hth_draft_guess(draft, 0.5f, HEARTH_DRAFT_MAX, guess, right);
    }
    assert_int_equal(hth_draft_guess(draft, 0.5f, HEARTH_DRAFT_MAX, guess, right), HEARTH_DRAFT_MAX);
    for (uint64_t i = 0, seed = 1; i < 2000; i++) { /* words that are never followed by the same */
        char word[8] = "the  ";

        word[4] = (char)('A' + hth_test_random(&seed, 26));
        append(draft, word);
        (void)hth_draft_guess(draft, 0.5f, HEARTH_DRAFT_MAX, guess, right);
    }
    append(draft, " the");
    expect_guess(draft, 0.5f, HEARTH_DRAFT_MAX, "");
    hth_draft_free(draft);
}

/* The naive way to the same: compare every place. */
static size_t longest_match(const hearth_token *text, size_t n)
{
    size_t best = 0;

    for (size_t place = 3; place < n; place++) {
        size_t length = 0;

        while (length < 64 && length < place && text[place - length - 1] == text[n - length - 1])
            length++;
        if (length >= best)
            best = length;
    }
    return best;
}

TEST(the_index_finds_what_a_search_of_all_places_finds)
{
    uint64_t seed = hth_test_seed();

    for (unsigned round = 0; round < 200; round++) {
        hearth_token text[600], guess[1];
        float right[1];
        size_t n_prompt = hth_test_random(&seed, 300), n = n_prompt;
        uint32_t kinds = 3 + (uint32_t)hth_test_random(&seed, 12);
        hth_draft *draft;

        for (size_t i = 0; i < 600; i++)
            text[i] = (hearth_token)hth_test_random(&seed, kinds) * 1000;
        draft = hth_draft_new(text, n_prompt, NULL, 0);
        assert_non_null(draft);
        while (n < 600) {
            size_t more = 1 + hth_test_random(&seed, 20);

            if (more > 600 - n)
                more = 600 - n;
            assert_true(hth_draft_append(draft, text + n, more));
            n += more;
            assert_int_equal(hth_draft_n_reply(draft), n - n_prompt);
            if (longest_match(text, n) < 3)
                assert_int_equal(hth_draft_guess(draft, 0, 1, guess, right), 0);
            else if (hth_draft_guess(draft, 0, 1, guess, right) == 1) /* with few kinds of tokens, chains are cut */
                assert_true(guess[0] >= 0 && guess[0] < (hearth_token)kinds * 1000);
        }
        hth_draft_free(draft);
    }
}
