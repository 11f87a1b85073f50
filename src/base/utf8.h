/*
 * utf8.h - one character to and from UTF-8, and the value of a hexadecimal digit
 *
 * sched/text_stream.h checks once, at the entrance, that a text is UTF-8.
 */
#ifndef HTH_BASE_UTF8_H
#define HTH_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Write a character, at most U+10FFFF. Returns the number of its bytes. */
static inline size_t hth_utf8_put(uint32_t character, char out[4])
{
    size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(n == 1 ? character : (0xf00u >> n & 0xf0) | character);
    return n;
}

/* The character at *at < end, of valid UTF-8. *at moves behind it, and never behind end. */
static inline uint32_t hth_utf8_next(const char **at, const char *end)
{
    uint8_t c = (uint8_t) * (*at)++;
    int n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t value = n == 0 ? c : c & (0x3fu >> n);

    for (; n > 0 && *at < end; n--)
        value = value << 6 | ((uint8_t) * (*at)++ & 0x3fu);
    return value;
}

/* 0 to 15, of either case; -1: it is no hexadecimal digit. */
static inline int hth_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

#endif
