/*
 * embed.h - requests for embeddings and scores, and their answers
 */
#ifndef HTH_API_EMBED_H
#define HTH_API_EMBED_H

#include "api/error.h"

enum { HTH_API_EMBED_VALUES_MAX = 16 << 20 /* of one answer: some 200 MB of text */ };

typedef struct hth_api_request hth_api_request;

/* What a request for embeddings asks for, besides the model. Memory and texts belong to the hth_api_request. */
typedef struct hth_api_embed {
    hearth_embed_request options; /* without on_done; n_inputs may be 0 with Ollama */
    bool is_base64;               /* OpenAI: encoding_format */
    bool has_norm;                /* the client chose options.norm */
    bool is_compact;              /* rerank: the answer is an array, as text-embeddings-inference has it */
    bool wants_texts;             /* rerank: results have the documents */
    size_t top_n;                 /* rerank: at most so many results; 0: all */
} hth_api_embed;

/*
 * The request for the library. Its options depend on the model in what the API says of poolings. False with error
 * filled. Only for a request with inputs.
 */
bool hth_api_embed_options(const hearth_model_info *info, const hth_api_request *request, hearth_embed_request *out,
                           hth_api_error *error);
typedef struct hth_api_embed_answer hth_api_embed_answer;

/*
 * An answer, which is written in pieces, because it may be long. embeddings NULL: there were no inputs. model is the
 * name that the client knows. All are borrowed. NULL without memory.
 */
hth_api_embed_answer *hth_api_embed_answer_new(const hth_api_request *request, const hearth_embeddings *embeddings,
                                               const char *model);
void hth_api_embed_answer_free(hth_api_embed_answer *answer); /* accepts NULL */
/* Append its next n_bytes, or somewhat more: whole vectors. True: it is complete. */
bool hth_api_embed_answer_write(hth_api_embed_answer *answer, size_t n_bytes, hth_buffer *out);

#endif
