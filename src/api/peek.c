/*
 * A cursor moves over the members of the object. It skips every value that is not asked for: strings with memchr from
 * quote to quote, since they make up most of a long body; arrays and objects by counting brackets.
 */
#include "api/peek.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/utf8.h"

enum { KEY_BYTES_MAX = 24 }; /* longer than any key that is searched for */

typedef struct cursor {
    const char *at;
    const char *end;
} cursor;

static void skip_space(cursor *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\t' || *text->at == '\n' || *text->at == '\r'))
        text->at++;
}

/* The text without a byte order mark at its beginning. */
static cursor begin_text(const char *body, size_t n)
{
    bool has_mark = n >= 3 && memcmp(body, "\xEF\xBB\xBF", 3) == 0;

    return (cursor){ .at = body + (has_mark ? 3 : 0), .end = body + n };
}

static bool take(cursor *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* Move from after the opening quote to after the closing one. */
static bool skip_string(cursor *text)
{
    const char *begin = text->at;

    for (;;) {
        const char *quote = text->at < text->end ? memchr(text->at, '"', (size_t)(text->end - text->at)) : NULL;
        size_t n_escapes = 0;

        if (!quote)
            return false;
        text->at = quote + 1;
        while (quote - n_escapes > begin && *(quote - n_escapes - 1) == '\\')
            n_escapes++;
        if (n_escapes % 2 == 0)
            return true;
    }
}

/* Skip an array or an object, starting after its opening bracket. */
static bool skip_nested(cursor *text)
{
    size_t depth = 1;

    while (depth > 0 && text->at < text->end) {
        char c = *text->at++;

        if (c == '"' && !skip_string(text))
            return false;
        if (c == '[' || c == '{')
            depth++;
        else if (c == ']' || c == '}')
            depth--;
    }
    return depth == 0;
}

/* Can c be part of a number, true, false or null? */
static bool is_of_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' || c == '-' ||
           c == '.';
}

static bool skip_value(cursor *text)
{
    const char *begin = text->at;

    if (take(text, '"'))
        return skip_string(text);
    if (take(text, '{') || take(text, '['))
        return skip_nested(text);
    while (text->at < text->end && is_of_word(*text->at))
        text->at++;
    return text->at > begin;
}

/* Read the rest of an escape, starting after its backslash. */
static bool read_escape(cursor *text, uint32_t *out)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *name;
    int32_t character;

    if (text->at == text->end)
        return false;
    if (*text->at == 'u') {
        text->at++;
        character = hth_utf16_escape(&text->at, text->end);
        *out = (uint32_t)character;
        return character > 0; /* NUL is refused */
    }
    name = *text->at ? strchr(names, *text->at) : NULL;
    if (!name)
        return false;
    text->at++;
    *out = (uint32_t)meanings[name - names];
    return true;
}

/*
 * Decode a string into out, [n_max + 1], as far as it fits. text is after the opening quote and moves past the closing
 * one. *is_cut_out is set if the string did not fit.
 */
static bool read_string(cursor *text, char *out, size_t n_max, bool *is_cut_out)
{
    size_t n = 0;
    bool is_cut = false;

    while (text->at < text->end && *text->at != '"') {
        char bytes[4];
        size_t n_bytes = 1;
        uint32_t character;

        if ((unsigned char)*text->at < ' ')
            return false;
        if (take(text, '\\')) {
            if (!read_escape(text, &character))
                return false;
            n_bytes = hth_utf8_put(character, bytes);
        } else {
            bytes[0] = *text->at++;
        }
        is_cut = is_cut || n + n_bytes > n_max;
        if (is_cut)
            continue;
        memcpy(out + n, bytes, n_bytes);
        n += n_bytes;
    }
    out[n] = '\0';
    *is_cut_out = is_cut;
    return take(text, '"');
}

static bool read_word(cursor *text, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(text->end - text->at) < n || memcmp(text->at, word, n) != 0)
        return false;
    text->at += n;
    return true;
}

