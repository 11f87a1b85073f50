/*
 * request_body.c - the JSON object of a request's body
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "base/json_bounds.h"
#include "base/utf8.h"

/* Is the body a JSON value other than an object or an array? */
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

/* Is the number an integer that does not fit in a signed 64-bit integer? */
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

/* The code of an escape "\u0000" at the beginning of the text, or 0. */
static unsigned escaped_code(const char *text, size_t n)
{
    const char *at;
    uint32_t code;

    if (n < 6 || text[0] != '\\' || text[1] != 'u')
        return 0;
    at = text + 2;
    return hth_hex_read(&at, text + n, 4, &code) == 4 ? code : 0;
}

static bool is_high_half(unsigned code)
{
    return code >= 0xd800 && code <= 0xdbff;
}

static bool is_low_half(unsigned code)
{
    return code >= 0xdc00 && code <= 0xdfff;
}

/*
 * Copy the escape at the beginning of the text. An unpaired surrogate becomes U+FFFD: it comes from truncated text,
 * stays in the history, and would fail each later turn. Returns the length of the escape.
 */
static size_t copy_escape(const char *text, size_t n, char *out, hth_api_notes *notes)
{
    static const char replacement[] = { '\\', 'u', 'F', 'F', 'F', 'D' };
    const unsigned code = escaped_code(text, n);

    if (is_high_half(code) && is_low_half(escaped_code(text + 6, n - 6))) {
        memcpy(out, text, 12);
        return 12;
    }
    if (is_high_half(code) || is_low_half(code)) {
        char note[sizeof("U+D800")];

        (void)snprintf(note, sizeof(note), "U+%04X", code); /* fits */
        hth_api_note(notes, note);
        memcpy(out, replacement, sizeof(replacement));
        return sizeof(replacement);
    }
    n = n < 2 ? n : 2;
    memcpy(out, text, n);
    return n;
}

/*
 * A copy of the JSON that the parser accepts. Each integer beyond 64 bits gets the suffix ".0" and so becomes a real
 * number: schemas contain such bounds. Unpaired surrogates are replaced. NULL if out of memory.
 */
static char *repair(const char *body, size_t n_bytes, hth_api_notes *notes, size_t *n_out)
{
    char *out = malloc(n_bytes + n_bytes / 8 + 1); /* an integer has at least 19 digits and gets two bytes */
    bool in_string = false;
    size_t n = 0;

    for (size_t i = 0; out && i < n_bytes;) {
        size_t begin = i;
        char c = body[i];
        bool is_number = !in_string && (c == '-' || (c >= '0' && c <= '9'));

        if (in_string && c == '\\') {
            const size_t n_escape = copy_escape(body + i, n_bytes - i, out + n, notes);

            i += n_escape;
            n += n_escape;
            continue;
        }
        in_string ^= c == '"';
        i++;
        while (is_number && i < n_bytes && body[i] && strchr("0123456789+-.eE", body[i]))
            i++;
        memcpy(out + n, body + begin, i - begin);
        n += i - begin;
        if (is_number && is_too_big(body + begin, i - begin)) {
            out[n++] = '.';
            out[n++] = '0';
        }
    }
    *n_out = n;
    return out;
}

/*
 * Text with a NUL comes, for example, from a file that a tool read, and would fail each later turn of its conversation.
 * Our strings end with NUL, so each NUL becomes U+FFFD. Returns a new string; NULL if out of memory.
 */
static json_t *without_nul(const json_t *text)
{
    static const char replacement[] = HTH_UTF8_REPLACEMENT;
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

static bool clean_texts(json_t *value, hth_api_notes *notes);

/* *clean is the value that must replace the member; NULL: the member may stay. False if out of memory. */
static bool clean_member(json_t *member, hth_api_notes *notes, json_t **clean)
{
    *clean = NULL;
    if (!json_is_string(member))
        return clean_texts(member, notes);
    if (strlen(json_string_value(member)) == json_string_length(member))
        return true;
    hth_api_note(notes, "U+0000");
    *clean = without_nul(member);
    return *clean != NULL;
}

/* Clean all texts in a value. Its nesting is within the limit. */
static bool clean_texts(json_t *value, hth_api_notes *notes)
{
    json_t *member, *clean;
    const char *name;
    size_t i;

    json_object_foreach(value, name, member)
    {
        if (!clean_member(member, notes, &clean) || (clean && json_object_set_new(value, name, clean) != 0))
            return false;
    }
    json_array_foreach(value, i, member)
    {
        if (!clean_member(member, notes, &clean) || (clean && json_array_set_new(value, i, clean) != 0))
            return false;
    }
    return true;
}

json_t *hth_api_json_repaired(const char *text, size_t n_bytes, size_t flags, hth_api_notes *notes,
                              json_error_t *problem)
{
    size_t n;
    char *repaired = repair(text, n_bytes, notes, &n);
    json_t *value = repaired ? json_loadb(repaired, n, flags | JSON_ALLOW_NUL, problem) : NULL;

    free(repaired);
    if (value && !clean_texts(value, notes)) {
        json_decref(value);
        value = NULL;
    }
    return value;
}

static json_t *load(const char *body, size_t n_bytes, hth_api_notes *notes, json_error_t *problem)
{
    json_t *value = json_loadb(body, n_bytes, JSON_REJECT_DUPLICATES, problem);

    return value ? value : hth_api_json_repaired(body, n_bytes, JSON_REJECT_DUPLICATES, notes, problem);
}

json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_notes *notes,
                           hth_api_error *error)
{
    hth_json_bounds bounds;
    json_error_t problem;
    json_t *value;

    if (n_bytes > limits->body_bytes_max) {
        hth_api_fail(error, HTH_API_TOO_LARGE, NULL, "the body is %zu bytes long; at most %llu are allowed", n_bytes,
                     (unsigned long long)limits->body_bytes_max);
        return NULL;
    }
    if (n_bytes >= 3 && memcmp(body, "\xEF\xBB\xBF", 3) == 0) { /* a byte order mark means nothing in UTF-8 */
        body += 3;
        n_bytes -= 3;
    }
    if (is_lone_value(body, n_bytes)) {
        hth_api_fail(error, HTH_API_INVALID_TYPE, NULL, "the body must be a JSON object");
        return NULL;
    }
    bounds = hth_json_measure(body, n_bytes);
    if (bounds.depth > limits->depth_max || bounds.n_values > limits->values_max) {
        hth_api_fail(
            error, HTH_API_INVALID_JSON, NULL,
            "the body's JSON is nested %zu deep and has about %zu values; at most depth %u and %zu values are allowed",
            bounds.depth, bounds.n_values, limits->depth_max, limits->values_max);
        return NULL;
    }
    value = load(body, n_bytes, notes, &problem);
    if (!value && json_error_code(&problem) == json_error_null_byte_in_key)
        hth_api_fail(error, HTH_API_INVALID_JSON, NULL,
                     "the body has the character \\u0000 in a name at line %d, column %d; take it out", problem.line,
                     problem.column);
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
