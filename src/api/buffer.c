#include "api/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hth_buffer_deinit(hth_buffer *buffer)
{
    free(buffer->text);
    *buffer = (hth_buffer){ .text = NULL };
}

void hth_buffer_clear(hth_buffer *buffer)
{
    buffer->n = 0;
    buffer->failed = false;
    if (buffer->text)
        buffer->text[0] = '\0';
}

void hth_buffer_add(hth_buffer *buffer, const char *text, size_t n)
{
    if (buffer->failed)
        return;
    if (buffer->capacity - buffer->n < n + 1 || !buffer->text) {
        size_t capacity = 2 * (buffer->n + n) + 128;
        char *grown = realloc(buffer->text, capacity);

        if (!grown) {
            buffer->failed = true;
            return;
        }
        buffer->text = grown;
        buffer->capacity = capacity;
    }
    if (n > 0)
        memcpy(buffer->text + buffer->n, text, n);
    buffer->n += n;
    buffer->text[buffer->n] = '\0';
}

void hth_buffer_add_text(hth_buffer *buffer, const char *text)
{
    hth_buffer_add(buffer, text, strlen(text));
}

void hth_buffer_add_format(hth_buffer *buffer, const char *format, ...)
{
    char text[256];
    va_list arguments;
    int n;

    va_start(arguments, format);
    n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (n >= 0 && (size_t)n < sizeof(text))
        hth_buffer_add(buffer, text, (size_t)n);
    else
        buffer->failed = true;
}

static int dump(const char *text, size_t n, void *user_data)
{
    hth_buffer *buffer = user_data;

    hth_buffer_add(buffer, text, n);
    return buffer->failed ? -1 : 0;
}

void hth_buffer_add_json_take(hth_buffer *buffer, json_t *value)
{
    /* 9 digits distinguish all floats; 17 would show 0.1f as 0.10000000149011612. */
    if (!value || json_dump_callback(value, dump, buffer, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) != 0)
        buffer->failed = true;
    json_decref(value);
}

const char *hth_buffer_text(const hth_buffer *buffer)
{
    return buffer->text ? buffer->text : "";
}
