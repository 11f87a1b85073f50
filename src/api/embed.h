/*
 * embed.h - requests for embeddings and scores, and their responses
 */
#ifndef HTH_API_EMBED_H
#define HTH_API_EMBED_H

#include "api/error.h"

enum { HTH_API_EMBED_VALUES_MAX = 16 << 20 /* per response: about 200 MB of text */ };

typedef struct hth_api_request hth_api_request;

/* The contents of a request for embeddings, except the model. The hth_api_request owns the memory and the texts. */
typedef struct hth_api_embed {
    hearth_embed_request options; /* on_done is unset; n_inputs may be 0 for Ollama */
    bool is_base64;               /* OpenAI: encoding_format */
    bool has_norm;                /* the client chose options.norm */
    bool is_compact;              /* rerank: the response is an array, as in text-embeddings-inference */
    bool wants_texts;             /* rerank: results include the documents */
    size_t top_n;                 /* rerank: maximum number of results; 0: all */
} hth_api_embed;

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
