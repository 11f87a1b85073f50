/*
 * responses_inside.h - functions that the parsers of /v1/responses share
 *
 *   responses_request.c  the body: conversation, tools, form of the answer
 *   responses_items.c    the items of the input as turns of a conversation
 *   responses_past.c     items of earlier responses
 *   responses_tools.c    the tools, and which of them may be called
 */
#ifndef HTH_DIALECTS_RESPONSES_INSIDE_H
#define HTH_DIALECTS_RESPONSES_INSIDE_H

#include "api/request_inside.h"
#include "api/responses.h"

/* The conversation while it grows; there is memory for one turn for each item. */
typedef struct hth_api_turns {
    hearth_chat_turn *turns;
    size_t n;
    bool is_open;             /* the last turn is the assistant's, and the assistant's next item belongs to it */
    hth_api_joined reasoning; /* of that turn */
} hth_api_turns;

/* Append a turn with one text. */
void hth_api_turns_add(hth_api_turns *turns, const char *role, const char *text);
/* Append the items of an array; name is its field, for errors. */
void hth_api_parse_items(hth_api_parse *parse, const char *name, json_t *array, hth_api_turns *turns);

/* All items of the response that a request continues: its input, then its output. NULL with the error. */
json_t *hth_api_past_items(hth_api_parse *parse, const char *id);

/* An item of an earlier response, as text or as a value. */
typedef struct hth_api_past_item {
    const char *id; /* [n_id] */
    size_t n_id;
    size_t at;        /* its index among all */
    const char *text; /* [n_text], in the request's record; NULL: value has it */
    size_t n_text;    /* set in both cases */
    json_t *value;    /* borrowed from values; NULL: text was not parsed yet, or is_bad */
    bool is_bad;      /* text is no JSON */
} hth_api_past_item;

/* The earlier items that an input may name. They are indexed when the first one is looked for. Zeroed at first. */
typedef struct hth_api_past_index {
    hth_api_past_item *items; /* [n], in the order of ids */
    size_t n;
    json_t *values; /* the parsed values, owned */
    bool is_read;
} hth_api_past_index;

/* The item with this id, a new reference; NULL: there is none, or, with the error, no room for it. */
json_t *hth_api_past_find(hth_api_parse *parse, hth_api_past_index *index, const char *id);
void hth_api_past_index_deinit(hth_api_past_index *index);

/* Read tools, tool_choice and parallel_tool_calls. */
void hth_api_parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses);
/* The name of a tool for the model: the namespace and the name as one. */
const char *hth_api_responses_offered(hth_api_parse *parse, const char *name_space, const char *name);

#endif
