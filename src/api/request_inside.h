/*
 * request_inside.h - what the parsers of requests share
 */
#ifndef HTH_API_REQUEST_INSIDE_H
#define HTH_API_REQUEST_INSIDE_H

#include "api/fields.h"
#include "api/request.h"

/* What a parser has at hand. */
typedef struct hth_api_parse {
    hth_api_request *request;
    const hth_api_limits *limits;
    const hth_api_defaults *defaults; /* NULL: none */
    hth_api_reasoning reasoning;      /* of the defaults */
    hth_fields body;
    hth_api_error *error;
    const hth_api_past *past; /* NULL: none */
    size_t n_bytes;           /* of the body, and of what it names that stands for its text */
    hth_api_notes *notes;     /* the request's; hth_fields has why it may be NULL */
} hth_api_parse;

/* Zeroed memory for n items of a size, which lives as long as the request. NULL, with the error filled, without memory. */
void *hth_api_allocate(hth_api_parse *parse, size_t n, size_t size);
/* The same for structs of the library, which begin with their size: that is set. */
void *hth_api_allocate_structs(hth_api_parse *parse, size_t n, size_t size);
/* A copy of JSON text of value, terminated. */
const char *hth_api_json_text(hth_api_parse *parse, const json_t *value);
/* The same of a schema, within its limit; NULL, with the error filled, beyond it. */
const char *hth_api_schema_text(hth_api_parse *parse, const char *path, const json_t *schema);
/* Note the counts of a schema at path that no grammar has room for: they are dropped where it is compiled. */
void hth_api_note_large_counts(hth_api_parse *parse, const char *path, const json_t *at);
/* a and b one after the other. */
const char *hth_api_join(hth_api_parse *parse, const char *a, const char *between, const char *b);

/* Texts joined by newlines as they come, at the cost of their bytes however many they are. Zeroed: none yet. */
typedef struct hth_api_joined {
    const char *text; /* all of them, as long as the request lives; NULL: none */
    char *room;       /* [capacity]; NULL: text is the only one, where it was */
    size_t n, capacity;
} hth_api_joined;

/* Without memory the error is filled, and *joined stays what it was. */
void hth_api_joined_add(hth_api_parse *parse, hth_api_joined *joined, const char *text);

/* One parser an API. */
void hth_api_parse_chat(hth_api_parse *parse); /* also of /apply-template */
void hth_api_parse_completion(hth_api_parse *parse);
void hth_api_parse_messages(hth_api_parse *parse); /* also of count_tokens */
void hth_api_parse_native(hth_api_parse *parse);
void hth_api_parse_tokenize(hth_api_parse *parse);
void hth_api_parse_detokenize(hth_api_parse *parse);
void hth_api_parse_slot(hth_api_parse *parse);
void hth_api_parse_ollama_chat(hth_api_parse *parse);
void hth_api_parse_ollama_generate(hth_api_parse *parse);
void hth_api_parse_ollama_show(hth_api_parse *parse);
void hth_api_parse_responses(hth_api_parse *parse); /* also of input_tokens */

/* ---- fields that several have ---- */

enum { HTH_API_SALT_BYTES_MAX = 256 };
/* session_id, parent_key, priority, cache_salt, return_progress. */
#define HTH_API_EXTRA_FIELDS "session_id", "parent_key", "priority", "cache_salt", "return_progress"
void hth_api_parse_extras(hth_api_parse *parse);

/* Refuse a tool's name that is none of at most n_max letters, digits, _ and -, or that one of the i tools before has. */
void hth_api_check_tool_name(hth_api_parse *parse, const char *path, const hearth_chat_tool *tools, size_t i,
                             size_t n_max);
/* Is it 1 to n_max letters, digits, underscores and hyphens? */
bool hth_api_is_name(const char *text, size_t n_max);
/* The schema of a tool whose name and description are known; one that cannot be used is told as text, with a note. */
void hth_api_tool_schema(hth_api_parse *parse, hearth_chat_tool *tool, json_t *schema);
/* The first reference in a schema to what is not in it; NULL: none. */
const char *hth_api_lost_reference(json_t *schema);
/* Refuse a schema of a tool with such a reference. */
void hth_api_check_references(hth_api_parse *parse, const char *path, json_t *schema);
/*
 * A message's role, which must be there and be one of roles; the list ends with NULL, and said is its text for the error.
 * NULL, with the error filled: it is none of them.
 */
