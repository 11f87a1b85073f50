#include "api/fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/words.h"

bool hth_is_among(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

bool hth_fields_failed(const hth_fields *fields)
{
    return fields->error->kind != HTH_API_NO_ERROR;
}

const char *hth_fields_path(const hth_fields *fields, const char *name, char path[HTH_PATH_BYTES])
{
    (void)snprintf(path, HTH_PATH_BYTES, "%s%s", fields->path, name); /* truncates a client's name that is too long */
    hth_end_at_character(path, HTH_PATH_BYTES);
    return path;
}

/* ---- errors and notes ---- */

const char *hth_json_type_name(const json_t *value)
{
    if (!value)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a text";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    case JSON_NULL: return "null";
    }
    return "nothing";
}

void hth_fields_fail(const hth_fields *fields, hth_api_error_kind kind, const char *name, const char *format, ...)
{
    char path[HTH_PATH_BYTES], text[sizeof(fields->error->message)];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments); /* truncated if too long */
    va_end(arguments);
    (void)hth_fields_path(fields, name, path);
    hth_api_fail(fields->error, kind, path, "'%s' %s", path, text);
}

void hth_fields_wrong_type(const hth_fields *fields, const char *name, const char *wanted, const json_t *value)
{
    hth_fields_fail(fields, HTH_API_INVALID_TYPE, name, "is %s; it must be %s", hth_json_type_name(value), wanted);
}

void hth_fields_note(const hth_fields *fields, const char *name)
{
    char path[HTH_PATH_BYTES];

    hth_api_note(fields->notes, hth_fields_path(fields, name, path));
}

void hth_fields_pass_over(const hth_fields *fields, const char *name)
{
    if (hth_fields_has(fields, name))
        hth_fields_note(fields, name);
}

void hth_fields_pass_over_all(const hth_fields *fields, const char *const *names)
{
    for (; *names; names++)
        hth_fields_pass_over(fields, *names);
}

void hth_fields_rest(const hth_fields *fields, const char *const *known)
{
    const char *name;
    json_t *value;

    json_object_foreach(fields->object, name, value)
    {
        if (hth_fields_failed(fields))
            return;
        if (json_is_null(value) || hth_is_among(name, known))
            continue;
        if (fields->notes)
            hth_fields_note(fields, name);
        else
            hth_fields_fail(
                fields, HTH_API_UNKNOWN_FIELD, name,
                "is not a known field, and this server refuses unknown fields ('unknown_fields'); take it out");
    }
}

void hth_fields_unsupported(const hth_fields *fields, const char *const *names)
{
    for (; *names; names++)
        if (hth_fields_has(fields, *names))
            hth_fields_fail(fields, HTH_API_UNSUPPORTED, *names, "is not supported here; take it out");
}

/* ---- fields ---- */

json_t *hth_fields_any(const hth_fields *fields, const char *name)
{
    json_t *value = hth_fields_failed(fields) ? NULL : json_object_get(fields->object, name);

    return json_is_null(value) ? NULL : value;
}

bool hth_fields_has(const hth_fields *fields, const char *name)
{
    return hth_fields_any(fields, name) != NULL;
}

void hth_fields_require(const hth_fields *fields, const char *name)
{
    if (!hth_fields_failed(fields) && !hth_fields_has(fields, name))
        hth_fields_fail(fields, HTH_API_MISSING, name, "is missing");
}

void hth_fields_bool(const hth_fields *fields, const char *name, bool *out)
{
    json_t *value = hth_fields_any(fields, name);

    if (value && !json_is_boolean(value))
        hth_fields_wrong_type(fields, name, "true or false", value);
    else if (value && out)
        *out = json_is_true(value);
}

void hth_fields_number(const hth_fields *fields, const char *name, double low, double high, double *out)
{
    json_t *value = hth_fields_any(fields, name);
    double number = json_number_value(value); /* 0 if it is not a number */

    if (!value)
        return;
    if (!json_is_number(value))
        hth_fields_wrong_type(fields, name, "a number", value);
    else if (!(number >= low && number <= high))
        hth_fields_refuse(fields, name, "is %.9g; it must be %.9g to %.9g", number, low, high);
    else
        *out = number;
}

void hth_fields_float(const hth_fields *fields, const char *name, double low, double high, float *out)
{
    double number = (double)*out;

    hth_fields_number(fields, name, low, high, &number);
    *out = (float)number;
}

