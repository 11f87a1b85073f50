/*
 * schema_array.c - arrays
 *
 * A rule describes the rest of an array. It depends on the number i of items before it, and on the number c of items
 * that each "contains" has counted. Positions after the prefix and the bounds are all alike, so the last rule leads to
 * itself.
 *
 *   rule(i, c...) ::= item i rule(i + 1, c...) | counted item i rule(i + 1, c + 1...) | end
 *
 * Unique items can be honored if their values are listed. Each value then occurs at most once: in any order if they are
 * few, otherwise in the order of the list.
 */
#include <stdlib.h>

#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

enum { CONTAINS_MAX = 3, UNIQUE_MAX = 4096 };

typedef struct counted {
    const json_t *schema;
    uint32_t path;
    uint32_t least, most, top; /* top: the highest count with rules of its own */
} counted;

typedef struct array {
    hth_schema_work *w;
    const hth_schema_items *items;
    uint32_t path;
    size_t n_prefix;
    uint32_t least, most; /* UINT32_MAX: any number */
    uint32_t top;         /* positions from here on are alike */
    bool has_rest;        /* a keyword describes the items after the prefix */
    counted contains[CONTAINS_MAX];
    size_t n_contains, n_counts; /* n_counts: combinations of the counts */
    uint32_t *rules;             /* by position and counts */
} array;

/* ---- keywords ---------------------------------------------------------------------------------------------------- */

static const json_t *prefix_of(const json_t *schema)
{
    const json_t *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");

    return prefix ? prefix : json_is_array(items) ? items : NULL;
}

static const json_t *rest_of(const json_t *schema, const char **keyword)
{
    const json_t *items = json_object_get(schema, "items");

    *keyword = json_is_array(items) ? "additionalItems" : "items";
    return json_is_array(items) ? json_object_get(schema, "additionalItems") : items;
}

static void take_contains(array *a, const hth_schema_item *item)
{
    const json_t *given = json_object_get(item->schema, "contains");
    counted *to = &a->contains[a->n_contains];

    if (!given)
        return;
    if (a->n_contains == CONTAINS_MAX) {
        hth_schema_fail(a->w, item->path, "contains", "more than %d 'contains' bind one array", CONTAINS_MAX);
        return;
    }
    *to = (counted){ .schema = given, .path = hth_schema_path_key(a->w, item->path, "contains") };
    to->least = hth_schema_count(a->w, item, "minContains", 1);
    to->most = hth_schema_count(a->w, item, "maxContains", UINT32_MAX);
    to->top = to->most != UINT32_MAX ? to->most : to->least;
    if (to->top > 0 || to->most != UINT32_MAX)
        a->n_contains++;
}

/* The length of the prefix up to the first item that cannot exist. */
static uint32_t n_complete(const array *a)
{
    size_t n = a->n_prefix;

    for (size_t i = 0; i < a->items->n; i++) {
        const json_t *prefix = prefix_of(a->items->at[i].schema);

        for (size_t j = 0; j < json_array_size(prefix) && j < n; j++)
            if (json_is_false(json_array_get(prefix, j)))
                n = j;
    }
    return (uint32_t)n;
}

