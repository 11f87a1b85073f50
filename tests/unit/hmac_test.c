/*
 * hmac_test.c - HMAC-SHA256 against RFC 4231
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"
#include "support/cmocka_all.h"

static void assert_hmac(const void *key_bytes, size_t n_key, const void *text, size_t n_text, const char *expected)
{
    hth_hmac_key *key = hth_hmac_key_new(key_bytes, n_key);
    char hex[2 * HTH_HMAC_BYTES + 1];
    uint8_t digest[HTH_HMAC_BYTES];

    assert_non_null(key);
    /* In one piece, and cut at every place; the key serves all of them. */
    for (size_t cut = 0; cut <= n_text; cut++) {
        hth_hmac *mac = hth_hmac_new(key);

        assert_non_null(mac);
        hth_hmac_update(mac, text, cut);
        hth_hmac_update(mac, (const uint8_t *)text + cut, n_text - cut);
        hth_hmac_final(mac, digest);
        hth_hmac_free(mac);
        hth_hex_encode(digest, sizeof(digest), hex);
        assert_string_equal(hex, expected);
    }
    hth_hmac_key_free(key);
}

TEST(the_vectors_of_rfc_4231_come_out)
{
    uint8_t long_key[131], data[50];

    memset(long_key, 0x0b, sizeof(long_key));
    assert_hmac(long_key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_hmac("Jefe", 4, "what do ya want for nothing?", 28,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(long_key, 0xaa, sizeof(long_key));
    memset(data, 0xdd, sizeof(data));
    assert_hmac(long_key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    assert_hmac(long_key, 131, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(any_differing_bit_makes_two_hmacs_differ)
{
    uint8_t a[HTH_HMAC_BYTES] = { 1, 2, 3 }, b[HTH_HMAC_BYTES] = { 1, 2, 3 };

    assert_true(hth_hmac_equal(a, b));
    for (size_t bit = 0; bit < 8 * sizeof(b); bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(hth_hmac_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(a_wiped_secret_is_gone)
{
    uint8_t secret[64], zeros[64] = { 0 };

    memset(secret, 0x5A, sizeof(secret));
    hth_wipe(secret, sizeof(secret));
    assert_memory_equal(secret, zeros, sizeof(secret));
}

TEST(nothing_can_be_freed)
{
    hth_hmac_key_free(NULL);
    hth_hmac_free(NULL);
}
