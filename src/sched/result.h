/*
 * result.h - a result while its reply fills it, and its references
 *
 * A reply makes its result and holds the first reference. Until the request ends only the scheduler's thread knows it;
 * afterwards nobody changes it, so whoever takes a reference may keep it and read it on any thread.
 */
#ifndef HTH_SCHED_RESULT_H
#define HTH_SCHED_RESULT_H

#include <stdatomic.h>

#include "hearth.h"

typedef struct hth_counted_result {
    hearth_result shown; /* first, so that hearth_result_ref finds the rest; its arrays are those below */
    hearth_stats stats;
    char *text;
    hearth_token *tokens;
    hearth_logprob *logprobs;
    hearth_logprob *prompt_logprobs;
    hearth_token *prompt; /* NULL: the request still owns shown.prompt */
    atomic_uint references;
} hth_counted_result;

/* An empty result with one reference, which hearth_result_unref(&result->shown) gives back. NULL without memory. */
hth_counted_result *hth_counted_result_new(void);
/* Only before the result was shown to anybody else: it has failed after all. */
void hth_counted_result_fail(const hearth_result *result, hearth_status status, const char *message);

#endif