void hth_fields_integer(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, json_int_t *out)
{
    json_t *value = hth_fields_any(fields, name);
    double real = json_real_value(value); /* 0 if it is not a number */
    json_int_t number = json_integer_value(value);

    if (!value)
        return;
    /* A limit that is too large for its type means "as many as possible". */
    if (high >= INT32_MAX && json_number_value(value) > (double)high)
        number = high;
    else if (json_is_real(value) && floor(real) == real && fabs(real) <= 9e15)
        number = (json_int_t)real; /* some clients write 1.0 for 1 */
    else if (json_is_real(value) && floor(real) == real)
        hth_fields_refuse(fields, name, "is %.20g; it must be %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, real,
                          low, high);
    else if (!json_is_integer(value))
        hth_fields_wrong_type(fields, name, "an integer", value);
    if (number < low || number > high)
        hth_fields_refuse(fields, name,
                          "is %" JSON_INTEGER_FORMAT "; it must be %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
                          number, low, high);
    if (!hth_fields_failed(fields))
        *out = number;
}

void hth_fields_u32(const hth_fields *fields, const char *name, json_int_t low, json_int_t high, uint32_t *out)
{
    json_int_t number = (json_int_t)*out;

    hth_fields_integer(fields, name, low, high, &number);
    *out = (uint32_t)number;
}

void hth_fields_string(const hth_fields *fields, const char *name, size_t bytes_max, const char **out)
{
    json_t *value = hth_fields_any(fields, name);

    if (!value)
        return;
    if (!json_is_string(value))
        hth_fields_wrong_type(fields, name, "a text", value);
    else if (json_string_length(value) > bytes_max)
        hth_fields_refuse(fields, name, "is %zu bytes long; at most %zu are allowed", json_string_length(value),
                          bytes_max);
    else if (out)
        *out = json_string_value(value);
}

const char *hth_fields_required(const hth_fields *fields, const char *name, size_t bytes_max)
{
    const char *text = NULL;

    hth_fields_require(fields, name);
    hth_fields_string(fields, name, bytes_max, &text);
    return text;
}

void hth_fields_copy(const hth_fields *fields, const char *name, char *out, size_t capacity)
{
    const char *text = hth_fields_required(fields, name, capacity - 1);

    if (text)
        (void)snprintf(out, capacity, "%s", text); /* fits */
}

json_t *hth_fields_array(const hth_fields *fields, const char *name, size_t n_max)
{
    json_t *value = hth_fields_any(fields, name);

    if (value && !json_is_array(value))
        hth_fields_wrong_type(fields, name, "an array", value);
    else if (json_array_size(value) > n_max)
        hth_fields_refuse(fields, name, "has %zu elements; at most %zu are allowed", json_array_size(value), n_max);
    return hth_fields_failed(fields) ? NULL : value;
}

json_t *hth_fields_object(const hth_fields *fields, const char *name)
{
    json_t *value = hth_fields_any(fields, name);

    if (!value || json_is_object(value))
        return value;
    hth_fields_wrong_type(fields, name, "an object", value);
    return NULL;
}

int hth_fields_word(const hth_fields *fields, const char *name, const char *const *words)
{
    enum { WORD_BYTES_MAX = 256 };
    const char *word = NULL;
    char expected[256];

    hth_fields_string(fields, name, WORD_BYTES_MAX, &word);
    for (int i = 0; word && words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    if (!word)
        return -1;
    hth_words_list(words, expected, sizeof(expected));
    hth_fields_refuse(fields, name, "is '%.40s'; it must be %s", word, expected);
    return -1;
}

/* ---- objects inside ---- */

bool hth_fields_enter(const hth_fields *fields, const char *name, hth_fields *out)
{
    *out = (hth_fields){ .error = fields->error, .notes = fields->notes };
    (void)snprintf(out->path, sizeof(out->path), "%.100s%s.", fields->path, name); /* names are ours, and short */
    out->object = hth_fields_object(fields, name);
    return out->object;
}

bool hth_fields_enter_required(const hth_fields *fields, const char *name, hth_fields *out)
{
    hth_fields_require(fields, name);
    return hth_fields_enter(fields, name, out);
}

bool hth_fields_item(const hth_fields *fields, const char *name, const json_t *array, size_t i, hth_fields *out)
{
    char element[HTH_PATH_BYTES];

    *out = (hth_fields){ .object = json_array_get(array, i), .error = fields->error, .notes = fields->notes };
    (void)snprintf(element, sizeof(element), "%s[%zu]", name, i);                       /* names are ours, and short */
    (void)snprintf(out->path, sizeof(out->path), "%.80s%.40s.", fields->path, element); /* likewise */
    if (out->object && !json_is_object(out->object)) {
        hth_fields_wrong_type(fields, element, "an object", out->object);
        out->object = NULL;
    }
    return out->object && !hth_fields_failed(fields);
}
