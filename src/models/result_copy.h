/*
 * result_copy.h - a result that outlives the callback that showed it
 */
#ifndef HTH_MODELS_RESULT_COPY_H
#define HTH_MODELS_RESULT_COPY_H

#include "hearth.h"

/*
 * Copy a result with its text, tokens and logarithms, to be released with hearth_result_free. Without memory the copy
 * is an empty result whose status is HEARTH_NO_MEMORY.
 */
void hth_result_copy(hearth_result *out, const hearth_result *result);

/* The same in memory of its own, to be released with hth_result_copy_free; NULL without memory. */
const hearth_result *hth_result_copy_new(const hearth_result *result);
void hth_result_copy_free(const hearth_result *copy); /* accepts NULL */

#endif
