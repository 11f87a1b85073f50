/*
 * schema.c - compile a JSON schema: read it, compile its goals one after another, drop dead alternatives
 *
 *   1. measure the text, then parse it
 *   2. ask for the rule of the root, which puts the root's goal into the queue
 *   3. compile each goal of the queue. A goal asks for the rules of other goals; a new goal joins the queue.
 *   4. drop each alternative that no text can complete (for example, a required member with the schema false), so that
 *      a reply that follows the grammar never gets stuck
 *
 * A goal is identified by its items. So recursion in a schema becomes recursion in the grammar. A goal is compiled to
 * its open alternatives, or its listed values, or its types. If it has an open anyOf, each alternative of it, together
 * with the items, becomes a goal of its own. Alternatives that certainly have no value are left out, because otherwise
 * combinations of alternatives would multiply needlessly.
 */
#include "schema/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_bounds.h"
#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

/* ---- goals ------------------------------------------------------------------------------------------------------- */

static void compile_choice(hth_schema_work *w, const hth_schema_items *items, size_t choice, uint32_t rule)
{
    size_t n = json_array_size(json_object_get(items->at[choice].schema, "anyOf"));

    for (size_t i = 0; i < n && hth_schema_spend(w, items->at[choice].path, 16); i++) {
        hth_schema_items chosen = hth_schema_with_choice(w, items, choice, i);
        size_t base = w->tables.n_stack;

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
        hth_schema_push_shared(w, HTH_SHARED_BOOLEAN);
        hth_schema_end(w, rule, base);
    }
    if (types & HTH_TYPE_NULL) {
        hth_schema_push_text(w, "null");
        hth_schema_end(w, rule, base);
    }
}

