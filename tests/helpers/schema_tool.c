/*
 * schema_tool.c - what the compiler of schemas makes of many of them, for tests in other languages
 *
 * Reads a line of JSON for each schema, answers with one:
 *
 *   {"schema": "{...}", "is_literal": false, "texts": ["..."], "n_walks": 3, "seed": 1}
 *   {"error": null, "notes": ["..."], "accepted": [true], "walks": ["..."]}
 *
 * texts are looked up in the grammar, whole; walks are texts of it, found by going through its rules at random. A walk
 * that grows long takes the shortest way out.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "schema/schema.h"

#define NONE UINT32_MAX

enum { WALK_BYTES = 1 << 16, WALK_FREE_BYTES = 200, STACK_MAX = 1 << 16 };

static uint64_t random_state;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* ---- is a text one of the grammar? ------------------------------------------------------------------------------- */

static bool accepts(hth_gbnf *gbnf, const char *text)
{
    hth_piece piece = { .bytes = NULL };
    bool is_end = false;
    hth_vocabulary vocabulary = { .n_tokens = 1, .pieces = &piece, .is_end = &is_end };
    hth_grammar *grammar = NULL;
    hearth_error err;
    bool ok = hth_grammar_new(hth_gbnf_ref(gbnf), &vocabulary, &grammar, &err) == HEARTH_OK;

    for (size_t i = 0; ok && text[i]; i += ok) /* by bytes: the work for one is bounded */
        ok = hth_grammar_accept_text(grammar, (const uint8_t *)text + i, 1, &err) == HEARTH_OK;
    ok = ok && hth_grammar_is_complete(grammar);
    hth_grammar_free(grammar);
    return ok;
}

/* ---- random texts ------------------------------------------------------------------------------------------------ */

/* How long an alternative must be at least, by what is known of rules; NONE: not known. */
static uint32_t least_of(const hth_gbnf *g, const uint32_t *least, uint32_t alternative)
{
    uint64_t n = 0;

    for (const hth_gbnf_element *e = &g->elements[g->alternatives[alternative].begin]; e->type != HTH_GBNF_END; e++) {
        if (e->type == HTH_GBNF_RULE && least[e->value] == NONE)
            return NONE;
        n += e->type == HTH_GBNF_RULE ? least[e->value] + (uint64_t)1 : 1;
    }
    return n < NONE ? (uint32_t)n : NONE - 1;
}

/* Of rules, [n_rules], and behind them of alternatives. */
static uint32_t *find_least(const hth_gbnf *g)
{
    uint32_t *least = malloc((g->n_rules + g->n_alternatives) * sizeof(least[0]));
    bool changed = least != NULL;

    if (least)
        memset(least, 0xFF, (g->n_rules + g->n_alternatives) * sizeof(least[0]));
    for (int pass = 0; changed; pass++) { /* forth and back: rules lead to earlier and to later ones */
        changed = false;
        for (size_t k = 0; k < g->n_rules; k++) {
            size_t i = pass % 2 ? k : g->n_rules - 1 - k;

            for (uint32_t j = g->rules[i]; j != NONE; j = g->alternatives[j].next) {
                uint32_t n = least_of(g, least, j);

                least[g->n_rules + j] = n;
                if (n < least[i]) {
                    least[i] = n;
                    changed = true;
                }
            }
        }
    }
    return least;
}

static uint32_t choose(const hth_gbnf *g, const uint32_t *least, uint32_t rule, bool shortest)
{
    const uint32_t *of = least + g->n_rules;
    uint32_t chosen = NONE, n = 0;

    for (uint32_t i = g->rules[rule]; i != NONE; i = g->alternatives[i].next) {
        if (of[i] == NONE)
            continue;
        n++;
        if (chosen == NONE || (shortest ? of[i] < of[chosen] : next_random() % n == 0))
            chosen = i;
    }
    return chosen;
}

