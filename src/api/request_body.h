/*
 * request_body.h - the JSON object of a request's body
 */
#ifndef HTH_API_REQUEST_BODY_H
#define HTH_API_REQUEST_BODY_H

#include "api/request.h"

/*
 * Parse a body of n_bytes. Its size, nesting and number of values are measured before anything is allocated for it.
 * Texts of the result hold no NUL: each becomes U+FFFD. Integers that 64 bits cannot hold become real numbers. Returns
 * a new object; NULL with error filled when the body is larger than the limits or is no JSON object.
 */
json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_error *error);

#endif
