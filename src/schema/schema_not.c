/*
 * schema_not.c - write not, oneOf, if, dependencies and nullable as anyOf
 *
 *   not           an anyOf with one alternative for each keyword, which breaks that keyword (De Morgan). A grammar
 *                 cannot express the opposite of some keywords. Their alternatives are left out, so the grammar
 *                 accepts less. It is an error only if no alternative is left.
 *   oneOf         an anyOf: each alternative, and the negation of all others that may overlap it
 *   if            an anyOf: "if" and "then"; not "if", and "else"
 *   dependencies  an anyOf for each name: no member of this name; or the member and its dependency
 *   nullable      an anyOf: the schema without "nullable"; null
 *
 * The results share the parts of the schema, so stored results for a part are found again. Each result is made once,
 * and stored under the subschema that it was made from.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

enum { PAIRS_MAX = 8, NUMBERS_MAX = 32, ONE_OF_MAX = 256 };

/* ---- storing ----------------------------------------------------------------------------------------------------- */

/* Begin to make a derived subschema. NULL if *out already has it, or is NULL because it is being made. */
static hth_schema_derived *begin(hth_schema_work *w, const void *from, hth_schema_derived_kind kind, const json_t **out)
{
    hth_schema_derived *one = hth_schema_derived_of(w, from, kind);

    *out = one ? one->schema : NULL;
    if (!one || one->is_known || one->is_begun)
        return NULL;
    one->is_begun = true;
    return one;
}

static const json_t *keep(hth_schema_work *w, hth_schema_derived *one, json_t *made_take)
{
    if (hth_schema_failed(w)) {
        json_decref(made_take);
        return NULL;
    }
    one->is_known = true;
    one->is_begun = false;
    one->schema = made_take;
    return made_take;
}

/* ---- writing JSON ------------------------------------------------------------------------------------------------ */

static json_t *vpack(hth_schema_work *w, const char *format, va_list arguments)
{
    json_t *value = json_vpack_ex(NULL, 0, format, arguments);

    if (!value)
        hth_schema_fail_memory(w);
    return value;
}

/* json_pack. NULL with the work failed. */
static json_t *pack(hth_schema_work *w, const char *format, ...)
{
    va_list arguments;
    json_t *value;

    va_start(arguments, format);
    value = vpack(w, format, arguments);
    va_end(arguments);
    return value;
}

/* Append a value as of json_pack to a list. */
static void add(hth_schema_work *w, json_t *list, const char *format, ...)
{
    va_list arguments;
    json_t *value;

    va_start(arguments, format);
    value = vpack(w, format, arguments);
    va_end(arguments);
    if (value && json_array_append_new(list, value) != 0)
        hth_schema_fail_memory(w);
}

/* ---- not --------------------------------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    double left = json_number_value(*(const json_t *const *)a), right = json_number_value(*(const json_t *const *)b);

    return left < right ? -1 : left > right;
}

/* All numbers but these: the ranges below, between and above them. */
static void not_numbers(hth_schema_work *w, const json_t *values, json_t *out)
{
    const json_t *numbers[NUMBERS_MAX];
    size_t n = 0, i;
    json_t *value;

    json_array_foreach((json_t *)values, i, value)
    {
        if (json_is_number(value) && n == NUMBERS_MAX)
            return;
        if (json_is_number(value))
            numbers[n++] = value;
    }
    qsort(numbers, n, sizeof(numbers[0]), by_number);
    for (i = 0; i <= n && n > 0; i++)
        add(w, out, "{s:s, s:O*, s:O*}", "type", "number", "exclusiveMinimum", i > 0 ? numbers[i - 1] : NULL,
            "exclusiveMaximum", i < n ? numbers[i] : NULL);
}