static bool read_model(cursor *text, hth_api_peeked *out)
{
    if (!take(text, '"'))
        return skip_value(text);
    out->has_model = read_string(text, out->model, HTH_API_PEEK_MODEL_BYTES_MAX, &out->model_is_cut);
    if (!out->has_model)
        out->model[0] = '\0';
    else if (out->model_is_cut)
        hth_end_at_character(out->model, sizeof(out->model));
    return out->has_model;
}

static bool read_stream(cursor *text, hth_api_peeked *out)
{
    out->stream = read_word(text, "true");
    out->has_stream = out->stream || read_word(text, "false");
    return out->has_stream || skip_value(text);
}

/* Read the name of a member ("" if it is too long) and the colon after it. */
static bool read_key(cursor *text, char key[KEY_BYTES_MAX + 1])
{
    bool is_cut;

    skip_space(text);
    if (!take(text, '"') || !read_string(text, key, KEY_BYTES_MAX, &is_cut))
        return false;
    if (is_cut)
        key[0] = '\0';
    skip_space(text);
    if (!take(text, ':'))
        return false;
    skip_space(text);
    return true;
}

/* Reads the value of a member, or skips it. False ends the search: the value is not JSON, or nothing more is wanted. */
typedef bool (*member_fn)(cursor *text, const char *key, void *out);

/* Read an object, starting after its opening brace. False if the search ended early. */
static bool read_members(cursor *text, member_fn read, void *out)
{
    char key[KEY_BYTES_MAX + 1];

    skip_space(text);
    if (take(text, '}'))
        return true;
    do {
        if (!read_key(text, key) || !read(text, key, out))
            return false;
        skip_space(text);
    } while (take(text, ','));
    return take(text, '}');
}

/* Reads an element, or skips it; false as in member_fn. */
typedef bool (*element_fn)(cursor *text, void *out);

/* Read an array, starting after its opening bracket. False if the search ended early. */
static bool read_elements(cursor *text, element_fn read, void *out)
{
    skip_space(text);
    if (take(text, ']'))
        return true;
    do {
        skip_space(text);
        if (!read(text, out))
            return false;
        skip_space(text);
    } while (take(text, ','));
    return take(text, ']');
}

static bool read_body(const char *body, size_t n, member_fn read, void *out)
{
    cursor text = begin_text(body, n);

    skip_space(&text);
    return take(&text, '{') && read_members(&text, read, out);
}

/* ---- model and stream ---- */

typedef struct search {
    const char *model_key;
    bool met_model, met_stream;
    bool is_done; /* both were found and are JSON */
    hth_api_peeked *out;
} search;

static bool peek_member(cursor *text, const char *key, void *user_data)
{
    search *s = user_data;
    bool is_good;

    if (!s->met_model && strcmp(key, s->model_key) == 0) {
        s->met_model = true;
        is_good = read_model(text, s->out);
    } else if (!s->met_stream && strcmp(key, "stream") == 0) {
        s->met_stream = true;
        is_good = read_stream(text, s->out);
    } else {
        return skip_value(text);
    }
    s->is_done = is_good && s->met_model && s->met_stream;
    return is_good && !s->is_done;
}

bool hth_api_peek_as(const char *body, size_t n, const char *model_key, hth_api_peeked *out)
{
    search s = { .model_key = model_key, .out = out };

    *out = (hth_api_peeked){ .has_model = false };
    return read_body(body, n, peek_member, &s) || s.is_done;
}

bool hth_api_peek(const char *body, size_t n, hth_api_peeked *out)
{
    return hth_api_peek_as(body, n, "model", out);
}

/* Read a string of at most an id's length; "" for any other value. */
static bool read_short(cursor *text, char out[HTH_API_PEEK_ID_BYTES])
{
    bool is_cut;

    out[0] = '\0';
    if (!take(text, '"'))
        return skip_value(text);
    if (!read_string(text, out, HTH_API_PEEK_ID_BYTES - 1, &is_cut))
        return false;
    if (is_cut)
        out[0] = '\0';
    return true;
}

