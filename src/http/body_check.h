/*
 * body_check.h - checks by the headers and the first byte whether a body can be read
 */
#ifndef HTH_HTTP_BODY_CHECK_H
#define HTH_HTTP_BODY_CHECK_H

#include "http/http.h"

/*
 * NULL: the body can be read. Otherwise the reason for a reply with status 415, valid as long as text. A body counts as
 * JSON unless its Content-Type is clearly another one. n_before: bytes before the client's body; may_be_empty: the body
 * may be missing.
 */
const char *hth_body_problem(hth_http_exchange *exchange, size_t n_before, bool may_be_empty, char text[128]);

#endif
