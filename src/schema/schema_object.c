/*
 * schema_object.c - objects: members that the schema names, and others
 *
 * Members come in a fixed order: the required ones, then the optional ones, each in the order of the schema, as
 * llama.cpp's converter writes them; then others. With "x-any-order": true next to "properties", up to
 * HTH_SCHEMA_ANY_ORDER_MAX members come in any order.
 *
 * The schema of a member is everything that the items say about its name: "properties", every "patternProperties" that
 * the name matches and, without both, "additionalProperties". Names that the schema does not give fall into groups by
 * the patterns that they match. A machine (dfa.h) accepts the names of a group: they match all its patterns, no other
 * pattern, and are not among the given names.
 */
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

enum { NAMES_MAX = 4096, PATTERNS_MAX = 32, COMBINED_MAX = 4, NAME_BYTES_MAX = 4096 };

typedef struct name {
    const char *text; /* borrowed from the schema */
    bool is_required;
} name;

typedef struct pattern {
    const char *text;
    const json_t *schema;
    uint32_t path;
} pattern;

typedef struct object {
    hth_schema_work *w;
    const hth_schema_items *items;
    uint32_t path;
    name *names;
    size_t n_names;
    hth_schema_part *parts;
    size_t n_parts;
    pattern patterns[PATTERNS_MAX];
    size_t n_patterns;
    bool is_closed; /* other members are excluded, although the schema does not say so */
    uint32_t more;
} object;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void add_name(object *o, const char *text, bool is_required)
{
    hth_schema_work *w = o->w;

    if (!hth_schema_spend(w, o->path, 2 + o->n_names / 16))
        return;
    for (size_t i = 0; i < o->n_names; i++)
        if (strcmp(o->names[i].text, text) == 0) {
            o->names[i].is_required = o->names[i].is_required || is_required;
            return;
        }
    if (o->n_names == NAMES_MAX || strlen(text) > NAME_BYTES_MAX) {
        hth_schema_fail(w, o->path, "properties",
                        "an object has more than %d members, or one whose name is longer than "
                        "%d bytes",
                        NAMES_MAX, NAME_BYTES_MAX);
        return;
    }
    o->names[o->n_names++] = (name){ .text = text, .is_required = is_required };
}

static void check_object(hth_schema_work *w, const hth_schema_item *item, const char *keyword)
{
    const json_t *given = json_object_get(item->schema, keyword);

    if (given && !json_is_object(given))
        hth_schema_fail(w, item->path, keyword, "'%s' must be an object", keyword);
}

static void find_names(object *o)
{
    const hth_schema_items *items = o->items;
    bool names_some = false, says_more = false;
    const char *key;
    json_t *one;
    size_t j;

    for (size_t i = 0; i < items->n; i++) {
        const json_t *schema = items->at[i].schema, *required = json_object_get(schema, "required");

        check_object(o->w, &items->at[i], "properties");
        check_object(o->w, &items->at[i], "patternProperties");
        json_object_foreach(json_object_get(schema, "properties"), key, one) add_name(o, key, false);
        if (required && !json_is_array(required) && !json_is_boolean(required))
            hth_schema_fail(o->w, items->at[i].path, "required", "'required' must be a list of names");
        json_object_foreach(json_object_get(schema, "patternProperties"), key, one)
        {
            if (o->n_patterns == PATTERNS_MAX) {
                hth_schema_fail(o->w, items->at[i].path, "patternProperties",
                                "an object has more than %d patterns of names", PATTERNS_MAX);
                return;
            }
            o->patterns[o->n_patterns++] = (pattern){ .text = key, .schema = one, .path = items->at[i].path };
        }
        if (!json_object_get(schema, HTH_SCHEMA_DERIVED))
            names_some =
                names_some || json_object_get(schema, "properties") || json_object_get(schema, "patternProperties");
        says_more = says_more || json_object_get(schema, "additionalProperties") ||
                    json_object_get(schema, "unevaluatedProperties");
    }
    for (size_t i = 0; i < items->n; i++)
        json_array_foreach(json_object_get(items->at[i].schema, "required"), j, one)
        {
            if (json_is_string(one))
                add_name(o, json_string_value(one), true);
            else
                hth_schema_fail(o->w, items->at[i].path, "required", "'required' must be a list of names");
        }
    o->is_closed = names_some && !says_more && !o->w->is_literal;
}

