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
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

enum { PAIRS_MAX = 8, NUMBERS_MAX = 32, ONE_OF_MAX = 256 };

/* ---- storing ----------------------------------------------------------------------------------------------------- */

static size_t slot_of(const void *from, int kind, size_t n_slots)
{
    uint64_t x = (((uint64_t)(uintptr_t)from >> 4) * 8 + (uint64_t)kind) * UINT64_C(0x9E3779B97F4A7C15);

    return (size_t)(x >> 32) & (n_slots - 1);
}

static bool derived_grow(hth_schema_work *w)
{
    size_t n = w->n_derived_slots ? 2 * w->n_derived_slots : 256;
    hth_schema_derived *slots = calloc(n, sizeof(slots[0]));

    if (!slots) {
        hth_schema_fail_memory(w);
        return false;
    }
    for (size_t i = 0; i < w->n_derived_slots; i++) {
        size_t at;

        if (!w->derived[i].from)
            continue;
        at = slot_of(w->derived[i].from, w->derived[i].kind, n);
        while (slots[at].from)
            at = (at + 1) & (n - 1);
        slots[at] = w->derived[i];
    }
    free(w->derived);
    w->derived = slots;
    w->n_derived_slots = n;
    return true;
}

hth_schema_derived *hth_schema_derived_of(hth_schema_work *w, const void *from, int kind)
{
    size_t at;

    if (2 * (w->n_derived + 1) > w->n_derived_slots && !derived_grow(w))
        return NULL;
    for (at = slot_of(from, kind, w->n_derived_slots); w->derived[at].from; at = (at + 1) & (w->n_derived_slots - 1))
        if (w->derived[at].from == from && w->derived[at].kind == kind)
            return &w->derived[at];
    w->derived[at] = (hth_schema_derived){ .from = from, .kind = kind };
    w->n_derived++;
    return &w->derived[at];
}

/* Begin to make a derived subschema. False if *out already has it, or is NULL because it is being made. */
static bool begin(hth_schema_work *w, const void *from, int kind, const json_t **out)
{
    hth_schema_derived *one = hth_schema_derived_of(w, from, kind);

    *out = NULL;
    if (!one)
        return false;
    *out = one->schema;
    if (one->is_known || one->is_begun)
        return false;
    one->is_begun = true;
    return true;
}

static const json_t *keep(hth_schema_work *w, const void *from, int kind, json_t *made_take)
{
    hth_schema_derived *one = hth_schema_derived_of(w, from, kind);

    if (!one || hth_schema_failed(w)) {
        json_decref(made_take);
        return NULL;
    }
    one->is_known = true;
    one->is_begun = false;
    one->schema = made_take;
    return made_take;
}

/* ---- writing JSON ------------------------------------------------------------------------------------------------ */

/* These functions take over the values passed to them. If out of memory, they return NULL, which append() reports. */

static json_t *shared(const json_t *value)
{
    return json_incref((json_t *)value);
}

