/*
 * changing_text.h - is a position in a text inside a part that changes each time: a date, an identifier, a path?
 *
 * Prompts that should share a prefix mostly diverge at such a text. It is recognised by its form alone. So the result
 * is only a hint for people, and no decision depends on it.
 */
#ifndef HTH_BASE_CHANGING_TEXT_H
#define HTH_BASE_CHANGING_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hth_changing_text {
    const char
        *kind;    /* "a date", "a time", "a UUID", "a temporary path", "a hexadecimal digest", "a version", "a path",
                         "a number" */
    size_t begin; /* its byte range in the text, [begin, end) */
    size_t end;
} hth_changing_text;

/*
 * The changing text around byte at of text [n_bytes], which may hold any bytes. False, with *out unchanged, if there is
 * none. Looks at 256 bytes on either side.
 */
bool hth_changing_text_at(const char *text, size_t n_bytes, size_t at, hth_changing_text *out);

#endif
