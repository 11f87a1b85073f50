/*
 * sealed_test.c - what lies in the store is read by who made it, and by nobody who changed it
 */
#include <string.h>

#include "fleet/sealed.h"
#include "support/cmocka_all.h"

static const uint8_t secret[HTH_SEAL_SECRET_BYTES] = "a secret of thirty-two bytes  ..";

static void seal_text(const char *name, uint64_t number, const char *text, hth_buffer *out)
{
    hth_seal seal;

    assert_true(hth_seal_init(&seal, secret, name));
    hth_seal_add(&seal, number, text, strlen(text), out);
    assert_false(out->failed);
    hth_seal_deinit(&seal);
}

static bool opens(const uint8_t *key, const char *name, uint64_t number, const hth_buffer *sealed, size_t n)
{
    hth_buffer text = { .text = NULL };
    hth_seal seal;
    bool ok;

    assert_true(hth_seal_init(&seal, key, name));
    ok = hth_seal_open(&seal, number, sealed->text, n, &text);
    assert_true(ok || text.n == 0);
    hth_seal_deinit(&seal);
    hth_buffer_deinit(&text);
    return ok;
}

TEST(what_was_sealed_is_read_again)
{
    static const char *const texts[] = { "", "a", "a text of some words, which nobody else may read" };
    hth_seal seal;

    assert_true(hth_seal_init(&seal, secret, "one"));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        hth_buffer sealed = { .text = NULL }, text = { .text = NULL };

        seal_text("one", i, texts[i], &sealed);
        assert_int_equal(sealed.n, strlen(texts[i]) + HTH_SEAL_MORE_BYTES);
        assert_null(strlen(texts[i]) > 4 ? memmem(sealed.text, sealed.n, texts[i], 4) : NULL);
        assert_true(hth_seal_open(&seal, i, sealed.text, sealed.n, &text));
        assert_string_equal(hth_buffer_text(&text), texts[i]);
        hth_buffer_deinit(&sealed);
        hth_buffer_deinit(&text);
    }
    hth_seal_deinit(&seal);
}

TEST(no_two_seals_are_the_same)
{
    hth_buffer one = { .text = NULL }, two = { .text = NULL };

    seal_text("one", 0, "the same text", &one);
    seal_text("one", 0, "the same text", &two);
    assert_int_equal(one.n, two.n);
    assert_memory_not_equal(one.text, two.text, one.n);
    hth_buffer_deinit(&one);
    hth_buffer_deinit(&two);
}

TEST(another_name_number_or_secret_reads_nothing)
{
    static const uint8_t other[HTH_SEAL_SECRET_BYTES] = "another secret, as long ...  ..";
    hth_buffer sealed = { .text = NULL };

    seal_text("one", 7, "a text", &sealed);
    assert_true(opens(secret, "one", 7, &sealed, sealed.n));
    assert_false(opens(secret, "two", 7, &sealed, sealed.n));
    assert_false(opens(secret, "one", 8, &sealed, sealed.n));
    assert_false(opens(other, "one", 7, &sealed, sealed.n));
    hth_buffer_deinit(&sealed);
}

TEST(a_change_of_any_byte_is_noticed)
{
    hth_buffer sealed = { .text = NULL };

    seal_text("one", 7, "a text of some words", &sealed);
    for (size_t i = 0; i < sealed.n; i++) {
        sealed.text[i] ^= 1;
        assert_false(opens(secret, "one", 7, &sealed, sealed.n));
        sealed.text[i] ^= 1;
    }
    for (size_t n = 0; n < sealed.n; n++)
        assert_false(opens(secret, "one", 7, &sealed, n));
    assert_true(opens(secret, "one", 7, &sealed, sealed.n));
    hth_buffer_deinit(&sealed);
}
