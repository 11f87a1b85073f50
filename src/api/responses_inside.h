/*
 * responses_inside.h - what the parsers of /v1/responses share
 *
 *   responses_request.c  the body: what is asked for, and how
 *   responses_items.c    the input's items as turns of a conversation
 *   responses_past.c     what of earlier responses it goes on from
 *   responses_tools.c    the tools, and which may be called
 */
#ifndef HTH_API_RESPONSES_INSIDE_H
#define HTH_API_RESPONSES_INSIDE_H

#include "api/request_inside.h"
#include "api/responses.h"

enum {
    HTH_RESPONSES_TEXT_BYTES_MAX = 32 << 20, /* the body's */
    HTH_RESPONSES_NAME_BYTES_MAX = 256,
};

/* The conversation as it grows; there is memory for a turn an item. */
typedef struct hth_api_turns {
    hearth_chat_turn *turns;
    size_t n;
    bool is_open;             /* the last turn is an assistant's, and what it does next is part of it */
    hth_api_joined reasoning; /* of that turn */
} hth_api_turns;

/* A turn of one text. */
void hth_api_turns_add(hth_api_turns *turns, const char *role, const char *text);
/* The items of an array; name is its field's, for errors. */
void hth_api_parse_items(hth_api_parse *parse, const char *name, json_t *array, hth_api_turns *turns);

/* All items of the response that a request goes on from, its output behind its input; NULL with the error. */
json_t *hth_api_past_items(hth_api_parse *parse, const char *id);
/* The item that is only named; NULL: there is none. */
json_t *hth_api_past_item(hth_api_parse *parse, const char *id);

/* tools, tool_choice, parallel_tool_calls. */
void hth_api_parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses);
/* What the model knows a tool by: the namespace and the name as one. */
const char *hth_api_responses_offered(hth_api_parse *parse, const char *name_space, const char *name);

#endif
