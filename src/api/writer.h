/*
 * writer.h - a reply, as seen by the writers of the APIs
 */
#ifndef HTH_API_WRITER_H
#define HTH_API_WRITER_H

#include "api/reply.h"

/*
 * ---- tokens and their log probabilities, from sampling until they are written ----
 *
 * They are kept as numbers: the JSON of the 64 likeliest tokens takes a hundred times the memory, and one request may
 * ask for them in a hundred replies.
 */

typedef struct hth_api_token {
    hearth_token id;
    uint32_t text_begin; /* bytes of text before it */
} hth_api_token;

/* All zeros: no tokens. */
typedef struct hth_api_tokens {
    hth_api_token *list;      /* [n] */
    hearth_logprob *logprobs; /* [n * n_each]: the token's own, then those of the likeliest tokens */
    size_t n;
    size_t n_each;            /* 0: no log probabilities */
    size_t capacity;          /* of tokens */
    size_t capacity_logprobs; /* of logprobs */
} hth_api_tokens;

void hth_api_tokens_deinit(hth_api_tokens *tokens); /* leaves all zeros */
/* Append a token. with_logprobs must be the same in all calls. False if out of memory. */
bool hth_api_tokens_add(hth_api_tokens *tokens, const hearth_token_event *event, size_t text_begin, bool with_logprobs);
/* The log probabilities of token i, [n_each]. */
const hearth_logprob *hth_api_tokens_logprobs(const hth_api_tokens *tokens, size_t i);
/* The ids of all tokens as an array. */
json_t *hth_api_tokens_ids(const hth_api_tokens *tokens);

/* ---- the reply ---- */

typedef struct hth_api_call {
    char id[96];
    char name[264];
    hth_buffer arguments;
} hth_api_call;

/* A piece of a reply, for APIs that have items (reply.c). */
typedef struct hth_api_item {
    hearth_chat_delta_kind kind;     /* CONTENT, REASONING or CALL */
    size_t begin, end;               /* bytes of the content, or of the reasoning */
    size_t call;                     /* of CALL */
    size_t tokens_begin, tokens_end; /* its tokens, in choice->pending */
} hth_api_item;

/* One reply to one prompt, as far as it has come. */
typedef struct hth_api_choice {
    size_t index;
    hearth_chat_parser *parser; /* of a conversation; NULL: all text is content */
    hth_buffer content;
    hth_buffer reasoning;
    hth_api_call *calls; /* [n_calls] */
    size_t n_calls, calls_capacity;
    hth_api_tokens pending; /* tokens that have not been written yet */
    hth_api_tokens drawn;   /* all tokens, if the end of the reply lists them again */
    size_t n_text;          /* bytes of text so far */
    uint32_t n_tokens;
    uint32_t n_reasoning_tokens; /* of those, the ones before the answer */
    uint32_t n_prompt;           /* tokens of its prompt */
    uint32_t n_restored;         /* cached tokens of the prompt, as reported by progress */
    bool is_answering;           /* content or a call has begun */
    bool has_begun;              /* the stream has begun */
    bool has_ended;
    int open_block;      /* Anthropic's stream: the kind of the open block, a hearth_chat_delta_kind, or -1 */
    size_t n_blocks;     /* written blocks (Anthropic) or calls (Ollama) */
    hth_api_item *items; /* [n_items], if the writer has items */
    size_t n_items, items_capacity;
    size_t n_pending_taken; /* pending tokens that belong to an item */
    /* The stream of items. */
    size_t n_opened; /* items whose beginning has been written */
    bool has_open_item;
    size_t n_pending_written; /* pending tokens that have been written; they stay in the list */
    uint32_t n_events;
    /* Known at the end of the reply. */
    hearth_finish_reason finish;
    const char *stop_text; /* the client's stop text that ended the reply; NULL: none */
    hearth_stats stats;    /* before the end, as reported with tokens */
    char *text;            /* native: all of the text */
} hth_api_choice;

/* The JSON of token i of choice->pending, a new value. */
typedef json_t *(*hth_api_entry_fn)(hth_api_reply *reply, const hth_api_choice *choice, size_t i);

/* A list in a choice of a body, with one entry for each token. */
typedef struct hth_api_list {
    const char *begin;
    hth_api_entry_fn entry;
    const char *end;
} hth_api_list;

/*
 * How an API writes. No function is called after a failure. A function that is NULL writes nothing; choice_end,
 * choice_body and delta are never NULL.
 */