const char *hth_api_parse_role(hth_api_parse *parse, const hth_fields *fields, const char *const *roles,
                               const char *said);
/* Does a chat's last message begin the reply? It does if it is the assistant's, says something and calls no tool. */
bool hth_api_begins_reply(const hearth_chat_turn *last);
/* Of a chat: a message's content and tool_calls, and the body's tools. is_question: it is what the reply is to answer. */
void hth_api_parse_content(hth_api_parse *parse, const hth_fields *fields, bool is_question, hearth_chat_turn *turn);
void hth_api_parse_calls(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn);
void hth_api_parse_tools(hth_api_parse *parse);
/* What stands in a history for a part that cannot be read: "[image left out]". The part is noted. */
const char *hth_api_replaced_part(hth_api_parse *parse, const char *path, const char *type);
/* At most n new tokens; below 0: as many as there is room for; 0: the prompt is read, and that is all. */
void hth_api_set_length(hth_api_parse *parse, json_int_t n);
/* How much to think, and the template's variables, in the names of all servers. */
#define HTH_API_THINKING_FIELDS \
    "reasoning_effort", "enable_thinking", "think", "thinking", "reasoning", "chat_template_kwargs"
void hth_api_parse_thinking(hth_api_parse *parse);
/* Is it a word for how much to think? */
bool hth_api_is_effort(const char *effort);

/* Texts that end the reply: one or, in an array, several. */
void hth_api_parse_stop(hth_api_parse *parse, const char *name);
/* seed; below 0, where that is allowed, and absent: none. */
void hth_api_parse_seed(hth_api_parse *parse, json_int_t low);
/* Fields that the four below read. */
#define HTH_API_SAMPLING_FIELDS                                                                                      \
    "temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "repeat_penalty", "repeat_last_n",  \
        "frequency_penalty", "presence_penalty", "dry_multiplier", "dry_base", "dry_allowed_length",                 \
        "dry_penalty_last_n", "dry_sequence_breakers", "xtc_probability", "xtc_threshold", "mirostat", "logit_bias", \
        "grammar", "json_schema", "guided_json", "guided_grammar", "grammar_lazy", "grammar_triggers", "ignore_eos", \
        "min_tokens", "cache_prompt", "t_max_predict_ms", "timings_per_token", "id_slot"
/* An object from token ids or texts to biases, or an array of pairs, as llama.cpp has both; limit is the largest. */
void hth_api_parse_logit_bias(hth_api_parse *parse, double limit);
/* temperature, top_k, penalties and so on, from the values that the request has. */
void hth_api_parse_chain(hth_api_parse *parse, double temperature_max);
/* A JSON schema, as an object or its text; NULL: none, or an error. */
const char *hth_api_parse_schema(hth_api_parse *parse, const hth_fields *fields, const char *name);
/* grammar and json_schema, with what belongs to them. */
void hth_api_parse_grammar(hth_api_parse *parse);
/* cache_prompt, ignore_eos and what else llama.cpp's clients say. */
void hth_api_parse_native_extras(hth_api_parse *parse);
/* Fields of OpenAI's two endpoints, which hth_api_parse_openai_common reads. */
#define HTH_API_OPENAI_FIELDS \
    HTH_API_EXTRA_FIELDS, HTH_API_SAMPLING_FIELDS, "model", "stream", "stream_options", "n", "seed", "stop"
/* Fields of OpenAI's two endpoints: model, stream, stream_options, n, temperature, ..., and ours. */
void hth_api_parse_openai_common(hth_api_parse *parse);
/* An array of token ids; NULL with the error filled. */
const hearth_token *hth_api_parse_tokens(hth_api_parse *parse, const char *path, json_t *array);
/*
 * Texts or tokens, in one of the forms of prompts: text; tokens; arrays of these. mixed: an array of texts and tokens
 * together is one prompt.
 */
void hth_api_parse_prompts(hth_api_parse *parse, bool mixed);

#endif
