/*
 * grammar_memo_test.c - a grammar that was read lately is found again by its text, and the memory for that is bounded
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/gbnf_reader.h"
#include "grammar/grammar_memo.h"
#include "support/cmocka_all.h"

static hth_gbnf *grammar_of(const char *text)
{
    hth_gbnf *gbnf = NULL;

    assert_int_equal(hth_gbnf_new(text, strlen(text), NULL, &gbnf, NULL), HEARTH_OK);
    return gbnf;
}

static void keep(hth_grammar_memo *memo, const char *text)
{
    hth_gbnf *gbnf = grammar_of(text);

    hth_grammar_memo_keep(memo, false, text, gbnf);
    hth_gbnf_unref(gbnf);
}

static bool knows(hth_grammar_memo *memo, const char *text)
{
    hth_gbnf *gbnf = hth_grammar_memo_find(memo, false, text);
    bool is_known = gbnf != NULL;

    hth_gbnf_unref(gbnf);
    return is_known;
}

TEST(a_grammar_is_found_by_its_text_and_its_notation)
{
    hth_grammar_memo *memo = hth_grammar_memo_new();
    hth_gbnf *gbnf = grammar_of("root ::= \"a\""), *found;

    assert_null(hth_grammar_memo_find(memo, false, "root ::= \"a\""));
    hth_grammar_memo_keep(memo, false, "root ::= \"a\"", gbnf);
    hth_grammar_memo_keep(memo, false, "root ::= \"a\"", gbnf);
    found = hth_grammar_memo_find(memo, false, "root ::= \"a\"");
    assert_ptr_equal(found, gbnf);
    assert_null(hth_grammar_memo_find(memo, true, "root ::= \"a\""));
    assert_null(hth_grammar_memo_find(memo, false, "root ::= \"b\""));
    hth_gbnf_unref(gbnf);
    hth_grammar_memo_free(memo);
    assert_int_equal(found->n_rules, 1); /* whoever has it keeps it */
    hth_gbnf_unref(found);
    hth_gbnf_unref(NULL);
    hth_grammar_memo_free(NULL);
}

TEST(those_that_were_used_last_stay)
{
    hth_grammar_memo *memo = hth_grammar_memo_new();
    char text[64];

    keep(memo, "root ::= \"first\"");
    for (int i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof(text), "root ::= \"%d\"", i);
        keep(memo, text);
        assert_true(knows(memo, "root ::= \"first\""));
    }
    assert_true(knows(memo, "root ::= \"99\""));
    assert_false(knows(memo, "root ::= \"50\""));
    hth_grammar_memo_free(memo);
}

TEST(large_grammars_make_room_or_are_not_kept)
{
    hth_grammar_memo *memo = hth_grammar_memo_new();
    size_t n = 200000;
    char *text = calloc(1, n + 64);
    int n_known = 0;

    for (int i = 0; i < 16; i++) { /* 2 MiB of elements each */
        (void)snprintf(text, 64, "root ::= \"%c", 'a' + i);
        memset(text + 11, 'x', n);
        (void)snprintf(text + 11 + n, 8, "\"");
        keep(memo, text);
        assert_true(knows(memo, text));
    }
    for (int i = 0; i < 16; i++) {
        text[10] = (char)('a' + i);
        n_known += knows(memo, text);
    }
    assert_in_range(n_known, 2, 9);
    free(text);
    hth_grammar_memo_free(memo);
}

static void *use(void *memo)
{
    char text[64];

    for (int i = 0; i < 2000; i++) {
        (void)snprintf(text, sizeof(text), "root ::= \"%d\"", i % 40);
        if (!knows(memo, text))
            keep(memo, text);
    }
    return NULL;
}

TEST(threads_may_share_it)
{
    enum { N = 4 };
    hth_grammar_memo *memo = hth_grammar_memo_new();
    pthread_t threads[N];

    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, memo), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    hth_grammar_memo_free(memo);
}
