/*
 * explanation.h - what the cache knows of a prompt, for operators
 */
#ifndef HTH_API_EXPLANATION_H
#define HTH_API_EXPLANATION_H

#include <jansson.h>

#include "hearth.h"

/*
 * All but the sentence of an explanation, a new object; NULL without memory. n_plain: names of control tokens in the
 * messages of the prompt, which are text.
 */
json_t *hth_api_explanation_json(const hearth_explanation *about, size_t n_plain);

#endif