/* ---- keep_alive ---- */

enum { NUMBER_BYTES_MAX = 32 };

static const struct {
    const char *name;
    double ms;
} units[] = {
    { "ns", 1e-6 }, { "us", 1e-3 }, { "\xc2\xb5s", 1e-3 }, { "\xce\xbcs", 1e-3 },
    { "ms", 1 },    { "s", 1e3 },   { "m", 6e4 },          { "h", 3.6e6 },
};

enum { N_UNITS = sizeof(units) / sizeof(units[0]) };

/* Milliseconds; a negative number of seconds means forever. */
static uint64_t keep_alive_of(double seconds)
{
    return seconds < 0 || seconds >= 1e12 ? UINT64_MAX : (uint64_t)ceil(seconds * 1e3);
}

/* Read digits with at most one point; *end is set past them. False if there are none, or too many. */
static bool read_number(const char *text, double *out, const char **end)
{
    const size_t n = strspn(text, "0123456789.");
    char number[NUMBER_BYTES_MAX + 1];
    char *stop;

    if (n == 0 || n > NUMBER_BYTES_MAX)
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    *out = strtod(number, &stop);
    *end = text + n;
    return *stop == '\0';
}

bool hth_api_keep_alive_read(const char *text, uint64_t *ms)
{
    const bool is_negative = *text == '-';
    double sum = 0, number;

    text += *text == '-' || *text == '+';
    if (!*text)
        return false;
    while (*text) {
        size_t i = 0;

        if (!read_number(text, &number, &text))
            return false;
        while (*text && i < N_UNITS && strncmp(text, units[i].name, strlen(units[i].name)) != 0)
            i++;
        if (i == N_UNITS)
            return false;
        sum += number * (*text ? units[i].ms : 1e3); /* a number without a unit is in seconds */
        text += *text ? strlen(units[i].name) : 0;
    }
    *ms = keep_alive_of((is_negative ? -sum : sum) / 1e3);
    return true;
}

typedef struct keep_alive {
    bool is_found;
    uint64_t ms;
} keep_alive;

/* A JSON number, "3e2". */
static bool read_seconds(const char *text, uint64_t *ms)
{
    char *end;
    const double seconds = strtod(text, &end);

    if (end == text || *end || !isfinite(seconds) || !strchr("-0123456789", *text))
        return false; /* strtod accepts more than JSON allows */
    *ms = keep_alive_of(seconds);
    return true;
}

static bool peek_keep_alive_member(cursor *text, const char *key, void *user_data)
{
    keep_alive *out = user_data;
    const char *begin = text->at;
    char value[HTH_API_PEEK_ID_BYTES];
    size_t n;

    if (out->is_found || strcmp(key, "keep_alive") != 0 || text->at == text->end)
        return skip_value(text);
    if (*begin == '"') {
        if (!read_short(text, value))
            return false;
    } else {
        if (!skip_value(text))
            return false;
        n = (size_t)(text->at - begin);
        if (n >= sizeof(value))
            return true;
        memcpy(value, begin, n);
        value[n] = '\0';
    }
    out->is_found = *begin == '"' ? hth_api_keep_alive_read(value, &out->ms) : read_seconds(value, &out->ms);
    return true;
}

bool hth_api_peek_keep_alive(const char *body, size_t n, uint64_t *ms)
{
    keep_alive found = { .is_found = false };

    (void)read_body(body, n, peek_keep_alive_member, &found); /* a value found before a fault counts */
    if (found.is_found)
        *ms = found.ms;
    return found.is_found;
}

/* ---- earlier responses ---- */

static void add_id(hth_api_peeked_past *out, const char *id, size_t n_id)
{
    char text[HTH_API_PEEK_ID_BYTES] = "resp_";

    if (n_id == 0 || n_id >= sizeof(text) - 5 || out->n == HTH_API_PEEK_PAST_MAX)
        return;
    memcpy(text + 5, id, n_id);
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->ids[i], text) == 0)
            return;
    memcpy(out->ids[out->n++], text, sizeof(text));
}

