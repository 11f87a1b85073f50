/*
 * answers.h - endpoints that query a model but generate nothing
 */
#ifndef HTH_DIALECTS_ANSWERS_H
#define HTH_DIALECTS_ANSWERS_H

#include <stdatomic.h>

#include "api/request.h"

/*
 * Respond to /tokenize, /detokenize, /apply-template, token counting, /api/show, or a request to load a model: append
 * the body to out. False with error filled. *is_gone (may be NULL) becomes true when the client disconnects; a long
 * response then ends early. Any thread.
 */
bool hth_api_answer(hearth_model *model, const hth_api_request *request, const atomic_bool *is_gone, hth_buffer *out,
                    hth_api_error *error);

#endif
