#include "api/sse.h"

void hth_sse_add_take(hth_buffer *out, const char *name, json_t *value)
{
    if (name)
        hth_buffer_add_format(out, "event: %s\n", name);
    hth_buffer_add_text(out, "data: ");
    hth_buffer_add_json_take(out, value); /* newlines in texts are escaped, so the value is one line */
    hth_buffer_add_text(out, "\n\n");
}

void hth_sse_add_done(hth_buffer *out)
{
    hth_buffer_add_text(out, "data: [DONE]\n\n");
}

void hth_sse_add_comment(hth_buffer *out, const char *text)
{
    hth_buffer_add_text(out, *text ? ": " : ":");
    hth_buffer_add_text(out, text);
    hth_buffer_add_text(out, "\n\n");
}

void hth_ndjson_add_take(hth_buffer *out, json_t *value)
{
    hth_buffer_add_json_take(out, value); /* as above */
    hth_buffer_add_text(out, "\n");
}

void hth_ndjson_add_nothing(hth_buffer *out)
{
    hth_buffer_add_text(out, " ");
}