static size_t put_character(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* A character of a class that is one in UTF-8; plain ones more often. */
static uint32_t pick(const hth_gbnf *g, uint32_t class_id)
{
    const hth_gbnf_class *class_ = &g->classes[class_id];
    uint32_t c = 0;

    for (int i = 0; i < 64; i++) {
        const hth_gbnf_range *range = &g->ranges[class_->begin + next_random() % (class_->end - class_->begin)];
        uint64_t n = (uint64_t)range->last - range->first + 1;

        c = range->first + (uint32_t)(next_random() % (n > 200 && next_random() % 4 ? 200 : n));
        if (c < 0xD800 || c > 0xDFFF)
            break;
    }
    return c;
}

/* A text of the grammar; NULL: it is too long. */
static char *walk(const hth_gbnf *g, const uint32_t *least)
{
    uint32_t *stack = malloc(STACK_MAX * sizeof(stack[0])); /* elements to go on with */
    char *text = malloc(WALK_BYTES + 8);
    size_t n_stack = 0, n = 0;
    uint32_t first = choose(g, least, g->root, false);
    bool ok = stack && text && first != NONE;

    if (ok)
        stack[n_stack++] = g->alternatives[first].begin;
    while (ok && n_stack > 0) {
        uint32_t at = stack[--n_stack];
        hth_gbnf_element e = g->elements[at];

        if (e.type == HTH_GBNF_END)
            continue;
        stack[n_stack++] = at + 1;
        if (e.type == HTH_GBNF_CLASS) {
            n += put_character(text + n, pick(g, e.value));
        } else {
            uint32_t next = choose(g, least, e.value, n > WALK_FREE_BYTES || n_stack > STACK_MAX / 2);

            ok = next != NONE;
            stack[n_stack++] = ok ? g->alternatives[next].begin : 0;
        }
        ok = ok && n < WALK_BYTES && n_stack + 2 < STACK_MAX;
    }
    free(stack);
    if (ok) {
        text[n] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static json_t *answer(const json_t *question)
{
    hth_schema_options options = { .is_literal = json_is_true(json_object_get(question, "is_literal")) };
    const char *schema = json_string_value(json_object_get(question, "schema"));
    json_t *out = json_object(), *accepted = json_array(), *walks = json_array(), *notes = json_array(), *text;
    static hth_schema_notes told;
    hearth_error err = { .message = "" };
    hth_gbnf *gbnf = NULL;
    size_t i;

    told.n = 0;
    if (hth_schema_compile(schema, strlen(schema), &options, &gbnf, &told, &err) == HEARTH_OK) {
        uint32_t *least = find_least(gbnf);

        json_array_foreach(json_object_get(question, "texts"), i, text)(void)
            json_array_append_new(accepted, json_boolean(accepts(gbnf, json_string_value(text))));
        random_state =
            (uint64_t)json_integer_value(json_object_get(question, "seed")) * 2654435761u + 88172645463325252u;
        for (json_int_t n = json_integer_value(json_object_get(question, "n_walks")); n > 0; n--) {
            char *found = walk(gbnf, least);

            if (found)
                (void)json_array_append_new(walks, json_string(found));
            free(found);
        }
        free(least);
        (void)json_object_set_new(out, "n_rules", json_integer((json_int_t)gbnf->n_rules));
        hth_gbnf_unref(gbnf);
    }
    for (i = 0; i < told.n; i++)
        (void)json_array_append_new(notes, json_string(told.texts[i]));
    (void)json_object_set_new(out, "error", err.message[0] ? json_string(err.message) : json_null());
    (void)json_object_set_new(out, "notes", notes);
    (void)json_object_set_new(out, "accepted", accepted);
    (void)json_object_set_new(out, "walks", walks);
    return out;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;

    while (getline(&line, &capacity, stdin) > 0) {
        json_error_t error;
        json_t *question = json_loads(line, JSON_ALLOW_NUL, &error), *out;
        char *text;

        if (!question) {
            (void)fprintf(stderr, "schema_tool: %s\n", error.text);
            return 1;
        }
        out = answer(question);
        text = json_dumps(out, JSON_COMPACT);
        (void)printf("%s\n", text);
        (void)fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(question);
    }
    free(line);
    return 0;
}
