/*
 * json_bounds.h - how deep and how long a JSON text is, before anybody parses it
 *
 * Parsers recurse, and trees take tens of bytes for each one of their text. So a text from outside is measured first, in
 * one pass without memory. Nothing is validated: what is not JSON is for the parser to refuse.
 */
#ifndef HTH_BASE_JSON_BOUNDS_H
#define HTH_BASE_JSON_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_JSON_LEVELS = 64 };

typedef struct hth_json_bounds {
    size_t depth;    /* of arrays and objects in one another */
    size_t n_values; /* at most so many: commas outside of strings, opening brackets, and one */
    /* Pairs of members of one object, down to HTH_JSON_LEVELS: what a parser that keeps members in a list compares. */
    uint64_t n_pairs;
} hth_json_bounds;

hth_json_bounds hth_json_measure(const char *text, size_t n_bytes);

/* Is it at most so deep, with at most so many values? */
bool hth_json_is_within(const char *text, size_t n_bytes, size_t depth_max, size_t n_values_max);

#endif
