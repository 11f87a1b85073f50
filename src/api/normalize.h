/*
 * normalize.h - removes text that clients put into prompts, that changes each time and means nothing to the model
 *
 * A prefix is reused as far as it is the same. So one changing line at the beginning, such as a version or the number
 * of a session, makes everything behind it cold. A few clients write such a line and call it a header themselves. Rules
 * that know a client's exact form and place remove the line before the prompt is rendered. They change nothing else.
 * docs/clients.md lists them.
 */
#ifndef HTH_API_NORMALIZE_H
#define HTH_API_NORMALIZE_H

#include "api/parse.h"

/*
 * Apply all rules to the conversation of the request. The request receives the names of the rules that found something.
 */
void hth_api_normalize(hth_api_parse *parse);

#endif
