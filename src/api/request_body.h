/*
 * request_body.h - the JSON object of a request's body
 */
#ifndef HTH_API_REQUEST_BODY_H
#define HTH_API_REQUEST_BODY_H

#include "api/request.h"

/*
 * Parse a body of n_bytes. Its size, nesting and number of values are measured before anything is allocated for it.
 * Texts of the result hold no NUL and no half of a surrogate pair: each becomes U+FFFD, and a note in notes (NULL:
 * none). Integers that 64 bits cannot hold become real numbers. Returns a new object; NULL with error filled when the
 * body is larger than the limits or is no JSON object.
 */
json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_notes *notes,
                           hth_api_error *error);

/*
 * JSON that the parser refused, with the same repairs. flags: those of jansson. Returns a new value; NULL: it is no
 * JSON with them either, as problem says (which is as it was without memory).
 */
json_t *hth_api_json_repaired(const char *text, size_t n_bytes, size_t flags, hth_api_notes *notes,
                              json_error_t *problem);

#endif
