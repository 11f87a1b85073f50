/*
 * buffer.h - text that grows
 *
 * Appending to a buffer that ran out of memory does nothing, so that a series of appends is checked once, at its end.
 */
#ifndef HTH_API_BUFFER_H
#define HTH_API_BUFFER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* All zeros is an empty buffer. */
typedef struct hth_buffer {
    char *text; /* terminated; NULL while nothing was appended */
    size_t n;
    size_t capacity;
    bool failed; /* no memory; the text is not whole */
} hth_buffer;

void hth_buffer_deinit(hth_buffer *buffer); /* zeros afterwards */
void hth_buffer_clear(hth_buffer *buffer);  /* empty, the memory is kept */
void hth_buffer_add(hth_buffer *buffer, const char *text, size_t n);
void hth_buffer_add_text(hth_buffer *buffer, const char *text);
/*
 * Append value as JSON on one line and release the reference. value may be NULL: the buffer fails then, as without
 * memory.
 */
void hth_buffer_add_json_take(hth_buffer *buffer, json_t *value);
/* The text; "" when nothing was appended. */
const char *hth_buffer_text(const hth_buffer *buffer);

#endif
