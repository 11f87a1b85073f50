/*
 * schema_request.c - JSON schemas in requests
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/parse.h"
#include "grammar/gbnf.h"

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
        hth_api_note_large_counts(parse, path, schema); /* no deeper than a body may be */
        return hth_api_json_text(parse, schema);
    }
    hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path, "'%s' is %zu bytes long; at most %zu are allowed", path, n,
                 n_max);
    return NULL;
}

const char *hth_api_parse_schema(hth_api_parse *parse, const hth_fields *fields, const char *name)
{
    json_t *schema = hth_fields_any(fields, name);
    char path[HTH_PATH_BYTES];
    const char *text = NULL;

    if (!schema)
        return NULL;
    (void)hth_fields_path(fields, name, path);
    if (json_is_object(schema))
        return hth_api_schema_text(parse, path, schema);
    if (json_is_string(schema)) { /* some clients send the schema as a string */
        json_t *inside = json_loads(json_string_value(schema), JSON_REJECT_DUPLICATES, NULL);

        text = json_is_object(inside) ? hth_api_schema_text(parse, path, inside) : NULL;
        json_decref(inside);
    }
    if (!text)
        hth_fields_wrong_type(fields, name, "an object", schema);
    return text;
}

/* ---- references ---- */

/* The value at "#/a/b" in a document, found as the engine does; NULL: none. */
static const json_t *referred(const json_t *root, const char *reference)
{
    const json_t *at = root;

    if (strncmp(reference++, "#/", 2) != 0)
        return NULL;
    while (at && *reference == '/') {
        size_t n = strcspn(++reference, "/");
        char name[256]; /* longer than any name in a schema */

        if (n >= sizeof(name))
            return NULL;
        memcpy(name, reference, n);
        name[n] = '\0';
        if (json_is_array(at) && n > 0 && n < 8 && strspn(reference, "0123456789") >= n)
            at = json_array_get(at, (size_t)strtoul(reference, NULL, 10));
        else
            at = json_object_get(at, name);
        reference += n;
    }
    return *reference ? NULL : at;
}

/* The first unresolvable reference in a value; NULL: none. Recursion is bounded, since bodies have limited nesting. */
static const char *lost_reference(const json_t *root, json_t *value)
{
    const char *lost = NULL, *name;
    json_t *member;
    size_t i;

    if (json_is_array(value)) {
        json_array_foreach(value, i, member)
        {
            lost = lost_reference(root, member);
            if (lost)
                return lost;
        }
        return NULL;
    }
    json_object_foreach(value, name, member)
    {
        if (hth_is_among(name, HTH_NAMES("const", "enum", "default", "examples")))
            continue; /* these have plain values and no schema */
        if (strcmp(name, "$ref") == 0 && json_is_string(member) && !referred(root, json_string_value(member)))
            lost = json_string_value(member);
        else
            lost = lost_reference(root, member);
        if (lost)
            return lost;
    }
    return NULL;
}

const char *hth_api_lost_reference(json_t *schema)
{
    return lost_reference(schema, schema);
}

void hth_api_check_references(hth_api_parse *parse, const char *path, json_t *schema)
{
    const char *lost = parse->error->kind == HTH_API_NO_ERROR ? hth_api_lost_reference(schema) : NULL;

    if (lost)
        hth_api_fail(parse->error, HTH_API_INVALID_VALUE, path,
                     "'%s' refers to '%.100s', which it does not contain; use references '#/...' into the same schema",
                     path, lost);
}