/* Make the rules of the named members, required ones first. False if a required member has no value. */
static bool add_members(object *o)
{
    hth_schema_work *w = o->w;

    for (int required = 1; required >= 0; required--)
        for (size_t i = 0; i < o->n_names && !hth_schema_failed(w); i++) {
            hth_schema_items items = { .n = 0 };
            size_t base = w->tables.n_stack;
            uint32_t value = NONE, rule;

            if (o->names[i].is_required != required)
                continue;
            if (hth_schema_member(w, o->items, o->names[i].text, 0, &items))
                value = hth_schema_rule_of(w, &items);
            hth_schema_items_free(&items);
            if (value == NONE && required)
                return false;
            if (value == NONE)
                continue;
            rule = hth_gbnf_add_rule(&w->tables);
            hth_schema_push_string(w, o->names[i].text, strlen(o->names[i].text));
            hth_schema_push_space(w);
            hth_schema_push_text(w, ":");
            hth_schema_push_space(w);
            hth_schema_push_rule(w, value);
            hth_schema_end(w, rule, base);
            o->parts[o->n_parts++] = (hth_schema_part){ .rule = rule, .is_required = required };
        }
    return true;
}

/* ---- other members ----------------------------------------------------------------------------------------------- */

/* The items of the names themselves. False if no name is allowed, or the work failed. */
static bool name_items(object *o, hth_schema_items *out)
{
    hth_schema_work *w = o->w;
    uint32_t path = o->path;

    for (size_t i = 0; i < o->items->n; i++) {
        const json_t *names = json_object_get(o->items->at[i].schema, "propertyNames");

        if (!names)
            continue;
        path = hth_schema_path_key(w, o->items->at[i].path, "propertyNames");
        hth_schema_items_add(w, out, names, path, 0);
    }
    hth_schema_expand(w, out);
    for (size_t i = 0; i < out->n && !out->is_false; i++)
        if (!(hth_schema_types_of(w, out->at[i].schema, path) & HTH_TYPE_STRING))
            out->is_false = true;
    if (!out->is_false && hth_schema_open_choice(out) < out->n)
        hth_schema_fail(w, path, NULL, "alternatives of names cannot be honoured; write them as one pattern");
    return !out->is_false && !hth_schema_failed(w);
}

/* The rule of a group's names, each with its closing quote. NONE: no names. */
static uint32_t group_names(object *o, uint32_t group, const hth_schema_items *names, const hth_nfa *given)
{
    hth_schema_work *w = o->w;
    hth_dfa_part parts[HTH_DFA_PARTS_MAX];
    uint32_t least, most, rule = NONE;
    size_t n_parts;
    hearth_error err = { .message = "" };
    hth_dfa *dfa = NULL;
    uint64_t steps = w->steps, before = steps;
    hearth_status status;

    hth_schema_text_parts(w, names, parts, &n_parts);
    hth_schema_counts(w, names, (const char *const[]){ "minLength", "maxLength" }, &least, &most);
    if (n_parts + o->n_patterns + 1 > HTH_DFA_PARTS_MAX)
        hth_schema_fail(w, o->path, "propertyNames", "more than %d patterns bind one name", HTH_DFA_PARTS_MAX);
    if (o->n_names > 0)
        parts[n_parts++] = (hth_dfa_part){ .nfa = given, .is_excluded = true };
    for (size_t i = 0; i < o->n_patterns && !hth_schema_failed(w); i++) {
        const hth_nfa *one =
            hth_schema_pattern(w, o->patterns[i].text, o->patterns[i].schema, o->patterns[i].path, "patternProperties");

        if (one)
            parts[n_parts++] = (hth_dfa_part){ .nfa = one, .is_excluded = !(group >> i & 1) };
    }
    if (hth_schema_failed(w))
        return NONE;
    status = hth_dfa_new(parts, n_parts, least, most, &steps, &dfa, &err);
    if (status == HEARTH_NO_MEMORY)
        hth_schema_fail_memory(w);
    else if (status != HEARTH_OK)
        hth_schema_fail(w, o->path, o->n_patterns ? "patternProperties" : "additionalProperties",
                        "the names of other members cannot be told apart: %s", err.message);
    if (status == HEARTH_OK && hth_schema_spend(w, o->path, before - steps))
        rule = hth_schema_text_rule(w, dfa);
    hth_dfa_free(dfa);
    return rule;
}

static void add_group(object *o, uint32_t group, const hth_schema_items *names, const hth_nfa *given)
{
    hth_schema_work *w = o->w;
    hth_schema_items items = { .n = 0 };
    size_t base = w->tables.n_stack;
    uint32_t value = NONE, key = NONE;
    bool is_bound = o->n_names > 0 || o->n_patterns > 0 || names->n > 0;

    if (!(group == 0 && o->is_closed) && hth_schema_member(w, o->items, NULL, group, &items))
        value = hth_schema_rule_of(w, &items);
    hth_schema_items_free(&items);
    if (value != NONE && is_bound)
        key = group_names(o, group, names, given);
    if (hth_schema_failed(w) || value == NONE || (is_bound && key == NONE))
        return;
    if (o->more == NONE)
        o->more = hth_gbnf_add_rule(&w->tables);
    if (is_bound) {
        hth_schema_push_text(w, "\"");
        hth_schema_push_rule(w, key);
    } else {
        hth_schema_push_shared(w, HTH_SHARED_STRING);
    }
    hth_schema_push_text(w, ":");
    hth_schema_push_space(w);
    hth_schema_push_rule(w, value);
    hth_schema_end(w, o->more, base);
}

