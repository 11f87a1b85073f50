/*
 * gguf_edit.h - a copy of a GGUF file with more metadata in front of its own
 */
#ifndef HTH_TESTS_GGUF_EDIT_H
#define HTH_TESTS_GGUF_EDIT_H

#include <stddef.h>
#include <stdint.h>

typedef struct hth_test_gguf_pair {
    const char *key;
    float number;     /* where text is NULL */
    const char *text; /* NULL: it is the number */
} hth_test_gguf_pair;

/* Write to the path `to` what lies at `from`, with those pairs. Fails the running test where that is not possible. */
void hth_test_gguf_add(const char *from, const char *to, const hth_test_gguf_pair *pairs, size_t n);

/* The same without the keys that begin so, which are renamed to keys that nobody knows. */
void hth_test_gguf_hide(const char *from, const char *to, const char *prefix);

#endif
