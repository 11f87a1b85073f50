/*
 * worker_arguments.h - command lines of workers: options and values that end with NULL, as for execv
 */
#ifndef HTH_SUPERVISOR_WORKER_ARGUMENTS_H
#define HTH_SUPERVISOR_WORKER_ARGUMENTS_H

#include <stdbool.h>

/* A copy, with its strings in one allocation, released with free; NULL without memory. */
const char *const *hth_worker_arguments_copy(const char *const *arguments);
/* The same strings in the same order? */
bool hth_worker_arguments_equal(const char *const *a, const char *const *b);

/* Do the tokens of a reply mean the same in both workers, so that one can continue the other's reply? */
bool hth_worker_arguments_mean_same(const char *const *a, const char *const *b);

/* The value of an option; "": none. */
const char *hth_worker_arguments_value(const char *const *arguments, const char *option);

bool hth_worker_arguments_have_flag(const char *const *arguments, const char *flag);

/* Do both lists have the same values of an option, in the same order? */
bool hth_worker_arguments_have_same(const char *const *a, const char *const *b, const char *option);

#endif
