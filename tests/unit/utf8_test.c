/*
 * utf8_test.c - every character goes through its bytes and comes back, and digits have their values
 */
#include "base/utf8.h"

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
