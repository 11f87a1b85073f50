/*
 * request.h - what a client asked for, whatever API it came by
 *
 * A parser (openai_request.c, anthropic_request.c, native_request.c, ollama_request.c) turns a JSON body into this, having
 * checked every field. Nothing here has seen a model: prompts are text or a conversation, and what depends on the model is checked by
 * prepare.c. A request owns its memory: strings are borrowed from the parsed body, which it keeps, and everything else is
 * in its arena.
 */
#ifndef HTH_API_REQUEST_H
#define HTH_API_REQUEST_H

#include "api/defaults.h"
#include "api/error.h"
#include "api/notes.h"
#include "api/responses.h"

typedef enum hth_api_kind {
    HTH_API_CHAT,         /* OpenAI's /v1/chat/completions */
    HTH_API_CHAT_TOKENS,  /* how many a chat would have: /v1/chat/completions/input_tokens */
    HTH_API_COMPLETION,   /* OpenAI's /v1/completions */
    HTH_API_MESSAGES,     /* Anthropic's /v1/messages */
    HTH_API_COUNT_TOKENS, /* Anthropic's /v1/messages/count_tokens */
    HTH_API_NATIVE_COMPLETION,
    HTH_API_TOKENIZE,
    HTH_API_DETOKENIZE,
    HTH_API_APPLY_TEMPLATE,
    HTH_API_SLOT,             /* what is to become of a slot: /slots/N */
    HTH_API_RESPONSES,        /* OpenAI's /v1/responses */
    HTH_API_RESPONSES_TOKENS, /* OpenAI's /v1/responses/input_tokens */
    HTH_API_OLLAMA_CHAT,      /* Ollama's /api/chat */
    HTH_API_OLLAMA_GENERATE,  /* /api/generate */
    HTH_API_OLLAMA_SHOW,      /* /api/show */
} hth_api_kind;

/* Whose API that is. */
hth_api_dialect hth_api_kind_dialect(hth_api_kind kind);

typedef struct hth_api_limits {
    size_t body_bytes_max;
    size_t depth_max;
    size_t values_max;
    size_t messages_max;
    size_t schema_bytes_max; /* of a JSON schema, or a grammar, as text; more than 256 KiB the library refuses */
    bool refuses_unknown;    /* a field that is not known is an error; otherwise it is passed over with a note */
    bool normalizes;         /* what clients write for themselves is taken out of prompts (normalize.h) */
} hth_api_limits;

static inline hth_api_limits hth_api_limits_default(void)
{
    return (hth_api_limits){
        .body_bytes_max = (size_t)32 << 20,
        .depth_max = 64,
        .values_max = 1000000,
        .messages_max = 16384,
        .schema_bytes_max = (size_t)256 << 10,
        .normalizes = true,
    };
}

/* A piece of a prompt: text, or tokens. */
typedef struct hth_api_piece {
    const char *text; /* NULL: tokens */
    const hearth_token *tokens;
    size_t n_tokens;
} hth_api_piece;

/* One prompt of a completion: pieces that follow one another. */
typedef struct hth_api_text_prompt {
    const hth_api_piece *pieces;
    size_t n_pieces;
} hth_api_text_prompt;

/* What Anthropic's "context_management" took out of a history; tokens are four bytes each. */
typedef struct hth_api_edits {
    bool is_asked; /* the reply tells it, also where it is nothing */
    uint32_t cleared_tool_uses;
    uint32_t cleared_tool_tokens;
    uint32_t cleared_thinking_turns;
    uint32_t cleared_thinking_tokens;
} hth_api_edits;

enum { HTH_API_RULES_MAX = 8 };

/* A bias of every token that a text is made of. */
typedef struct hth_api_text_bias {
    const char *text;
    float bias;
} hth_api_text_bias;

typedef struct hth_api_memory hth_api_memory; /* a block of the arena */

typedef struct hth_api_request {
    hth_api_kind kind;
    const char *model; /* NULL: none was named */
    bool is_chat;      /* conversation counts, prompts otherwise */
    hearth_conversation conversation;
    const hth_api_text_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    const char *suffix;     /* the prompt is followed by this text, and the reply is to stand between; NULL: none */
    hearth_request options; /* everything but the prompt, sampling and callbacks; what it points to is the request's */
    hearth_sampling sampling;
    bool has_seed;
    bool stream;
    bool include_usage;       /* OpenAI: a last chunk with it */
    bool echo;                /* OpenAI's completions; the library's own echo serves it */
    bool calls_are_functions; /* OpenAI's older form: function_call instead of tool_calls */
    bool wants_tokens;        /* native: return_tokens */
    bool wants_timings;       /* native: timings_per_token */
    bool is_raw;              /* a chat's reply as the model writes it: neither reasoning nor calls are taken out */
    bool wants_thinking;      /* Anthropic: reasoning is shown */
    bool wants_progress;      /* return_progress: of a stream, how far the prompt was read is told */
    bool has_cache_control;
    bool is_load;                /* Ollama: it asks for nothing but that the model be loaded */
    bool is_unload;              /* or that it be no longer */
    bool wants_context;          /* Ollama: prompt and reply as tokens, at the reply's end */
    const hearth_token *context; /* [n_context], what came before the conversation */
    size_t n_context;
    bool is_json; /* the content is to be JSON by sampling.json_schema, "any object" where it says so */

    const hth_api_text_bias *text_biases; /* [n_text_biases], besides those of sampling */
    size_t n_text_biases;
    json_int_t slot; /* id_slot, the number that the client wants to find its tokens under; -1: any */

    const char *filename; /* of a slot's file, a plain name; NULL: none */

    /* /tokenize and /detokenize */
    const char *text;
    const hearth_token *tokens;
    size_t n_tokens;
    bool add_special;
    bool parse_special;
    bool with_pieces;

    const hth_api_responses *responses; /* of /v1/responses; NULL otherwise */

    hth_api_notes notes; /* of what was passed over */
    hth_api_edits edits;
    const char
        *normalized[HTH_API_RULES_MAX]; /* [n_normalized], the names of the rules (normalize.h) that found something */
    size_t n_normalized;

    json_t *items;          /* owned: of /v1/responses, all that the response answers; strings are borrowed from them */
    json_t *body;           /* owned */
    hth_api_memory *memory; /* owned */
} hth_api_request;

/* Records of earlier responses (response_record.h), one behind the other, that a request may name. */
typedef struct hth_api_past {
    const char *bytes;
    size_t n_bytes;
} hth_api_past;

/*
 * Parse a body. NULL, with error filled, when it is not what it should be. Release with hth_api_request_free. Any thread.
 */
hth_api_request *hth_api_request_parse(hth_api_kind kind, const char *body, size_t n_bytes,
                                       const hth_api_limits *limits, hth_api_error *error);
/* The same with what the request may go on from; past is read during the call. */
hth_api_request *hth_api_request_parse_past(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            hth_api_error *error);
/* The same where a server has defaults (NULL: none) of its own, which outlive the request. */
hth_api_request *hth_api_request_parse_with(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            const hth_api_defaults *defaults, hth_api_error *error);
void hth_api_request_free(hth_api_request *request); /* accepts NULL */

/*
 * repeat_last_n and dry_last_n of a request, until the context's size is known: all of it, as far as the library looks
 * back.
 */
#define HTH_API_WHOLE_CONTEXT UINT32_MAX
enum { HTH_API_LAST_N_MAX = 65536 };

/* Most biases of one request, those of a text's tokens each counted. */
enum { HTH_API_BIASES_MAX = 4096 };

/* Most replies to one request: prompts times n. */
enum { HTH_API_REPLIES_MAX = 128 };

#endif
