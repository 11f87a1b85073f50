/*
 * ndjson.c - see ndjson.h
 *
 * Such a stream has no comments, and readers fail at empty lines. JSON allows white space before a value.
 */
#include "api/ndjson.h"

void hth_ndjson_add_take(hth_buffer *out, json_t *value)
{
    hth_buffer_add_json_take(out, value); /* newlines in texts are escaped, so the value is one line */
    hth_buffer_add_text(out, "\n");
}

void hth_ndjson_add_nothing(hth_buffer *out)
{
    hth_buffer_add_text(out, " ");
}
