/*
 * ndjson.h - streams of lines, each a JSON value
 */
#ifndef HTH_API_NDJSON_H
#define HTH_API_NDJSON_H

#include "api/buffer.h"

#define HTH_NDJSON_CONTENT_TYPE "application/x-ndjson"

/* Append one line, and give the reference back; NULL: no memory. */
void hth_ndjson_add_take(hth_buffer *out, json_t *value);
/* Append what a reader takes for the beginning of the next line, whose value does not change: a space. */
void hth_ndjson_add_nothing(hth_buffer *out);

#endif
