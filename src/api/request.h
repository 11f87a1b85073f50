/*
 * request.h - a client's request, whatever its API
 *
 * The parser of the API makes it from a JSON body and checks every field (request_parse.h). It does not know the model:
 * prompts are text or a conversation, and prepare.c checks everything that depends on the model. A request owns its
 * memory: strings point into the parsed body, which the request keeps, and all other memory is in its arena.
 */
#ifndef HTH_API_REQUEST_H
#define HTH_API_REQUEST_H

#include <stdatomic.h>

#include "api/defaults.h"
#include "api/error.h"
#include "api/limits.h"
#include "api/notes.h"

typedef enum hth_api_kind {
    HTH_API_CHAT,         /* OpenAI's /v1/chat/completions */
    HTH_API_CHAT_TOKENS,  /* the number of tokens of a chat: /v1/chat/completions/input_tokens */
    HTH_API_COMPLETION,   /* OpenAI's /v1/completions */
    HTH_API_MESSAGES,     /* Anthropic's /v1/messages */
    HTH_API_COUNT_TOKENS, /* Anthropic's /v1/messages/count_tokens */
    HTH_API_NATIVE_COMPLETION,
    HTH_API_INFILL, /* becomes a NATIVE_COMPLETION when it is parsed */
    HTH_API_TOKENIZE,
    HTH_API_DETOKENIZE,
    HTH_API_APPLY_TEMPLATE,
    HTH_API_SLOT,             /* an action on a slot: /slots/N */
    HTH_API_RESPONSES,        /* OpenAI's /v1/responses */
    HTH_API_RESPONSES_TOKENS, /* OpenAI's /v1/responses/input_tokens */
    HTH_API_OLLAMA_CHAT,      /* Ollama's /api/chat */
    HTH_API_OLLAMA_GENERATE,  /* /api/generate */
    HTH_API_OLLAMA_SHOW,      /* /api/show */
    /* For embeddings and scores. */
    HTH_API_EMBEDDINGS,        /* OpenAI's /v1/embeddings */
    HTH_API_NATIVE_EMBEDDING,  /* llama.cpp's /embedding */
    HTH_API_RERANK,            /* /v1/rerank */
    HTH_API_OLLAMA_EMBED,      /* /api/embed */
    HTH_API_OLLAMA_EMBEDDINGS, /* /api/embeddings */
} hth_api_kind;
enum { HTH_API_KINDS = HTH_API_OLLAMA_EMBEDDINGS + 1 };

/* The API of a kind of request. */
hth_api_dialect hth_api_kind_dialect(hth_api_kind kind);

/* A piece of a prompt: text, or tokens. */
typedef struct hth_api_piece {
    const char *text; /* NULL: tokens */
    const hearth_token *tokens;
    size_t n_tokens;
    bool is_plain;                  /* names of control tokens in the text are plain text */
    const hearth_chat_prompt *chat; /* the rendered conversation that the text comes from; NULL: none */
} hth_api_piece;

/* The parts of the prompt of /infill (infill.c). */
typedef struct hth_api_infill_file {
    const char *name;
    const char *text;
} hth_api_infill_file;

typedef struct hth_api_infill {
    const char *prefix;
    const char *suffix;
    const char *prompt;         /* the beginning of the gap */
    hth_api_infill_file *files; /* [n_files] */
    size_t n_files;
} hth_api_infill;

/* One prompt of a completion, made of consecutive pieces. */
typedef struct hth_api_text_prompt {
    const hth_api_piece *pieces;
    size_t n_pieces;
} hth_api_text_prompt;

/* What Anthropic's "context_management" removed from the history. Tokens are estimated at four bytes each. */
typedef struct hth_api_edits {
    bool is_asked; /* the reply reports it, even if nothing was removed */
    uint32_t cleared_tool_uses;
    uint32_t cleared_tool_tokens;
    uint32_t cleared_thinking_turns;
    uint32_t cleared_thinking_tokens;
} hth_api_edits;

/* A bias for every token of a text. */
typedef struct hth_api_text_bias {
    const char *text;
    float bias;
} hth_api_text_bias;

/* A block of the arena. */
typedef struct hth_api_memory {
    struct hth_api_memory *next;
    max_align_t bytes[];
} hth_api_memory;

/* A tool whose name is not safe in templates and grammars. */
typedef struct hth_api_renamed hth_api_renamed;
struct hth_api_renamed {
    const char *given;   /* the client's name */
    const char *offered; /* the model's */
    const hth_api_renamed *next;
};

/*
 * ---- the parts of a request that only /v1/responses has ----
 *
 * A client of this API has tools in namespaces, tools whose input is free text, and a conversation made of items. The
 * model receives one list of functions; the client receives each call under the tool's own name.
 */

/* A tool with both of its names. */
typedef struct hth_api_responses_tool {
    const char *offered;    /* the name for the model: letters, digits, '_' and '-' */
    const char *name;       /* the client's name within its namespace */
    const char *name_space; /* NULL: none */
    bool is_custom;         /* its input is a text; the model sees a function with the one argument "input" */
} hth_api_responses_tool;

typedef struct hth_api_responses {
    const hth_api_responses_tool *tools; /* [n_tools], including those that tool_choice excludes */
    size_t n_tools;
    bool has_summary;   /* reasoning appears as its summary; otherwise as itself */
    bool has_encrypted; /* reasoning also appears as encrypted_content, which clients return unread */
    bool wants_logprobs;
    bool in_background; /* the client does not wait for the end */
    bool is_kept;       /* store: clients may fetch the response again, or continue it */
} hth_api_responses;

