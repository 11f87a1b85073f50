/*
 * schema_items.c - find the subschemas that must hold together: the given ones, and all that they refer to or imply
 *
 * The items of a goal are closed under "$ref", under "allOf", and under the anyOf that schema_not.c makes of oneOf,
 * not, if, dependencies and nullable. An item that requires nothing else is left out. Each subschema is taken once, so
 * circular references end. Then only the choice of one alternative from each anyOf is open.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

/* ---- keywords ---------------------------------------------------------------------------------------------------- */

typedef enum keyword_kind {
    UNKNOWN,
    ANNOTATION, /* requires nothing */
    APPLICATOR, /* adds other items, and requires nothing itself */
    ASSERTION,
    UNSUPPORTED,
} keyword_kind;

static keyword_kind kind_of(const char *key)
{
    static const struct {
        const char *key;
        keyword_kind kind;
    } known[] = {
        { "type", ASSERTION },
        { "properties", ASSERTION },
        { "required", ASSERTION },
        { "description", ANNOTATION },
        { "title", ANNOTATION },
        { "items", ASSERTION },
        { "enum", ASSERTION },
        { "const", ASSERTION },
        { "additionalProperties", ASSERTION },
        { "anyOf", ASSERTION },
        { "$ref", APPLICATOR },
        { "allOf", APPLICATOR },
        { "oneOf", APPLICATOR },
        { "not", APPLICATOR },
        { "if", APPLICATOR },
        { "then", APPLICATOR },
        { "else", APPLICATOR },
        { "dependencies", APPLICATOR },
        { "dependentRequired", APPLICATOR },
        { "dependentSchemas", APPLICATOR },
        { "default", ANNOTATION },
        { "examples", ANNOTATION },
        { "example", ANNOTATION },
        { "$schema", ANNOTATION },
        { "$comment", ANNOTATION },
        { "$defs", ANNOTATION },
        { "definitions", ANNOTATION },
        { "$id", ANNOTATION },
        { "id", ANNOTATION },
        { "$anchor", ANNOTATION },
        { "$dynamicAnchor", ANNOTATION },
        { "$recursiveAnchor", ANNOTATION },
        { "$vocabulary", ANNOTATION },
        { "readOnly", ANNOTATION },
        { "writeOnly", ANNOTATION },
        { "deprecated", ANNOTATION },
        { "nullable", ANNOTATION }, /* handled by hth_schema_nullable */
        { "discriminator", ANNOTATION },
        { "externalDocs", ANNOTATION },
        { "xml", ANNOTATION },
        { "contentEncoding", ANNOTATION },
        { "contentMediaType", ANNOTATION },
        { "contentSchema", ANNOTATION },
        { "format", ASSERTION },
        { "pattern", ASSERTION },
        { "minLength", ASSERTION },
        { "maxLength", ASSERTION },
        { "minimum", ASSERTION },
        { "maximum", ASSERTION },
        { "exclusiveMinimum", ASSERTION },
        { "exclusiveMaximum", ASSERTION },
        { "multipleOf", ASSERTION },
        { "prefixItems", ASSERTION },
        { "additionalItems", ASSERTION },
        { "unevaluatedItems", ASSERTION },
        { "contains", ASSERTION },
        { "minContains", ANNOTATION }, /* with contains, which is the assertion */
        { "maxContains", ANNOTATION },
        { "minItems", ASSERTION },
        { "maxItems", ASSERTION },
        { "uniqueItems", ASSERTION },
        { "patternProperties", ASSERTION },
        { "propertyNames", ASSERTION },
        { "minProperties", ASSERTION },
        { "maxProperties", ASSERTION },
        { "unevaluatedProperties", ASSERTION },
        { "$dynamicRef", UNSUPPORTED },
        { "$recursiveRef", UNSUPPORTED },
        { HTH_SCHEMA_TYPES, ASSERTION },
        { HTH_SCHEMA_DERIVED, ANNOTATION },
        { HTH_SCHEMA_FROM, ANNOTATION },
        { HTH_SCHEMA_NOT_PATTERN, ASSERTION },
        { HTH_SCHEMA_NOT_TEXTS, ASSERTION },
    };

    if (strncmp(key, "x-", 2) == 0)
        return ANNOTATION;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(key, known[i].key) == 0)
            return known[i].kind;
    return UNKNOWN;
}

