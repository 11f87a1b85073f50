/*
 * schema.c - compile a JSON schema: read it, compile its goals one after another, drop dead alternatives
 *
 *   1. measure the text, then parse it
 *   2. ask for the rule of the root, which puts the root's goal into the queue
 *   3. compile each goal of the queue. A goal asks for the rules of other goals; a new goal joins the queue.
 *   4. drop each alternative that no text can complete (for example, a required member with the schema false), so that
 *      a reply that follows the grammar never gets stuck
 *
 * A goal is identified by its items. So recursion in a schema becomes recursion in the grammar.
 */
#include "schema/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_bounds.h"
#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

/* ---- places and failures ----------------------------------------------------------------------------------------- */

static uint32_t add_path(hth_schema_work *w, hth_schema_path path)
{
    if (!hth_gbnf_reserve(&w->tables, (void **)&w->paths, w->n_paths, &w->paths_capacity, sizeof(w->paths[0]), 1 << 20,
                          "places"))
        return 0;
    w->paths[w->n_paths] = path;
    return (uint32_t)w->n_paths++;
}

uint32_t hth_schema_path_key(hth_schema_work *w, uint32_t parent, const char *key)
{
    return add_path(w, (hth_schema_path){ .parent = parent, .key = key });
}

uint32_t hth_schema_path_index(hth_schema_work *w, uint32_t parent, size_t index)
{
    return add_path(w, (hth_schema_path){ .parent = parent, .index = index });
}

/* A long path is truncated at its beginning, because its end is the most informative. */
static void write_path(const hth_schema_work *w, uint32_t path, char *text, size_t capacity)
{
    size_t begin = capacity - 1;
    bool is_first = w->n_paths == 0;

    text[begin] = '\0';
    while (!is_first) {
        const hth_schema_path *one = &w->paths[path];
        char name[72];
        size_t n;

        is_first = path == 0 || (one->key && one->key[0] == '#');
        if (one->key)
            (void)snprintf(name, sizeof(name), "%s%s", is_first ? "" : "/", one->key); /* truncated if too long */
        else
            (void)snprintf(name, sizeof(name), "/%zu", one->index);
        hth_end_at_character(name, sizeof(name));
        n = strlen(name);
        is_first = is_first || begin < n + 3;
        if (begin < n + 3)
            n = (size_t)snprintf(name, sizeof(name), "...");
        begin -= n;
        memcpy(text + begin, name, n);
        path = one->parent;
    }
    memmove(text, text + begin, capacity - begin);
}

void hth_schema_fail(hth_schema_work *w, uint32_t path, const char *keyword, const char *format, ...)
{
    char at[140], why[200];
    va_list arguments;

    if (hth_schema_failed(w))
        return;
    write_path(w, path, at, sizeof(at));
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    hth_end_at_character(why, sizeof(why));
    w->tables.status =
        hth_fail(w->tables.err, HEARTH_MISUSE, "at %s%s%s: %s", at, keyword ? "/" : "", keyword ? keyword : "", why);
}

void hth_schema_fail_memory(hth_schema_work *w)
{
    if (!hth_schema_failed(w))
        w->tables.status = hth_fail(w->tables.err, HEARTH_NO_MEMORY, "no memory for the grammar of a schema");
}

void hth_schema_note(hth_schema_work *w, uint32_t path, const char *keyword, const char *what)
{
    char at[100], text[HTH_SCHEMA_NOTE_BYTES];

    if (!w->notes || w->notes->n == HTH_SCHEMA_NOTES_MAX)
        return;
    write_path(w, path, at, sizeof(at));
    (void)snprintf(text, sizeof(text), "%s: %.40s %s", at, keyword, what);
    for (size_t i = 0; i < w->notes->n; i++)
        if (strcmp(w->notes->texts[i], text) == 0)
            return;
    memcpy(w->notes->texts[w->notes->n++], text, sizeof(text));
}

bool hth_schema_spend(hth_schema_work *w, uint32_t path, uint64_t n)
{
    if (!hth_schema_failed(w) && w->steps < n)
        hth_schema_fail(w, path, NULL,
                        "the schema takes too long to be compiled; give it fewer alternatives, "
                        "patterns and properties");
    if (hth_schema_failed(w))
        return false;
    w->steps -= n;
    return true;
}