/* All values but these. Of arrays and objects, only those with more elements than any of these. */
static void not_values(hth_schema_work *w, const json_t *values, json_t *out)
{
    uint32_t types = 0, n_items = 0, n_members = 0;
    bool is_listed[2] = { false };
    json_t *texts = json_array(), *value;
    size_t i;

    json_array_foreach((json_t *)values, i, value)
    {
        uint32_t type = hth_schema_type_of_value(value);

        types |= type & HTH_TYPE_NUMBER ? HTH_TYPE_NUMBER : type;
        if (json_is_boolean(value))
            is_listed[json_is_true(value)] = true;
        if (json_is_string(value))
            add(w, texts, "O", value);
        if (json_is_array(value) && json_array_size(value) >= n_items)
            n_items = (uint32_t)json_array_size(value) + 1;
        if (json_is_object(value) && json_object_size(value) >= n_members)
            n_members = (uint32_t)json_object_size(value) + 1;
    }
    add(w, out, "{s:i}", HTH_SCHEMA_TYPES, (int)(HTH_TYPE_ALL & ~types));
    if (is_listed[0] != is_listed[1])
        add(w, out, "{s:b}", "const", (int)is_listed[0]);
    if (json_array_size(texts) > 0)
        add(w, out, "{s:s, s:O}", "type", "string", HTH_SCHEMA_NOT_TEXTS, texts);
    not_numbers(w, values, out);
    if (n_items > 0)
        add(w, out, "{s:s, s:i}", "type", "array", "minItems", (int)n_items);
    if (n_members > 0)
        add(w, out, "{s:s, s:i}", "type", "object", "minProperties", (int)n_members);
    json_decref(texts);
}

/* Negate a keyword that is the opposite of another one. False if it is not such a keyword. */
static bool not_bound(hth_schema_work *w, const char *key, const json_t *value, json_t *out)
{
    static const struct {
        const char *key, *type, *opposite;
        int more; /* is added to a count */
    } opposites[] = {
        { "minimum", "number", "exclusiveMaximum", 0 },
        { "maximum", "number", "exclusiveMinimum", 0 },
        { "exclusiveMinimum", "number", "maximum", 0 },
        { "exclusiveMaximum", "number", "minimum", 0 },
        { "minLength", "string", "maxLength", -1 },
        { "maxLength", "string", "minLength", 1 },
        { "minItems", "array", "maxItems", -1 },
        { "maxItems", "array", "minItems", 1 },
        { "minProperties", "object", "maxProperties", -1 },
        { "maxProperties", "object", "minProperties", 1 },
        { "pattern", "string", HTH_SCHEMA_NOT_PATTERN, 0 },
        { HTH_SCHEMA_NOT_PATTERN, "string", "pattern", 0 },
        { HTH_SCHEMA_NOT_TEXTS, "string", "enum", 0 },
    };

    for (size_t i = 0; i < sizeof(opposites) / sizeof(opposites[0]); i++) {
        double bound = json_number_value(value) + opposites[i].more;

        if (strcmp(key, opposites[i].key) != 0)
            continue;
        if (opposites[i].more == 0)
            add(w, out, "{s:s, s:O}", "type", opposites[i].type, opposites[i].opposite, value);
        else if (bound >= 0) /* no count is below 0 */
            add(w, out, "{s:s, s:I}", "type", opposites[i].type, opposites[i].opposite, (json_int_t)bound);
        return true;
    }
    return false;
}

static void not_members(hth_schema_work *w, const char *key, const json_t *value, json_t *out)
{
    const char *name;
    json_t *one;
    size_t i;

    if (strcmp(key, "required") == 0) {
        json_array_foreach((json_t *)value, i, one) if (json_is_string(one))
            add(w, out, "{s:{s:b}, s:b, s:s}", "properties", json_string_value(one), 0, HTH_SCHEMA_DERIVED, 1, "type",
                "object");
        return;
    }
    json_object_foreach((json_t *)value, name, one)
    {
        if (!json_is_true(one))
            add(w, out, "{s:[s], s:{s:{s:O}}, s:b, s:s}", "required", name, "properties", name, "not", one,
                HTH_SCHEMA_DERIVED, 1, "type", "object");
    }
}

/* The values that no alternative accepts, or that two accept. */
static void not_one_of(hth_schema_work *w, const json_t *alternatives, json_t *out)
{
    json_t *none = json_array(), *a, *b;
    size_t n = json_array_size(alternatives), i, j;

    json_array_foreach((json_t *)alternatives, i, a) add(w, none, "{s:O}", "not", a);
    add(w, out, "{s:O}", "allOf", none);
    json_decref(none);
    json_array_foreach((json_t *)alternatives, i, a)
    {
        json_array_foreach((json_t *)alternatives, j, b) if (j < i && n <= PAIRS_MAX)
            add(w, out, "{s:[O, O]}", "allOf", a, b);
    }
}

