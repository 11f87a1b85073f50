#include "base/hex.h"

#include <string.h>

bool hth_is_hex(const char *text, size_t n)
{
    return text && strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

void hth_hex_encode(const uint8_t *bytes, size_t n_bytes, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < n_bytes; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * n_bytes] = '\0';
}

bool hth_hex_decode(const char *text, uint8_t *bytes, size_t n_bytes)
{
    return strnlen(text, 2 * n_bytes + 1) == 2 * n_bytes && hth_hex_decode_first(text, bytes, n_bytes) == 2 * n_bytes;
}

size_t hth_hex_decode_first(const char *text, uint8_t *bytes, size_t n_bytes)
{
    const size_t n = strnlen(text, 2 * n_bytes + 1);

    if (n > 2 * n_bytes)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (hth_hex_digit(text[i]) < 0)
            return 0;
    if (n > 0)
        memset(bytes, 0, n_bytes);
    for (size_t i = 0; i < n; i++)
        bytes[i / 2] |= (uint8_t)((unsigned)hth_hex_digit(text[i]) << (i % 2 ? 0 : 4));
    return n;
}
