/*
 * nearest.h - finds the intended name for a misspelt one
 */
#ifndef HTH_CONSOLE_NEAREST_H
#define HTH_CONSOLE_NEAREST_H

#include <stddef.h>

typedef struct hth_nearest {
    const char *wanted;
    const char *name; /* the nearest so far; NULL: none is near */
    size_t distance;
} hth_nearest;

/* wanted and the names are borrowed. */
void hth_nearest_init(hth_nearest *nearest, const char *wanted);
void hth_nearest_try(hth_nearest *nearest, const char *name);

#endif
