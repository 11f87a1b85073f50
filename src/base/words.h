/*
 * words.h - a choice of words, as messages show it
 */
#ifndef HTH_BASE_WORDS_H
#define HTH_BASE_WORDS_H

#include <stddef.h>
#include <stdio.h>

/* Write "a, b or c" of words, which end with NULL. A list that does not fit is cut; text is terminated. */
static inline void hth_words_list(const char *const *words, char *text, size_t capacity)
{
    size_t n = 0;

    for (size_t i = 0; words[i] && n < capacity; i++)
        n += (size_t)snprintf(text + n, capacity - n, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
}

#endif
