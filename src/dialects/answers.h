/*
 * answers.h - endpoints that query a model but generate nothing
 */
#ifndef HTH_DIALECTS_ANSWERS_H
#define HTH_DIALECTS_ANSWERS_H

#include "api/request.h"

/*
 * Respond to /tokenize, /detokenize, /apply-template, token counting, /api/show, or a request to load a model: append
 * the body to out. False with error filled. A long response ends early when request->is_gone becomes true. Any thread.
 */
bool hth_api_answer(hearth_model *model, const hth_api_request *request, hth_buffer *out, hth_api_error *error);

/* ---- embeddings and scores ---- */

enum { HTH_API_EMBED_VALUES_MAX = 16 << 20 /* per response: about 200 MB of text */ };

/*
 * Make the library's request. The pooling options depend on the model and on the API. The request must have inputs.
 * Returns false with error filled.
 */
bool hth_api_embed_options(const hearth_model_info *info, const hth_api_request *request, hearth_embed_request *out,
                           hth_api_error *error);
typedef struct hth_api_embed_answer hth_api_embed_answer;

/*
 * A new response. It is written in pieces because it may be long. embeddings is NULL if there were no inputs. model is
 * the name that the client knows. All arguments are borrowed. Returns NULL if out of memory.
 */
hth_api_embed_answer *hth_api_embed_answer_new(const hth_api_request *request, const hearth_embeddings *embeddings,
                                               const char *model);
void hth_api_embed_answer_free(hth_api_embed_answer *answer); /* accepts NULL */
/* Append the next n_bytes, or slightly more to end on a whole vector. Returns true when the response is complete. */
bool hth_api_embed_answer_write(hth_api_embed_answer *answer, size_t n_bytes, hth_buffer *out);

#endif
