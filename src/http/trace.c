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
#include <stdlib.h>
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

static const char digits[] = "0123456789abcdef";

/* Are these n digits before a dash, not all of them zero? */
static bool is_id(const char *text, size_t n)
{
    return strspn(text, digits) == n && text[n] == '-' && strspn(text, "0") < n;
}

static bool read_header(const char *text, hth_trace *out)
{
    size_t n = strnlen(text, HEADER_CHARACTERS + 1);
    unsigned version, flags;

    if (n < HEADER_CHARACTERS || strspn(text, digits) != TRACE_AT - 1 || text[TRACE_AT - 1] != '-' ||
        !is_id(text + TRACE_AT, TRACE_DIGITS) || !is_id(text + SPAN_AT, SPAN_DIGITS) ||
        strspn(text + FLAGS_AT, digits) != 2)
        return false;
    version = (unsigned)strtoul(text, NULL, 16);
    flags = (unsigned)strtoul(text + FLAGS_AT, NULL, 16);
    if (version == 0xff || (n > HEADER_CHARACTERS && (version == 0 || text[HEADER_CHARACTERS] != '-')))
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
