/*
 * answers.h - endpoints that generate nothing: one question to a model, one body
 */
#ifndef HTH_API_ANSWERS_H
#define HTH_API_ANSWERS_H

#include <stdatomic.h>

#include "api/request.h"

/*
 * /tokenize, /detokenize, /apply-template, count_tokens, /api/show and requests to load a model: the body of the answer is appended to out. False with error
 * filled. *is_gone (NULL: never) turns true when nobody waits for it any more: what takes long is given up then. Any
 * thread.
 */
bool hth_api_answer(hearth_model *model, const hth_api_request *request, const atomic_bool *is_gone, hth_buffer *out,
                    hth_api_error *error);

/* A model of a list. */
typedef struct hth_api_listed_model {
    const char *name;
    const char *asked; /* the name that it was asked for by, which its object bears; NULL: its own */
    json_int_t created_s;
    const hearth_model_info *info; /* NULL: it is not loaded */
    const char *const *aliases;    /* [n_aliases] */
    size_t n_aliases;
    const char *const *tags; /* [n_tags] */
    size_t n_tags;
} hth_api_listed_model;

/* GET /v1/models, and GET /v1/models/NAME of one. */
void hth_api_models_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);
void hth_api_model_write(const hth_api_listed_model *model, hth_buffer *out);

/* GET /props, of which file is the path that the model was loaded from: its base name is shown; and /slots. */
void hth_api_props_write(const hearth_model_info *info, const char *file, hth_buffer *out);
void hth_api_slots_write(const hearth_model_info *info, hth_buffer *out);
/* GET /health: problem NULL: all is well (200), otherwise why not (503). Returns the status. */
int hth_api_health_write(const char *problem, hth_buffer *out);

#endif
