/*
 * ndjson.c - see ndjson.h
 *
 * There are no comments in such a stream, and readers fail at empty lines; before a value JSON allows space.
 */
#include "api/ndjson.h"

void hth_ndjson_add_take(hth_buffer *out, json_t *value)
{
    hth_buffer_add_json_take(out, value); /* newlines in texts are escaped, so it is one line */
    hth_buffer_add_text(out, "\n");
}

void hth_ndjson_add_nothing(hth_buffer *out)
{
    hth_buffer_add_text(out, " ");
}
