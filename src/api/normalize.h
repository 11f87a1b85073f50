/*
 * normalize.h - what clients write into prompts that is different each time and says nothing to the model
 *
 * A prefix is reused as far as it is the same, so one line at the beginning that counts versions or sessions makes everything
 * behind it cold. A few clients put such a line there that they themselves call a header. It is taken out before the
 * prompt is rendered, by rules that know the client's exact form and place; nothing else is touched, and nothing is moved.
 * docs/clients.md has the list.
 */
#ifndef HTH_API_NORMALIZE_H
#define HTH_API_NORMALIZE_H

#include "api/request_inside.h"

/* Apply all rules to the request's conversation; the names of those that found something are the request's. */
void hth_api_normalize(hth_api_parse *parse);

#endif
