/*
 * utf8.h - UTF-8: encoding, decoding, checking, cutting and repairing
 *
 * A text is checked once, where it enters the process. The inline functions in this header are for hot paths.
 */
#ifndef HTH_BASE_UTF8_H
#define HTH_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hex.h"

#define HTH_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Does a byte continue a character that began before it? */
static inline bool hth_utf8_goes_on(char byte)
{
    return ((uint8_t)byte & 0xc0) == 0x80;
}

/* The length of the character that begins with this byte; 1 if none does. */
static inline size_t hth_utf8_length(char byte)
{
    const uint8_t first = (uint8_t)byte;

    return first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 1;
}

/*
 * The length of the character at the start of n > 0 bytes: 1 to 4; 0: it is incomplete; -1: not a character.
 * Surrogates, overlong forms and numbers above U+10FFFF are not characters.
 */
static inline int hth_utf8_character(const char *text, size_t n)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0];
    unsigned char low = 0x80, high = 0xBF;
    int length;

    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return -1;
    length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n)
            return 0;
        if (bytes[i] < low || bytes[i] > high)
            return -1;
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

/* Write a character, at most U+10FFFF. Returns the number of its bytes. */
static inline size_t hth_utf8_put(uint32_t character, char out[4])
{
    size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

    for (size_t i = n; i-- > 1; character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(n == 1 ? character : (0xf00u >> n & 0xf0) | character);
    return n;
}

/* Decode the character at *at < end, in valid UTF-8. *at moves past it, and never past end. */
static inline uint32_t hth_utf8_next(const char **at, const char *end)
{
    uint8_t c = (uint8_t) * (*at)++;
    int n = c < 0x80 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    uint32_t value = n == 0 ? c : c & (0x3fu >> n);

    for (; n > 0 && *at < end; n--)
        value = value << 6 | ((uint8_t) * (*at)++ & 0x3fu);
    return value;
}

/* Are n_bytes bytes valid UTF-8? */
bool hth_utf8_is_valid(const char *bytes, size_t n_bytes);

/* Replace each byte that is not part of a character with a question mark. */
void hth_utf8_mend(char *text);

/* A new string of these bytes, terminated and *n_out bytes long, with U+FFFD for invalid bytes. NULL without memory. */
char *hth_utf8_repaired(const char *bytes, size_t n_bytes, size_t *n_out);

/*
 * The character of a JSON escape, including the second escape of a surrogate pair. *at is after "\u" and moves past
 * what was read. -1: the escape is malformed, or half of a pair.
 */
int32_t hth_utf16_escape(const char **at, const char *end);

#endif
