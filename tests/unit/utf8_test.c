/*
 * utf8_test.c - every character goes through its bytes and comes back, and digits have their values
 */
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"

TEST(characters_come_back_from_their_bytes)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char bytes[4];
        const char *at = bytes;
        size_t n = hth_utf8_put(c, bytes);

        if (hth_utf8_is_valid(bytes, n) != (c < 0xd800 || c > 0xdfff))
            fail_msg("U+%X", c);
        if (hth_utf8_next(&at, bytes + n) != c || at != bytes + n)
            fail_msg("U+%X comes back as another one", c);
    }
}

TEST(a_character_that_is_cut_ends_with_the_text)
{
    static const char cut[] = { (char)0xe2, (char)0x82, (char)0xac };
    const char *at = cut;

    (void)hth_utf8_next(&at, cut + 2);
    assert_ptr_equal(at, cut + 2);
}

TEST(digits_have_values_in_either_case)
{
    static const char digits[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    int n = 0;

    for (int i = 0; i < 16; i++) {
        assert_int_equal(hth_hex_digit(digits[i]), i);
        assert_int_equal(hth_hex_digit(upper[i]), i);
    }
    for (int c = -128; c < 128; c++)
        n += hth_hex_digit((char)c) >= 0;
    assert_int_equal(n, 22);
}

TEST(bytes_that_are_no_character_are_replaced_one_by_one)
{
    char text[] = "a\x80"
                  "b\xc3\xa9\xff\xe2\x82";
    size_t n = 0;
    char *repaired = hth_utf8_repaired("a\x80\xc3\xa9\xe2\x82", 6, &n);

    hth_utf8_mend(text);
    assert_string_equal(text, "a?b\xc3\xa9???");
    assert_string_equal(repaired, "a" HTH_UTF8_REPLACEMENT "\xc3\xa9" HTH_UTF8_REPLACEMENT);
    assert_int_equal(n, strlen(repaired));
    free(repaired);
}

static int32_t escaped(const char *digits)
{
    const char *at = digits;

    return hth_utf16_escape(&at, digits + strlen(digits));
}

TEST(escapes_are_characters_or_whole_pairs)
{
    assert_int_equal(escaped("20aC"), 0x20ac);
    assert_int_equal(escaped("d83d\\ude00"), 0x1f600);
    assert_int_equal(escaped("20a"), -1);
    assert_int_equal(escaped("ude00"), -1);
    assert_int_equal(escaped("de00"), -1);
    assert_int_equal(escaped("d83d\\u0041"), -1);
    assert_int_equal(escaped("d83d"), -1);
}

TEST(hexadecimal_texts_have_their_length)
{
    assert_true(hth_is_hex("00ff", 4));
    assert_false(hth_is_hex("00ff", 3));
    assert_false(hth_is_hex("00fF", 4));
    assert_false(hth_is_hex(NULL, 0));
}
