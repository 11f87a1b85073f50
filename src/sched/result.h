/*
 * result.h - a result with a reference count
 *
 * A reply makes its result, fills it and holds the first reference. Until the request ends, only the scheduler's thread
 * uses the result. Afterwards it never changes, so every holder of a reference may read it on any thread.
 */
#ifndef HTH_SCHED_RESULT_H
#define HTH_SCHED_RESULT_H

#include <stdatomic.h>

#include "hearth.h"

typedef struct hth_counted_result {
    hearth_result shown; /* first, so that hearth_result_ref finds the whole struct; points to the arrays below */
    hearth_stats stats;
    char *text;
    hearth_token *tokens;
    hearth_logprob *logprobs;
    hearth_logprob *prompt_logprobs;
    hearth_token *prompt; /* NULL: the request still owns shown.prompt */
    atomic_uint references;
} hth_counted_result;

/* An empty result with one reference, for hearth_result_unref(&result->shown). NULL if out of memory. */
hth_counted_result *hth_counted_result_new(void);

#endif