static void not_dependencies(hth_schema_work *w, const json_t *dependencies, json_t *out)
{
    const char *name;
    json_t *asked, *other;
    size_t i;

    json_object_foreach((json_t *)dependencies, name, asked)
    {
        if (!json_is_array(asked))
            add(w, out, "{s:[{s:[s], s:s}, {s:O}]}", "allOf", "required", name, "type", "object", "not", asked);
        json_array_foreach(asked, i, other) if (json_is_string(other))
            add(w, out, "{s:[{s:[s], s:s}, {s:{s:b}, s:b}]}", "allOf", "required", name, "type", "object", "properties",
                json_string_value(other), 0, HTH_SCHEMA_DERIVED, 1);
    }
}

/* Add the alternatives that break one keyword. False if they cannot be expressed. */
static bool not_keyword(hth_schema_work *w, const json_t *schema, const char *key, const json_t *value, uint32_t path,
                        json_t *out)
{
    json_t *list, *one;
    size_t i;

    if (strcmp(key, "type") == 0 || strcmp(key, HTH_SCHEMA_TYPES) == 0) {
        add(w, out, "{s:i}", HTH_SCHEMA_TYPES, (int)(HTH_TYPE_ALL & ~hth_schema_types_of(w, schema, path)));
    } else if (strcmp(key, "const") == 0) {
        list = pack(w, "[O]", value);
        not_values(w, list, out);
        json_decref(list);
    } else if (strcmp(key, "enum") == 0) {
        not_values(w, value, out);
    } else if (strcmp(key, "required") == 0 || strcmp(key, "properties") == 0) {
        not_members(w, key, value, out);
    } else if (strcmp(key, "items") == 0 && !json_is_array(value) && !json_object_get(schema, "prefixItems")) {
        add(w, out, "{s:s, s:{s:O}}", "type", "array", "contains", "not", value);
    } else if (strcmp(key, "contains") == 0 && !json_object_get(schema, "minContains") &&
               !json_object_get(schema, "maxContains")) {
        add(w, out, "{s:s, s:{s:O}}", "type", "array", "items", "not", value);
    } else if (strcmp(key, "anyOf") == 0) {
        list = json_array();
        json_array_foreach((json_t *)value, i, one) add(w, list, "{s:O}", "not", one);
        add(w, out, "{s:O}", "allOf", list);
        json_decref(list);
    } else if (strcmp(key, "allOf") == 0) {
        json_array_foreach((json_t *)value, i, one) add(w, out, "{s:O}", "not", one);
    } else if (strcmp(key, "oneOf") == 0) {
        not_one_of(w, value, out);
    } else if (strcmp(key, "not") == 0) {
        add(w, out, "O", value);
    } else if (strcmp(key, "$ref") == 0 && json_is_string(value)) {
        const json_t *target = hth_schema_resolve(w, json_string_value(value), path);

        if (target)
            add(w, out, "{s:O}", "not", target);
    } else if (strcmp(key, "if") == 0) {
        const json_t *then = json_object_get(schema, "then"), *otherwise = json_object_get(schema, "else");

        if (then)
            add(w, out, "{s:[O, {s:O}]}", "allOf", value, "not", then);
        if (otherwise)
            add(w, out, "{s:[{s:O}, {s:O}]}", "allOf", "not", value, "not", otherwise);
    } else if (strcmp(key, "dependentRequired") == 0 || strcmp(key, "dependentSchemas") == 0 ||
               strcmp(key, "dependencies") == 0) {
        not_dependencies(w, value, out);
    } else {
        return not_bound(w, key, value, out);
    }
    return true;
}

void hth_schema_fail_not(hth_schema_work *w, uint32_t path)
{
    hth_schema_fail(
        w, path, NULL,
        "the opposite of this schema cannot be honoured ('not', or 'oneOf' of alternatives that may hold at "
        "once); say what is wanted instead, or use 'anyOf'");
}

