/*
 * front_routes.h - where requests go: the callbacks of the front's HTTP server
 */
#ifndef HTH_FRONT_FRONT_ROUTES_H
#define HTH_FRONT_FRONT_ROUTES_H

#include "front/front_inside.h"

/* An hth_http_handler; user_data is the front. */
void hth_front_handle(hth_http_exchange *exchange, void *user_data);
/* An hth_http_gate_fn: without a valid key, or for an unknown path, the body is not read. */
bool hth_front_wants_body(hth_http_exchange *exchange, void *user_data);
/* An hth_http_error_fn. */
const char *hth_front_protocol_error(int status, const char *why, const char *path, void *user_data);

#endif
