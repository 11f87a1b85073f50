/*
 * http_head.h - parses an HTTP/1 request: its line, its fields, the length of its body, and a chunked body
 *
 * The parser is strict where two parsers could disagree about the end of a request (RFC 9112): lines end with CR LF
 * only, folded lines are refused, and a length may be given only once and in one way. A refusal has the status of its
 * reply and a sentence with the reason. The parser of heads works on one block of memory; neither knows a connection.
 */
#ifndef HTH_HTTP_HTTP_HEAD_H
#define HTH_HTTP_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_HTTP_FIELDS_MAX = 100, HTH_HTTP_METHOD_MAX = 24 };

/* A name and a value as offsets in the head's text, both NUL-terminated. */
typedef struct hth_http_field {
    uint32_t name;
    uint32_t value;
} hth_http_field;

typedef struct hth_http_head {
    const char *method;
    const char *path;      /* not decoded; begins with '/', or is "*"; "//a/" and "/v1/v1/a" are "/a" and "/v1/a" */
    const char *query;     /* not decoded; NULL: none */
    const char *authority; /* of a target like "http://host/path", [n_authority]; NULL: the target has none */
    size_t n_authority;
    int minor;       /* of HTTP/1.x */
    bool keep_alive; /* as the client requested */
    bool is_chunked; /* the body */
    bool expects_continue;
    uint64_t body_bytes; /* 0 if it is chunked */
    uint32_t n_fields;
    hth_http_field fields[HTH_HTTP_FIELDS_MAX];
} hth_http_head;

/*
 * Find the end of a head in bytes[0..n). *n_scanned begins at 0 and receives the number of scanned bytes, for the next
 * call with more bytes. Returns the length of the head including its empty line; 0: more bytes are needed; SIZE_MAX: a
 * line ends with LF alone, so the head is invalid.
 */
size_t hth_http_head_find(const char *bytes, size_t n, size_t *n_scanned);

/*
 * Parse a whole head of n bytes. This changes the text, and the texts in out point into it. Returns 0, or the status of
 * a refusal with its reason in *why_out.
 */
int hth_http_head_parse(char *text, size_t n, hth_http_head *out, const char **why_out);

/* The value of the first field of this name (any case), or NULL. text is the parsed text. */
const char *hth_http_head_field(const hth_http_head *head, const char *text, const char *name);

/* Is the text valid as the name of a field, or as its value? */
bool hth_http_is_token(const char *text);
bool hth_http_is_value(const char *text);

/*
 * ---- a chunked body ----
 *
 * The caller feeds bytes as they arrive, and the parser reports the bytes that belong to the body. It stores only its
 * state. The size lines are bounded, and so is the trailer, which is read and dropped.
 */

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
