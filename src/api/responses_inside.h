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

/* An item of an earlier response, as text or as a value. */
typedef struct hth_api_past_item {
    const char *id; /* [n_id] */
    size_t n_id;
    size_t at;        /* which one it is, of all */
    const char *text; /* [n_text], the request's; NULL: value has it */
    size_t n_text;    /* in either case */
    json_t *value;    /* borrowed of values; NULL: text was not read yet, or is_bad */
    bool is_bad;      /* text cannot be read */
} hth_api_past_item;

/* The items that may be named only, which are read when the first one is looked for. Zeroed at first. */
typedef struct hth_api_past_index {
    hth_api_past_item *items; /* [n], in the order of ids */
    size_t n;
    json_t *values; /* what was read, owned */
    bool is_read;
} hth_api_past_index;

/* The item that is only named, a new reference; NULL: there is none, or, with the error, no room for it. */
json_t *hth_api_past_find(hth_api_parse *parse, hth_api_past_index *index, const char *id);
void hth_api_past_index_deinit(hth_api_past_index *index);

/* tools, tool_choice, parallel_tool_calls. */
void hth_api_parse_responses_tools(hth_api_parse *parse, hth_api_responses *responses);
/* What the model knows a tool by: the namespace and the name as one. */
const char *hth_api_responses_offered(hth_api_parse *parse, const char *name_space, const char *name);

#endif
