/*
 * schema_check.c - does a schema accept a value, does a goal accept any value at all, and which, if they are listed?
 *
 * A check follows the schema along the value, so the size of the value bounds it. A depth limit ends circular
 * references; the answer is then HTH_UNKNOWN. The search for goals without a value eliminates alternatives. It
 * considers only types, listed values, bounds and required members, and stops early.
 */
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "schema/schema_inside.h"

enum { DEPTH_MAX = 160, PROBES_MAX = 512, EMPTY_DEPTH_MAX = 5, VALUES_DEPTH_MAX = 64 };

/* Are two values equal in the sense of JSON Schema (1 equals 1.0)? Spends steps; false if the work has failed. */
static bool same(hth_schema_work *w, const json_t *a, const json_t *b, uint32_t path)
{
    json_t *one;
    const char *key;
    size_t i;

    if (!hth_schema_spend(w, path, 1))
        return false;
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_string(a))
        return json_string_length(a) == json_string_length(b) &&
               hth_schema_spend(w, path, json_string_length(a) / 16) && json_equal(a, b);
    if (json_is_array(a)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach((json_t *)a, i, one) if (!same(w, one, json_array_get(b, i), path)) return false;
        return true;
    }
    if (json_is_object(a)) {
        if (json_object_size(a) != json_object_size(b))
            return false;
        json_object_foreach((json_t *)a, key, one)
        {
            const json_t *other = json_object_get(b, key);

            if (!other || !hth_schema_spend(w, path, strlen(key) / 16) || !same(w, one, other, path))
                return false;
        }
        return true;
    }
    return json_equal(a, b);
}

uint32_t hth_schema_type_of_value(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL: return HTH_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return HTH_TYPE_BOOLEAN;
    case JSON_INTEGER: return HTH_TYPE_INTEGER;
    case JSON_REAL:
        return floor(json_real_value(value)) == json_real_value(value) ? HTH_TYPE_INTEGER : HTH_TYPE_FRACTION;
    case JSON_STRING: return HTH_TYPE_STRING;
    case JSON_ARRAY: return HTH_TYPE_ARRAY;
    case JSON_OBJECT: break;
    }
    return HTH_TYPE_OBJECT;
}

static size_t n_characters(const char *text, size_t n_bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < n_bytes; i++)
        n += !hth_utf8_goes_on(text[i]);
    return n;
}

static int compare(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) < json_integer_value(b) ? -1 : json_integer_value(a) > json_integer_value(b);
    return json_number_value(a) < json_number_value(b) ? -1 : json_number_value(a) > json_number_value(b);
}

/* ---- checking a value -------------------------------------------------------------------------------------------- */

typedef struct check {
    hth_schema_work *w;
    uint32_t path;
    int depth;
} check;

static hth_schema_answer accepts(check *c, const json_t *schema, const json_t *value);

static hth_schema_answer all(hth_schema_answer a, hth_schema_answer b)
{
    return a == HTH_NO || b == HTH_NO ? HTH_NO : a == HTH_UNKNOWN || b == HTH_UNKNOWN ? HTH_UNKNOWN : HTH_YES;
}

static hth_schema_answer any(hth_schema_answer a, hth_schema_answer b)
{
    return a == HTH_YES || b == HTH_YES ? HTH_YES : a == HTH_UNKNOWN || b == HTH_UNKNOWN ? HTH_UNKNOWN : HTH_NO;
}

static hth_schema_answer no(hth_schema_answer a)
{
    return a == HTH_UNKNOWN ? a : a == HTH_YES ? HTH_NO : HTH_YES;
}

static hth_schema_answer answer_of(bool is_so)
{
    return is_so ? HTH_YES : HTH_NO;
}

