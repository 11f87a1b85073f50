/*
 * ndjson.h - streams of lines, each of them a JSON value
 */
#ifndef HTH_API_NDJSON_H
#define HTH_API_NDJSON_H

#include "api/buffer.h"

#define HTH_NDJSON_CONTENT_TYPE "application/x-ndjson"

/* Append one line and release the reference. A NULL value marks the buffer as failed. */
void hth_ndjson_add_take(hth_buffer *out, json_t *value);
/* Append a space, which JSON allows before the next value: it keeps the connection alive, and readers do not see it. */
void hth_ndjson_add_nothing(hth_buffer *out);

#endif
