/*
 * json_bounds.h - the depth and the size of a JSON text, before it is parsed
 *
 * Parsers recurse, and their trees take tens of bytes for each byte of text. So a text from outside is measured first,
 * in one pass without memory. Nothing is validated: the parser refuses a text that is not JSON.
 */
#ifndef HTH_BASE_JSON_BOUNDS_H
#define HTH_BASE_JSON_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_JSON_LEVELS = 64 };

typedef struct hth_json_bounds {
    size_t depth;    /* of nested arrays and objects */
    size_t n_values; /* an upper bound: commas outside of strings, opening brackets, and one */
    /* Pairs of members of one object, down to HTH_JSON_LEVELS: a parser that keeps members in a list compares these. */
    uint64_t n_pairs;
} hth_json_bounds;

hth_json_bounds hth_json_measure(const char *text, size_t n_bytes);

/* Are depth and number of values within these limits? */
bool hth_json_is_within(const char *text, size_t n_bytes, size_t depth_max, size_t n_values_max);

#endif