static hth_schema_answer number_accepts(const json_t *schema, const json_t *value)
{
    static const struct {
        const char *key;
        int least, most; /* the results of compare() that are allowed */
    } bounds[] = {
        { "minimum", 0, 1 }, { "exclusiveMinimum", 1, 1 }, { "maximum", -1, 0 }, { "exclusiveMaximum", -1, -1 }
    };
    const json_t *step = json_object_get(schema, "multipleOf");
    double of = json_number_value(value);

    for (size_t i = 0; i < 4; i++) {
        const json_t *bound = json_object_get(schema, bounds[i].key);
        int order = json_is_number(bound) ? compare(value, bound) : 0;

        if (json_is_number(bound) && (order < bounds[i].least || order > bounds[i].most))
            return HTH_NO;
    }
    if (json_is_integer(step) && json_is_integer(value) && json_integer_value(step) > 0)
        return answer_of(json_integer_value(value) % json_integer_value(step) == 0);
    if (json_number_value(step) > 0) {
        double times = of / json_number_value(step);

        return fabs(times) > 1e15 ? HTH_UNKNOWN : answer_of(fabs(times - round(times)) < 1e-9 * (1 + fabs(times)));
    }
    return HTH_YES;
}

static bool is_within(const json_t *schema, const char *least, const char *most, size_t n)
{
    const json_t *low = json_object_get(schema, least), *high = json_object_get(schema, most);

    return !(json_is_number(low) && (double)n < json_number_value(low)) &&
           !(json_is_number(high) && (double)n > json_number_value(high));
}

static hth_schema_answer string_accepts(check *c, const json_t *schema, const json_t *value)
{
    static const char *const keys[] = { "pattern", HTH_SCHEMA_NOT_PATTERN };
    const char *text = json_string_value(value);
    size_t n = json_string_length(value), i;
    json_t *one;

    if (!is_within(schema, "minLength", "maxLength", n_characters(text, n)))
        return HTH_NO;
    for (int k = 0; k < 2; k++) {
        const json_t *pattern = json_object_get(schema, keys[k]);

        if (json_is_string(pattern) &&
            hth_schema_matches(c->w, json_string_value(pattern), pattern, text, n, c->path, "pattern") == (k == 1))
            return HTH_NO;
    }
    json_array_foreach(json_object_get(schema, HTH_SCHEMA_NOT_TEXTS), i,
                       one) if (same(c->w, one, value, c->path)) return HTH_NO;
    return HTH_YES; /* a listed value counts as one of the format */
}

static hth_schema_answer array_accepts(check *c, const json_t *schema, const json_t *value)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *rest = json_object_get(schema, "items");
    const json_t *contains = json_object_get(schema, "contains");
    hth_schema_answer answer = answer_of(is_within(schema, "minItems", "maxItems", json_array_size(value)));
    size_t n_yes = 0, n_unknown = 0, i, j;
    json_t *item, *other;

    if (json_is_array(rest)) {
        prefix = rest;
        rest = json_object_get(schema, "additionalItems");
    }
    json_array_foreach((json_t *)value, i, item)
    {
        const json_t *must = i < json_array_size(prefix) ? json_array_get(prefix, i) : rest;

        if (must)
            answer = all(answer, accepts(c, must, item));
        if (contains) {
            hth_schema_answer is_one = accepts(c, contains, item);

            n_yes += is_one == HTH_YES;
            n_unknown += is_one == HTH_UNKNOWN;
        }
        if (json_is_true(json_object_get(schema, "uniqueItems")))
            json_array_foreach((json_t *)value, j, other) if (j < i && hth_schema_spend(c->w, c->path, 4) &&
                                                              same(c->w, item, other, c->path)) answer = HTH_NO;
    }
    if (contains && n_unknown > 0) {
        answer = all(answer, HTH_UNKNOWN);
    } else if (contains) {
        const json_t *least = json_object_get(schema, "minContains"), *most = json_object_get(schema, "maxContains");

        answer = all(answer, answer_of((double)n_yes >= (least ? json_number_value(least) : 1) &&
                                       (!most || (double)n_yes <= json_number_value(most))));
    }
    return json_object_get(schema, "unevaluatedItems") ? all(answer, HTH_UNKNOWN) : answer;
}