struct hth_api_writer {
    bool has_items; /* it uses the items of a choice, and leaves written tokens in the list of pending ones */
    /* Stream: the first token of a choice has arrived. Further calls have no effect. */
    void (*begin)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /*
     * Stream: nothing was sent for a while. Writes a keep-alive that readers ignore, even between two deltas; or begins
     * the stream, if clients wait for that, and sets choice->has_begun. NULL: an SSE comment is written.
     */
    void (*idle)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    /* Stream: the progress of prefill; takes over progress. NULL: the API has no such event. */
    void (*progress)(hth_api_reply *reply, hth_api_choice *choice, json_t *progress, hth_buffer *out);
    /* Stream: a choice continues. calls[delta.call] exists. */
    void (*delta)(hth_api_reply *reply, hth_api_choice *choice, const hearth_chat_delta *delta, hth_buffer *out);
    void (*choice_end)(hth_api_reply *reply, hth_api_choice *choice, hth_buffer *out);
    void (*end)(hth_api_reply *reply, hth_buffer *out);
    /* Stream: an error after the beginning. NULL: an event with the error is written. */
    void (*fail)(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);
    /* Not streamed: a body is its beginning, its choices separated by commas, and its end. */
    void (*body_begin)(hth_api_reply *reply, hth_buffer *out);
    /* A choice up to its lists. Lists are left out if no log probabilities were requested. */
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
    hth_api_body_part part; /* the next part to write */
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
    int failure; /* the HTTP status of the error that ended it; 0: none */
};

/*
 * A choice at its end in llama.cpp's own form, a new object. has_content: include the text, which streams have already
 * sent.
 */
json_t *hth_api_native_final(hth_api_reply *reply, hth_api_choice *choice, bool has_content);
/* The arguments of a call, a new object; NULL if they are not a JSON object, for example in a truncated reply. */
json_t *hth_api_call_arguments(const hth_api_call *call);
/* Do choices of the body have lists? */
bool hth_api_has_lists(const hth_api_reply *reply);
/* Append an object without its closing brace and release the reference. A NULL object marks the buffer as failed. */
void hth_api_add_open_take(hth_buffer *out, json_t *object);

/* ---- tokens and their log probabilities as new JSON values; NULL if out of memory ---- */

/*
 * The text of a token; the name of a control token. *is_whole (may be NULL) is set if the text consists of whole
 * characters.
 */
json_t *hth_api_token_text(hth_api_reply *reply, hearth_token token, bool *is_whole);
/* The bytes of a token's text as an array of numbers; they may end inside a character. */
json_t *hth_api_token_bytes(hearth_model *model, hearth_token token);
/* A log probability; null if it is unknown. JSON has no infinity, so -9999 stands for it, as in OpenAI's API. */
json_t *hth_api_logprob(float logprob);
/*
 * {"token", "logprob", "bytes"}, as in both of OpenAI's APIs. no_bytes, which the function takes over, is used for a
 * token that is not whole characters.
 */
json_t *hth_api_text_logprob(hth_api_reply *reply, const hearth_logprob *from, json_t *no_bytes_take);

/* One token with its log probability, in the form of an API. */
typedef json_t *(*hth_api_logprob_fn)(hth_api_reply *reply, const hearth_logprob *from);
/* Token i of choice->pending, with the likeliest tokens at its position under the name top. */
json_t *hth_api_logprob_entry(hth_api_reply *reply, const hth_api_choice *choice, size_t i, hth_api_logprob_fn form,
                              const char *top);
/* The entries of tokens [begin, end) as an array. */
json_t *hth_api_logprob_entries(hth_api_reply *reply, const hth_api_choice *choice, size_t begin, size_t end,
                                hth_api_entry_fn entry);

/* ---- token counts and timings in the form of each API ---- */

/* OpenAI's usage, over all choices. These functions return new objects; NULL if out of memory. */
json_t *hth_api_usage_openai(const hth_api_reply *reply);
/* The same under the names of /v1/responses. */
json_t *hth_api_usage_responses(const hth_api_reply *reply);
/* Anthropic's usage: n_prompt tokens in the prompt, n_cached of them cached, n_output in the reply. */
json_t *hth_api_usage_anthropic(const hth_api_reply *reply, uint32_t n_prompt, uint32_t n_cached, uint32_t n_output);
/*
 * llama.cpp's timings of one choice, even before its end. Every member is a number, because typed clients expect that.
 */
json_t *hth_api_timings(const hearth_stats *stats);
/* What the cache knew about the prompt: hit, tier, miss, and left_at with left_text. */
json_t *hth_api_cache(const hearth_stats *stats);
/* Add both as the members `timings` and `cache`. */
void hth_api_put_timings(json_t *to, const hearth_stats *stats);
/* The same while the reply is written: `timings_per_token`. */
void hth_api_put_timings_so_far(json_t *to, const hth_api_choice *choice);

#endif
