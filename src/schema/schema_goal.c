/*
 * schema_goal.c - compile one goal: to its open alternatives, or its listed values, or its types
 *
 * If a goal has an open anyOf, each alternative of it, together with the items, becomes its own goal. Alternatives that
 * certainly have no value are left out, because otherwise combinations of alternatives would multiply needlessly.
 */
#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

enum { VALUES_DEPTH_MAX = 64 };

static void compile_choice(hth_schema_work *w, const hth_schema_items *items, size_t choice, uint32_t rule)
{
    size_t n = json_array_size(json_object_get(items->at[choice].schema, "anyOf"));

    for (size_t i = 0; i < n && hth_schema_spend(w, items->at[choice].path, 16); i++) {
        hth_schema_items chosen = { .n = 0 };
        size_t base = w->tables.n_stack;

        hth_schema_with_choice(w, items, choice, i, &chosen);
        hth_schema_expand(w, &chosen);
        if (!hth_schema_is_empty(w, &chosen, HTH_TYPE_ALL, 0)) {
            uint32_t one = hth_schema_rule_of(w, &chosen);

            if (one != NONE) {
                hth_schema_push_rule(w, one);
                hth_schema_end(w, rule, base);
            }
        }
        hth_schema_items_free(&chosen);
    }
}

/* The item that lists its values; items->n: none. */
static size_t find_list(hth_schema_work *w, const hth_schema_items *items)
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

/* The values on the list of one item that all items accept, in a new array. NULL if the work has failed. */
static json_t *listed_values(hth_schema_work *w, const hth_schema_items *items, size_t list)
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
        hth_schema_answer answer = hth_schema_items_accept(w, items, one);

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
        json_array_foreach(b, j, other) is_there = is_there || hth_schema_same(w, one, other, 0);
        if (!is_there && (json_array_size(b) == n_max || json_array_append(b, one) != 0))
            return false;
    }
    return true;
}

/* Like hth_schema_values. A circle of anyOf never ends, so too many choices count as too many values. */
static json_t *values_of(hth_schema_work *w, const hth_schema_items *items, size_t n_max, int depth)
{
    size_t choice = hth_schema_open_choice(items), list = find_list(w, items);
    json_t *out = json_array();
    bool ok = out != NULL && depth < VALUES_DEPTH_MAX;

    if (ok && (hth_schema_failed(w) || items->is_false))
        return out;
    if (!ok) {
        json_decref(out);
        return NULL;
    }
    if (list < items->n) {
        json_t *left = listed_values(w, items, list);

        ok = left && join_values(w, left, out, n_max);
        json_decref(left);
    } else if (choice < items->n) {
        size_t n = json_array_size(json_object_get(items->at[choice].schema, "anyOf"));

        for (size_t i = 0; i < n && ok && hth_schema_spend(w, items->at[choice].path, 256); i++) {
            hth_schema_items chosen = { .n = 0 };
            json_t *left;

            hth_schema_with_choice(w, items, choice, i, &chosen);
            hth_schema_expand(w, &chosen);
            left = values_of(w, &chosen, n_max, depth + 1);
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

static void compile_types(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    uint32_t types = hth_schema_types(w, items);
    size_t base = w->tables.n_stack;

    if (types & HTH_TYPE_OBJECT)
        hth_schema_object(w, items, rule);
    if (types & HTH_TYPE_ARRAY)
        hth_schema_array(w, items, rule);
    if (types & HTH_TYPE_STRING)
        hth_schema_string(w, items, rule);
    if (types & HTH_TYPE_NUMBER)
        hth_schema_number(w, items, types & HTH_TYPE_NUMBER, rule);
    if (types & HTH_TYPE_BOOLEAN) {
        hth_schema_push_rule(w, hth_schema_shared(w, &w->boolean));
        hth_schema_end(w, rule, base);
    }
    if (types & HTH_TYPE_NULL) {
        hth_schema_push_text(w, "null");
        hth_schema_end(w, rule, base);
    }
}

void hth_schema_compile_goal(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    size_t choice = hth_schema_open_choice(items), list = find_list(w, items), base = w->tables.n_stack;
    json_t *values, *one;
    size_t i;

    if (choice < items->n) {
        compile_choice(w, items, choice, rule);
    } else if (list < items->n) {
        values = listed_values(w, items, list);
        json_array_foreach(values, i, one)
        {
            hth_schema_push_value(w, one);
            hth_schema_end(w, rule, base);
        }
        if (values && json_array_size(values) == 0 && items->at[0].path == 0)
            hth_schema_fail(w, items->at[list].path, NULL,
                            "none of the listed values has the type and meets the rest of the schema");
        json_decref(values);
    } else {
        compile_types(w, items, rule);
    }
}
