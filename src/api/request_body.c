/*
 * request_body.c - see request_body.h
 */
#include "api/request_body.h"

#include <stdlib.h>
#include <string.h>

#include "api/fields.h"
#include "base/json_bounds.h"

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

/* Is the number an integer that 64 bits with a sign cannot hold? */
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
 * A copy of the body with ".0" behind each integer that the parser cannot hold, so that it becomes a real number:
 * schemas have such bounds. NULL without memory.
 */
static char *widen_integers(const char *body, size_t n_bytes, size_t *n_out)
{
    char *wide = malloc(n_bytes + n_bytes / 8 + 1); /* each has at least 19 digits and gets two bytes */
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
 * A text with NUL comes, for example, from a file that a tool read, and would fail each later turn of its conversation.
 * Our strings end with NUL, so each NUL becomes U+FFFD. Returns a new text; NULL without memory.
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

/* *clean: the value that must replace the member; NULL: the member may stay. False without memory. */
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

/* Clean all texts in a value. Its nesting is within the limit. */
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

json_t *hth_api_body_parse(const char *body, size_t n_bytes, const hth_api_limits *limits, hth_api_error *error)
{
    hth_json_bounds bounds;
    json_error_t problem;
    json_t *value;

    if (n_bytes > limits->body_bytes_max) {
        hth_api_fail(error, HTH_API_TOO_LARGE, NULL, "the body is %zu bytes long; at most %zu are allowed", n_bytes,
                     limits->body_bytes_max);
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
            "the body's JSON is nested %zu deep and has about %zu values; at most depth %zu and %zu values are allowed",
            bounds.depth, bounds.n_values, limits->depth_max, limits->values_max);
        return NULL;
    }
    value = load(body, n_bytes, &problem);
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
