/*
 * words.h - lists of words in messages, and words that are names
 */
#ifndef HTH_BASE_WORDS_H
#define HTH_BASE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Write "a, b or c" of words, which end with NULL. A list that does not fit is cut; text is terminated. */
static inline void hth_words_list(const char *const *words, char *text, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; words[i] && n < capacity; i++)
        n += (size_t)snprintf(text + n, capacity - n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

/* Does text have 1 to n_max letters, digits, underscores and hyphens, and nothing else? */
static inline bool hth_is_name(const char *text, size_t n_max)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n >= 1 && n <= n_max && text[n] == '\0';
}

#endif