static void take_keywords(array *a)
{
    bool has_least = false, has_unevaluated = false;

    hth_schema_counts(a->w, a->items, (const char *const[]){ "minItems", "maxItems" }, &a->least, &a->most);
    for (size_t i = 0; i < a->items->n; i++) {
        const hth_schema_item *item = &a->items->at[i];
        const json_t *prefix = prefix_of(item->schema), *unique = json_object_get(item->schema, "uniqueItems");
        const char *keyword;

        if (prefix && (!json_is_array(prefix) || json_array_size(prefix) == 0))
            hth_schema_fail(a->w, item->path, "prefixItems", "'prefixItems' must be a list of schemas");
        if (unique && !json_is_boolean(unique))
            hth_schema_fail(a->w, item->path, "uniqueItems", "'uniqueItems' must be true or false");
        if (json_array_size(prefix) > a->n_prefix)
            a->n_prefix = json_array_size(prefix);
        a->has_rest = a->has_rest || rest_of(item->schema, &keyword);
        has_unevaluated = has_unevaluated || json_object_get(item->schema, "unevaluatedItems");
        has_least = has_least || json_object_get(item->schema, "minItems");
        take_contains(a, item);
    }
    if (a->n_prefix > a->w->repetitions_max)
        hth_schema_fail(a->w, a->path, "prefixItems", "a list of more than %u items", a->w->repetitions_max);
    /* For replies, a list of items is complete. */
    if (a->n_prefix > 0 && !a->w->is_literal) {
        uint32_t n = n_complete(a);

        if (!has_least)
            a->least = n < a->most ? n : a->most;
        if (!a->has_rest && !has_unevaluated && n < a->most)
            a->most = n;
    }
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

/* The items that describe the array's item at a position. */
static void items_at(array *a, size_t position, hth_schema_items *out)
{
    hth_schema_work *w = a->w;
    bool is_evaluated = false;

    for (size_t i = 0; i < a->items->n; i++) {
        const hth_schema_item *item = &a->items->at[i];
        const json_t *prefix = prefix_of(item->schema), *rest;
        const char *keyword;

        if (position < json_array_size(prefix)) {
            uint32_t path = hth_schema_path_key(w, item->path,
                                                json_object_get(item->schema, "prefixItems") ? "prefixItems" : "items");

            hth_schema_items_add(w, out, json_array_get(prefix, position), hth_schema_path_index(w, path, position), 0);
            is_evaluated = true;
            continue;
        }
        rest = rest_of(item->schema, &keyword);
        if (rest) {
            hth_schema_items_add(w, out, rest, hth_schema_path_key(w, item->path, keyword), 0);
            is_evaluated = true;
        }
    }
    for (size_t i = 0; i < a->items->n && !is_evaluated; i++) {
        const hth_schema_item *item = &a->items->at[i];
        const json_t *one = json_object_get(item->schema, "unevaluatedItems");

        if (one && !(item->flags & HTH_ITEM_ORIGIN))
            hth_schema_fail(w, item->path, "unevaluatedItems",
                            "'unevaluatedItems' cannot be honoured where other schemas hold, too; write it into the "
                            "outermost");
        if (one)
            hth_schema_items_add(w, out, one, hth_schema_path_key(w, item->path, "unevaluatedItems"), 0);
    }
}

/*
 * The rule of an item at a position. Each "contains" whose bit is set counts it; one with a maximum must not match if
 * its bit is not set.
 */
static uint32_t item_rule(array *a, size_t position, uint32_t bits)
{
    hth_schema_items items = { .n = 0 };
    uint32_t rule;

    items_at(a, position, &items);
    for (size_t i = 0; i < a->n_contains; i++) {
        const json_t *schema = a->contains[i].schema;

        if (!(bits >> i & 1) && a->contains[i].most == UINT32_MAX)
            continue; /* it may count it or not */
        if (!(bits >> i & 1))
            schema = hth_schema_not(a->w, schema, a->contains[i].path);
        hth_schema_items_add(a->w, &items, schema, a->contains[i].path, 0);
    }
    rule = hth_schema_rule_of(a->w, &items);
    hth_schema_items_free(&items);
    return rule;
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static uint32_t *rule_at(const array *a, uint32_t position, size_t counts)
{
    return &a->rules[(size_t)position * a->n_counts + counts];
}

/* The counts after an item that the "contains" with these bits count; SIZE_MAX: too many. */
static size_t counts_after(const array *a, size_t counts, uint32_t bits)
{
    size_t unit = 1, after = counts;

    for (size_t i = 0; i < a->n_contains; i++) {
        const counted *one = &a->contains[i];
        size_t count = counts / unit % ((size_t)one->top + 1);

        if (bits >> i & 1) {
            if (count < one->top)
                after += unit;
            else if (one->most != UINT32_MAX)
                return SIZE_MAX;
        }
        unit *= (size_t)one->top + 1;
    }
    return after;
}

static bool may_end(const array *a, uint32_t position, size_t counts)
{
    size_t unit = 1;

    for (size_t i = 0; i < a->n_contains; i++) {
        if (counts / unit % ((size_t)a->contains[i].top + 1) < a->contains[i].least)
            return false;
        unit *= (size_t)a->contains[i].top + 1;
    }
    return position >= a->least;
}

/* Add the alternatives of the rest after position items. items: the rules of the next item, by bits. */
static void fill(const array *a, uint32_t position, size_t counts, const uint32_t *items)
{
    hth_schema_work *w = a->w;
    uint32_t rule = *rule_at(a, position, counts), next = position < a->top ? position + 1 : position;
    size_t base = w->tables.n_stack;

    for (uint32_t bits = 0; bits < 1u << a->n_contains && position < a->most; bits++) {
        size_t after = counts_after(a, counts, bits);

        if (after == SIZE_MAX || items[bits] == NONE)
            continue;
        if (position > 0) {
            hth_schema_push_text(w, ",");
            hth_schema_push_space(w);
        }
        hth_schema_push_rule(w, items[bits]);
        hth_schema_push_rule(w, *rule_at(a, next, after));
        hth_schema_end(w, rule, base);
    }
    if (!may_end(a, position, counts))
        return;
    if (position > 0)
        hth_schema_push_space(w);
    hth_schema_push_text(w, "]");
    hth_schema_end(w, rule, base);
}

/* False: too many rules. */
static bool add_rules(array *a, uint32_t rule)
{
    hth_schema_work *w = a->w;
    size_t n_cells, base = w->tables.n_stack;
    uint32_t items[1 << CONTAINS_MAX] = { 0 };

    a->n_counts = 1;
    for (size_t i = 0; i < a->n_contains; i++)
        a->n_counts *= (size_t)a->contains[i].top + 1; /* at most 10001 ^ 3 */
    a->top = a->most != UINT32_MAX ? a->most : a->least > 1 ? a->least : 1;
    if (a->top < a->n_prefix)
        a->top = (uint32_t)a->n_prefix;
    if (a->n_counts > HTH_GBNF_RULES_MAX)
        return false;
    n_cells = (a->top + (size_t)1) * a->n_counts;
    if (!hth_schema_has_room(w, n_cells))
        return false;
    if (!hth_schema_spend(w, a->path, n_cells))
        return true;
    a->rules = calloc(n_cells, sizeof(a->rules[0]));
    if (!a->rules) {
        hth_schema_fail_memory(w);
        return true;
    }
    for (size_t i = 0; i < n_cells && !hth_schema_failed(w); i++)
        a->rules[i] = hth_gbnf_add_rule(&w->tables);
    for (uint32_t i = 0; i <= a->top && !hth_schema_failed(w); i++) {
        for (uint32_t bits = 0; i <= a->n_prefix && bits < 1u << a->n_contains; bits++)
            items[bits] = item_rule(a, i, bits); /* the same for all positions after the prefix */
        for (size_t counts = 0; counts < a->n_counts && !hth_schema_failed(w); counts++)
            fill(a, i, counts, items);
    }
    if (!hth_schema_failed(w)) {
        hth_schema_push_text(w, "[");
        hth_schema_push_space(w);
        hth_schema_push_rule(w, a->rules[0]);
        hth_schema_end(w, rule, base);
    }
    free(a->rules);
    a->rules = NULL;
    return true;
}

/* ---- unique items ------------------------------------------------------------------------------------------------ */

/* Bounds of the array may come from its prefix, without a keyword of their own. */
static uint32_t path_of(const array *a, const char *keyword)
{
    uint32_t path = hth_schema_path_of(a->items, keyword);

    return path != NONE ? path : a->path;
}

static bool must_be_unique(const array *a)
{
    for (size_t i = 0; i < a->items->n; i++)
        if (json_is_true(json_object_get(a->items->at[i].schema, "uniqueItems")))
            return a->most > 1;
    return false;
}

static void add_unique(array *a, uint32_t rule)
{
    hth_schema_work *w = a->w;
    hth_schema_sequence sequence = {
        .begin = "[",
        .end = "]",
        .more = NONE,
        .least = a->least,
        .most = a->most,
        .counts = "minItems and maxItems",
        .path = a->path,
    };
    hth_schema_items items = { .n = 0 };
    json_t *values = NULL, *one;
    hth_schema_part *parts;
    size_t i;

    items_at(a, 0, &items);
    hth_schema_expand(w, &items);
    if (a->n_prefix == 0 && a->n_contains == 0)
        values = hth_schema_values(w, &items, UNIQUE_MAX);
    hth_schema_items_free(&items);
    if (!values) {
        hth_schema_fail(w, path_of(a, "uniqueItems"), "uniqueItems",
                        "'uniqueItems' can be honoured only where the values of items are listed by 'enum' or 'const', "
                        "without 'prefixItems' and 'contains'; leave it out");
        return;
    }
    parts = malloc((json_array_size(values) + 1) * sizeof(parts[0]));
    if (!parts)
        hth_schema_fail_memory(w);
    json_array_foreach(values, i, one)
    {
        size_t base = w->tables.n_stack;

        if (!parts || hth_schema_failed(w))
            break;
        parts[i] = (hth_schema_part){ .rule = hth_gbnf_add_rule(&w->tables) };
        hth_schema_push_value(w, one);
        hth_schema_end(w, parts[i].rule, base);
    }
    sequence.parts = parts;
    sequence.n_parts = json_array_size(values);
    sequence.is_any_order = sequence.n_parts <= HTH_SCHEMA_ANY_ORDER_MAX;
    hth_schema_add_sequence(w, &sequence, rule);
    free(parts);
    json_decref(values);
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

void hth_schema_array(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    array a = { .w = w, .items = items };
    size_t base = w->tables.n_stack;

    if (!hth_schema_has_keywords_for(items, HTH_TYPE_ARRAY)) {
        hth_schema_push_shared(w, HTH_SHARED_ARRAY);
        hth_schema_end(w, rule, base);
        return;
    }
    a.path = items->at[0].path;
    take_keywords(&a);
    if (hth_schema_failed(w) || a.least > a.most)
        return;
    if (must_be_unique(&a)) {
        add_unique(&a, rule);
        return;
    }
    while (!add_rules(&a, rule)) {
        if (a.most != UINT32_MAX) {
            hth_schema_note(w, path_of(&a, "maxItems"), "maxItems", "dropped");
            a.most = UINT32_MAX;
        } else if (a.least > 0) {
            hth_schema_note(w, path_of(&a, "minItems"), "minItems", "dropped");
            a.least = 0;
        } else {
            hth_schema_fail(w, path_of(&a, "contains"), "contains",
                            "'contains' takes too many rules; lower its counts");
            return;
        }
    }
}
