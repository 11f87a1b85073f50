/*
 * reply_inside.h - what the writers of the APIs see of a reply
 */
#ifndef HTH_API_REPLY_INSIDE_H
#define HTH_API_REPLY_INSIDE_H

#include "api/reply.h"
#include "api/told.h"

typedef struct hth_api_call {
    char id[96];
    char name[264];
    hth_buffer arguments;
} hth_api_call;

/* A piece of what a reply says, where its API tells pieces (reply_items.c). */
typedef struct hth_api_item {
    hearth_chat_delta_kind kind; /* CONTENT, REASONING or CALL */
    size_t begin, end;           /* of the content, or of the reasoning */
    size_t call;                 /* of CALL */
    size_t told_begin, told_end; /* the tokens that it came with */
} hth_api_item;

/* One reply to one prompt, as far as it has come. */
typedef struct hth_api_choice {
    size_t index;
    hearth_chat_parser *parser; /* of a conversation; NULL: all is content */
    hth_buffer content;
    hth_buffer reasoning;
    hth_api_call *calls; /* [n_calls] */
    size_t n_calls;
    hth_api_told told;  /* of tokens, not yet written */
    hth_api_told drawn; /* all tokens, where they are told once more at the end */
    size_t n_text;      /* bytes of text that came */
    uint32_t n_tokens;
    uint32_t n_reasoning_tokens; /* of them, before the answer */
    uint32_t n_prompt;           /* tokens of its prompt */
    uint32_t n_restored;         /* of them, those that were cached, as progress told */
    bool is_answering;           /* content or a call has begun */
    bool has_begun;              /* the stream has told of it */
    bool has_ended;
    int open_block;      /* Anthropic's stream: a hearth_chat_delta_kind, or -1 */
    size_t n_blocks;     /* Ollama's: calls that were told */
    hth_api_item *items; /* [n_items], where the writer has them */
    size_t n_items;
    size_t n_told_taken; /* of told, those that belong to an item */
    /* The stream of items. */
    size_t n_opened; /* items that were told of */
    bool has_open_item;
    size_t n_told_written; /* of told, which are kept */
    uint32_t n_events;
    /* Known at its end. */
    hearth_finish_reason finish;
    const char *stop_text; /* which of the client's ended it; NULL: none */
    hearth_stats stats;    /* before that, as far as tokens brought them */
    char *text;            /* native: all of it, with its tokens */
} hth_api_choice;

/* A list in a choice of a body, with an entry for each token. */
typedef struct hth_api_list {
    const char *begin;
    json_t *(*entry)(hth_api_reply *reply, const hth_api_choice *choice, size_t i);
    const char *end;
} hth_api_list;

/* How an API writes. None of these is called after a failure. */
typedef struct hth_api_writer {
    bool has_items; /* it reads a choice's items, and leaves what is told of tokens where it is */
    /* Stream: the first token of a choice has come; once, or again without effect. NULL: nothing is told of that. */
    void (*begin)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /*
     * Stream: nothing has come for a while. Says something that means nothing to its reader, also between two deltas; or
     * begins, where readers wait for that: then choice->has_begun is set. NULL: a comment of server-sent events will do.
     */
    void (*idle)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /* Stream: so much of the prompt was read. progress is an object, taken over. NULL: there is no place for that. */
    void (*progress)(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out);
    /* Stream: a choice says something. calls[delta.call] exists. */
    void (*delta)(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out);
    void (*choice_end)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    void (*end)(hth_api_reply *reply, hth_buffer *out);
    /* Stream: something has gone wrong behind its beginning. NULL: an event with the error. */
    void (*fail)(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);
    /* Not streamed: the body is its beginning, its choices with commas between them, and its end. */
    void (*body_begin)(hth_api_reply *reply, hth_buffer *out);
    /* A choice up to its lists; they are left out where no log probabilities were asked for; and what follows them. */
    void (*choice_body)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    const hth_api_list *lists; /* [n_lists] */
    size_t n_lists;
    void (*choice_body_end)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    void (*body_end)(hth_api_reply *reply, hth_buffer *out);
} hth_api_writer;

/* How far the writing of a body has come. */
typedef enum hth_api_body_part {
    HTH_API_BODY_BEGIN,
    HTH_API_BODY_CHOICE,
    HTH_API_BODY_LIST,
    HTH_API_BODY_ENTRY,
    HTH_API_BODY_CHOICE_END,
    HTH_API_BODY_END,
    HTH_API_BODY_OVER,
} hth_api_body_part;

typedef struct hth_api_body {
    hth_api_body_part part; /* that is written next */
    size_t choice;
    size_t list;
    size_t entry;
} hth_api_body;

extern const hth_api_writer hth_api_write_chat;
extern const hth_api_writer hth_api_write_completion;
extern const hth_api_writer hth_api_write_messages;
extern const hth_api_writer hth_api_write_native;
extern const hth_api_writer hth_api_write_ollama;
extern const hth_api_writer hth_api_write_responses;

struct hth_api_reply {
    hearth_model *hearth;
    const hth_api_request *request;
    const hth_api_prepared *prepared;
    const hth_api_writer *writer;
    char model[264];
    char id[48];
    json_int_t created_s;
    uint32_t slot;           /* the number that the request has */
    hth_api_choice *choices; /* [n_choices] */
    size_t n_choices;
    size_t n_ended;
    bool has_written; /* of a stream: it has begun */
    bool has_ended;
    size_t n_end_bytes; /* that end_all wrote */
    hth_api_body body;
    int http_status;
    int failure; /* the status of the error that ended it; 0: none did */
};

/* A delta that is about to be remembered begins an item, or makes the last one longer. False without memory. */
bool hth_api_items_note(hth_api_choice *choice, const hearth_chat_delta *delta);
/* The text of a token, control tokens by name: a new JSON string. *is_whole: it consists of whole characters. */
json_t *hth_api_token_text(hth_api_reply *reply, hearth_token token, bool *is_whole);
/* A logarithm as JSON, which knows no infinity. */
json_t *hth_api_logprob(float logprob);
/* Does a choice of the body have lists? */
bool hth_api_has_lists(const hth_api_reply *reply);
/* Append an object without its closing brace, and give the reference back; NULL: no memory. */
void hth_api_add_open_take(hth_buffer *out, json_t *object);

#endif