bool hth_schema_demands(const char *keyword)
{
    keyword_kind kind = kind_of(keyword);

    return kind == ASSERTION || kind == UNSUPPORTED;
}

/* Check every keyword. Does the schema itself require anything, besides adding other items? */
static bool check_keywords(hth_schema_work *w, const json_t *schema, uint32_t path)
{
    bool says_more = false;
    const char *key;
    json_t *value;

    if (!hth_schema_spend(w, path, 16 * (1 + json_object_size(schema))))
        return false;
    json_object_foreach((json_t *)schema, key, value)
    {
        keyword_kind kind = kind_of(key);
        const char *text = json_string_value(value);

        if (kind == UNSUPPORTED)
            hth_schema_fail(w, path, key, "the keyword '%s' cannot be honoured; write the reference as '$ref'", key);
        else if (kind == UNKNOWN)
            hth_schema_note(w, path, key, "ignored");
        else if (strcmp(key, "$id") == 0 && text && text[0] != '#' && schema != w->root)
            hth_schema_fail(w, path, key,
                            "'$id' of a subschema cannot be honoured; leave it out, and refer to '#/...'");
        else if (strcmp(key, "anyOf") == 0 && (!json_is_array(value) || json_array_size(value) == 0))
            hth_schema_fail(w, path, key, "'anyOf' must be a list of schemas");
        says_more = says_more || kind == ASSERTION;
    }
    return says_more;
}

/* ---- references -------------------------------------------------------------------------------------------------- */

/* One name of a JSON pointer in a fragment, without its escapes. */
static void read_name(const char *at, size_t n, char *name)
{
    size_t to = 0;

    for (size_t i = 0; i < n; i++) {
        if (at[i] == '%' && n - i > 2 && hth_hex_digit(at[i + 1]) >= 0 && hth_hex_digit(at[i + 2]) >= 0) {
            name[to++] = (char)(hth_hex_digit(at[i + 1]) << 4 | hth_hex_digit(at[i + 2]));
            i += 2;
        } else {
            name[to++] = at[i];
        }
    }
    name[to] = '\0';
    n = to;
    to = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_escape = name[i] == '~' && (name[i + 1] == '0' || name[i + 1] == '1');

        name[to++] = is_escape ? (name[i + 1] == '0' ? '~' : '/') : name[i];
        i += is_escape;
    }
    name[to] = '\0';
}

/* Find the subschema with an anchor. The recursion is at most HTH_SCHEMA_DEPTH_MAX deep, as the JSON is. */
static const json_t *find_anchor(hth_schema_work *w, const json_t *at, const char *name, uint32_t path)
{
    const json_t *found = NULL;
    const char *key, *text = json_string_value(json_object_get(at, "$anchor"));
    json_t *value;
    size_t i;

    if (!hth_schema_spend(w, path, 4))
        return NULL;
    if (text && strcmp(text, name) == 0)
        return at;
    text = json_string_value(json_object_get(at, "$id"));
    if (text && text[0] == '#' && strcmp(text + 1, name) == 0)
        return at;
    if (json_is_object(at)) {
        json_object_foreach((json_t *)at, key, value) if (!found) found = find_anchor(w, value, name, path);
    } else if (json_is_array(at)) {
        json_array_foreach((json_t *)at, i, value) if (!found) found = find_anchor(w, value, name, path);
    }
    return found;
}

const json_t *hth_schema_resolve(hth_schema_work *w, const char *reference, uint32_t path)
{
    const char *id = json_string_value(json_object_get(w->root, "$id")), *at = reference;
    const json_t *target = w->root;
    char name[1025];

    if (id && id[0] && strncmp(reference, id, strlen(id)) == 0)
        at += strlen(id);
    if (strlen(at) >= sizeof(name) || (at[0] != '#' && (at == reference || at[0]))) {
        hth_schema_fail(w, path, "$ref", "the reference '%.60s' is not one into this schema, '#/...'", reference);
        return NULL;
    }
    at += at[0] == '#';
    if (at[0] && at[0] != '/') {
        target = find_anchor(w, w->root, at, path);
        at += strlen(at);
    }
    while (target && at[0] == '/' && hth_schema_spend(w, path, 4)) {
        size_t n = strcspn(at + 1, "/");

        read_name(at + 1, n, name);
        at += 1 + n;
        if (json_is_array(target) && name[0] && strspn(name, "0123456789") == strlen(name) && strlen(name) < 6)
            target = json_array_get(target, (size_t)strtoul(name, NULL, 10));
        else
            target = json_object_get(target, name);
        if (json_is_string(json_object_get(target, "$id")) && at[0] &&
            json_string_value(json_object_get(target, "$id"))[0] != '#') {
            hth_schema_fail(w, path, "$ref", "the reference '%.60s' leads through a subschema with an '$id'",
                            reference);
            return NULL;
        }
    }
    if (!target)
        hth_schema_fail(w, path, "$ref", "there is nothing at '%.60s'", reference);
    return hth_schema_failed(w) ? NULL : target;
}

