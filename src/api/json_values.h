/*
 * json_values.h - text, bytes and explanations from other sources as JSON
 */
#ifndef HTH_API_JSON_VALUES_H
#define HTH_API_JSON_VALUES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

/* n bytes of text; JSON null if they are not UTF-8 (a path need not be). */
json_t *hth_json_text(const char *text, size_t n);
/* A terminated text; likewise, and JSON null for NULL. */
json_t *hth_json_string(const char *text);
/* The first n texts, or those before a NULL, likewise. texts may be NULL. NULL if out of memory. */
json_t *hth_json_strings(const char *const *texts, size_t n);
/* The hexadecimal digits of n bytes. NULL if out of memory. */
json_t *hth_json_hex(const uint8_t *bytes, size_t n);
/* An array of n bytes. */
json_t *hth_json_bytes(const char *bytes, size_t n);

/*
 * What the cache knows about a prompt, for operators, without its sentence, as a new object; NULL if out of memory.
 * n_plain is the number of control-token names in the prompt's messages that are treated as plain text.
 */
json_t *hth_api_explanation_json(const hearth_explanation *about, size_t n_plain);

#endif