static void compile_goal(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    size_t choice = hth_schema_open_choice(items), list = hth_schema_list(w, items), base = w->tables.n_stack;
    json_t *values, *one;
    size_t i;

    if (choice < items->n) {
        compile_choice(w, items, choice, rule);
    } else if (list < items->n) {
        values = hth_schema_listed(w, items, list);
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

static void compile_goals(hth_schema_work *w)
{
    for (const hth_schema_goal *goal = w->goals; goal && !hth_schema_failed(w); goal = goal->hh.next) {
        compile_goal(w, &goal->items, goal->rule);
        /* The message of a full table names no location, so it is added here. */
        if (hth_schema_failed(w) && w->tables.err && strncmp(w->tables.err->message, "at ", 3) != 0) {
            char at[140];

            hth_schema_write_path(w, goal->items.at[0].path, at, sizeof(at));
            hth_fail_prefix(w->tables.err, "at %s", at);
        }
    }
}

/* ---- dead alternatives ------------------------------------------------------------------------------------------- */

static void fail_empty(hth_schema_work *w)
{
    if (w->has_left_out)
        hth_schema_fail_not(w, w->left_out_path);
    else
        hth_schema_fail(w, 0, NULL, "no value meets the schema; its grammar matches no text");
}

/* leads, by rule: it is known to lead to a text. */
static bool is_alive(const hth_gbnf *g, const bool *leads, uint32_t alternative)
{
    for (const hth_gbnf_element *e = &g->elements[g->alternatives[alternative].begin]; e->type != HTH_GBNF_END; e++)
        if (e->type == HTH_GBNF_RULE && !leads[e->value])
            return false;
    return true;
}

static void drop_dead_alternatives(hth_schema_work *w)
{
    hth_gbnf *g = w->tables.grammar;
    bool *leads = calloc(g->n_rules, sizeof(leads[0]));
    bool changes = true;

    if (!leads) {
        hth_schema_fail_memory(w);
        return;
    }
    /*
     * Chains of rules lead to later rules or to earlier ones, so the passes alternate. A few are enough, but only the
     * steps bound their number.
     */
    for (size_t pass = 0; changes && hth_schema_spend(w, 0, g->n_elements / 8); pass++) {
        changes = false;
        for (size_t k = 0; k < g->n_rules; k++) {
            size_t rule = pass % 2 ? k : g->n_rules - 1 - k;

            for (uint32_t i = g->rules[rule]; i != NONE && !leads[rule]; i = g->alternatives[i].next)
                if (is_alive(g, leads, i))
                    leads[rule] = changes = true;
        }
    }
    for (size_t rule = 0; rule < g->n_rules && !hth_schema_failed(w); rule++) {
        uint32_t *link = &g->rules[rule];

        while (*link != NONE)
            if (is_alive(g, leads, *link))
                link = &g->alternatives[*link].next;
            else
                *link = g->alternatives[*link].next;
    }
    if (!hth_schema_failed(w) && !leads[g->root])
        fail_empty(w);
    free(leads);
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

static json_t *read_json(const char *schema, size_t n_bytes, hearth_error *err)
{
    hth_json_bounds bounds = hth_json_measure(schema, n_bytes);
    json_error_t error;
    json_t *root;

    if (n_bytes > HTH_SCHEMA_BYTES_MAX) {
        (void)hth_fail(err, HEARTH_MISUSE, "the schema is longer than %d KiB", HTH_SCHEMA_BYTES_MAX >> 10);
        return NULL;
    }
    if (bounds.depth > HTH_SCHEMA_DEPTH_MAX) {
        (void)hth_fail(err, HEARTH_MISUSE, "the schema is nested more than %d deep", HTH_SCHEMA_DEPTH_MAX);
        return NULL;
    }
    if (bounds.n_values > HTH_SCHEMA_VALUES_MAX) {
        (void)hth_fail(err, HEARTH_MISUSE, "the schema has more than %d values", HTH_SCHEMA_VALUES_MAX);
        return NULL;
    }
    root = json_loadb(schema, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!root && json_error_code(&error) == json_error_numeric_overflow) /* it has a bound beyond 64 bits */
        root = json_loadb(schema, n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!root)
        (void)hth_fail(err, HEARTH_MISUSE, "the schema cannot be parsed as JSON: %s (byte %d)", error.text,
                       error.position);
    return root;
}

static bool is_of_old_draft(const json_t *root)
{
    const char *name = json_string_value(json_object_get(root, "$schema"));

    return name && (strstr(name, "draft-07") || strstr(name, "draft-06") || strstr(name, "draft-04"));
}

static void compile(hth_schema_work *w, const char *place)
{
    hth_schema_items items = { .n = 0 };
    const json_t *from = w->root;
    uint32_t root, path = hth_schema_path_key(w, 0, "#");

    if (place) {
        path = hth_schema_path_key(w, 0, place);
        from = hth_schema_resolve(w, place, 0);
    }
    hth_schema_items_add(w, &items, from, path, HTH_ITEM_ORIGIN);
    root = hth_schema_rule_of(w, &items);
    hth_schema_items_free(&items);
    if (hth_schema_failed(w))
        return;
    if (root == NONE) {
        fail_empty(w);
        return;
    }
    w->tables.grammar->root = root;
    compile_goals(w);
    if (!hth_schema_failed(w))
        drop_dead_alternatives(w);
}

static void work_deinit(hth_schema_work *w)
{
    hth_schema_derived *one, *next;
    hth_schema_goal *goal, *next_goal;

    HASH_ITER(hh, w->derived, one, next)
    {
        HASH_DEL(w->derived, one);
        json_decref(one->schema);
        hth_nfa_free(one->nfa);
        free(one);
    }
    HASH_ITER(hh, w->goals, goal, next_goal)
    {
        HASH_DEL(w->goals, goal);
        hth_schema_items_free(&goal->items);
        free(goal);
    }
    for (size_t i = 0; i < w->n_text_classes; i++)
        free(w->text_classes[i].ranges);
    free(w->paths);
    free(w->at_most);
    free(w->digit_rules[0]);
    free(w->digit_rules[1]);
}

hearth_status hth_schema_compile(const char *schema, size_t n_bytes, const hth_schema_options *options, hth_gbnf **out,
                                 hth_schema_notes *notes, hearth_error *err)
{
    hth_schema_work *w;
    hearth_status status;
    const char *place = NULL;
    json_t *text, *root;

    text = root = read_json(schema, n_bytes, err);
    if (!text)
        return HEARTH_MISUSE;
    if (options && options->may_have_place && json_is_array(text)) {
        place = json_string_value(json_array_get(text, 0));
        root = json_array_get(text, 1);
        if (!place || !root || json_array_size(text) != 2) {
            json_decref(text);
            return hth_fail(err, HEARTH_MISUSE, "a list must be of a place and a schema, [\"#/a/b\", {...}]");
        }
    }
    w = calloc(1, sizeof(*w));
    if (!w) {
        json_decref(text);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the grammar of a schema");
    }
    w->root = root;
    w->notes = notes;
    w->steps = options && options->steps ? *options->steps : HTH_SCHEMA_STEPS_MAX;
    w->is_literal = options && options->is_literal;
    w->repetitions_max = options && options->repetitions_max > 0 && options->repetitions_max < HTH_GBNF_REPETITIONS_MAX
                           ? options->repetitions_max
                           : HTH_GBNF_REPETITIONS_MAX;
    w->ignores_siblings = is_of_old_draft(root);
    if (hth_gbnf_builder_init(&w->tables, err) == HEARTH_OK)
        compile(w, place);
    status = hth_gbnf_builder_end(&w->tables, out);
    if (options && options->steps)
        *options->steps = w->steps;
    work_deinit(w);
    free(w);
    json_decref(text);
    return status;
}

hearth_status hth_schema_embedded(void *user_data, const char *text, size_t n_bytes, hth_gbnf **out, hearth_error *err)
{
    hth_schema_options options = { .repetitions_max = HTH_SCHEMA_EMBEDDED_REPETITIONS_MAX,
                                   .may_have_place = true,
                                   .steps = user_data };

    return hth_schema_compile(text, n_bytes, &options, out, NULL, err);
}
