/*
 * body_check.h - can the body of a request be read, by its headers and its first byte?
 */
#ifndef HTH_HTTP_BODY_CHECK_H
#define HTH_HTTP_BODY_CHECK_H

#include "http/http.h"

/*
 * NULL: it can. Else the reason of a reply with 415, valid as long as text. A body counts as JSON unless
 * its Content-Type is surely another one. n_before: bytes before the client's body; may_be_empty: there may be none.
 */
const char *hth_body_problem(hth_http_exchange *exchange, size_t n_before, bool may_be_empty, char text[128]);

#endif
