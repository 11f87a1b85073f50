/*
 * request_body.h - the JSON object of a request's body
 */
#ifndef HTH_API_REQUEST_BODY_H
#define HTH_API_REQUEST_BODY_H

#include "api/request.h"

/*
 * Parse a body of n_bytes. Its size, nesting and number of values are measured before anything is allocated for it.
 * Strings of the result contain no NUL and no unpaired surrogate: each becomes U+FFFD, with a note in notes (may be
 * NULL). Integers that do not fit in 64 bits become real numbers. Returns a new object; NULL with error filled if the
 * body exceeds the limits or is not a JSON object.
 */
json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_notes *notes,
                           hth_api_error *error);

/*
 * Parse JSON that the parser refused, with the same repairs. flags are jansson's. Returns a new value; NULL if it is
 * still not JSON, which problem describes. If out of memory, problem does not change.
 */
json_t *hth_api_json_repaired(const char *text, size_t n_bytes, size_t flags, hth_api_notes *notes,
                              json_error_t *problem);

#endif
