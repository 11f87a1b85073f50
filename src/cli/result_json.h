/*
 * result_json.h - the result of a request as JSON
 */
#ifndef HTH_CLI_RESULT_JSON_H
#define HTH_CLI_RESULT_JSON_H

#include <jansson.h>

#include "hearth.h"

/* A new object. model gives the texts of tokens, when the result has log probabilities. NULL without memory. */
json_t *hth_result_json(const hearth_result *result, hearth_model *model);

/* With three decimals, so that equal runs differ less. */
json_t *hth_milliseconds_json(double ms);

/* Print an object on standard output and release it: indented, or as one line. False when it cannot be written. */
bool hth_json_print(json_t *object, bool as_line);

#endif
