/*
 * hex.h - hexadecimal digits, to and from bytes and numbers
 */
#ifndef HTH_BASE_HEX_H
#define HTH_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0 to 15, in either case; -1: not a hexadecimal digit. */
static inline int hth_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Read the value of the digits before end, at most n_max <= 8 of them. *at moves past them. Returns their number. */
static inline size_t hth_hex_read(const char **at, const char *end, size_t n_max, uint32_t *out)
{
    size_t n = 0;

    *out = 0;
    for (; n < n_max && *at < end && hth_hex_digit(**at) >= 0; n++)
        *out = *out << 4 | (uint32_t)hth_hex_digit(*(*at)++);
    return n;
}

/* Is it exactly n digits in lower case? False for NULL. */
bool hth_is_hex(const char *text, size_t n);
/* Lower-case hex of n_bytes bytes into text[2 * n_bytes + 1]. */
void hth_hex_encode(const uint8_t *bytes, size_t n_bytes, char *text);
/* Read exactly 2 * n_bytes hex digits (either case) and the end of the text. Otherwise false, with bytes unchanged. */
bool hth_hex_decode(const char *text, uint8_t *bytes, size_t n_bytes);
/*
 * Read 1 to 2 * n_bytes hex digits in the same way; the rest is filled with zeros. Returns their number, or 0 with
 * bytes unchanged.
 */
size_t hth_hex_decode_first(const char *text, uint8_t *bytes, size_t n_bytes);

#endif
