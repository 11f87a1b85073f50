/*
 * request.c - from a body to the parser of its API
 *
 * Size, nesting and number of values are measured before anything is parsed.
 */
#include "api/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/normalize.h"
#include "api/request_defaults.h"
#include "api/request_inside.h"
#include "base/json_bounds.h"
#include "engine/gbnf.h"

struct hth_api_memory {
    hth_api_memory *next;
    max_align_t bytes[];
};

hth_api_dialect hth_api_kind_dialect(hth_api_kind kind)
{
    switch (kind) {
    case HTH_API_CHAT:
    case HTH_API_CHAT_TOKENS:
    case HTH_API_COMPLETION: return HTH_API_OPENAI;
    case HTH_API_MESSAGES:
    case HTH_API_COUNT_TOKENS: return HTH_API_ANTHROPIC;
    case HTH_API_OLLAMA_CHAT:
    case HTH_API_OLLAMA_GENERATE:
    case HTH_API_OLLAMA_SHOW: return HTH_API_OLLAMA;
    case HTH_API_RESPONSES:
    case HTH_API_RESPONSES_TOKENS: return HTH_API_OPENAI_RESPONSES;
    case HTH_API_NATIVE_COMPLETION:
    case HTH_API_TOKENIZE:
    case HTH_API_DETOKENIZE:
    case HTH_API_SLOT:
    case HTH_API_APPLY_TEMPLATE: break;
    }
    return HTH_API_NATIVE;
}

/* Is the body a JSON value by itself, as null or a text? */
static bool is_lone_value(const char *body, size_t n_bytes)
{
    size_t i = 0;
    json_t *value;

    while (i < n_bytes && body[i] && strchr(" \t\r\n", body[i]))
        i++;
    if (i == n_bytes || body[i] == '{' || body[i] == '[')
        return false;
    value = json_loadb(body, n_bytes, JSON_DECODE_ANY, NULL);
    json_decref(value);
    return value != NULL;
}

void *hth_api_allocate(hth_api_parse *parse, size_t n, size_t size)
{
    hth_api_memory *memory = NULL;

    if (n <= (SIZE_MAX / 2 - sizeof(*memory)) / (size ? size : 1))
        memory = calloc(1, sizeof(*memory) + n * size + 1);
    if (!memory) {
        hth_api_fail(parse->error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return NULL;
    }
    memory->next = parse->request->memory;
    parse->request->memory = memory;
    return memory->bytes;
}

void *hth_api_allocate_structs(hth_api_parse *parse, size_t n, size_t size)
{
    char *structs = hth_api_allocate(parse, n, size);

    for (size_t i = 0; structs && i < n; i++)
        memcpy(structs + i * size, &size, sizeof(size));
    return structs;
}

const char *hth_api_json_text(hth_api_parse *parse, const json_t *value)
{
    size_t n = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    char *text = hth_api_allocate(parse, n + 1, 1);

    if (text)
        (void)json_dumpb(value, text, n, JSON_COMPACT | JSON_ENCODE_ANY); /* as long as before */
    return text;
}

void hth_api_note_large_counts(hth_api_parse *parse, const char *path, const json_t *at)
{
    static const char *const counts[] = { "minLength", "maxLength",     "minItems",
                                          "maxItems",  "minProperties", "maxProperties" };
    const char *key;
    json_t *value;
    size_t i;

    if (json_is_array(at)) {
        json_array_foreach((json_t *)at, i, value) hth_api_note_large_counts(parse, path, value);
        return;
    }
    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (json_number_value(json_object_get(at, counts[i])) > HTH_GBNF_REPETITIONS_MAX) {
            char note[HTH_API_NOTE_BYTES + 1];

            (void)snprintf(note, sizeof(note), "%.60s#%s", path, counts[i]);
            hth_api_note(parse->notes, note);
        }
    json_object_foreach((json_t *)at, key, value) hth_api_note_large_counts(parse, path, value);
}

const char *hth_api_schema_text(hth_api_parse *parse, const char *path, const json_t *schema)
{
    size_t n = json_dumpb(schema, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY), n_max = parse->limits->schema_bytes_max;

    if (n <= n_max) {
        hth_api_note_large_counts(parse, path, schema); /* as deep as a body may be */
        return hth_api_json_text(parse, schema);
    }
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path, "'%s' is %zu bytes long; at most %zu are read", path, n,
                 n_max);
    return NULL;
}

const char *hth_api_join(hth_api_parse *parse, const char *a, const char *between, const char *b)
{
    size_t capacity = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = hth_api_allocate(parse, capacity, 1);

    if (text)
        (void)snprintf(text, capacity, "%s%s%s", a, between, b); /* fits */
    return text;
}

