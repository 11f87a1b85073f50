/*
 * trace.c - read and write traceparent, and make request ids
 *
 *   version "-" trace-id "-" parent-id "-" trace-flags        lower-case hexadecimal: 2, 32, 16 and 2 digits
 *
 * Version ff is invalid. Version 00 has exactly these fields. A later version may have more fields after another "-";
 * only the fields of version 00 are read. Hearth writes version 00, with the defined flags: sampled and, from Level 2,
 * random-trace-id.
 */
#include "http/trace.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"

enum {
    TRACE_AT = 3,
    TRACE_DIGITS = 32,
    SPAN_AT = TRACE_AT + TRACE_DIGITS + 1,
    SPAN_DIGITS = 16,
    FLAGS_AT = SPAN_AT + SPAN_DIGITS + 1,
    HEADER_CHARACTERS = FLAGS_AT + 2,
    FLAGS_KNOWN = 3,
    FLAG_RANDOM = 2,
    ID_BYTES = 12, /* of generated request ids: enough to be unique in a server */
};
static_assert(HEADER_CHARACTERS + 1 == HTH_TRACEPARENT_BYTES, "a header of version 00 and its terminator");

/* The value of a digit; -1: not a digit. */
static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Are these n digits, not all of them zero? The text may be shorter. */
static bool is_id(const char *text, size_t n)
{
    bool is_zero = true;

    for (size_t i = 0; i < n; i++) {
        if (digit(text[i]) < 0)
            return false;
        is_zero = is_zero && text[i] == '0';
    }
    return !is_zero;
}

/* The value of two digits; -1: one is not a digit. */
static int byte_at(const char *text)
{
    int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);

    return low < 0 ? -1 : high << 4 | low;
}

static bool read_header(const char *text, hth_trace *out)
{
    size_t n = strnlen(text, HEADER_CHARACTERS + 1);
    int version, flags;

    if (n < HEADER_CHARACTERS)
        return false;
    version = byte_at(text);
    flags = byte_at(text + FLAGS_AT);
    if (version < 0 || version == 0xff || flags < 0)
        return false;
    if (n > HEADER_CHARACTERS && (version == 0 || text[HEADER_CHARACTERS] != '-'))
        return false;
    if (text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' || text[FLAGS_AT - 1] != '-')
        return false;
    if (!is_id(text + TRACE_AT, TRACE_DIGITS) || !is_id(text + SPAN_AT, SPAN_DIGITS))
        return false;
    memcpy(out->trace_id, text + TRACE_AT, TRACE_DIGITS);
    memcpy(out->parent_id, text + SPAN_AT, SPAN_DIGITS);
    out->flags = (uint8_t)(flags & FLAGS_KNOWN);
    return true;
}

/* Write 2 n digits of random bytes and a terminator. */
static void draw(char *out, size_t n)
{
    uint8_t bytes[16];

    hth_os_random(bytes, n);
    bytes[0] |= 1; /* an id is never all zeros */
    hth_hex_encode(bytes, n, out);
}

bool hth_trace_begin(const char *header, hth_trace *out)
{
    bool is_known;

    *out = (hth_trace){ .flags = FLAG_RANDOM };
    is_known = header && read_header(header, out);
    if (!is_known)
        draw(out->trace_id, TRACE_DIGITS / 2);
    draw(out->span_id, SPAN_DIGITS / 2);
    return is_known;
}

void hth_trace_write(const hth_trace *trace, char out[HTH_TRACEPARENT_BYTES])
{
    /* Fits: the ids have their length. */
    (void)snprintf(out, HTH_TRACEPARENT_BYTES, "00-%s-%s-%02x", trace->trace_id, trace->span_id, trace->flags);
}

bool hth_request_id_begin(const char *header, char out[HTH_REQUEST_ID_BYTES])
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = header ? strnlen(header, HTH_REQUEST_ID_BYTES) : 0;

    if (n > 0 && n < HTH_REQUEST_ID_BYTES && strspn(header, allowed) == n) {
        memcpy(out, header, n + 1);
        return true;
    }
    draw(out, ID_BYTES);
    return false;
}