/* {key: value} */
static json_t *object_of(const char *key, json_t *value)
{
    json_t *object = json_object();

    if (json_object_set_new_nocheck(object, key, value) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *with(json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new_nocheck(object, key, value) == 0)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *of_type(const char *type)
{
    return object_of("type", json_string(type));
}

static json_t *of_types(uint32_t types)
{
    return object_of(HTH_SCHEMA_TYPES, json_integer(types));
}

static json_t *not_of(const json_t *schema)
{
    return object_of("not", shared(schema));
}

/* Append a value, which is taken over. False, with the work failed, if memory is out for the value or the list. */
static bool append(hth_schema_work *w, json_t *list, json_t *value)
{
    if (value && json_array_append_new(list, value) == 0)
        return true;
    hth_schema_fail_memory(w);
    return false;
}

static json_t *both(json_t *a, json_t *b)
{
    json_t *list = json_array();

    if (json_array_append_new(list, a) != 0 || json_array_append_new(list, b) != 0) {
        json_decref(list);
        return NULL;
    }
    return object_of("allOf", list);
}

/* Objects without this member. */
static json_t *without_member(const char *name)
{
    return with(object_of("properties", object_of(name, json_false())), HTH_SCHEMA_DERIVED, json_true());
}

static json_t *with_member(const char *name)
{
    json_t *names = json_array();

    if (json_array_append_new(names, json_string(name)) != 0) {
        json_decref(names);
        return NULL;
    }
    return object_of("required", names);
}

static json_t *object_with(json_t *schema)
{
    return with(schema, "type", json_string("object"));
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
    for (i = 0; i <= n && n > 0; i++) {
        json_t *range = of_type("number");

        if (i > 0)
            range = with(range, "exclusiveMinimum", shared(numbers[i - 1]));
        if (i < n)
            range = with(range, "exclusiveMaximum", shared(numbers[i]));
        append(w, out, range);
    }
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
            append(w, texts, shared(value));
        if (json_is_array(value) && json_array_size(value) >= n_items)
            n_items = (uint32_t)json_array_size(value) + 1;
        if (json_is_object(value) && json_object_size(value) >= n_members)
            n_members = (uint32_t)json_object_size(value) + 1;
    }
    append(w, out, of_types(HTH_TYPE_ALL & ~types));
    if (is_listed[0] != is_listed[1])
        append(w, out, object_of("const", json_boolean(is_listed[0])));
    if (json_array_size(texts) > 0)
        append(w, out, with(of_type("string"), HTH_SCHEMA_NOT_TEXTS, shared(texts)));
    not_numbers(w, values, out);
    if (n_items > 0)
        append(w, out, with(of_type("array"), "minItems", json_integer(n_items)));
    if (n_members > 0)
        append(w, out, with(of_type("object"), "minProperties", json_integer(n_members)));
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
        json_t *bound;

        if (strcmp(key, opposites[i].key) != 0)
            continue;
        if (opposites[i].more == 0) {
            bound = shared(value);
        } else if (json_number_value(value) + opposites[i].more < 0) {
            return true; /* no count is below 0 */
        } else {
            bound = json_integer((json_int_t)json_number_value(value) + opposites[i].more);
        }
        append(w, out, with(of_type(opposites[i].type), opposites[i].opposite, bound));
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
            append(w, out, object_with(without_member(json_string_value(one))));
        return;
    }
    json_object_foreach((json_t *)value, name, one)
    {
        if (!json_is_true(one))
            append(w, out,
                   object_with(with(with(with_member(name), "properties", object_of(name, not_of(one))),
                                    HTH_SCHEMA_DERIVED, json_true())));
    }
}

/* The values that no alternative accepts, or that two accept. */
static void not_one_of(hth_schema_work *w, const json_t *alternatives, json_t *out)
{
    json_t *none = json_array(), *a, *b;
    size_t n = json_array_size(alternatives), i, j;

    json_array_foreach((json_t *)alternatives, i, a) append(w, none, not_of(a));
    append(w, out, object_of("allOf", none));
    json_array_foreach((json_t *)alternatives, i, a)
    {
        json_array_foreach((json_t *)alternatives, j, b) if (j < i && n <= PAIRS_MAX)
            append(w, out, both(shared(a), shared(b)));
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
            append(w, out, both(object_with(with_member(name)), not_of(asked)));
        json_array_foreach(asked, i, other) if (json_is_string(other))
            append(w, out, both(object_with(with_member(name)), without_member(json_string_value(other))));
    }
}