void hth_api_joined_add(hth_api_parse *parse, hth_api_joined *joined, const char *text)
{
    size_t n_text = strlen(text), n = joined->n + 1 + n_text;

    if (!joined->text) {
        joined->text = text;
        joined->n = n_text;
        return;
    }
    if (n >= joined->capacity) { /* doubled, so that each byte is copied a few times at most */
        char *room = hth_api_allocate(parse, 2 * n, 1);

        if (!room)
            return;
        memcpy(room, joined->text, joined->n);
        joined->text = joined->room = room;
        joined->capacity = 2 * n;
    }
    joined->room[joined->n] = '\n';
    memcpy(joined->room + joined->n + 1, text, n_text + 1);
    joined->n = n;
}

void hth_api_request_free(hth_api_request *request)
{
    if (!request)
        return;
    while (request->memory) {
        hth_api_memory *memory = request->memory;

        request->memory = memory->next;
        free(memory);
    }
    json_decref(request->items);
    json_decref(request->body);
    free(request);
}

/* Is the number an integer beyond what 64 bits with a sign hold? */
static bool is_too_big(const char *number, size_t n)
{
    static const char most[2][20] = { "9223372036854775807", "9223372036854775808" };
    bool is_negative = number[0] == '-';

    number += is_negative;
    n -= is_negative;
    for (size_t i = 0; i < n; i++)
        if (number[i] < '0' || number[i] > '9')
            return false;
    return n > 19 || (n == 19 && memcmp(number, most[is_negative], 19) > 0);
}

/*
 * The body with ".0" behind each integer that the parser has no room for, so that it becomes a real number: bounds of
 * schemas are such. NULL without memory.
 */
static char *widen_integers(const char *body, size_t n_bytes, size_t *n_out)
{
    char *wide = malloc(n_bytes + n_bytes / 8 + 1); /* each has 19 digits and gets two bytes */
    bool in_string = false;
    size_t n = 0;

    for (size_t i = 0; wide && i < n_bytes;) {
        size_t begin = i;
        char c = body[i++];
        bool is_number = !in_string && (c == '-' || (c >= '0' && c <= '9'));

        if (c == '"')
            in_string = !in_string;
        else if (in_string)
            i += c == '\\' && i < n_bytes;
        while (is_number && i < n_bytes && body[i] && strchr("0123456789+-.eE", body[i]))
            i++;
        memcpy(wide + n, body + begin, i - begin);
        n += i - begin;
        if (is_number && is_too_big(body + begin, i - begin)) {
            wide[n++] = '.';
            wide[n++] = '0';
        }
    }
    *n_out = n;
    return wide;
}

/*
 * A text with NUL, which a tool read from a file, say, would fail each later turn of its conversation. Here texts end with
 * NUL, so it becomes U+FFFD. NULL without memory; otherwise a text of its own.
 */
static json_t *without_nul(const json_t *text)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    const char *from = json_string_value(text);
    size_t n = json_string_length(text), n_out = 0;
    char *out = malloc(n * (sizeof(replacement) - 1) + 1);
    json_t *clean;

    if (!out)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes = from[i] ? 1 : sizeof(replacement) - 1;

        memcpy(out + n_out, from[i] ? from + i : replacement, n_bytes);
        n_out += n_bytes;
    }
    clean = json_stringn(out, n_out);
    free(out);
    return clean;
}

static bool clean_texts(json_t *value);

/* *clean: what has to stand in the member's place; NULL: it may stay. False without memory. */
static bool clean_member(json_t *member, json_t **clean)
{
    *clean = NULL;
    if (!json_is_string(member))
        return clean_texts(member);
    if (strlen(json_string_value(member)) == json_string_length(member))
        return true;
    *clean = without_nul(member);
    return *clean != NULL;
}

/* The same of all texts in a value, which is nested no deeper than the limit. */
static bool clean_texts(json_t *value)
{
    json_t *member, *clean;
    const char *name;
    size_t i;

    json_object_foreach(value, name, member)
    {
        if (!clean_member(member, &clean) || (clean && json_object_set_new(value, name, clean) != 0))
            return false;
    }
    json_array_foreach(value, i, member)
    {
        if (!clean_member(member, &clean) || (clean && json_array_set_new(value, i, clean) != 0))
            return false;
    }
    return true;
}

static json_t *load_with_nul(const char *body, size_t n_bytes, json_error_t *problem)
{
    json_t *value = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, problem);

    if (value && !clean_texts(value)) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

static json_t *load(const char *body, size_t n_bytes, json_error_t *problem)
{
    json_t *value = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES, problem);
    char *wide;
    size_t n;

    if (!value && json_error_code(problem) == json_error_null_character)
        value = load_with_nul(body, n_bytes, problem);
    if (value || json_error_code(problem) != json_error_numeric_overflow)
        return value;
    wide = widen_integers(body, n_bytes, &n);
    if (wide)
        value = load_with_nul(wide, n, problem);
    free(wide);
    return value;
}