const json_t *hth_schema_not(hth_schema_work *w, const json_t *schema, uint32_t path)
{
    const json_t *known, *plain;
    bool is_left = false, demands = false;
    hth_schema_derived *one;
    json_t *alternatives, *made, *value;
    const char *key;

    if (json_is_boolean(schema))
        return json_is_true(schema) ? json_false() : json_true();
    if (!json_is_object(schema)) {
        hth_schema_fail(w, path, NULL, "a schema must be an object, or true or false");
        return NULL;
    }
    one = begin(w, schema, HTH_DERIVED_NOT, &known);
    if (!one)
        return known;
    plain = hth_schema_nullable(w, &(hth_schema_item){ .schema = schema, .path = path });
    alternatives = json_array();
    json_object_foreach((json_t *)(plain ? plain : schema), key, value)
    {
        bool is_overridden = w->ignores_siblings && json_object_get(schema, "$ref") && strcmp(key, "$ref") != 0;

        if (is_overridden || !hth_schema_spend(w, path, 16))
            continue;
        if (not_keyword(w, plain ? plain : schema, key, value, path, alternatives))
            demands = true;
        else
            is_left = is_left || hth_schema_demands(key);
    }
    if (is_left) {
        w->has_left_out = true;
        w->left_out_path = path;
    }
    if (is_left && !demands)
        hth_schema_fail_not(w, path);
    made = json_array_size(alternatives) > 0 ? pack(w, "{s:O}", "anyOf", alternatives) : json_false();
    json_decref(alternatives);
    return keep(w, one, made);
}

/* ---- oneOf ------------------------------------------------------------------------------------------------------- */

/* A stored copy of the schema without its oneOf. */
static const json_t *without_one_of(hth_schema_work *w, const json_t *schema)
{
    const json_t *known;
    hth_schema_derived *one;
    json_t *plain;

    one = begin(w, schema, HTH_DERIVED_WITHOUT_ONE_OF, &known);
    if (!one)
        return known;
    plain = json_copy((json_t *)schema); /* shallow, so that the parts are shared */
    if (!plain)
        hth_schema_fail_memory(w);
    (void)json_object_del(plain, "oneOf"); /* the key exists */
    return keep(w, one, plain);
}

/* The items of the schema without its oneOf, and of one or two alternatives of the oneOf. */
static void items_of(hth_schema_work *w, const hth_schema_item *item, const json_t *a, const json_t *b,
                     hth_schema_items *out)
{
    const json_t *plain = without_one_of(w, item->schema);
    uint32_t path = item->path;

    if (!plain)
        return;
    hth_schema_items_add(w, out, plain, path, HTH_ITEM_EXPANDED);
    hth_schema_items_add(w, out, a, path, 0);
    hth_schema_items_add(w, out, b, path, 0);
    hth_schema_expand(w, out);
}

static bool may_overlap(hth_schema_work *w, const hth_schema_item *item, const json_t *a, const json_t *b,
                        uint32_t types)
{
    hth_schema_items items = { .n = 0 };
    bool is_empty;

    items_of(w, item, a, b, &items);
    is_empty = hth_schema_is_empty(w, &items, types, 0);
    hth_schema_items_free(&items);
    return !is_empty;
}