/* Add the alternatives that break one keyword. False if they cannot be expressed. */
static bool not_keyword(hth_schema_work *w, const json_t *schema, const char *key, const json_t *value, uint32_t path,
                        json_t *out)
{
    json_t *list, *one;
    size_t i;

    if (strcmp(key, "type") == 0 || strcmp(key, HTH_SCHEMA_TYPES) == 0) {
        append(w, out, of_types(HTH_TYPE_ALL & ~hth_schema_types_of(w, schema, path)));
    } else if (strcmp(key, "const") == 0) {
        list = json_array();
        if (append(w, list, shared(value)))
            not_values(w, list, out);
        json_decref(list);
    } else if (strcmp(key, "enum") == 0) {
        not_values(w, value, out);
    } else if (strcmp(key, "required") == 0 || strcmp(key, "properties") == 0) {
        not_members(w, key, value, out);
    } else if (strcmp(key, "items") == 0 && !json_is_array(value) && !json_object_get(schema, "prefixItems")) {
        append(w, out, with(of_type("array"), "contains", not_of(value)));
    } else if (strcmp(key, "contains") == 0 && !json_object_get(schema, "minContains") &&
               !json_object_get(schema, "maxContains")) {
        append(w, out, with(of_type("array"), "items", not_of(value)));
    } else if (strcmp(key, "anyOf") == 0) {
        list = json_array();
        json_array_foreach((json_t *)value, i, one) append(w, list, not_of(one));
        append(w, out, object_of("allOf", list));
    } else if (strcmp(key, "allOf") == 0) {
        json_array_foreach((json_t *)value, i, one) append(w, out, not_of(one));
    } else if (strcmp(key, "oneOf") == 0) {
        not_one_of(w, value, out);
    } else if (strcmp(key, "not") == 0) {
        append(w, out, shared(value));
    } else if (strcmp(key, "$ref") == 0 && json_is_string(value)) {
        const json_t *target = hth_schema_resolve(w, json_string_value(value), path);

        if (target)
            append(w, out, not_of(target));
    } else if (strcmp(key, "if") == 0) {
        const json_t *then = json_object_get(schema, "then"), *otherwise = json_object_get(schema, "else");

        if (then)
            append(w, out, both(shared(value), not_of(then)));
        if (otherwise)
            append(w, out, both(not_of(value), not_of(otherwise)));
    } else if (strcmp(key, "dependentRequired") == 0 || strcmp(key, "dependentSchemas") == 0 ||
               strcmp(key, "dependencies") == 0) {
        not_dependencies(w, value, out);
    } else {
        return not_bound(w, key, value, out);
    }
    return true;
}

/* Does a keyword that not_keyword() did not negate require anything? */
static bool is_left_out(const char *key)
{
    static const char *const known[] = { "multipleOf",        "format",
                                         "prefixItems",       "additionalItems",
                                         "unevaluatedItems",  "items",
                                         "contains",          "uniqueItems",
                                         "patternProperties", "additionalProperties",
                                         "propertyNames",     "unevaluatedProperties",
                                         "$dynamicRef",       "$recursiveRef" };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
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
    json_t *alternatives, *value;
    const char *key;

    if (json_is_boolean(schema))
        return json_is_true(schema) ? json_false() : json_true();
    if (!json_is_object(schema)) {
        hth_schema_fail(w, path, NULL, "a schema must be an object, or true or false");
        return NULL;
    }
    if (!begin(w, schema, HTH_DERIVED_NOT, &known))
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
            is_left = is_left || is_left_out(key);
    }
    if (is_left) {
        w->has_left_out = true;
        w->left_out_path = path;
    }
    if (is_left && !demands)
        hth_schema_fail_not(w, path);
    return keep(w, schema, HTH_DERIVED_NOT,
                json_array_size(alternatives) > 0 ? object_of("anyOf", alternatives)
                                                  : (json_decref(alternatives), json_false()));
}

/* ---- oneOf ------------------------------------------------------------------------------------------------------- */

/* A stored copy of the schema without its oneOf. */
static const json_t *without_one_of(hth_schema_work *w, const json_t *schema)
{
    const json_t *known;
    json_t *plain;

    if (!begin(w, schema, HTH_DERIVED_WITHOUT_ONE_OF, &known))
        return known;
    plain = json_copy((json_t *)schema); /* shallow, so that the parts are shared */
    if (!plain)
        hth_schema_fail_memory(w);
    (void)json_object_del(plain, "oneOf"); /* the key exists */
    return keep(w, schema, HTH_DERIVED_WITHOUT_ONE_OF, plain);
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
    if (b)
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
    uint32_t path;
    json_t *out, *a, *b;
    size_t i, j;

    if (!given)
        return NULL;
    path = hth_schema_path_key(w, item->path, "oneOf");
    if (!json_is_array(given) || json_array_size(given) == 0 || json_array_size(given) > ONE_OF_MAX) {
        hth_schema_fail(w, item->path, "oneOf", "'oneOf' must be a list of 1 to %d schemas", ONE_OF_MAX);
        return NULL;
    }
    if (!begin(w, item->schema, HTH_DERIVED_ONE_OF, &known))
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
        append(w, parts, shared(a));
        append(w, parts, of_types(types));
        json_array_foreach((json_t *)given, j, b)
        {
            if (i != j && hth_schema_spend(w, path, 64) && may_overlap(w, item, a, b, types))
                append(w, parts, not_of(b));
        }
        append(w, out, object_of("allOf", parts));
        if (hth_schema_failed(w))
            break;
    }
    return keep(w, item->schema, HTH_DERIVED_ONE_OF,
                with(object_of("anyOf", out), HTH_SCHEMA_FROM, json_string("oneOf")));
}