static json_t *parse_json(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_error *error)
{
    hth_json_bounds bounds;
    json_error_t problem;
    json_t *value;

    if (n_bytes > limits->body_bytes_max) {
        hth_api_fail(error, HTH_API_TOO_LARGE, NULL, "the body is %zu bytes long; at most %zu are read", n_bytes,
                     limits->body_bytes_max);
        return NULL;
    }
    if (n_bytes >= 3 && memcmp(body, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark, which says nothing in UTF-8 */
        body += 3;
        n_bytes -= 3;
    }
    if (is_lone_value(body, n_bytes)) {
        hth_api_fail(error, HTH_API_INVALID_TYPE, NULL, "the body must be a JSON object");
        return NULL;
    }
    bounds = hth_json_measure(body, n_bytes);
    if (bounds.depth > limits->depth_max || bounds.n_values > limits->values_max) {
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL,
                     "the body's JSON is nested %zu deep and has about %zu values; at most %zu and %zu are read",
                     bounds.depth, bounds.n_values, limits->depth_max, limits->values_max);
        return NULL;
    }
    value = load(body, n_bytes, &problem);
    if (!value && json_error_code(&problem) == json_error_null_byte_in_key)
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL,
                     "the body has the character \\u0000 in a name at line %d, column %d; no name may hold it",
                     problem.line, problem.column);
    else if (!value)
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL, "the body is not valid JSON: %s at line %d, column %d",
                     problem.text, problem.line, problem.column);
    else if (!json_is_object(value)) {
        hth_api_fail(error, HTH_API_INVALID_TYPE, NULL, "the body is %s; it must be an object",
                     hth_json_type_name(value));
        json_decref(value);
        value = NULL;
    }
    return value;
}

hth_api_request *hth_api_request_parse(hth_api_kind kind, const char *body, size_t n_bytes,
                                       const hth_api_limits *limits, hth_api_error *error)
{
    return hth_api_request_parse_with(kind, body, n_bytes, NULL, limits, NULL, error);
}

hth_api_request *hth_api_request_parse_past(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            hth_api_error *error)
{
    return hth_api_request_parse_with(kind, body, n_bytes, past, limits, NULL, error);
}

hth_api_request *hth_api_request_parse_with(hth_api_kind kind, const char *body, size_t n_bytes,
                                            const hth_api_past *past, const hth_api_limits *limits,
                                            const hth_api_defaults *defaults, hth_api_error *error)
{
    hth_api_limits usual = hth_api_limits_default();
    hth_api_parse parse = {
        .limits = limits ? limits : &usual, .defaults = defaults, .error = error, .past = past, .n_bytes = n_bytes
    };
    hth_api_request *request = calloc(1, sizeof(*request));

    *error = (hth_api_error){ .kind = HTH_API_NO_ERROR };
    if (!request) {
        hth_api_fail(error, HTH_API_OVERLOADED, NULL, "no memory for the request");
        return NULL;
    }
    request->kind = kind;
    request->options = hearth_request_default();
    request->sampling = hearth_sampling_default();
    request->conversation = hearth_conversation_default();
    request->slot = -1;
    if ((kind == HTH_API_OLLAMA_SHOW || kind == HTH_API_SLOT) && n_bytes == 0) { /* GET, and a slot to be erased */
        body = "{}";
        n_bytes = 2;
    }
    request->body = parse_json(body, n_bytes, parse.limits, error);
    if (request->body) {
        parse.request = request;
        parse.notes = parse.limits->refuses_unknown ? NULL : &request->notes;
        parse.body = (hth_fields){ .object = request->body, .path = "", .error = error, .notes = parse.notes };
        hth_api_defaults_begin(&parse);
        switch (kind) {
        case HTH_API_CHAT:
        case HTH_API_CHAT_TOKENS:
        case HTH_API_APPLY_TEMPLATE: hth_api_parse_chat(&parse); break;
        case HTH_API_COMPLETION: hth_api_parse_completion(&parse); break;
        case HTH_API_MESSAGES:
        case HTH_API_COUNT_TOKENS: hth_api_parse_messages(&parse); break;
        case HTH_API_NATIVE_COMPLETION: hth_api_parse_native(&parse); break;
        case HTH_API_TOKENIZE: hth_api_parse_tokenize(&parse); break;
        case HTH_API_DETOKENIZE: hth_api_parse_detokenize(&parse); break;
        case HTH_API_SLOT: hth_api_parse_slot(&parse); break;
        case HTH_API_OLLAMA_CHAT: hth_api_parse_ollama_chat(&parse); break;
        case HTH_API_OLLAMA_GENERATE: hth_api_parse_ollama_generate(&parse); break;
        case HTH_API_OLLAMA_SHOW: hth_api_parse_ollama_show(&parse); break;
        case HTH_API_RESPONSES:
        case HTH_API_RESPONSES_TOKENS: hth_api_parse_responses(&parse); break;
        }
        if (error->kind == HTH_API_NO_ERROR)
            hth_api_defaults_end(&parse);
        if (request->is_chat && parse.limits->normalizes)
            hth_api_normalize(&parse);
    }
    if (error->kind != HTH_API_NO_ERROR) {
        hth_api_request_free(request);
        return NULL;
    }
    return request;
}
