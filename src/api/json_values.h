/*
 * json_values.h - texts and bytes of others as JSON
 */
#ifndef HTH_API_JSON_VALUES_H
#define HTH_API_JSON_VALUES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* n bytes of text; null where they are not UTF-8, as a path may be. */
json_t *hth_json_text(const char *text, size_t n);
/* The hexadecimal digits of n bytes. NULL without memory. */
json_t *hth_json_hex(const uint8_t *bytes, size_t n);
/* An array of n bytes. */
json_t *hth_json_bytes(const char *bytes, size_t n);

#endif
