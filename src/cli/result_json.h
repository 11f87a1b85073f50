/*
 * result_json.h - the result of a request as JSON
 */
#ifndef HTH_CLI_RESULT_JSON_H
#define HTH_CLI_RESULT_JSON_H

#include <jansson.h>

#include "hearth.h"

/* A new object. model provides the texts of tokens if the result has log probabilities. NULL if out of memory. */
json_t *hth_result_json(const hearth_result *result, hearth_model *model);

/* A time with three decimals, so that output of similar runs differs less. */
json_t *hth_milliseconds_json(double ms);

/* Print an object to standard output and release it: indented, or as one line. False if it cannot be written. */
bool hth_json_print(json_t *object, bool as_line);

#endif
