/*
 * request_parse.h - from the body of a request to the request
 */
#ifndef HTH_DIALECTS_REQUEST_PARSE_H
#define HTH_DIALECTS_REQUEST_PARSE_H

#include "api/request.h"

/*
 * Parse a body of n_bytes. past (NULL: none) holds the responses that the request may continue; it is read during the
 * call. limits may be NULL for the defaults. defaults (NULL: none) are those of the server and outlive the request.
 * Returns NULL with error filled if the body is wrong. Release the request with hth_api_request_free. Any thread.
 */
hth_api_request *hth_api_request_parse_with(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            const hth_api_defaults *defaults, hth_api_error *error);
/* The same without past and defaults. */
hth_api_request *hth_api_request_parse(hth_api_kind kind, const char *body, size_t n_bytes,
                                       const hth_api_limits *limits, hth_api_error *error);

#endif