/* An item of the input. */
typedef struct peeked_item {
    char type[HTH_API_PEEK_ID_BYTES], id[HTH_API_PEEK_ID_BYTES];
    size_t n_members;
} peeked_item;

static bool peek_item_member(cursor *text, const char *key, void *user_data)
{
    peeked_item *item = user_data;

    item->n_members++;
    return strcmp(key, "type") == 0 ? read_short(text, item->type)
         : strcmp(key, "id") == 0   ? read_short(text, item->id)
                                    : skip_value(text);
}

/* Read an item: does it name another one? */
static bool peek_item(cursor *text, void *user_data)
{
    hth_api_peeked_past *out = user_data;
    peeked_item item = { .n_members = 0 };
    bool is_good = take(text, '{') ? read_members(text, peek_item_member, &item) : skip_value(text);
    const char *first = strchr(item.id, '_'), *last = strrchr(item.id, '_');

    if (is_good && first != last && (strcmp(item.type, "item_reference") == 0 || item.n_members == 1))
        add_id(out, first + 1, (size_t)(last - first) - 1);
    return is_good;
}

static bool peek_past_member(cursor *text, const char *key, void *out)
{
    char id[HTH_API_PEEK_ID_BYTES];

    if (strcmp(key, "input") == 0)
        return take(text, '[') ? read_elements(text, peek_item, out) : skip_value(text);
    if (strcmp(key, "previous_response_id") != 0)
        return skip_value(text);
    if (!read_short(text, id))
        return false;
    if (strncmp(id, "resp_", 5) == 0)
        add_id(out, id + 5, strlen(id + 5));
    return true;
}

bool hth_api_peek_past(const char *body, size_t n, hth_api_peeked_past *out)
{
    out->n = 0;
    return read_body(body, n, peek_past_member, out);
}

/* ---- the beginning of the prompt ---- */

typedef struct beginning {
    hth_api_span *spans;
    size_t n;
} beginning;

static bool peek_role_member(cursor *text, const char *key, void *user_data)
{
    return strcmp(key, "role") == 0 ? read_short(text, user_data) : skip_value(text);
}

/* Skip a message. *end is set to its end if it is the first one of a user. */
static bool peek_message(cursor *text, void *user_data)
{
    const char **end = (const char **)user_data;
    char role[HTH_API_PEEK_ID_BYTES] = "";

    if (!(take(text, '{') ? read_members(text, peek_role_member, role) : skip_value(text)))
        return false;
    if (!*end && strcmp(role, "user") == 0)
        *end = text->at;
    return true;
}

static bool peek_beginning_member(cursor *text, const char *key, void *user_data)
{
    beginning *out = user_data;
    const bool is_instruction = strcmp(key, "system") == 0 || strcmp(key, "instructions") == 0,
               is_prompt = strcmp(key, "messages") == 0 || strcmp(key, "input") == 0 || strcmp(key, "prompt") == 0;
    const char *begin = text->at, *end = NULL;

    if ((!is_instruction && !is_prompt) || out->n == HTH_API_PEEK_SPANS_MAX)
        return skip_value(text);
    if (is_prompt && take(text, '[')) {
        if (!read_elements(text, peek_message, (void *)&end))
            return false;
    } else if (!skip_value(text)) {
        return false;
    }
    if (!end)
        end = is_prompt && text->at - begin > HTH_API_PEEK_PROMPT_BYTES ? begin + HTH_API_PEEK_PROMPT_BYTES : text->at;
    out->spans[out->n++] = (hth_api_span){ .at = begin, .n = (size_t)(end - begin) };
    return true;
}

size_t hth_api_peek_beginning(const char *body, size_t n, hth_api_span spans[HTH_API_PEEK_SPANS_MAX])
{
    beginning out = { .spans = spans };

    (void)read_body(body, n, peek_beginning_member, &out); /* parts before a fault count */
    return out.n;
}