/* ---- the others -------------------------------------------------------------------------------------------------- */

const json_t *hth_schema_if(hth_schema_work *w, const hth_schema_item *item)
{
    const json_t *condition = json_object_get(item->schema, "if"), *known;
    const json_t *then = json_object_get(item->schema, "then"), *otherwise = json_object_get(item->schema, "else");
    json_t *out;

    if (!condition || (!then && !otherwise))
        return NULL;
    if (!begin(w, item->schema, HTH_DERIVED_IF, &known))
        return known;
    out = json_array();
    append(w, out, both(shared(condition), then ? shared(then) : json_true()));
    append(w, out, both(not_of(condition), otherwise ? shared(otherwise) : json_true()));
    return keep(w, item->schema, HTH_DERIVED_IF, with(object_of("anyOf", out), HTH_SCHEMA_FROM, json_string("if")));
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
        json_t *choice = json_array();
        json_t *there =
            both(with_member(name), json_is_array(asked) ? object_of("required", shared(asked)) : shared(asked));

        append(w, choice, without_member(name));
        append(w, choice, there);
        append(w, out, object_of("anyOf", choice));
    }
}

const json_t *hth_schema_dependencies(hth_schema_work *w, const hth_schema_item *item)
{
    static const char *const keywords[] = { "dependentRequired", "dependentSchemas", "dependencies" };
    const json_t *known;
    bool any = false;
    json_t *out;

    for (size_t i = 0; i < 3; i++)
        any = any || json_object_get(item->schema, keywords[i]);
    if (!any)
        return NULL;
    if (!begin(w, item->schema, HTH_DERIVED_DEPENDENCIES, &known))
        return known;
    out = json_array();
    for (size_t i = 0; i < 3; i++)
        add_dependencies(w, item, keywords[i], out);
    if (json_array_size(out) == 0) {
        json_decref(out);
        return keep(w, item->schema, HTH_DERIVED_DEPENDENCIES, NULL);
    }
    return keep(w, item->schema, HTH_DERIVED_DEPENDENCIES, object_of("allOf", out));
}

/* OpenAPI's keyword: null is also a value. If the schema lists its values, null must be one of them. */
const json_t *hth_schema_nullable(hth_schema_work *w, const hth_schema_item *item)
{
    const json_t *nullable = json_object_get(item->schema, "nullable"), *known;
    json_t *plain, *out;

    if (!nullable)
        return NULL;
    if (!json_is_boolean(nullable)) {
        hth_schema_fail(w, item->path, "nullable", "'nullable' must be true or false");
        return NULL;
    }
    if (json_is_false(nullable))
        return NULL;
    if (!begin(w, item->schema, HTH_DERIVED_NULLABLE, &known))
        return known;
    plain = json_copy((json_t *)item->schema); /* shallow, so that the parts are shared */
    (void)json_object_del(plain, "nullable");  /* the key exists */
    if (json_object_get(plain, "const") || json_object_get(plain, "enum")) {
        json_t *type = json_object_get(plain, "type"), *types = json_array();

        if (json_is_string(type))
            append(w, types, shared(type));
        else if (json_is_array(type) && json_array_extend(types, type) != 0)
            hth_schema_fail_memory(w);
        append(w, types, json_string("null"));
        out = type ? with(plain, "type", shared(types)) : plain;
        json_decref(types);
    } else {
        json_t *choice = json_array();

        append(w, choice, plain);
        append(w, choice, of_type("null"));
        out = object_of("anyOf", choice);
    }
    return keep(w, item->schema, HTH_DERIVED_NULLABLE, out);
}
