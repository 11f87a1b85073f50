/*
 * words.h - word lists in messages, and checks for valid names
 */
#ifndef HTH_BASE_WORDS_H
#define HTH_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/*
 * Write words, an array that ends with NULL, as "a, b or c". A list that does not fit is cut off; text is terminated.
 */
static inline void hth_words_list(const char *const *words, char *text, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; words[i] && n < capacity; i++)
        n += (size_t)snprintf(text + n, capacity - n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

/* Does text consist of 1 to n_max letters, digits, underscores and hyphens? */
static inline bool hth_is_name(const char *text, size_t n_max)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n >= 1 && n <= n_max && text[n] == '\0';
}

#endif
