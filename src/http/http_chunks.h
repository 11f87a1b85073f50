/*
 * http_chunks.h - parses a chunked request body
 *
 * The caller feeds bytes as they arrive, and the parser reports the bytes that belong to the body. It stores only its
 * state. The size lines are bounded, and so is the trailer, which is read and dropped.
 */
#ifndef HTH_HTTP_HTTP_CHUNKS_H
#define HTH_HTTP_HTTP_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct hth_http_chunks {
    int state;         /* all zero at first */
    uint64_t n_left;   /* of the chunk */
    uint32_t n_digits; /* of the chunk's size */
    uint32_t n_line;   /* bytes of this line, or of the trailer */
} hth_http_chunks;

typedef enum hth_http_chunks_result {
    HTH_HTTP_CHUNKS_MORE, /* all bytes were consumed, none belongs to the body, and the body is not complete */
    HTH_HTTP_CHUNKS_DATA, /* piece_out[0..n_piece_out) belongs to the body; call again with the unused bytes */
    HTH_HTTP_CHUNKS_END,  /* the body is complete */
    HTH_HTTP_CHUNKS_BAD,
} hth_http_chunks_result;

hth_http_chunks_result hth_http_chunks_read(hth_http_chunks *chunks, const char *bytes, size_t n, size_t *n_used_out,
                                            const char **piece_out, size_t *n_piece_out);

#endif
