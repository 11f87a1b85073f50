#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

bool hth_utf8_is_valid(const char *bytes, size_t n_bytes)
{
    while (n_bytes > 0) {
        const int length = hth_utf8_character(bytes, n_bytes);

        if (length <= 0)
            return false;
        bytes += length;
        n_bytes -= (size_t)length;
    }
    return true;
}

void hth_utf8_mend(char *text)
{
    for (size_t n = strlen(text); n > 0;) {
        const int length = hth_utf8_character(text, n);
        const size_t n_step = length > 0 ? (size_t)length : 1;

        if (length <= 0)
            *text = '?';
        text += n_step;
        n -= n_step;
    }
}

char *hth_utf8_repaired(const char *bytes, size_t n_bytes, size_t *n_out)
{
    enum { REPLACEMENT_BYTES = sizeof(HTH_UTF8_REPLACEMENT) - 1 };
    char *text = n_bytes < SIZE_MAX / REPLACEMENT_BYTES ? malloc(n_bytes * REPLACEMENT_BYTES + 1) : NULL;
    size_t n = 0;

    for (size_t at = 0; text && at < n_bytes;) {
        const int length = hth_utf8_character(bytes + at, n_bytes - at);
        const size_t n_put = length > 0 ? (size_t)length : REPLACEMENT_BYTES;

        memcpy(text + n, length > 0 ? bytes + at : HTH_UTF8_REPLACEMENT, n_put);
        n += n_put;
        at += length > 0 ? (size_t)length : length < 0 ? 1 : n_bytes - at; /* one for an incomplete character */
    }
    if (text) {
        char *fitting;

        text[n] = '\0';
        *n_out = n;
        fitting = realloc(text, n + 1); /* chat templates are kept for long */
        text = fitting ? fitting : text;
    }
    return text;
}

int32_t hth_utf16_escape(const char **at, const char *end)
{
    uint32_t high, low;

    if (hth_hex_read(at, end, 4, &high) < 4 || (high >= 0xdc00 && high <= 0xdfff))
        return -1;
    if (high < 0xd800 || high > 0xdbff)
        return (int32_t)high;
    if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
        return -1;
    *at += 2;
    if (hth_hex_read(at, end, 4, &low) < 4 || low < 0xdc00 || low > 0xdfff)
        return -1;
    return (int32_t)(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
}