static hth_schema_answer member_accepts(check *c, const json_t *schema, const char *name, const json_t *member)
{
    const json_t *must = json_object_get(json_object_get(schema, "properties"), name);
    hth_schema_answer answer = HTH_YES;
    bool is_known = must != NULL;
    const char *pattern;
    json_t *one;

    if (must)
        answer = accepts(c, must, member);
    json_object_foreach(json_object_get(schema, "patternProperties"), pattern, one)
    {
        if (hth_schema_matches(c->w, pattern, one, name, strlen(name), c->path, "patternProperties")) {
            is_known = true;
            answer = all(answer, accepts(c, one, member));
        }
    }
    must = json_object_get(schema, "additionalProperties");
    if (must && !is_known)
        answer = all(answer, accepts(c, must, member));
    must = json_object_get(schema, "propertyNames");
    if (must) {
        json_t *as_value = json_string(name);

        answer = all(answer, as_value ? accepts(c, must, as_value) : HTH_UNKNOWN);
        json_decref(as_value);
    }
    return answer;
}

static hth_schema_answer object_accepts(check *c, const json_t *schema, const json_t *value)
{
    static const char *const dependencies[] = { "dependentRequired", "dependentSchemas", "dependencies" };
    hth_schema_answer answer = answer_of(is_within(schema, "minProperties", "maxProperties", json_object_size(value)));
    const char *name;
    json_t *one, *other;
    size_t i;

    json_array_foreach(json_object_get(schema, "required"), i,
                       one) if (json_is_string(one) && !json_object_get(value, json_string_value(one))) answer = HTH_NO;
    json_object_foreach((json_t *)value, name, one) answer = all(answer, member_accepts(c, schema, name, one));
    for (size_t k = 0; k < 3; k++)
        json_object_foreach(json_object_get(schema, dependencies[k]), name, one)
        {
            if (!json_object_get(value, name))
                continue;
            if (!json_is_array(one))
                answer = all(answer, accepts(c, one, value));
            json_array_foreach(one, i, other) if (json_is_string(other) &&
                                                  !json_object_get(value, json_string_value(other))) answer = HTH_NO;
        }
    return json_object_get(schema, "unevaluatedProperties") ? all(answer, HTH_UNKNOWN) : answer;
}

static hth_schema_answer combination_accepts(check *c, const json_t *schema, const json_t *value)
{
    hth_schema_answer answer = HTH_YES, one_of = HTH_NO;
    const json_t *given;
    size_t i, n_yes = 0, n_unknown = 0;
    json_t *one;

    json_array_foreach(json_object_get(schema, "allOf"), i, one) answer = all(answer, accepts(c, one, value));
    given = json_object_get(schema, "anyOf");
    json_array_foreach((json_t *)given, i, one) one_of = any(one_of, accepts(c, one, value));
    answer = given ? all(answer, one_of) : answer;
    given = json_object_get(schema, "oneOf");
    json_array_foreach((json_t *)given, i, one)
    {
        hth_schema_answer is_one = accepts(c, one, value);

        n_yes += is_one == HTH_YES;
        n_unknown += is_one == HTH_UNKNOWN;
    }
    if (given)
        answer = all(answer, n_yes > 1 ? HTH_NO : n_unknown > 0 ? HTH_UNKNOWN : answer_of(n_yes == 1));
    given = json_object_get(schema, "not");
    if (given)
        answer = all(answer, no(accepts(c, given, value)));
    given = json_object_get(schema, "if");
    if (given) {
        hth_schema_answer is_so = accepts(c, given, value);
        const json_t *then = json_object_get(schema, "then"), *otherwise = json_object_get(schema, "else");

        if (is_so != HTH_NO && then)
            answer = all(answer, any(no(is_so), accepts(c, then, value)));
        if (is_so != HTH_YES && otherwise)
            answer = all(answer, any(is_so, accepts(c, otherwise, value)));
    }
    return answer;
}

