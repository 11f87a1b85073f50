/*
 * parse.h - functions that the parsers of requests share
 */
#ifndef HTH_API_PARSE_H
#define HTH_API_PARSE_H

#include "api/fields.h"
#include "api/request.h"
#include "sampling/numbers.h"

/* The state of a parser. */
typedef struct hth_api_parse {
    hth_api_request *request;
    const hth_api_limits *limits;
    const hth_api_defaults *defaults; /* NULL: none */
    hth_api_reasoning reasoning;      /* the choice of the defaults */
    hth_fields body;
    hth_api_error *error;
    const hth_api_past *past; /* NULL: none */
    size_t n_bytes;           /* of the body and of the earlier items that it names */
    hth_api_notes *notes;     /* the request's; NULL when unknown fields are refused */
} hth_api_parse;

enum {
    HTH_API_TEXT_BYTES_MAX = 32 << 20, /* of one text: as large as a whole body */
    HTH_API_NAME_BYTES_MAX = 256,
};
#define HTH_API_ANY_OBJECT "{\"type\":\"object\"}" /* the schema of any JSON object */

/* ---- the JSON object of a body ---- */

/*
 * Parse a body of n_bytes. Its size, nesting and number of values are measured before anything is allocated for it.
 * Strings of the result contain no NUL and no unpaired surrogate: each becomes U+FFFD, with a note in notes (may be
 * NULL). Integers that do not fit in 64 bits become real numbers. Returns a new object; NULL with error filled if the
 * body exceeds the limits or is not a JSON object.
 */
json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_notes *notes,
                           hth_api_error *error);

/*
 * Parse JSON that the parser refused, with the same repairs. flags are jansson's. Returns a new value; NULL if it is
 * still not JSON, which problem describes. If out of memory, problem does not change.
 */
json_t *hth_api_json_repaired(const char *text, size_t n_bytes, size_t flags, hth_api_notes *notes,
                              json_error_t *problem);

/* ---- memory and texts of the request ---- */

/*
 * Zeroed memory for n items of size bytes, which lives as long as the request. NULL, with the error filled, if out of
 * memory.
 */
void *hth_api_allocate(hth_api_parse *parse, size_t n, size_t size);
/* The same for structs of the library; sets struct_size, their first member. */
void *hth_api_allocate_structs(hth_api_parse *parse, size_t n, size_t size);
/* The JSON text of value as a string of the request. */
const char *hth_api_json_text(hth_api_parse *parse, const json_t *value);
/* The same for a schema; NULL, with the error filled, if it exceeds its limit. */
const char *hth_api_schema_text(hth_api_parse *parse, const char *path, const json_t *schema);
/*
 * Note the counts in a schema at path that exceed the limit of grammars. They are dropped when the schema is compiled.
 */
void hth_api_note_large_counts(hth_api_parse *parse, const char *path, const json_t *at);
/* a, between and b as one text. */
const char *hth_api_join(hth_api_parse *parse, const char *a, const char *between, const char *b);

/* Texts joined by newlines, in time linear in their total size, however many there are. All zeros: none yet. */
typedef struct hth_api_joined {
    const char *text; /* all texts; lives as long as the request; NULL: none */
    char *room;       /* [capacity]; NULL: a single text, not copied */
    size_t n, capacity;
} hth_api_joined;

/* If out of memory, the error is filled and *joined does not change. */
void hth_api_joined_add(hth_api_parse *parse, hth_api_joined *joined, const char *text);

/* Call before the fields are parsed: sets the options to the server's defaults. */
void hth_api_defaults_begin(hth_api_parse *parse);
/* Call after the fields were parsed without an error: adds the missing system message and template variables. */
void hth_api_defaults_end(hth_api_parse *parse);

/* Remove a changing line from the request's conversation, and record its name in the request (normalize.c). */
void hth_api_normalize(hth_api_parse *parse);

/* ---- fields of several endpoints ---- */

enum { HTH_API_SALT_BYTES_MAX = 256 };
/* session_id, parent_key, priority, cache_salt, return_progress, lora. */
/* "lora": [{"id": 0, "scale": 0.5}]; as in llama-server, an adapter that is not in the list is not applied. */
void hth_api_parse_adapters(hth_api_parse *parse);
#define HTH_API_EXTRA_FIELDS "session_id", "parent_key", "priority", "cache_salt", "return_progress", "lora"
void hth_api_parse_extras(hth_api_parse *parse);

/*
 * The name that the model sees for the tool with this name. It is the given name if that has 1 to 128 letters, digits,
 * '_' and '-'. Otherwise it is a name of that form, the same each time, which request->renamed records.
 */
const char *hth_api_offered_name(hth_api_parse *parse, const char *given);
/*
 * Replace the name of tool i, whose fields these are, by its offered name. Refuse a name that does not have 1 to 256
 * printable bytes, or that an earlier tool has.
 */
void hth_api_check_tool_name(hth_api_parse *parse, const hth_fields *fields, hearth_chat_tool *tools, size_t i);
/* Offer only the tool with that name; the model must call it. False if there is no such tool. */
bool hth_api_choose_tool(hth_api_parse *parse, const char *name);
/*
 * Set the parameters of a tool to a schema. The tool's name and description must already be set. An unusable schema
 * becomes text in the description, with a note.
 */
