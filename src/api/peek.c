#include "api/peek.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_cursor.h"
#include "base/status.h"

static bool read_word(hth_cursor *text, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(text->end - text->at) < n || memcmp(text->at, word, n) != 0)
        return false;
    text->at += n;
    return true;
}

static bool read_model(hth_cursor *text, hth_api_peeked *out)
{
    if (!hth_cursor_take(text, '"'))
        return hth_cursor_skip_value(text);
    out->has_model = hth_cursor_read_string(text, out->model, HTH_API_PEEK_MODEL_BYTES_MAX, &out->model_is_cut);
    if (!out->has_model)
        out->model[0] = '\0';
    else if (out->model_is_cut)
        hth_end_at_character(out->model, sizeof(out->model));
    return out->has_model;
}

static bool read_stream(hth_cursor *text, hth_api_peeked *out)
{
    out->stream = read_word(text, "true");
    out->has_stream = out->stream || read_word(text, "false");
    return out->has_stream || hth_cursor_skip_value(text);
}

/* ---- model and stream ---- */

typedef struct search {
    const char *model_key;
    bool met_model, met_stream;
    bool is_done; /* both were found and are JSON */
    hth_api_peeked *out;
} search;

static bool peek_member(hth_cursor *text, const char *key, void *user_data)
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
        return hth_cursor_skip_value(text);
    }
    s->is_done = is_good && s->met_model && s->met_stream;
    return is_good && !s->is_done;
}

bool hth_api_peek_as(const char *body, size_t n, const char *model_key, hth_api_peeked *out)
{
    search s = { .model_key = model_key, .out = out };

    *out = (hth_api_peeked){ .has_model = false };
    return hth_cursor_read_body(body, n, peek_member, &s) || s.is_done;
}

bool hth_api_peek(const char *body, size_t n, hth_api_peeked *out)
{
    return hth_api_peek_as(body, n, "model", out);
}

/* Read a string of at most an id's length; "" for any other value. */
static bool read_short(hth_cursor *text, char out[HTH_API_PEEK_ID_BYTES])
{
    bool is_cut;

    out[0] = '\0';
    if (!hth_cursor_take(text, '"'))
        return hth_cursor_skip_value(text);
    if (!hth_cursor_read_string(text, out, HTH_API_PEEK_ID_BYTES - 1, &is_cut))
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

static bool peek_keep_alive_member(hth_cursor *text, const char *key, void *user_data)
{
    keep_alive *out = user_data;
    const char *begin = text->at;
    char value[HTH_API_PEEK_ID_BYTES];
    size_t n;

    if (out->is_found || strcmp(key, "keep_alive") != 0 || text->at == text->end)
        return hth_cursor_skip_value(text);
    if (*begin == '"') {
        if (!read_short(text, value))
            return false;
    } else {
        if (!hth_cursor_skip_value(text))
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

    (void)hth_cursor_read_body(body, n, peek_keep_alive_member, &found); /* a value found before a fault counts */
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

static bool peek_item_member(hth_cursor *text, const char *key, void *user_data)
{
    peeked_item *item = user_data;

    item->n_members++;
    return strcmp(key, "type") == 0 ? read_short(text, item->type)
         : strcmp(key, "id") == 0   ? read_short(text, item->id)
                                    : hth_cursor_skip_value(text);
}

/* Read an item: does it name another one? */
static bool peek_item(hth_cursor *text, void *user_data)
{
    hth_api_peeked_past *out = user_data;
    peeked_item item = { .n_members = 0 };
    bool is_good = hth_cursor_take(text, '{') ? hth_cursor_read_members(text, peek_item_member, &item)
                                              : hth_cursor_skip_value(text);
    const char *first = strchr(item.id, '_'), *last = strrchr(item.id, '_');

    if (is_good && first != last && (strcmp(item.type, "item_reference") == 0 || item.n_members == 1))
        add_id(out, first + 1, (size_t)(last - first) - 1);
    return is_good;
}

static bool peek_past_member(hth_cursor *text, const char *key, void *out)
{
    char id[HTH_API_PEEK_ID_BYTES];

    if (strcmp(key, "input") == 0)
        return hth_cursor_take(text, '[') ? hth_cursor_read_elements(text, peek_item, out)
                                          : hth_cursor_skip_value(text);
    if (strcmp(key, "previous_response_id") != 0)
        return hth_cursor_skip_value(text);
    if (!read_short(text, id))
        return false;
    if (strncmp(id, "resp_", 5) == 0)
        add_id(out, id + 5, strlen(id + 5));
    return true;
}

bool hth_api_peek_past(const char *body, size_t n, hth_api_peeked_past *out)
{
    out->n = 0;
    return hth_cursor_read_body(body, n, peek_past_member, out);
}

/* ---- the beginning of the prompt ---- */

typedef struct beginning {
    hth_api_span *spans;
    size_t n;
} beginning;

static bool peek_role_member(hth_cursor *text, const char *key, void *user_data)
{
    return strcmp(key, "role") == 0 ? read_short(text, user_data) : hth_cursor_skip_value(text);
}

/* Skip a message. *end is set to its end if it is the first one of a user. */
static bool peek_message(hth_cursor *text, void *user_data)
{
    const char **end = (const char **)user_data;
    char role[HTH_API_PEEK_ID_BYTES] = "";

    if (!(hth_cursor_take(text, '{') ? hth_cursor_read_members(text, peek_role_member, role)
                                     : hth_cursor_skip_value(text)))
        return false;
    if (!*end && strcmp(role, "user") == 0)
        *end = text->at;
    return true;
}

static bool peek_beginning_member(hth_cursor *text, const char *key, void *user_data)
{
    beginning *out = user_data;
    const bool is_instruction = strcmp(key, "system") == 0 || strcmp(key, "instructions") == 0,
               is_prompt = strcmp(key, "messages") == 0 || strcmp(key, "input") == 0 || strcmp(key, "prompt") == 0;
    const char *begin = text->at, *end = NULL;

    if ((!is_instruction && !is_prompt) || out->n == HTH_API_PEEK_SPANS_MAX)
        return hth_cursor_skip_value(text);
    if (is_prompt && hth_cursor_take(text, '[')) {
        if (!hth_cursor_read_elements(text, peek_message, (void *)&end))
            return false;
    } else if (!hth_cursor_skip_value(text)) {
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

    (void)hth_cursor_read_body(body, n, peek_beginning_member, &out); /* parts before a fault count */
    return out.n;
}
