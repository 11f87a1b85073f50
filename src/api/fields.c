/*
 * fields.c - see fields.h
 */
#include "api/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

hth_fields hth_fields_inside(const hth_fields *body, json_t *object, const char *path)
{
    return (hth_fields){ .object = object, .path = path, .error = body->error, .notes = body->notes };
}

bool hth_fields_failed(const hth_fields *fields)
{
    return fields->error->kind != HTH_API_NO_ERROR;
}

const char *hth_fields_path(const hth_fields *fields, const char *name, char path[HTH_PATH_BYTES])
{
    (void)snprintf(path, HTH_PATH_BYTES, "%s%s", fields->path, name); /* cut where a client's name is too long */
    hth_end_at_character(path, HTH_PATH_BYTES);
    return path;
}

const char *hth_json_type_name(const json_t *value)
{
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

void hth_fail_type(hth_api_error *error, const char *path, const char *wanted, const json_t *value)
{
    hth_api_fail(error, HTH_API_INVALID_TYPE, path, "'%s' is %s; it must be %s", path, hth_json_type_name(value),
                 wanted);
}

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
    char path[HTH_PATH_BYTES];

    if (hth_fields_failed(fields) || hth_fields_has(fields, name))
        return;
    (void)hth_fields_path(fields, name, path);
    hth_api_fail(fields->error, HTH_API_MISSING, path, "'%s' is missing", path);
}

static void wrong_type(const hth_fields *fields, const char *name, const char *wanted, const json_t *value)
{
    char path[HTH_PATH_BYTES];

    hth_fail_type(fields->error, hth_fields_path(fields, name, path), wanted, value);
}

void hth_fields_bool(const hth_fields *fields, const char *name, bool *out)
{
    json_t *value = hth_fields_any(fields, name);

    if (value && !json_is_boolean(value))
        wrong_type(fields, name, "true or false", value);
    else if (value)
        *out = json_is_true(value);
}

void hth_fields_number(const hth_fields *fields, const char *name, double low, double high, double *out)
{
    json_t *value = hth_fields_any(fields, name);
    char path[HTH_PATH_BYTES];
    double number;

    if (!value)
        return;
    if (!json_is_number(value)) {
        wrong_type(fields, name, "a number", value);
        return;
    }
    number = json_number_value(value);
    if (!(number >= low && number <= high)) {
        (void)hth_fields_path(fields, name, path);
        hth_api_fail(fields->error, HTH_API_INVALID_VALUE, path, "'%s' is %.9g; it must be %.9g to %.9g", path, number,
                     low, high);
        return;
    }
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
    char path[HTH_PATH_BYTES];
    json_int_t number;

    if (!value)
        return;
    /* 1.0 is what some clients make of 1. */
    if (json_is_real(value) && json_real_value(value) >= -9e15 && json_real_value(value) <= 9e15 &&
        json_real_value(value) == (double)(json_int_t)json_real_value(value)) {
        number = (json_int_t)json_real_value(value);
    } else if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else {
        double real = json_real_value(value); /* 0 of what is none */

        if (json_is_real(value) && floor(real) == real) {
            (void)hth_fields_path(fields, name, path);
            hth_api_fail(fields->error, HTH_API_INVALID_VALUE, path,
                         "'%s' is %.20g; it must be %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT, path, real, low,
                         high);
            return;
        }
        wrong_type(fields, name, "an integer", value);
        return;
    }
    if (number < low || number > high) {
        (void)hth_fields_path(fields, name, path);
        hth_api_fail(fields->error, HTH_API_INVALID_VALUE, path,
                     "'%s' is %" JSON_INTEGER_FORMAT "; it must be %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT,
                     path, number, low, high);
        return;
    }
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
    char path[HTH_PATH_BYTES];

    if (!value)
        return;
    if (!json_is_string(value)) {
        wrong_type(fields, name, "a text", value);
    } else if (json_string_length(value) > bytes_max) {
        (void)hth_fields_path(fields, name, path);
        hth_api_fail(fields->error, HTH_API_INVALID_VALUE, path, "'%s' is %zu bytes long; at most %zu are allowed",
                     path, json_string_length(value), bytes_max);
    } else {
        *out = json_string_value(value);
    }
}

json_t *hth_fields_array(const hth_fields *fields, const char *name, size_t n_max)
{
    json_t *value = hth_fields_any(fields, name);
    char path[HTH_PATH_BYTES];

    if (value && !json_is_array(value)) {
        wrong_type(fields, name, "an array", value);
        return NULL;
    }
    if (value && json_array_size(value) > n_max) {
        (void)hth_fields_path(fields, name, path);
        hth_api_fail(fields->error, HTH_API_INVALID_VALUE, path, "'%s' has %zu elements; at most %zu are allowed", path,
                     json_array_size(value), n_max);
        return NULL;
    }
    return value;
}

json_t *hth_fields_object(const hth_fields *fields, const char *name)
{
    json_t *value = hth_fields_any(fields, name);

    if (value && !json_is_object(value)) {
        wrong_type(fields, name, "an object", value);
        return NULL;
    }
    return value;
}

bool hth_fields_item(const hth_fields *body, const char *name, const json_t *array, size_t i, char path[HTH_PATH_BYTES],
                     hth_fields *out)
{
    *out = hth_fields_inside(body, json_array_get(array, i), path);
    (void)snprintf(path, HTH_PATH_BYTES, "%s[%zu].", name, i); /* names are ours, and short */
    if (json_is_object(out->object))
        return true;
    path[strlen(path) - 1] = '\0'; /* of the element itself */
    hth_fail_type(out->error, path, "an object", out->object);
    return false;
}

static bool is_among(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

void hth_fields_rest(const hth_fields *fields, const char *const *known)
{
    char path[HTH_PATH_BYTES];
    const char *name;
    json_t *value;

    json_object_foreach(fields->object, name, value)
    {
        if (hth_fields_failed(fields))
            return;
        if (json_is_null(value) || is_among(name, known))
            continue;
        (void)hth_fields_path(fields, name, path);
        if (fields->notes)
            hth_api_note(fields->notes, path);
        else
            hth_api_fail(fields->error, HTH_API_UNKNOWN_FIELD, path,
                         "'%s' is not a known field, and this server refuses such ('unknown_fields'); take it out",
                         path);
    }
}

void hth_fields_pass_over(const hth_fields *fields, const char *name)
{
    char path[HTH_PATH_BYTES];

    if (hth_fields_has(fields, name))
        hth_api_note(fields->notes, hth_fields_path(fields, name, path));
}

void hth_fields_unsupported(const hth_fields *fields, const char *const *names)
{
    char path[HTH_PATH_BYTES];

    for (; *names; names++)
        if (hth_fields_has(fields, *names)) {
            (void)hth_fields_path(fields, *names, path);
            hth_api_fail(fields->error, HTH_API_UNSUPPORTED, path, "'%s' is not supported here; take it out", path);
        }
}