bool hth_schema_has_room(const hth_schema_work *w, size_t n_rules)
{
    enum { ELEMENTS = 8 };
    const hth_gbnf *g = w->tables.grammar;

    return n_rules <= (HTH_GBNF_RULES_MAX - g->n_rules) / 2 &&
           n_rules * ELEMENTS <= (HTH_GBNF_ELEMENTS_MAX - g->n_elements) / 2;
}

/* ---- goals ------------------------------------------------------------------------------------------------------- */

static size_t bucket_of(const hth_schema_items *items)
{
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < items->n; i++)
        hash = (hash ^ ((uintptr_t)items->at[i].schema >> 3) ^ items->at[i].flags) * 1099511628211u;
    return (size_t)(hash >> 40) % HTH_SCHEMA_BUCKETS;
}

static bool is_goal(const hth_schema_work *w, const hth_schema_goal *goal, const hth_schema_items *items)
{
    if (goal->end - goal->begin != items->n)
        return false;
    for (size_t i = 0; i < items->n; i++) {
        const hth_schema_item *known = &w->goal_items[goal->begin + i];

        if (known->schema != items->at[i].schema || known->flags != items->at[i].flags)
            return false;
    }
    return true;
}

uint32_t hth_schema_rule_of(hth_schema_work *w, hth_schema_items *items)
{
    uint32_t path = items->n > 0 ? items->at[0].path : 0;
    uint32_t *bucket;

    hth_schema_expand(w, items);
    if (hth_schema_failed(w) || items->is_false)
        return NONE;
    if (items->n == 0)
        return hth_schema_shared(w, &w->value);
    bucket = &w->buckets[bucket_of(items)];
    for (uint32_t i = *bucket; i != NONE && hth_schema_spend(w, path, items->n); i = w->goals[i].next)
        if (is_goal(w, &w->goals[i], items))
            return w->goals[i].rule;
    if (w->n_goals >= HTH_SCHEMA_GOALS_MAX || w->n_goal_items + items->n > HTH_SCHEMA_ITEMS_MAX)
        hth_schema_fail(
            w, path, NULL,
            "the schema has too many combinations of subschemas; give it fewer alternatives that hold at once");
    for (size_t i = 0; i < items->n; i++) {
        if (!hth_gbnf_reserve(&w->tables, (void **)&w->goal_items, w->n_goal_items, &w->goal_items_capacity,
                              sizeof(w->goal_items[0]), HTH_SCHEMA_ITEMS_MAX, "subschemas"))
            return NONE;
        w->goal_items[w->n_goal_items++] = items->at[i];
    }
    if (!hth_gbnf_reserve(&w->tables, (void **)&w->goals, w->n_goals, &w->goals_capacity, sizeof(w->goals[0]),
                          HTH_SCHEMA_GOALS_MAX, "goals"))
        return NONE;
    w->goals[w->n_goals] = (hth_schema_goal){ .begin = w->n_goal_items - items->n,
                                              .end = w->n_goal_items,
                                              .rule = hth_gbnf_add_rule(&w->tables),
                                              .next = *bucket };
    *bucket = (uint32_t)w->n_goals;
    return w->goals[w->n_goals++].rule;
}

static void compile_goals(hth_schema_work *w)
{
    for (; w->n_compiled < w->n_goals && !hth_schema_failed(w); w->n_compiled++) {
        hth_schema_goal goal = w->goals[w->n_compiled];
        hth_schema_items items = { .n = 0 };

        for (size_t i = goal.begin; i < goal.end && !hth_schema_failed(w); i++) {
            hth_schema_item item = w->goal_items[i];

            hth_schema_items_add(w, &items, item.schema, item.path, item.flags);
        }
        if (!hth_schema_failed(w))
            hth_schema_compile_goal(w, &items, goal.rule);
        /* The message of a full table names no location, so it is added here. */
        if (hth_schema_failed(w) && w->tables.err && strncmp(w->tables.err->message, "at ", 3) != 0) {
            char at[140];

            write_path(w, items.n > 0 ? items.at[0].path : 0, at, sizeof(at));
            hth_fail_prefix(w->tables.err, "at %s", at);
        }
        hth_schema_items_free(&items);
    }
}

/* ---- dead alternatives ------------------------------------------------------------------------------------------- */