static hth_schema_answer accepts_object(check *c, const json_t *schema, const json_t *value)
{
    const json_t *given = json_object_get(schema, "$ref");
    hth_schema_answer answer = HTH_YES;
    uint32_t type = hth_schema_type_of_value(value);
    bool is_listed = false;
    json_t *one;
    size_t i;

    if (json_is_string(given)) {
        const json_t *target = hth_schema_resolve(c->w, json_string_value(given), c->path);

        answer = target ? accepts(c, target, value) : HTH_UNKNOWN;
        if (c->w->ignores_siblings)
            return answer;
    }
    if (json_object_get(schema, "$dynamicRef") || json_object_get(schema, "$recursiveRef"))
        return HTH_UNKNOWN;
    if (json_is_true(json_object_get(schema, "nullable")) && json_is_null(value) && !json_object_get(schema, "enum") &&
        !json_object_get(schema, "const"))
        return HTH_YES;
    if (!(hth_schema_types_of(c->w, schema, c->path) & type) &&
        !(json_is_null(value) && json_is_true(json_object_get(schema, "nullable"))))
        return HTH_NO;
    given = json_object_get(schema, "const");
    if (given && !same(c->w, given, value, c->path))
        return HTH_NO;
    given = json_object_get(schema, "enum");
    json_array_foreach((json_t *)given, i, one)
    {
        if (!hth_schema_spend(c->w, c->path, 2))
            return HTH_UNKNOWN;
        is_listed = is_listed || same(c->w, one, value, c->path);
    }
    if (given && !is_listed)
        return HTH_NO;
    if (type & HTH_TYPE_NUMBER)
        answer = all(answer, number_accepts(schema, value));
    else if (type == HTH_TYPE_STRING)
        answer = all(answer, string_accepts(c, schema, value));
    else if (type == HTH_TYPE_ARRAY)
        answer = all(answer, array_accepts(c, schema, value));
    else if (type == HTH_TYPE_OBJECT)
        answer = all(answer, object_accepts(c, schema, value));
    return answer == HTH_NO ? answer : all(answer, combination_accepts(c, schema, value));
}

static hth_schema_answer accepts(check *c, const json_t *schema, const json_t *value)
{
    hth_schema_answer answer;

    if (json_is_boolean(schema))
        return answer_of(json_is_true(schema));
    if (!json_is_object(schema) || c->depth >= DEPTH_MAX || !hth_schema_spend(c->w, c->path, 24))
        return HTH_UNKNOWN;
    c->depth++;
    answer = accepts_object(c, schema, value);
    c->depth--;
    return hth_schema_failed(c->w) ? HTH_UNKNOWN : answer;
}

hth_schema_answer hth_schema_accepts(hth_schema_work *w, const json_t *schema, const json_t *value, uint32_t path)
{
    check c = { .w = w, .path = path };

    return accepts(&c, schema, value);
}

static hth_schema_answer items_accept(hth_schema_work *w, const hth_schema_items *items, const json_t *value)
{
    hth_schema_answer answer = items->is_false ? HTH_NO : HTH_YES;

    for (size_t i = 0; i < items->n && answer != HTH_NO; i++)
        answer = all(answer, hth_schema_accepts(w, items->at[i].schema, value, items->at[i].path));
    return answer;
}

/* ---- goals without a value --------------------------------------------------------------------------------------- */

/* Does an item list its values, and is none of them left? *is_listed: an item lists its values. */
static bool has_no_listed_value(hth_schema_work *w, const hth_schema_items *items, uint32_t types, bool *is_listed)
{
    *is_listed = false;
    for (size_t i = 0; i < items->n; i++) {
        const json_t *list = json_object_get(items->at[i].schema, "enum");
        const json_t *value = json_object_get(items->at[i].schema, "const");
        json_t *one;
        size_t j;

        if (!json_is_array(list) && !value)
            continue;
        *is_listed = true;
        if (value)
            return !(hth_schema_type_of_value(value) & types) || items_accept(w, items, value) == HTH_NO;
        json_array_foreach((json_t *)list, j, one) if ((hth_schema_type_of_value(one) & types) &&
                                                       items_accept(w, items, one) != HTH_NO) return false;
        return true;
    }
    return false;
}

