/*
 * sse.h - streams: server-sent events, in the format of the WHATWG's HTML standard, and lines, each a JSON value
 */
#ifndef HTH_API_SSE_H
#define HTH_API_SSE_H

#include "api/buffer.h"

#define HTH_SSE_CONTENT_TYPE "text/event-stream"
#define HTH_NDJSON_CONTENT_TYPE "application/x-ndjson"

/*
 * Append an event whose data is value on one line, and release the reference. name may be NULL: the event has no name.
 */
void hth_sse_add_take(hth_buffer *out, const char *name, json_t *value);
/* "data: [DONE]", which ends OpenAI's streams. */
void hth_sse_add_done(hth_buffer *out);
/* A comment, which readers ignore: it keeps a connection alive. text: one line; "": none. */
void hth_sse_add_comment(hth_buffer *out, const char *text);

/* Append one line and release the reference. A NULL value marks the buffer as failed. */
void hth_ndjson_add_take(hth_buffer *out, json_t *value);
/*
 * Append a space, which JSON allows before the next value: it keeps the connection alive, and readers do not see it.
 * Such a stream has no comments, and readers fail at empty lines.
 */
void hth_ndjson_add_nothing(hth_buffer *out);

#endif