typedef struct reach {
    uint32_t *heads;   /* uses of rule i: [heads[i], heads[i + 1]) of uses; [n_rules + 2] */
    uint32_t *uses;    /* alternatives */
    uint32_t *n_open;  /* by alternative: how many of its rules are not yet known to lead to a text */
    uint32_t *rule_of; /* by alternative */
    uint32_t *todo;
    bool *leads; /* by rule: it leads to a text */
} reach;

static void count_uses(const hth_gbnf *g, const reach *r)
{
    for (size_t pass = 0; pass < 2; pass++) {
        for (uint32_t rule = 0; rule < g->n_rules; rule++)
            for (uint32_t i = g->rules[rule]; i != NONE; i = g->alternatives[i].next)
                for (const hth_gbnf_element *e = &g->elements[g->alternatives[i].begin]; e->type != HTH_GBNF_END; e++) {
                    if (e->type != HTH_GBNF_RULE)
                        continue;
                    if (pass == 0) {
                        r->heads[e->value + 2]++;
                        r->n_open[i]++;
                        r->rule_of[i] = rule;
                    } else {
                        r->uses[r->heads[e->value + 1]++] = i;
                    }
                }
        for (size_t i = 2; pass == 0 && i < g->n_rules + 2; i++)
            r->heads[i] += r->heads[i - 1];
    }
}

static void cut(hth_gbnf *g, const reach *r)
{
    size_t n_todo = 0;

    count_uses(g, r);
    for (uint32_t rule = 0; rule < g->n_rules; rule++)
        for (uint32_t i = g->rules[rule]; i != NONE; i = g->alternatives[i].next)
            if (r->n_open[i] == 0 && !r->leads[rule]) {
                r->leads[rule] = true;
                r->todo[n_todo++] = rule;
            }
    while (n_todo > 0) {
        uint32_t rule = r->todo[--n_todo];

        for (uint32_t i = r->heads[rule]; i < r->heads[rule + 1]; i++) {
            uint32_t user = r->rule_of[r->uses[i]];

            if (--r->n_open[r->uses[i]] > 0 || r->leads[user])
                continue;
            r->leads[user] = true;
            r->todo[n_todo++] = user;
        }
    }
    for (uint32_t rule = 0; rule < g->n_rules; rule++) {
        uint32_t *link = &g->rules[rule];

        while (*link != NONE)
            if (r->n_open[*link] > 0)
                *link = g->alternatives[*link].next;
            else
                link = &g->alternatives[*link].next;
    }
}

static void fail_empty(hth_schema_work *w)
{
    if (w->has_left_out)
        hth_schema_fail_not(w, w->left_out_path);
    else
        hth_schema_fail(w, 0, NULL, "no value meets the schema; its grammar matches no text");
}

static void drop_dead_alternatives(hth_schema_work *w)
{
    hth_gbnf *g = w->tables.grammar;
    reach r = { .heads = calloc(g->n_rules + 2, sizeof(r.heads[0])),
                .uses = malloc((g->n_elements + 1) * sizeof(r.uses[0])),
                .n_open = calloc(g->n_alternatives + 1, sizeof(r.n_open[0])),
                .rule_of = calloc(g->n_alternatives + 1, sizeof(r.rule_of[0])),
                .todo = malloc((g->n_rules + 1) * sizeof(r.todo[0])),
                .leads = calloc(g->n_rules + 1, sizeof(r.leads[0])) };

    if (r.heads && r.uses && r.n_open && r.rule_of && r.todo && r.leads) {
        cut(g, &r);
        if (!r.leads[g->root])
            fail_empty(w);
    } else {
        hth_schema_fail_memory(w);
    }
    free(r.heads);
    free(r.uses);
    free(r.n_open);
    free(r.rule_of);
    free(r.todo);
    free(r.leads);
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
    if (from)
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
    for (size_t i = 0; i < w->n_derived_slots; i++) {
        json_decref(w->derived[i].schema);
        hth_nfa_free(w->derived[i].nfa);
    }
    for (size_t i = 0; i < w->n_text_classes; i++)
        free(w->text_classes[i].ranges);
    free(w->derived);
    free(w->paths);
    free(w->goal_items);
    free(w->goals);
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
    w->space = w->value = w->object = w->array = w->string = w->character = w->number = w->integer = w->boolean =
        w->true_ = w->false_ = w->null = NONE;
    memset(w->buckets, 0xFF, sizeof(w->buckets));
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
