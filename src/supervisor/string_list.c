/*
 * string_list.c - see string_list.h
 */
#include "supervisor/string_list.h"

#include <stdlib.h>
#include <string.h>

char **hth_string_list_copy(const char *const *strings)
{
    size_t n = 0, n_bytes = 0;
    char **copy, *at;

    for (; strings[n]; n++)
        n_bytes += strlen(strings[n]) + 1;
    copy = malloc((n + 1) * sizeof(*copy) + n_bytes);
    if (!copy)
        return NULL;
    at = (char *)(copy + n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(strings[i]) + 1;

        copy[i] = memcpy(at, strings[i], bytes);
        at += bytes;
    }
    copy[n] = NULL;
    return copy;
}

bool hth_string_list_equal(char *const *a, const char *const *b)
{
    size_t i = 0;

    while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
        i++;
    return !a[i] && !b[i];
}
