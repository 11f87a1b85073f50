/*
 * api_run.h - a request from its JSON to the bytes of its reply, as a server does it
 *
 * The test keeps all results until it ends (hth_test_keep).
 */
#ifndef HTH_TESTS_API_RUN_H
#define HTH_TESTS_API_RUN_H

#include <jansson.h>

#include "api/reply.h"

typedef struct hth_test_answer {
    int status;
    hth_buffer text; /* a body, or events */
} hth_test_answer;

/* The request that a body is; ends the test where it is refused. */
hth_api_request *hth_test_parsed(hth_api_kind kind, const char *body);
/* The same with limits and an operator's defaults; either may be NULL. */
hth_api_request *hth_test_parsed_with(hth_api_kind kind, const char *body, const hth_api_limits *limits,
                                      const hth_api_defaults *defaults);

/* Parse, prepare, submit, and write what comes. */
hth_test_answer hth_test_api_run(hearth_model *model, hth_api_kind kind, const char *body);
/* The same without the model: these texts, in order, are the reply, and the last one ends it. NULL ends the list. */
hth_test_answer hth_test_api_script(hearth_model *model, hth_api_kind kind, const char *body, const char *const *texts,
                                    hearth_finish_reason finish);

/* Likewise of one text, which the request's stop text number - 1 ended; those of a template follow the client's. */
hth_test_answer hth_test_api_stopped(hearth_model *model, hth_api_kind kind, const char *body, uint32_t stop_number);

/* The JSON of a body; ends the test where it is none. */
json_t *hth_test_json(const char *text);
json_t *hth_test_json_keep(json_t *value);
/* The JSON of the events of a stream, in an array; each name, where there is one, as its member "(event)". */
json_t *hth_test_events(const char *text);
/* The value at a path of names and numbers, "choices.0.message.content"; NULL where there is none. Borrowed. */
json_t *hth_test_at(json_t *value, const char *path);
/* Its text, "" where it is none. */
const char *hth_test_text_at(json_t *value, const char *path);

#endif
