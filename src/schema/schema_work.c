/*
 * schema_work.c - what all files of the compiler use: places, failures, notes, steps, lists of items, stored results
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

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

void hth_schema_write_path(const hth_schema_work *w, uint32_t path, char *text, size_t capacity)
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
    hth_schema_write_path(w, path, at, sizeof(at));
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
    hth_schema_write_path(w, path, at, sizeof(at));
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

/* ---- items ------------------------------------------------------------------------------------------------------- */

void hth_schema_items_add(hth_schema_work *w, hth_schema_items *items, const json_t *schema, uint32_t path,
                          uint32_t flags)
{
    if (schema && hth_gbnf_reserve(&w->tables, (void **)&items->at, items->n, &items->capacity, sizeof(items->at[0]),
                                   HTH_SCHEMA_ITEMS_MAX, "subschemas"))
        items->at[items->n++] = (hth_schema_item){ .schema = schema, .path = path, .flags = flags };
}

void hth_schema_items_free(hth_schema_items *items)
{
    free(items->at);
    *items = (hth_schema_items){ .n = 0 };
}

/* ---- stored results ---------------------------------------------------------------------------------------------- */

hth_schema_derived *hth_schema_derived_of(hth_schema_work *w, const void *from, hth_schema_derived_kind kind)
{
    const uintptr_t key[2] = { (uintptr_t)from, kind };
    hth_schema_derived *one;

    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): both words of the key are set */
    HASH_FIND(hh, w->derived, key, sizeof(key), one);
    if (one)
        return one;
    one = calloc(1, sizeof(*one));
    if (!one) {
        hth_schema_fail_memory(w);
        return NULL;
    }
    memcpy(one->key, key, sizeof(key));
    HASH_ADD(hh, w->derived, key, sizeof(one->key), one);
    if (!one->hh.tbl) {
        free(one);
        hth_schema_fail_memory(w);
        return NULL;
    }
    return one;
}

bool hth_schema_count_code(hth_schema_work *w, const hth_nfa *nfa, uint32_t path)
{
    w->n_code += nfa->n_code;
    if (w->n_code > HTH_SCHEMA_CODE_MAX)
        hth_schema_fail(w, path, NULL,
                        "the patterns of the schema are too long together when their repetitions are written out");
    return !hth_schema_failed(w);
}

const hth_nfa *hth_schema_pattern(hth_schema_work *w, const char *pattern, const void *from, uint32_t path,
                                  const char *keyword)
{
    hth_schema_derived *known = hth_schema_derived_of(w, from, HTH_DERIVED_PATTERN);
    hearth_error err = { .message = "" };
    hearth_status status;

    if (!known || known->nfa || hth_schema_failed(w) || !hth_schema_spend(w, path, 64 + strlen(pattern)))
        return known && !hth_schema_failed(w) ? known->nfa : NULL;
    status = hth_nfa_new_pattern(pattern, strlen(pattern), &known->nfa, &err);
    if (status == HEARTH_NO_MEMORY)
        hth_schema_fail_memory(w);
    else if (status != HEARTH_OK)
        hth_schema_fail(w, path, keyword, "the pattern '%.60s' cannot be honoured: %s", pattern, err.message);
    return status == HEARTH_OK && hth_schema_spend(w, path, known->nfa->n_code) &&
                   hth_schema_count_code(w, known->nfa, path)
             ? known->nfa
             : NULL;
}

bool hth_schema_matches(hth_schema_work *w, const char *pattern, const void *from, const char *text, size_t n_bytes,
                        uint32_t path, const char *keyword)
{
    const hth_nfa *nfa = hth_schema_pattern(w, pattern, from, path, keyword);
    bool has = false;
    hearth_status status = nfa ? hth_nfa_has(nfa, text, n_bytes, &w->steps, &has) : HEARTH_OK;

    if (status == HEARTH_NO_MEMORY)
        hth_schema_fail_memory(w);
    else if (status != HEARTH_OK)
        (void)hth_schema_spend(w, path, UINT64_MAX);
    return has;
}
