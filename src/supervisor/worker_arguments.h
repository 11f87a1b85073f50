/*
 * worker_arguments.h - compares the command lines of two workers
 */
#ifndef HTH_SUPERVISOR_WORKER_ARGUMENTS_H
#define HTH_SUPERVISOR_WORKER_ARGUMENTS_H

#include <stdbool.h>

/*
 * Do the tokens of a reply mean the same in both workers, so that one can continue the other's reply? Both lists end
 * with NULL, as for execv.
 */
bool hth_worker_arguments_mean_same(const char *const *a, const char *const *b);

/* The value of an option; "": none. */
const char *hth_worker_arguments_value(const char *const *arguments, const char *option);

bool hth_worker_arguments_have_flag(const char *const *arguments, const char *flag);

/* Do both lists have the same values of an option, in the same order? */
bool hth_worker_arguments_have_same(const char *const *a, const char *const *b, const char *option);

#endif
