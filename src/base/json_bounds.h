/*
 * json_bounds.h - the depth and the size of a JSON text, before it is parsed
 *
 * Parsers recurse, and their trees take tens of bytes for each byte of text. So an untrusted text is measured first, in
 * one pass without allocations. Nothing is validated: the parser refuses a text that is not JSON.
 */
#ifndef HTH_BASE_JSON_BOUNDS_H
#define HTH_BASE_JSON_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_JSON_LEVELS = 64 };

typedef struct hth_json_bounds {
    size_t depth;    /* of nested arrays and objects */
    size_t n_values; /* an upper bound: commas outside strings, opening brackets, plus one */
    /*
     * Number of pairs of members of the same object, down to HTH_JSON_LEVELS: a parser that keeps members in a list
     * compares all of them.
     */
    uint64_t n_pairs;
} hth_json_bounds;

hth_json_bounds hth_json_measure(const char *text, size_t n_bytes);

/* Are the depth and the number of values within these limits? */
bool hth_json_is_within(const char *text, size_t n_bytes, size_t depth_max, size_t n_values_max);

#endif
