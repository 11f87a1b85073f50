/*
 * request_defaults.h - a conversation with what the server adds to it where the client said nothing
 */
#ifndef HTH_API_REQUEST_DEFAULTS_H
#define HTH_API_REQUEST_DEFAULTS_H

#include "api/request_inside.h"

/* Before a body is parsed: its options as the defaults have them. */
void hth_api_defaults_begin(hth_api_parse *parse);
/* After it was parsed without an error: the system prompt, and template variables that the client did not give. */
void hth_api_defaults_end(hth_api_parse *parse);

#endif