/* The beginning of encrypted_content; the plain text of the reasoning follows. */
#define HTH_API_RESPONSES_REASONING "hearth:"

/* The argument of a tool whose input is a text. */
#define HTH_API_RESPONSES_INPUT "input"

/* The type of an input item that adds tools. */
#define HTH_API_RESPONSES_MORE_TOOLS "additional_tools"

/* The tool that is offered to the model under this name; NULL: none. */
const hth_api_responses_tool *hth_api_responses_tool_find(const hth_api_responses *responses, const char *offered);

/* ---- the request ---- */

/* The contents of a request for embeddings, except the model. The hth_api_request owns the memory and the texts. */
typedef struct hth_api_embed {
    hearth_embed_request options; /* on_done is unset; n_inputs may be 0 for Ollama */
    bool is_base64;               /* OpenAI: encoding_format */
    bool has_norm;                /* the client chose options.norm */
    bool is_compact;              /* rerank: the response is an array, as in text-embeddings-inference */
    bool wants_texts;             /* rerank: results include the documents */
    size_t top_n;                 /* rerank: maximum number of results; 0: all */
} hth_api_embed;

/* How an API writes replies (writer.h). */
typedef struct hth_api_writer hth_api_writer;

typedef struct hth_api_request {
    hth_api_kind kind;
    const hth_api_writer *writer; /* of its API; NULL: the reply is not written by a model */
    bool is_chat;                 /* the request has a conversation; otherwise it has prompts */
    const char *model;            /* NULL: the client named none */
    hearth_conversation conversation;
    /* [n_prompts]; for embeddings, one per input: only inputs that mix texts and tokens have pieces. */
    const hth_api_text_prompt *prompts;
    size_t n_prompts;
    const char *suffix;           /* the text after the gap that the reply fills; NULL: none */
    const hth_api_infill *infill; /* the prompt of /infill; NULL: none */
    hearth_request options; /* everything except prompt, sampling and callbacks; its pointers belong to the request */
    hearth_sampling sampling;
    bool stream;
    bool include_usage;       /* OpenAI: the last chunk of a stream has the usage */
    bool echo;                /* OpenAI's completions; the library's own echo implements it */
    bool calls_are_functions; /* OpenAI's older form: function_call instead of tool_calls */
    bool wants_tokens;        /* native: return_tokens */
    bool has_mirostat;        /* the client set mirostat itself */
    bool wants_timings;       /* timings_per_token, in streams of OpenAI's and llama.cpp's formats */
    bool is_raw;              /* the chat reply is the model's raw text, including reasoning and tool calls */
    bool wants_thinking;      /* Anthropic: reasoning is shown */
    bool is_verbose;          /* verbose: OpenAI's replies include llama.cpp's own form, too */
    bool wants_progress;      /* return_progress: a stream reports the progress of prefill */
    bool has_cache_control;
    /* The server of the request sets it when the history has just learned of its prompt: a kept one is out of date. */
    bool knows_more;
    bool is_load;                /* Ollama: the request only loads the model */
    bool is_unload;              /* Ollama: the request only unloads the model */
    bool wants_context;          /* Ollama: the end of the reply has the prompt and the reply as tokens */
    bool is_json;                /* the content must be JSON that follows sampling.json_schema, or any object */
    bool omits_probabilities;    /* native: completion_probabilities are not among response_fields */
    const hearth_token *context; /* [n_context], tokens before the conversation */
    size_t n_context;

    const char *const *prediction; /* [n_prediction], texts that the reply probably contains, in order */
    size_t n_prediction;

    const hth_api_text_bias *text_biases; /* [n_text_biases], in addition to those of sampling */
    size_t n_text_biases;
    json_t *response_fields; /* native: the members to include in the reply, an array of names; NULL: all */
    json_int_t slot;         /* id_slot, the slot that the client wants; -1: any */
    /* The server of the request sets it when the client is gone, so that no more text is tokenized. NULL: never set. */
    const atomic_bool *is_gone;

    const char *filename; /* the name of a slot's file, without a path; NULL: none */

    /* /tokenize and /detokenize */
    const char *text;
    const hearth_token *tokens;
    size_t n_tokens;
    bool add_special;
    bool parse_special;
    bool with_pieces;

    const hth_api_renamed *renamed;     /* tools that are offered under other names; NULL: none */
    const hth_api_responses *responses; /* of /v1/responses; NULL otherwise */
    const hth_api_embed *embed;         /* of embeddings and scores; NULL otherwise */

    hth_api_notes notes; /* about fields without effect */
    hth_api_edits edits;
    const char *normalized; /* the name of what normalize.c removed; NULL: nothing */

    json_t *items;          /* owned: all input items of a request to /v1/responses; strings point into them */
    json_t *body;           /* owned */
    hth_api_memory *memory; /* owned */
} hth_api_request;

/* Records of earlier responses that a request may name (response_record.h), one after another. */
typedef struct hth_api_past {
    const char *bytes;
    size_t n_bytes;
} hth_api_past;

void hth_api_request_free(hth_api_request *request); /* accepts NULL */
/* The client's name of a tool that a model calls by this name. Valid as long as both request and offered. */
const char *hth_api_given_name(const hth_api_request *request, const char *offered);

/* Limit of replies to one request: prompts times n. */
enum { HTH_API_REPLIES_MAX = 128 };

#endif
