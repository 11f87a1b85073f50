/*
 * json_values.h - text and bytes from other sources as JSON
 */
#ifndef HTH_API_JSON_VALUES_H
#define HTH_API_JSON_VALUES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* n bytes of text; JSON null if they are not UTF-8 (a path need not be). */
json_t *hth_json_text(const char *text, size_t n);
/* The hexadecimal digits of n bytes. NULL if out of memory. */
json_t *hth_json_hex(const uint8_t *bytes, size_t n);
/* An array of n bytes. */
json_t *hth_json_bytes(const char *bytes, size_t n);

#endif
