/*
 * explanation.h - what the cache knows about a prompt, for operators
 */
#ifndef HTH_API_EXPLANATION_H
#define HTH_API_EXPLANATION_H

#include <jansson.h>

#include "hearth.h"

/*
 * An explanation without its sentence, as a new object; NULL if out of memory. n_plain is the number of control-token
 * names in the prompt's messages that are treated as plain text.
 */
json_t *hth_api_explanation_json(const hearth_explanation *about, size_t n_plain);

#endif
