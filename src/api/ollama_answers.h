/*
 * ollama_answers.h - what Ollama's endpoints that generate nothing answer
 */
#ifndef HTH_API_OLLAMA_ANSWERS_H
#define HTH_API_OLLAMA_ANSWERS_H

#include "api/answers.h"

/* GET /api/tags: all models, and once more under each alias, since clients look for the name that they use. GET /api/ps: of them, those that are loaded (info is not NULL). */
void hth_api_ollama_tags_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);
void hth_api_ollama_ps_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);

/* GET /api/version. */
void hth_api_ollama_version_write(hth_buffer *out);

/* POST /api/show of a model that is loaded. False with error filled. Renders a template: it may take milliseconds. */
bool hth_api_ollama_show_write(hearth_model *model, const hth_api_request *request, hth_buffer *out,
                               hth_api_error *error);
/* What /api/chat and /api/generate answer who asks for nothing but that the model be loaded. */
void hth_api_ollama_load_write(const hearth_model_info *info, const hth_api_request *request, json_int_t now_s,
                               hth_buffer *out);

/* POST /api/pull of a model that is there. is_stream: as lines. */
void hth_api_ollama_pulled_write(bool is_stream, hth_buffer *out);

#endif
