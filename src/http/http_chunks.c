/*
 * http_chunks.c - a state for every position in "5;x=y\r\nhello\r\n0\r\nTrailer: z\r\n\r\n"
 */
#include "http/http_chunks.h"

#include "base/hex.h"
#include "http/http_head.h"

enum { DIGITS_MAX = 12, LINE_BYTES_MAX = 1024, TRAILER_BYTES_MAX = 8192 };

enum {
    SIZE,
    SIZE_SPACE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_LINE, /* at its first byte */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
};

/* The byte after the last digit of a size selects the next state. */
static int after_size(const hth_http_chunks *chunks, char c)
{
    if (chunks->n_digits == 0)
        return -1;
    if (c == '\r')
        return SIZE_LF;
    if (c == ';')
        return EXTENSION;
    return c == ' ' || c == '\t' ? SIZE_SPACE : -1;
}

/* The next state after a byte of a line whose length is bounded. */
static int in_line(hth_http_chunks *chunks, uint32_t n_max, int state)
{
    return ++chunks->n_line > n_max ? -1 : state;
}

/* The next state after one byte outside of data; -1: the byte is not allowed. */
static int next_state(hth_http_chunks *chunks, char c)
{
    int digit;

    switch (chunks->state) {
    case SIZE:
        digit = hth_hex_digit(c);
        if (digit < 0)
            return after_size(chunks, c);
        if (++chunks->n_digits > DIGITS_MAX)
            return -1;
        chunks->n_left = chunks->n_left << 4 | (uint64_t)digit;
        return SIZE;
    case SIZE_SPACE: return in_line(chunks, LINE_BYTES_MAX, after_size(chunks, c));
    case EXTENSION:
        if (c == '\r')
            return SIZE_LF;
        return hth_http_is_value_char(c) ? in_line(chunks, LINE_BYTES_MAX, EXTENSION) : -1;
    case SIZE_LF:
        chunks->n_digits = chunks->n_line = 0;
        if (c != '\n')
            return -1;
        return chunks->n_left > 0 ? DATA : TRAILER_LINE;
    case DATA_CR: return c == '\r' ? DATA_LF : -1;
    case DATA_LF: return c == '\n' ? SIZE : -1;
    case TRAILER_LINE:
        if (c == '\r')
            return END_LF;
        return hth_http_is_token_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_NAME) : -1;
    case TRAILER_NAME:
        if (c == ':')
            return in_line(chunks, TRAILER_BYTES_MAX, TRAILER_VALUE);
        return hth_http_is_token_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_NAME) : -1;
    case TRAILER_VALUE:
        if (c == '\r')
            return TRAILER_LF;
        return hth_http_is_value_char(c) ? in_line(chunks, TRAILER_BYTES_MAX, TRAILER_VALUE) : -1;
    case TRAILER_LF: return c == '\n' ? TRAILER_LINE : -1;
    default: return -1;
    }
}

hth_http_chunks_result hth_http_chunks_read(hth_http_chunks *chunks, const char *bytes, size_t n, size_t *n_used_out,
                                            const char **piece_out, size_t *n_piece_out)
{
    *n_used_out = n;
    for (size_t i = 0; i < n; i++) {
        if (chunks->state == DATA) {
            size_t n_piece = n - i < chunks->n_left ? n - i : (size_t)chunks->n_left;

            chunks->n_left -= n_piece;
            if (chunks->n_left == 0)
                chunks->state = DATA_CR;
            *piece_out = bytes + i;
            *n_piece_out = n_piece;
            *n_used_out = i + n_piece;
            return HTH_HTTP_CHUNKS_DATA;
        }
        if (chunks->state == END_LF) {
            *n_used_out = i + 1;
            return bytes[i] == '\n' ? HTH_HTTP_CHUNKS_END : HTH_HTTP_CHUNKS_BAD;
        }
        chunks->state = next_state(chunks, bytes[i]);
        if (chunks->state < 0)
            return HTH_HTTP_CHUNKS_BAD;
    }
    return HTH_HTTP_CHUNKS_MORE;
}
