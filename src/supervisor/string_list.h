/*
 * string_list.h - NULL-terminated lists of strings, as for execv
 */
#ifndef HTH_SUPERVISOR_STRING_LIST_H
#define HTH_SUPERVISOR_STRING_LIST_H

#include <stdbool.h>

/* The list and its strings in one allocation, released with free; NULL without memory. */
char **hth_string_list_copy(const char *const *strings);
/* The same strings in the same order? */
bool hth_string_list_equal(char *const *a, const char *const *b);

#endif
