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
    char *text; /* NUL-terminated; NULL until something is appended */
    size_t n;
    size_t capacity;
    bool failed; /* out of memory; the text is incomplete */
} hth_buffer;

void hth_buffer_deinit(hth_buffer *buffer); /* leaves all zeros */
void hth_buffer_clear(hth_buffer *buffer);  /* empties the text but keeps the memory */
void hth_buffer_add(hth_buffer *buffer, const char *text, size_t n);
void hth_buffer_add_text(hth_buffer *buffer, const char *text);
/* Append a text of at most 255 bytes. A longer one marks the buffer as failed. */
void hth_buffer_add_format(hth_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Append value as JSON on one line and release the reference. A NULL value marks the buffer as failed, as if memory had
 * run out.
 */
void hth_buffer_add_json_take(hth_buffer *buffer, json_t *value);
/* The text; "" when nothing was appended. */
const char *hth_buffer_text(const hth_buffer *buffer);

#endif
