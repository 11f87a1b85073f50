/*
 * ollama_answers.h - responses of Ollama's endpoints that generate nothing, and the form of times
 */
#ifndef HTH_DIALECTS_OLLAMA_ANSWERS_H
#define HTH_DIALECTS_OLLAMA_ANSWERS_H

#include "api/model_pages.h"
#include "api/request.h"

/*
 * GET /api/tags: all models, each under its name and under each alias, since clients look for the name they use. GET
 * /api/ps: the loaded models, whose info is not NULL.
 */
void hth_api_ollama_tags_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);
void hth_api_ollama_ps_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);

/* GET /api/version. */
void hth_api_ollama_version_write(hth_buffer *out);

/* POST /api/show of a loaded model. False with error filled. Renders a template, which may take milliseconds. */
bool hth_api_ollama_show_write(hearth_model *model, const hth_api_request *request, hth_buffer *out,
                               hth_api_error *error);
/* The response of /api/chat and /api/generate to a request that only loads the model. */
void hth_api_ollama_load_write(const hearth_model_info *info, const hth_api_request *request, json_int_t now_s,
                               hth_buffer *out);

/* POST /api/pull of a model that exists. is_stream: the response is a stream of lines. */
void hth_api_ollama_pulled_write(bool is_stream, hth_buffer *out);

/* Unix time as "2026-01-31T12:00:00Z". */
json_t *hth_api_ollama_time(json_int_t unix_s);
/* Milliseconds as whole nanoseconds; at least 1, because clients divide by them. */
json_t *hth_api_ollama_duration(double ms);

#endif