const json_t *hth_schema_one_of(hth_schema_work *w, const hth_schema_item *item)
{
    const json_t *given = json_object_get(item->schema, "oneOf"), *known;
    hth_schema_derived *one;
    uint32_t path;
    json_t *out, *made, *a, *b;
    size_t i, j;

    if (!given)
        return NULL;
    path = hth_schema_path_key(w, item->path, "oneOf");
    if (!json_is_array(given) || json_array_size(given) == 0 || json_array_size(given) > ONE_OF_MAX) {
        hth_schema_fail(w, item->path, "oneOf", "'oneOf' must be a list of 1 to %d schemas", ONE_OF_MAX);
        return NULL;
    }
    one = begin(w, item->schema, HTH_DERIVED_ONE_OF, &known);
    if (!one)
        return known;
    out = json_array();
    json_array_foreach((json_t *)given, i, a)
    {
        hth_schema_items items = { .n = 0 };
        json_t *parts = json_array();
        uint32_t types;

        items_of(w, item, a, NULL, &items);
        types = hth_schema_types(w, &items);
        hth_schema_items_free(&items);
        add(w, parts, "O", a);
        add(w, parts, "{s:i}", HTH_SCHEMA_TYPES, (int)types);
        json_array_foreach((json_t *)given, j, b)
        {
            if (i != j && hth_schema_spend(w, path, 64) && may_overlap(w, item, a, b, types))
                add(w, parts, "{s:O}", "not", b);
        }
        add(w, out, "{s:O}", "allOf", parts);
        json_decref(parts);
        if (hth_schema_failed(w))
            break;
    }
    made = pack(w, "{s:O, s:s}", "anyOf", out, HTH_SCHEMA_FROM, "oneOf");
    json_decref(out);
    return keep(w, one, made);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

const json_t *hth_schema_if(hth_schema_work *w, const hth_schema_item *item)
{
    const json_t *condition = json_object_get(item->schema, "if"), *known;
    const json_t *then = json_object_get(item->schema, "then"), *otherwise = json_object_get(item->schema, "else");
    hth_schema_derived *one;

    if (!condition || (!then && !otherwise))
        return NULL;
    one = begin(w, item->schema, HTH_DERIVED_IF, &known);
    if (!one)
        return known;
    return keep(w, one,
                pack(w, "{s:[{s:[O, O]}, {s:[{s:O}, O]}], s:s}", "anyOf", "allOf", condition, then ? then : json_true(),
                     "allOf", "not", condition, otherwise ? otherwise : json_true(), HTH_SCHEMA_FROM, "if"));
}

static void add_dependencies(hth_schema_work *w, const hth_schema_item *item, const char *keyword, json_t *out)
{
    const json_t *given = json_object_get(item->schema, keyword);
    const char *name;
    json_t *asked;

    if (given && !json_is_object(given))
        hth_schema_fail(w, item->path, keyword, "'%s' must be an object", keyword);
    json_object_foreach((json_t *)given, name, asked)
    {
        json_t *then = json_is_array(asked) ? pack(w, "{s:O}", "required", asked) : json_incref(asked);

        add(w, out, "{s:[{s:{s:b}, s:b}, {s:[{s:[s]}, O]}]}", "anyOf", "properties", name, 0, HTH_SCHEMA_DERIVED, 1,
            "allOf", "required", name, then);
        json_decref(then);
    }
}

const json_t *hth_schema_dependencies(hth_schema_work *w, const hth_schema_item *item)
{
    static const char *const keywords[] = { "dependentRequired", "dependentSchemas", "dependencies" };
    hth_schema_derived *one;
    const json_t *known;
    bool any = false;
    json_t *out, *made;

    for (size_t i = 0; i < 3; i++)
        any = any || json_object_get(item->schema, keywords[i]);
    if (!any)
        return NULL;
    one = begin(w, item->schema, HTH_DERIVED_DEPENDENCIES, &known);
    if (!one)
        return known;
    out = json_array();
    for (size_t i = 0; i < 3; i++)
        add_dependencies(w, item, keywords[i], out);
    made = json_array_size(out) > 0 ? pack(w, "{s:O}", "allOf", out) : NULL;
    json_decref(out);
    return keep(w, one, made);
}

/* OpenAPI's keyword: null is also a value. If the schema lists its values, null must be one of them. */
const json_t *hth_schema_nullable(hth_schema_work *w, const hth_schema_item *item)
{
    const json_t *nullable = json_object_get(item->schema, "nullable"), *known;
    hth_schema_derived *one;
    json_t *plain, *made;

    if (!nullable)
        return NULL;
    if (!json_is_boolean(nullable)) {
        hth_schema_fail(w, item->path, "nullable", "'nullable' must be true or false");
        return NULL;
    }
    if (json_is_false(nullable))
        return NULL;
    one = begin(w, item->schema, HTH_DERIVED_NULLABLE, &known);
    if (!one)
        return known;
    plain = json_copy((json_t *)item->schema); /* shallow, so that the parts are shared */
    (void)json_object_del(plain, "nullable");  /* the key exists */
    if (json_object_get(plain, "const") || json_object_get(plain, "enum")) {
        json_t *type = json_object_get(plain, "type"), *types = json_array();

        if (json_is_array(type) ? json_array_extend(types, type) != 0
                                : json_is_string(type) && json_array_append(types, type) != 0)
            hth_schema_fail_memory(w);
        add(w, types, "s", "null");
        if (type && json_object_set(plain, "type", types) != 0)
            hth_schema_fail_memory(w);
        json_decref(types);
        return keep(w, one, plain);
    }
    made = pack(w, "{s:[O, {s:s}]}", "anyOf", plain, "type", "null");
    json_decref(plain);
    return keep(w, one, made);
}
