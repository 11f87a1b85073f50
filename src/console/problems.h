/*
 * problems.h - all problems of a configuration, reported together
 */
#ifndef HTH_CONSOLE_PROBLEMS_H
#define HTH_CONSOLE_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hearth.h"

enum { HTH_PROBLEMS_MAX = 64 };

typedef struct hth_problems {
    struct {
        bool is_warning;
        char message[512];
    } list[HTH_PROBLEMS_MAX]; /* further problems are only counted */
    size_t n;
    size_t n_errors; /* including errors beyond the list */
} hth_problems;

void hth_problems_add(hth_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Add a warning: the server may start nevertheless. */
void hth_problems_warn(hth_problems *problems, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Print one line for each: "hearth: warning: ...". */
void hth_problems_print(const hth_problems *problems, FILE *out);
/* The first error. */
const char *hth_problems_first(const hth_problems *problems);

#endif