/* Is the highest lower bound above the lowest upper bound? */
static bool has_no_number(const hth_schema_items *items)
{
    const char *const keys[] = { "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum" };
    double low = -INFINITY, high = INFINITY;
    bool low_is_open = false, high_is_open = false;

    for (size_t i = 0; i < items->n; i++)
        for (size_t k = 0; k < 4; k++) {
            const json_t *bound = json_object_get(items->at[i].schema, keys[k]);
            double value = json_number_value(bound);

            if (!json_is_number(bound))
                continue;
            if (k < 2 && value >= low) {
                low_is_open = value > low ? k == 1 : low_is_open || k == 1;
                low = value;
            } else if (k >= 2 && value <= high) {
                high_is_open = value < high ? k == 3 : high_is_open || k == 3;
                high = value;
            }
        }
    return low > high || (low == high && (low_is_open || high_is_open) && fabs(low) < 0x1p53);
}

static bool has_no_count(const hth_schema_items *items, const char *least, const char *most)
{
    double low = 0, high = INFINITY;

    for (size_t i = 0; i < items->n; i++) {
        const json_t *a = json_object_get(items->at[i].schema, least), *b = json_object_get(items->at[i].schema, most);

        if (json_is_number(a) && json_number_value(a) > low)
            low = json_number_value(a);
        if (json_is_number(b) && json_number_value(b) < high)
            high = json_number_value(b);
    }
    return low > high;
}

static bool has_no_object(hth_schema_work *w, const hth_schema_items *items, int depth)
{
    bool is_empty = has_no_count(items, "minProperties", "maxProperties");

    for (size_t i = 0; i < items->n && !is_empty; i++) {
        json_t *name;
        size_t j;

        json_array_foreach(json_object_get(items->at[i].schema, "required"), j, name)
        {
            hth_schema_items member = { .n = 0 };

            if (is_empty || !json_is_string(name))
                continue;
            is_empty = !hth_schema_member(w, items, json_string_value(name), 0, &member);
            if (!is_empty && member.n > 0) {
                hth_schema_expand(w, &member);
                is_empty = hth_schema_is_empty(w, &member, HTH_TYPE_ALL, depth + 1);
            }
            hth_schema_items_free(&member);
        }
    }
    return is_empty && !hth_schema_failed(w);
}

bool hth_schema_is_empty(hth_schema_work *w, const hth_schema_items *items, uint32_t types, int depth)
{
    size_t choice = hth_schema_open_choice(items);
    bool is_listed, is_empty = true;

    if (depth == 0)
        w->n_probes = PROBES_MAX;
    if (items->is_false)
        return true;
    for (size_t i = 0; i < items->n; i++)
        types &= hth_schema_types_of(w, items->at[i].schema, items->at[i].path);
    if (types == 0)
        return true;
    if (hth_schema_failed(w) || w->n_probes == 0 || depth > EMPTY_DEPTH_MAX)
        return false;
    w->n_probes--;
    is_empty = has_no_listed_value(w, items, types, &is_listed);
    if (is_listed)
        return is_empty && !hth_schema_failed(w);
    if (!(types & (HTH_TYPE_NULL | HTH_TYPE_BOOLEAN)) && (!(types & HTH_TYPE_NUMBER) || has_no_number(items)) &&
        (!(types & HTH_TYPE_STRING) || has_no_count(items, "minLength", "maxLength")) &&
        (!(types & HTH_TYPE_ARRAY) || has_no_count(items, "minItems", "maxItems")) &&
        (!(types & HTH_TYPE_OBJECT) || has_no_object(w, items, depth)))
        return !hth_schema_failed(w);
    if (choice == items->n)
        return false;
    for (size_t i = 0; i < json_array_size(json_object_get(items->at[choice].schema, "anyOf")); i++) {
        hth_schema_items chosen = hth_schema_with_choice(w, items, choice, i);

        is_empty = hth_schema_is_empty(w, &chosen, types, depth + 1);
        hth_schema_items_free(&chosen);
        if (!is_empty || hth_schema_failed(w))
            return false;
    }
    return true;
}

/* ---- values of a goal -------------------------------------------------------------------------------------------- */