static void add_others(object *o, const hth_schema_items *names)
{
    hth_schema_work *w = o->w;
    hth_nfa *given = NULL;
    hth_nfa_text *texts = malloc((o->n_names + 1) * sizeof(texts[0]));

    if (!texts)
        hth_schema_fail_memory(w);
    for (size_t i = 0; texts && i < o->n_names; i++)
        texts[i] = (hth_nfa_text){ o->names[i].text, strlen(o->names[i].text) };
    if (!hth_schema_failed(w) && hth_nfa_new_texts(texts, o->n_names, &given, NULL) != HEARTH_OK)
        hth_schema_fail(w, o->path, "additionalProperties",
                        "the names that are given are too long together for others "
                        "next to them");
    if (given && hth_schema_spend(w, o->path, given->n_code)) {
        uint32_t n = o->n_patterns <= COMBINED_MAX ? 1u << o->n_patterns : (uint32_t)o->n_patterns + 1;

        /* With many patterns, other members have names that match one of them, or none. */
        for (uint32_t i = 0; i < n && !hth_schema_failed(w); i++)
            add_group(o, o->n_patterns <= COMBINED_MAX ? i : i == 0 ? 0 : 1u << (i - 1), names, given);
    }
    hth_nfa_free(given);
    free(texts);
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

static bool may_be_in_any_order(object *o)
{
    for (size_t i = 0; i < o->items->n; i++) {
        if (!json_is_true(json_object_get(o->items->at[i].schema, "x-any-order")))
            continue;
        if (o->n_parts <= HTH_SCHEMA_ANY_ORDER_MAX)
            return true;
        hth_schema_note(o->w, o->items->at[i].path, "x-any-order", "dropped");
    }
    return false;
}

static void compile_object(object *o, uint32_t rule)
{
    hth_schema_work *w = o->w;
    hth_schema_items names = { .n = 0 };
    hth_schema_sequence sequence = { .begin = "{", .end = "}", .path = o->path };
    bool has_names = name_items(o, &names);
    json_t *listed = NULL, *one;
    size_t i;

    for (i = 0; has_names && i < names.n && !listed; i++)
        if (json_object_get(names.at[i].schema, "enum") || json_object_get(names.at[i].schema, "const"))
            listed = hth_schema_values(w, &names, HTH_SCHEMA_VALUES_MAX);
    json_array_foreach(listed, i, one)
    {
        if (!o->is_closed && json_is_string(one)) /* a name that "propertyNames" lists: an optional member */
            add_name(o, json_string_value(one), false);
    }
    if (!hth_schema_failed(w) && add_members(o)) {
        if (has_names && !listed)
            add_others(o, &names);
        hth_schema_counts(w, o->items, (const char *const[]){ "minProperties", "maxProperties" }, &sequence.least,
                          &sequence.most);
        sequence.counts = "minProperties and maxProperties";
        sequence.parts = o->parts;
        sequence.n_parts = o->n_parts;
        sequence.more = o->more;
        sequence.is_any_order = may_be_in_any_order(o);
        if (o->more != NONE && sequence.least > o->n_parts + 1)
            hth_schema_fail(w, o->path, "minProperties",
                            "'minProperties' can count the members that are named, and one more; name them");
        hth_schema_add_sequence(w, &sequence, rule);
    }
    hth_schema_items_free(&names);
    json_decref(listed);
}

void hth_schema_object(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    size_t base = w->tables.n_stack;
    object *o;

    if (!hth_schema_has_keywords_for(items, HTH_TYPE_OBJECT)) {
        hth_schema_push_shared(w, HTH_SHARED_OBJECT);
        hth_schema_end(w, rule, base);
        return;
    }
    o = calloc(1, sizeof(*o));
    if (o) {
        o->names = malloc((NAMES_MAX + 1) * sizeof(o->names[0]));
        o->parts = malloc((NAMES_MAX + 1) * sizeof(o->parts[0]));
    }
    if (o && o->names && o->parts) {
        o->w = w;
        o->items = items;
        o->path = items->at[0].path;
        o->more = NONE;
        find_names(o);
        if (!hth_schema_failed(w))
            compile_object(o, rule);
    } else {
        hth_schema_fail_memory(w);
    }
    if (o) {
        free(o->names);
        free(o->parts);
    }
    free(o);
}