/* ---- expanding --------------------------------------------------------------------------------------------------- */

static bool is_seen(hth_schema_work *w, const hth_schema_items *seen, const json_t *schema, uint32_t path)
{
    if (!hth_schema_spend(w, path, 1 + seen->n / 4))
        return true;
    for (size_t i = 0; i < seen->n; i++)
        if (seen->at[i].schema == schema)
            return true;
    return false;
}

/* Add the items that one item refers to or implies, in order. */
static void add_implied(hth_schema_work *w, const hth_schema_item *item, bool says_more, hth_schema_items *implied)
{
    const json_t *schema = item->schema, *all_of = json_object_get(schema, "allOf");
    const json_t *reference = json_object_get(schema, "$ref"), *derived;
    uint32_t origin = says_more || json_object_size(schema) > 1 ? 0 : item->flags & HTH_ITEM_ORIGIN;
    uint32_t path = item->path;
    size_t i;
    json_t *one;

    if (reference && !json_is_string(reference)) {
        hth_schema_fail(w, path, "$ref", "'$ref' must be a string");
    } else if (reference) {
        const char *text = json_string_value(reference);

        hth_schema_items_add(w, implied, hth_schema_resolve(w, text, path),
                             text[0] == '#' ? hth_schema_path_key(w, 0, text) : 0, origin);
        if (w->ignores_siblings)
            return;
    }
    if (all_of && (!json_is_array(all_of) || json_array_size(all_of) == 0))
        hth_schema_fail(w, path, "allOf", "'allOf' must be a list of schemas");
    json_array_foreach((json_t *)all_of, i, one)
        hth_schema_items_add(w, implied, one, hth_schema_path_index(w, hth_schema_path_key(w, path, "allOf"), i), 0);
    derived = json_object_get(schema, "not");
    if (derived) {
        uint32_t not_path = hth_schema_path_key(w, path, "not");

        hth_schema_items_add(w, implied, hth_schema_not(w, derived, not_path), not_path, 0);
    }
    hth_schema_items_add(w, implied, hth_schema_if(w, item), path, 0);
    hth_schema_items_add(w, implied, hth_schema_dependencies(w, item), path, 0);
    hth_schema_items_add(w, implied, hth_schema_one_of(w, item), path, 0);
}

void hth_schema_expand(hth_schema_work *w, hth_schema_items *items)
{
    hth_schema_items todo = { .n = 0 }, out = { .n = 0 }, seen = { .n = 0 }, implied = { .n = 0 };

    if (++w->depth > HTH_SCHEMA_EXPAND_DEPTH_MAX)
        hth_schema_fail(w, items->n > 0 ? items->at[0].path : 0, "oneOf",
                        "more than %d 'oneOf' lead from one to the next; use 'anyOf' for some of them",
                        HTH_SCHEMA_EXPAND_DEPTH_MAX);
    for (size_t i = items->n; i-- > 0;)
        hth_schema_items_add(w, &todo, items->at[i].schema, items->at[i].path, items->at[i].flags);
    while (todo.n > 0 && !hth_schema_failed(w) && !out.is_false) {
        hth_schema_item item = todo.at[--todo.n];
        const json_t *derived;
        bool says_more;

        if (json_is_true(item.schema))
            continue;
        if (json_is_false(item.schema)) {
            out.is_false = true;
            break;
        }
        if (!json_is_object(item.schema)) {
            hth_schema_fail(w, item.path, NULL, "a schema must be an object, or true or false");
            break;
        }
        if (is_seen(w, &seen, item.schema, item.path))
            continue;
        hth_schema_items_add(w, &seen, item.schema, item.path, 0);
        if (item.flags & HTH_ITEM_EXPANDED) {
            hth_schema_items_add(w, &out, item.schema, item.path, item.flags);
            continue;
        }
        derived = hth_schema_nullable(w, &item);
        if (derived) {
            hth_schema_items_add(w, &todo, derived, item.path, item.flags);
            continue;
        }
        says_more =
            !(w->ignores_siblings && json_object_get(item.schema, "$ref")) && check_keywords(w, item.schema, item.path);
        if (says_more)
            hth_schema_items_add(w, &out, item.schema, item.path, item.flags | HTH_ITEM_EXPANDED);
        implied.n = 0;
        if (!hth_schema_failed(w))
            add_implied(w, &item, says_more, &implied);
        for (size_t i = implied.n; i-- > 0;)
            hth_schema_items_add(w, &todo, implied.at[i].schema, implied.at[i].path, implied.at[i].flags);
    }
    hth_schema_items_free(&todo);
    hth_schema_items_free(&seen);
    hth_schema_items_free(&implied);
    hth_schema_items_free(items);
    *items = out;
    w->depth--;
}

