/*
 * word_wrap_test.c - lines break between words, however the text is cut into pieces
 */
#include "console/wrap.h"

#include <string.h>

#include "support/cmocka_all.h"

/* text comes out as expected, whole, byte by byte, and in two pieces cut at every byte. */
static void check(int columns, const char *text, const char *expected)
{
    const size_t n = strlen(text);

    for (size_t cut = 0; cut <= n + 1; cut++) {
        hth_word_wrap wrap = { .is_off = false };
        hth_buffer out = { .text = NULL };

        if (cut <= n) {
            hth_word_wrap_add(&wrap, text, cut, columns, &out);
            hth_word_wrap_add(&wrap, text + cut, n - cut, columns, &out);
        } else {
            for (size_t i = 0; i < n; i++)
                hth_word_wrap_add(&wrap, text + i, 1, columns, &out);
        }
        hth_word_wrap_flush(&wrap, &out);
        assert_string_equal(hth_buffer_text(&out), expected);
        hth_buffer_deinit(&out);
    }
}

TEST(a_word_that_does_not_fit_begins_the_next_line)
{
    check(10, "one two three four", "one two \nthree four");
    check(10, "one two th four", "one two th\nfour"); /* the space at the edge is the line end */
    check(10, "one two th  \nfour", "one two th\nfour");
    check(10, "  one  two three\n\nfour", "  one  two\nthree\n\nfour");
    check(80, "one two\nthree \n", "one two\nthree \n");
    check(10, "", "");
}

TEST(a_long_word_begins_a_line_and_is_broken_by_the_terminal)
{
    check(10, "abcdefghijklmnop qr stuvw", "abcdefghijklmnop qr \nstuvw"); /* p stands in column 6 */
    check(10, "one abcdefghijklmnop qrs tuv", "one \nabcdefghijklmnop qrs\ntuv");
    check(1, "ab c", "ab\nc");
}

TEST(width_is_counted_in_columns)
{
    check(6, "na\xc3\xafve e\xcc\x81t\xc3\xa9 a",
          "na\xc3\xafve \ne\xcc\x81t\xc3\xa9 a"); /* a combining accent has none */
    check(6, "abc e\xcc\x81\xcc\x81\xcc\x81t x", "abc e\xcc\x81\xcc\x81\xcc\x81t\nx");
    check(6, "a \xe4\xb8\xad\xe6\x96\x87 b", "a \xe4\xb8\xad\xe6\x96\x87\nb"); /* a + 1 + 2 * 2 is the whole line */
    check(5, "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87x y",
          "\xe4\xb8\xad\xe6\x96\x87\xe4\xb8\xad\xe6\x96\x87x\ny");
    check(4,
          "\xe4\xb8\xad"
          "abc",
          "\xe4\xb8\xad\nabc"); /* a break behind a wide character */
    check(10, "a\tb c d", "a\tb \nc d");
    check(10, "abcdefg\tef gh", "abcdefg\tef\ngh");
}

TEST(code_is_not_changed)
{
    check(10, "```c\nint main (void);\n```\nint main (void);\n", "```c\nint main (void);\n```\nint main \n(void);\n");
    check(10, "  ~~~~ a b c d e\n~~~\na b c d e f g\n~~~~ x\n~~~~ \na b c d e f g",
          "  ~~~~ a b c d e\n~~~\na b c d e f g\n~~~~ x\n~~~~ \na b c d e \nf g");
    check(10, "```a``` bcd efg", "```a``` \nbcd efg"); /* not a fence */
    check(10, "one two ``` abc", "one two \n``` abc");
}

TEST(nothing_changes_without_columns)
{
    check(0, "one two th four \xc3 \xff\x80 \xe4\xb8\xad\n\n", "one two th four \xc3 \xff\x80 \xe4\xb8\xad\n\n");
    check(80, "\xc3 \xe4\xb8 \xff\x80\xf0\x9f", "\xc3 \xe4\xb8 \xff\x80\xf0\x9f"); /* no UTF-8 */
}

/* Only the word waits that may still move. */
TEST(whole_words_do_not_wait)
{
    static const struct {
        const char *piece, *shown;
    } steps[] = {
        { "on", "on" },
        { "e t", "one " },
        { "wo ", "one two " },
        { "thre", "one two \nthre" },
        { "ef", "one two \nthreef" },
        { "\n", "one two \nthreef\n" },
    };
    hth_word_wrap wrap = { .is_off = false };
    hth_buffer out = { .text = NULL };
    char mark[] = " e\xcc\x81";

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        hth_word_wrap_add(&wrap, steps[i].piece, strlen(steps[i].piece), 10, &out);
        assert_string_equal(hth_buffer_text(&out), steps[i].shown);
    }
    hth_buffer_clear(&out);
    hth_word_wrap_add(&wrap, "x", 1, 10, &out);
    hth_word_wrap_add(&wrap, mark, 2, 10, &out);
    for (int i = 0; i < 1000; i++) /* a word without end */
        hth_word_wrap_add(&wrap, mark + 2, 2, 10, &out);
    assert_int_equal(out.n, 3 + 2000);
    hth_buffer_deinit(&out);
}

TEST(another_width_holds_from_the_next_piece_on)
{
    hth_word_wrap wrap = { .is_off = false };
    hth_buffer out = { .text = NULL };

    hth_word_wrap_add(&wrap, "one two th ", 11, 10, &out);    /* at the edge */
    hth_word_wrap_add(&wrap, "four five six ", 14, 20, &out); /* column 14 */
    hth_word_wrap_add(&wrap, "seven", 5, 10, &out);           /* column 4, of the terminal's second line */
    hth_word_wrap_add(&wrap, " eight", 6, 10, &out);
    hth_word_wrap_flush(&wrap, &out);
    assert_string_equal(hth_buffer_text(&out), "one two th\nfour five six seven \neight");
    hth_buffer_deinit(&out);
}