size_t hth_schema_list(hth_schema_work *w, const hth_schema_items *items)
{
    size_t found = items->n;

    for (size_t i = 0; i < items->n; i++) {
        const json_t *list = json_object_get(items->at[i].schema, "enum");

        if (list && (!json_is_array(list) || json_array_size(list) == 0))
            hth_schema_fail(w, items->at[i].path, "enum", "'enum' must be a list of values");
        if (found == items->n && (list || json_object_get(items->at[i].schema, "const")))
            found = i;
    }
    return found;
}

json_t *hth_schema_listed(hth_schema_work *w, const hth_schema_items *items, size_t list)
{
    const json_t *schema = items->at[list].schema, *value = json_object_get(schema, "const");
    json_t *left = json_array(),
           *values = value ? json_pack("[O]", value) : json_incref(json_object_get(schema, "enum"));
    size_t i;
    json_t *one;

    if (!left || !values)
        hth_schema_fail_memory(w);
    json_array_foreach(values, i, one)
    {
        hth_schema_answer answer = items_accept(w, items, one);

        if (answer == HTH_UNKNOWN)
            hth_schema_fail(w, items->at[list].path, value ? "const" : "enum",
                            "it cannot be decided whether value %zu meets the whole schema", i + 1);
        if (answer == HTH_YES && json_array_append(left, one) != 0)
            hth_schema_fail_memory(w);
    }
    json_decref(values);
    if (hth_schema_failed(w)) {
        json_decref(left);
        return NULL;
    }
    return left;
}

/* Add the values of a to b, each once. False if there are more than n_max, or the work failed. */
static bool join_values(hth_schema_work *w, const json_t *a, json_t *b, size_t n_max)
{
    json_t *one, *other;
    size_t i, j;

    json_array_foreach((json_t *)a, i, one)
    {
        bool is_there = false;

        if (!hth_schema_spend(w, 0, json_array_size(b)))
            return false;
        json_array_foreach(b, j, other) is_there = is_there || same(w, one, other, 0);
        if (!is_there && (json_array_size(b) == n_max || json_array_append(b, one) != 0))
            return false;
    }
    return true;
}

/* Like hth_schema_values. A circle of anyOf never ends, so too many choices count as too many values. */
static json_t *values_of(hth_schema_work *w, const hth_schema_items *items, size_t n_max, int depth)
{
    size_t choice = hth_schema_open_choice(items), list = hth_schema_list(w, items);
    json_t *out = json_array();
    bool ok = out != NULL && depth < VALUES_DEPTH_MAX;

    if (ok && (hth_schema_failed(w) || items->is_false))
        return out;
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    if (list < items->n) {
        json_t *left = hth_schema_listed(w, items, list);

        ok = left && join_values(w, left, out, n_max);
        json_decref(left);
    } else if (choice < items->n) {
        size_t n = json_array_size(json_object_get(items->at[choice].schema, "anyOf"));

        for (size_t i = 0; i < n && ok && hth_schema_spend(w, items->at[choice].path, 256); i++) {
            hth_schema_items chosen = hth_schema_with_choice(w, items, choice, i);
            json_t *left = values_of(w, &chosen, n_max, depth + 1);

            ok = left && join_values(w, left, out, n_max);
            json_decref(left);
            hth_schema_items_free(&chosen);
        }
    } else {
        uint32_t types = hth_schema_types(w, items);

        ok = ok && !(types & ~(uint32_t)(HTH_TYPE_NULL | HTH_TYPE_BOOLEAN));
        if (ok && (types & HTH_TYPE_NULL))
            ok = json_array_append_new(out, json_null()) == 0;
        if (ok && (types & HTH_TYPE_BOOLEAN))
            ok = json_array_append_new(out, json_true()) == 0 && json_array_append_new(out, json_false()) == 0;
        ok = ok && json_array_size(out) <= n_max;
    }
    if (ok && !hth_schema_failed(w))
        return out;
    json_decref(out);
    return NULL;
}

json_t *hth_schema_values(hth_schema_work *w, const hth_schema_items *items, size_t n_max)
{
    return values_of(w, items, n_max, 0);
}
