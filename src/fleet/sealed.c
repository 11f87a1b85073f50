#include "fleet/sealed.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/os.h"

enum { VERSION = 1, NONCE_BYTES = 12, TAG_BYTES = 16, NUMBER_BYTES = 8 };

bool hth_seal_init(hth_seal *seal, const uint8_t secret[HTH_SEAL_SECRET_BYTES], const char *name)
{
    static const char label[] = "hearth-seal-v1"; /* with its end, so that no name continues it */
    hth_hmac_key *key = hth_hmac_key_new(secret, HTH_SEAL_SECRET_BYTES);
    hth_hmac *mac = key ? hth_hmac_new(key) : NULL;

    static_assert(sizeof(seal->key) == HTH_HMAC_BYTES, "an HMAC is a key");
    if (mac) {
        hth_hmac_update(mac, label, sizeof(label));
        hth_hmac_update(mac, name, strlen(name));
        hth_hmac_final(mac, seal->key);
    }
    hth_hmac_free(mac);
    hth_hmac_key_free(key);
    return mac != NULL;
}

void hth_seal_deinit(hth_seal *seal)
{
    hth_wipe(seal, sizeof(*seal));
}

void hth_seal_add(const hth_seal *seal, uint64_t number, const void *bytes, size_t n, hth_buffer *out)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    uint8_t about[NUMBER_BYTES], head[1 + NONCE_BYTES] = { VERSION }, tag[TAG_BYTES];
    uint8_t *text = n <= INT_MAX ? malloc(n + 1) : NULL; /* GCM makes as many bytes as it gets */
    int n_made = 0, n_rest = 0;

    hth_put_u64(about, number);
    hth_os_random(head + 1, NONCE_BYTES);
    if (!context || !text || EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, seal->key, head + 1) != 1 ||
        EVP_EncryptUpdate(context, NULL, &n_made, about, sizeof(about)) != 1 ||
        EVP_EncryptUpdate(context, text, &n_made, bytes, (int)n) != 1 ||
        EVP_EncryptFinal_ex(context, text + n_made, &n_rest) != 1 ||
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, tag) != 1) {
        out->failed = true;
    } else {
        hth_buffer_add(out, (const char *)head, sizeof(head));
        hth_buffer_add(out, (const char *)text, n);
        hth_buffer_add(out, (const char *)tag, sizeof(tag));
    }
    free(text);
    EVP_CIPHER_CTX_free(context);
}

bool hth_seal_open(const hth_seal *seal, uint64_t number, const void *sealed, size_t n, hth_buffer *out)
{
    const uint8_t *bytes = sealed;
    EVP_CIPHER_CTX *context;
    uint8_t about[NUMBER_BYTES], tag[TAG_BYTES], *text;
    size_t n_text;
    int n_made = 0, n_rest = 0;
    bool ok;

    if (n < HTH_SEAL_MORE_BYTES || n > INT_MAX || bytes[0] != VERSION)
        return false;
    n_text = n - HTH_SEAL_MORE_BYTES;
    context = EVP_CIPHER_CTX_new();
    text = malloc(n_text + 1);
    hth_put_u64(about, number);
    memcpy(tag, bytes + n - TAG_BYTES, TAG_BYTES);
    ok = context && text && EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), NULL, seal->key, bytes + 1) == 1 &&
         EVP_DecryptUpdate(context, NULL, &n_made, about, sizeof(about)) == 1 &&
         EVP_DecryptUpdate(context, text, &n_made, bytes + 1 + NONCE_BYTES, (int)n_text) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
         EVP_DecryptFinal_ex(context, text + n_made, &n_rest) == 1;
    if (ok)
        hth_buffer_add(out, (const char *)text, n_text);
    free(text);
    EVP_CIPHER_CTX_free(context);
    return ok && !out->failed;
}
