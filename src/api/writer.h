/*
 * writer.h - a reply as the writers of the APIs see it
 */
#ifndef HTH_API_WRITER_H
#define HTH_API_WRITER_H

#include "api/reply.h"
#include "api/told.h"

typedef struct hth_api_call {
    char id[96];
    char name[264];
    hth_buffer arguments;
} hth_api_call;

/* A piece of a reply, for APIs that have pieces (reply_items.c). */
typedef struct hth_api_item {
    hearth_chat_delta_kind kind; /* CONTENT, REASONING or CALL */
    size_t begin, end;           /* bytes of the content, or of the reasoning */
    size_t call;                 /* of CALL */
    size_t told_begin, told_end; /* its tokens, in choice->told */
} hth_api_item;

/* One reply to one prompt, up to now. */
typedef struct hth_api_choice {
    size_t index;
    hearth_chat_parser *parser; /* of a conversation; NULL: all text is content */
    hth_buffer content;
    hth_buffer reasoning;
    hth_api_call *calls; /* [n_calls] */
    size_t n_calls, calls_capacity;
    hth_api_told told;  /* tokens that are not written yet */
    hth_api_told drawn; /* all tokens, when the end of the reply lists them again */
    size_t n_text;      /* bytes of text so far */
    uint32_t n_tokens;
    uint32_t n_reasoning_tokens; /* of them, those before the answer */
    uint32_t n_prompt;           /* tokens of its prompt */
    uint32_t n_restored;         /* of the prompt's tokens, those that were cached, as progress reported them */
    bool is_answering;           /* content or a call has begun */
    bool has_begun;              /* the stream has begun */
    bool has_ended;
    int open_block;      /* Anthropic's stream: the kind of the open block, a hearth_chat_delta_kind, or -1 */
    size_t n_blocks;     /* Anthropic's blocks, and Ollama's calls, that were written */
    hth_api_item *items; /* [n_items], when the writer has items */
    size_t n_items, items_capacity;
    size_t n_told_taken; /* of told, those that belong to an item */
    /* The stream of items. */
    size_t n_opened; /* items whose beginning was written */
    bool has_open_item;
    size_t n_told_written; /* of told, those that were written; they stay in told */
    uint32_t n_events;
    /* Known at the end of the reply. */
    hearth_finish_reason finish;
    const char *stop_text; /* the client's stop text that ended the reply; NULL: none did */
    hearth_stats stats;    /* before the end, as reported with tokens */
    char *text;            /* native: all of the text */
} hth_api_choice;

/* The JSON of token i of choice->told, a new value. */
typedef json_t *(*hth_api_entry_fn)(hth_api_reply *reply, const hth_api_choice *choice, size_t i);

/* A list in a choice of a body, with one entry for each token. */
typedef struct hth_api_list {
    const char *begin;
    hth_api_entry_fn entry;
    const char *end;
} hth_api_list;

/*
 * How an API writes. None of these is called after a failure. Those that may be NULL then write nothing; choice_end,
 * choice_body and delta are there.
 */
struct hth_api_writer {
    bool has_items; /* it uses the items of a choice, and leaves tokens in told */
    /* Stream: the first token of a choice has come. Called once, or again without effect. */
    void (*begin)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /*
     * Stream: nothing was sent for a while. Writes a sign of life that readers ignore, also between two deltas; or
     * begins the stream, when clients wait for that, and sets choice->has_begun. NULL: a comment of server-sent events.
     */
    void (*idle)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /* Stream: the progress of reading the prompt; takes progress. NULL: the API has no such event. */
    void (*progress)(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out);
    /* Stream: a choice continues. calls[delta.call] exists. */
    void (*delta)(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out);
    void (*choice_end)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    void (*end)(hth_api_reply *reply, hth_buffer *out);
    /* Stream: an error after the beginning. NULL: an event with the error. */
    void (*fail)(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);
    /* Not streamed: a body is its beginning, its choices with commas between them, and its end. */
    void (*body_begin)(hth_api_reply *reply, hth_buffer *out);
    /* A choice up to its lists. Lists are left out when no log probabilities were asked for. */
    void (*choice_body)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    const hth_api_list *lists; /* [n_lists] */
    size_t n_lists;
    void (*choice_body_end)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    void (*body_end)(hth_api_reply *reply, hth_buffer *out);
};

/* The next part of a body to write. */
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
    hth_api_body_part part; /* the part that is written next */
    size_t choice;
    size_t list;
    size_t entry;
} hth_api_body;

struct hth_api_reply {
    hearth_model *hearth;
    const hth_api_request *request;
    const hth_api_prepared *prepared;
    const hth_api_writer *writer;
    char model[264];
    char id[48];
    json_int_t created_s;
    uint32_t slot;           /* the slot number of the request */
    hth_api_choice *choices; /* [n_choices] */
    size_t n_choices;
    size_t n_ended;
    bool has_written; /* a stream has begun */
    bool has_ended;
    size_t n_end_bytes; /* written by the end of all replies */
    hth_api_body body;
    int http_status;
    int failure; /* the HTTP status of the error that ended it; 0: none did */
};

/* A choice at its end in llama.cpp's own form, a new object. has_content: with the text, which streams have sent. */
json_t *hth_api_native_final(hth_api_reply *reply, hth_api_choice *choice, bool has_content);
/* Append the call that a delta begins; a call without an id gets one. False without memory. */
bool hth_api_call_add(const hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta);
/* The arguments of a call, a new object; NULL when they are no JSON object, as after a reply that was cut off. */
json_t *hth_api_call_arguments(const hth_api_call *call);
/* Append a delta, before remember() stores it: it begins an item, or extends the last one. False without memory. */
bool hth_api_items_note(hth_api_choice *choice, const hearth_chat_delta *delta);
/* Do choices of the body have lists? */
bool hth_api_has_lists(const hth_api_reply *reply);
/* Append an object without its closing brace and release the reference. object may be NULL: the buffer fails then. */
void hth_api_add_open_take(hth_buffer *out, json_t *object);

#endif