/* ---- alternatives ------------------------------------------------------------------------------------------------ */

size_t hth_schema_open_choice(const hth_schema_items *items)
{
    size_t i = 0;

    while (i < items->n && ((items->at[i].flags & HTH_ITEM_CHOSEN) || !json_object_get(items->at[i].schema, "anyOf")))
        i++;
    return i;
}

/* Does a schema require nothing besides its anyOf? */
static bool is_only_choice(const json_t *schema)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)schema, key,
                        value) if (strcmp(key, "anyOf") != 0 && kind_of(key) == ASSERTION) return false;
    return true;
}

hth_schema_items hth_schema_with_choice(hth_schema_work *w, const hth_schema_items *items, size_t choice,
                                        size_t alternative)
{
    hth_schema_items out = { .n = 0 };
    const hth_schema_item *chosen = &items->at[choice];
    bool is_only = is_only_choice(chosen->schema);
    const char *from = json_string_value(json_object_get(chosen->schema, HTH_SCHEMA_FROM));
    uint32_t path = hth_schema_path_key(w, chosen->path, from ? from : "anyOf");

    for (size_t i = 0; i < items->n && hth_schema_spend(w, path, 1); i++)
        if (i != choice || !is_only)
            hth_schema_items_add(w, &out, items->at[i].schema, items->at[i].path,
                                 items->at[i].flags | (i == choice ? HTH_ITEM_CHOSEN : 0));
    hth_schema_items_add(w, &out, json_array_get(json_object_get(chosen->schema, "anyOf"), alternative),
                         hth_schema_path_index(w, path, alternative),
                         is_only && items->n == 1 ? chosen->flags & HTH_ITEM_ORIGIN : 0);
    hth_schema_expand(w, &out);
    return out;
}

/* ---- keywords of all types --------------------------------------------------------------------------------------- */

static uint32_t type_bits(const char *name)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {
        { "null", HTH_TYPE_NULL },     { "boolean", HTH_TYPE_BOOLEAN }, { "integer", HTH_TYPE_INTEGER },
        { "number", HTH_TYPE_NUMBER }, { "string", HTH_TYPE_STRING },   { "array", HTH_TYPE_ARRAY },
        { "object", HTH_TYPE_OBJECT },
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, name) == 0)
            return types[i].bits;
    return 0;
}

uint32_t hth_schema_types_of(hth_schema_work *w, const json_t *schema, uint32_t path)
{
    const json_t *type = json_object_get(schema, "type"), *own = json_object_get(schema, HTH_SCHEMA_TYPES);
    uint32_t bits = type ? 0 : HTH_TYPE_ALL;
    json_t *one;
    size_t i;

    if (json_is_string(type)) {
        bits = type_bits(json_string_value(type));
        if (bits == 0)
            hth_schema_fail(w, path, "type", "there is no type '%.40s'", json_string_value(type));
    } else if (type) {
        json_array_foreach((json_t *)type, i, one)
        {
            uint32_t more = json_is_string(one) ? type_bits(json_string_value(one)) : 0;

            if (more == 0)
                hth_schema_fail(w, path, "type", "there is no type '%.40s'",
                                json_is_string(one) ? json_string_value(one) : "");
            bits |= more;
        }
        if (bits == 0)
            hth_schema_fail(w, path, "type", "'type' must be a string or a list of strings");
    }
    if (own)
        bits &= (uint32_t)json_integer_value(own);
    return bits;
}