void hth_api_tool_schema(hth_api_parse *parse, hearth_chat_tool *tool, json_t *schema);
/* The first reference in a schema that does not resolve within it; NULL: none. */
const char *hth_api_lost_reference(json_t *schema);
/* Refuse a tool's schema that has such a reference. */
void hth_api_check_references(hth_api_parse *parse, const char *path, json_t *schema);
/* The role of a message, which must be in roles, a NULL-terminated list. NULL with the error filled if it is not. */
const char *hth_api_parse_role(const hth_fields *fields, const char *const *roles);
/*
 * Is the last message of a chat the beginning of the reply? It is if it is the assistant's, has text and calls no tool.
 */
bool hth_api_begins_reply(const hearth_chat_turn *last);
/*
 * For a chat: the content and the tool_calls of a message, and the tools of the body. is_question: the reply answers
 * this message.
 */
void hth_api_parse_content(hth_api_parse *parse, const hth_fields *fields, bool is_question, hearth_chat_turn *turn);
void hth_api_parse_calls(hth_api_parse *parse, const hth_fields *fields, hearth_chat_turn *turn);
void hth_api_parse_tools(hth_api_parse *parse);
/*
 * The parts of a message in the array field of that name: texts, and objects with a type. An object without a type has
 * usual_type (NULL: the type that its members imply). They become the parts of turn, or the reasoning of an assistant's
 * turn. The role of turn must be set. Returns how many of them are text.
 */
size_t hth_api_parse_parts(hth_api_parse *parse, const hth_fields *fields, const char *name, const char *usual_type,
                           hearth_chat_turn *turn);
#define HTH_API_UNREADABLE_PARTS "has nothing but parts that this server does not read; it reads text"
/* The text that replaces an unreadable part: "[image left out]". Adds a note about the part. */
const char *hth_api_replaced_part(hth_api_parse *parse, const hth_fields *part, const char *type);
/* Limit the reply to n tokens; below 0: no limit; 0: only read the prompt. */
void hth_api_set_length(hth_api_parse *parse, json_int_t n);
/* The fields for the amount of reasoning and for template variables, under the names that any server uses. */
#define HTH_API_THINKING_FIELDS                                                                      \
    "reasoning_effort", "enable_thinking", "think", "thinking", "reasoning", "chat_template_kwargs", \
        "reasoning_budget_tokens", "thinking_budget_tokens", "reasoning_budget", "thinking_budget",  \
        "thinking_token_budget", "reasoning_budget_message"
void hth_api_parse_thinking(hth_api_parse *parse);
/* Words for the amount of reasoning, from least to most; NULL-terminated. */
extern const char *const hth_api_efforts[];

/* Stop texts: one text or an array of texts. */
void hth_api_parse_stop(hth_api_parse *parse, const char *name);
/*
 * The fields of sampling, biases, grammars and llama.cpp's other fields, and the seed. A missing field leaves the
 * default of the request. The bounds are those of OpenAI, or else those of llama.cpp. A number without a name in
 * configurations is listed under the same name twice.
 */
#define HTH_API_NUMBER_NAMES(field, name, config, ...) name, sizeof(config) > 1 ? config : name,
#define HTH_API_SAMPLING_FIELDS                                                                                    \
    HTH_SAMPLING_NUMBERS_EACH(HTH_API_NUMBER_NAMES)                                                                \
    "dry_sequence_breakers", "samplers", "sampler_seq", "logit_bias", "grammar", "json_schema", "guided_json",     \
        "guided_grammar", "grammar_lazy", "grammar_triggers", "ignore_eos", "min_tokens", "cache_prompt",          \
        "t_max_predict_ms", "timings_per_token", "verbose", "id_slot", "post_sampling_probs", "speculative.n_max", \
        "speculative.n_min"
void hth_api_parse_sampling(hth_api_parse *parse, bool is_openai);
/* A JSON schema, as an object or as its text; NULL: absent, or an error. */
const char *hth_api_parse_schema(hth_api_parse *parse, const hth_fields *fields, const char *name);
/* The fields of OpenAI's endpoints that hth_api_parse_openai_common reads. */
#define HTH_API_OPENAI_FIELDS \
    HTH_API_EXTRA_FIELDS, HTH_API_SAMPLING_FIELDS, "model", "stream", "stream_options", "n", "seed", "stop"
/* Read stream, stream_options, n, temperature and so on, and the fields of this server. */
void hth_api_parse_openai_common(hth_api_parse *parse);
/* Read an array of token ids; name is its field. NULL with the error filled. */
const hearth_token *hth_api_parse_tokens(hth_api_parse *parse, const char *name, json_t *array);
/* Read "prompt": a text, tokens, or an array of these. mixed: an array that mixes texts and tokens is one prompt. */
void hth_api_parse_prompts(hth_api_parse *parse, bool mixed);
/* One of them: a text, tokens, or with mixed both; or llama.cpp's object with such a prompt_string. */
void hth_api_parse_prompt(hth_api_parse *parse, const char *name, json_t *value, bool mixed, hth_api_text_prompt *out);
/* Is it an array with both texts and tokens? */
bool hth_api_prompt_is_mixed(const json_t *value);
/* The prompt_string of llama.cpp's object; any other value is returned as it is. Media are an error. */
json_t *hth_api_prompt_value(hth_api_parse *parse, const char *name, json_t *value);
/* Make the text the only prompt. */
void hth_api_set_prompt(hth_api_parse *parse, const char *text);
/* Read the prompt of /infill (infill.c). */
void hth_api_parse_infill(hth_api_parse *parse);

#endif