/* The types that the keywords of a schema apply to; 0: none. */
static uint32_t types_of_keywords(const json_t *schema)
{
    static const struct {
        uint32_t types;
        const char *const keywords[12];
    } families[] = {
        { HTH_TYPE_STRING,
          { "pattern", "format", "minLength", "maxLength", HTH_SCHEMA_NOT_PATTERN, HTH_SCHEMA_NOT_TEXTS } },
        { HTH_TYPE_NUMBER, { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf" } },
        { HTH_TYPE_ARRAY,
          { "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains",
            "unevaluatedItems" } },
        { HTH_TYPE_OBJECT,
          { "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
            "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties" } },
    };
    uint32_t types = 0;

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        for (size_t j = 0; j < 12 && families[i].keywords[j]; j++)
            if (json_object_get(schema, families[i].keywords[j]))
                types |= families[i].types;
    return types;
}

bool hth_schema_has_keywords_for(const hth_schema_items *items, uint32_t type)
{
    for (size_t i = 0; i < items->n; i++)
        if (types_of_keywords(items->at[i].schema) & type)
            return true;
    return false;
}

uint32_t hth_schema_types(hth_schema_work *w, const hth_schema_items *items)
{
    uint32_t types = HTH_TYPE_ALL, implied = 0;
    bool is_stated = w->is_literal;

    for (size_t i = 0; i < items->n && hth_schema_spend(w, items->at[i].path, 32); i++) {
        const json_t *schema = items->at[i].schema;

        types &= hth_schema_types_of(w, schema, items->at[i].path);
        is_stated = is_stated || json_object_get(schema, "type") || json_object_get(schema, "const") ||
                    json_object_get(schema, "enum");
        implied |= types_of_keywords(schema);
    }
    return is_stated || (types & implied) == 0 ? types : types & implied;
}

uint32_t hth_schema_path_of(const hth_schema_items *items, const char *keyword)
{
    for (size_t i = 0; i < items->n; i++)
        if (json_object_get(items->at[i].schema, keyword))
            return items->at[i].path;
    return HTH_GBNF_NONE;
}

uint32_t hth_schema_count(hth_schema_work *w, const hth_schema_item *item, const char *keyword, uint32_t fallback)
{
    const json_t *given = json_object_get(item->schema, keyword);
    double value = json_number_value(given);

    if (!given)
        return fallback;
    if (!json_is_number(given) || value < 0 || value != floor(value)) {
        hth_schema_fail(w, item->path, keyword, "'%s' must be a whole number, 0 or more", keyword);
        return fallback;
    }
    if (value > w->repetitions_max) {
        hth_schema_note(w, item->path, keyword, "dropped");
        return fallback;
    }
    return (uint32_t)value;
}

void hth_schema_counts(hth_schema_work *w, const hth_schema_items *items, const char *const keywords[2],
                       uint32_t *least, uint32_t *most)
{
    *least = 0;
    *most = UINT32_MAX;
    for (size_t i = 0; i < items->n; i++) {
        uint32_t low = hth_schema_count(w, &items->at[i], keywords[0], 0);
        uint32_t high = hth_schema_count(w, &items->at[i], keywords[1], UINT32_MAX);

        *least = low > *least ? low : *least;
        *most = high < *most ? high : *most;
    }
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static bool accepts_name(hth_schema_work *w, const hth_schema_item *item, const char *text)
{
    const json_t *names = json_object_get(item->schema, "propertyNames");
    json_t *value = names ? json_string(text) : NULL;
    hth_schema_answer answer = names ? hth_schema_accepts(w, names, value, item->path) : HTH_YES;

    json_decref(value);
    if (answer == HTH_UNKNOWN)
        hth_schema_fail(w, item->path, "propertyNames", "it cannot be decided whether '%.60s' is such a name", text);
    return answer == HTH_YES;
}

/* Add the schema of members that no other keyword describes. */
static void add_unevaluated(hth_schema_work *w, const hth_schema_items *items, hth_schema_items *out)
{
    static const char keyword[] = "unevaluatedProperties";
    const json_t *found = NULL;
    uint32_t path = 0;

    for (size_t i = 0; i < items->n; i++) {
        const json_t *one = json_object_get(items->at[i].schema, keyword);

        if (one && !(items->at[i].flags & HTH_ITEM_ORIGIN))
            hth_schema_fail(w, items->at[i].path, keyword,
                            "'%s' cannot be honoured where other schemas hold, too; write it into the outermost",
                            keyword);
        if (one) {
            found = one;
            path = items->at[i].path;
        }
    }
    if (found)
        hth_schema_items_add(w, out, found, hth_schema_path_key(w, path, keyword), 0);
}

bool hth_schema_member(hth_schema_work *w, const hth_schema_items *items, const char *text, uint32_t group,
                       hth_schema_items *out)
{
    bool is_allowed = true, is_evaluated = false;
    size_t n_patterns = 0;

    for (size_t i = 0; i < items->n && hth_schema_spend(w, items->at[i].path, text ? 8 : 0); i++) {
        const hth_schema_item *item = &items->at[i];
        const json_t *one = text ? json_object_get(json_object_get(item->schema, "properties"), text) : NULL;
        bool is_known = one != NULL;
        const char *given;
        json_t *schema;

        if (one)
            hth_schema_items_add(w, out, one,
                                 hth_schema_path_key(w, hth_schema_path_key(w, item->path, "properties"), text), 0);
        json_object_foreach(json_object_get(item->schema, "patternProperties"), given, schema)
        {
            bool matches = text
                             ? hth_schema_matches(w, given, schema, text, strlen(text), item->path, "patternProperties")
                             : group >> n_patterns & 1;

            n_patterns++;
            if (!matches)
                continue;
            is_known = true;
            hth_schema_items_add(w, out, schema,
                                 hth_schema_path_key(w, hth_schema_path_key(w, item->path, "patternProperties"), given),
                                 0);
        }
        one = json_object_get(item->schema, "additionalProperties");
        if (one && !is_known) {
            is_known = true;
            hth_schema_items_add(w, out, one, hth_schema_path_key(w, item->path, "additionalProperties"), 0);
        }
        is_evaluated = is_evaluated || is_known;
        is_allowed = is_allowed && (!text || accepts_name(w, item, text));
    }
    if (!is_evaluated)
        add_unevaluated(w, items, out);
    for (size_t i = 0; i < out->n; i++)
        is_allowed = is_allowed && !json_is_false(out->at[i].schema);
    return is_allowed;
}

/* ---- goals ------------------------------------------------------------------------------------------------------- */

uint32_t hth_schema_rule_of(hth_schema_work *w, hth_schema_items *items)
{
    uint32_t path = items->n > 0 ? items->at[0].path : 0;
    hth_schema_goal *goal, *known;
    size_t n_bytes;

    hth_schema_expand(w, items);
    if (items->n == 0 && !hth_schema_failed(w) && !items->is_false)
        return hth_schema_shared(w, HTH_SHARED_VALUE);
    if (items->is_false || !hth_schema_spend(w, path, items->n))
        return NONE;
    n_bytes = 2 * items->n * sizeof(goal->key[0]);
    goal = calloc(1, sizeof(*goal) + n_bytes);
    if (!goal) {
        hth_schema_fail_memory(w);
        return NONE;
    }
    for (size_t i = 0; i < items->n; i++) {
        goal->key[2 * i] = (uintptr_t)items->at[i].schema;
        goal->key[2 * i + 1] = items->at[i].flags;
    }
    HASH_FIND(hh, w->goals, goal->key, n_bytes, known);
    if (known) {
        free(goal);
        return known->rule;
    }
    w->n_goal_items += items->n;
    if (HASH_COUNT(w->goals) >= HTH_SCHEMA_GOALS_MAX || w->n_goal_items > HTH_SCHEMA_ITEMS_MAX)
        hth_schema_fail(
            w, path, NULL,
            "the schema has too many combinations of subschemas; give it fewer alternatives that hold at once");
    HASH_ADD_KEYPTR(hh, w->goals, goal->key, n_bytes, goal);
    if (!goal->hh.tbl) {
        free(goal);
        hth_schema_fail_memory(w);
        return NONE;
    }
    goal->rule = hth_gbnf_add_rule(&w->tables);
    goal->items = *items;
    *items = (hth_schema_items){ .n = 0 };
    return goal->rule;
}
