/*
 * schema_text.c - JSON as elements of a grammar, and the rules that all schemas share
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/gbnf_reader.h"
#include "schema/schema_inside.h"

void hth_schema_push_ranges(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n)
{
    size_t begin;

    if (hth_schema_failed(w))
        return;
    begin = w->tables.grammar->n_ranges;
    for (size_t i = 0; i < n; i++)
        hth_gbnf_add_range(&w->tables, ranges[i].first, ranges[i].last);
    if (hth_schema_failed(w))
        return;
    hth_gbnf_push(&w->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(&w->tables, begin));
}

void hth_schema_push_text(hth_schema_work *w, const char *text)
{
    const char *end = text + strlen(text);

    while (text < end && !hth_schema_failed(w)) {
        uint32_t value = hth_utf8_next(&text, end);

        hth_schema_push_ranges(w, &(hth_gbnf_range){ value, value }, 1);
    }
}

void hth_schema_push_rule(hth_schema_work *w, uint32_t rule)
{
    hth_gbnf_push(&w->tables, HTH_GBNF_RULE, rule);
}

void hth_schema_end(hth_schema_work *w, uint32_t rule, size_t base)
{
    hth_gbnf_end_alternative(&w->tables, rule, base);
}

void hth_schema_push_string(hth_schema_work *w, const char *text, size_t n_bytes)
{
    char buffer[8] = { 0 };

    hth_schema_push_text(w, "\"");
    for (size_t i = 0; i < n_bytes && !hth_schema_failed(w);) {
        uint8_t c = (uint8_t)text[i];
        const char *escapes = "\b\f\n\r\t\"\\", *found = c ? strchr(escapes, c) : NULL;
        size_t n = hth_utf8_length(text[i]);

        if (found)
            (void)snprintf(buffer, sizeof(buffer), "\\%c", "bfnrt\"\\"[found - escapes]);
        else if (c < 0x20)
            (void)snprintf(buffer, sizeof(buffer), "\\u%04x", c);
        else
            (void)snprintf(buffer, sizeof(buffer), "%.*s", (int)(n < n_bytes - i ? n : n_bytes - i), text + i);
        hth_schema_push_text(w, buffer);
        i += n;
    }
    hth_schema_push_text(w, "\"");
}

/* The fewest digits that read back as the same number, which is finite. */
void hth_schema_number_text(const json_t *number, char text[64])
{
    double value = json_number_value(number);

    if (json_is_integer(number)) {
        (void)snprintf(text, 64, "%" PRId64, (int64_t)json_integer_value(number));
        return;
    }
    if (fabs(value) < 1e15 && value == floor(value)) {
        (void)snprintf(text, 64, "%" PRId64, (int64_t)value); /* -0 becomes 0, which is equal */
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, 64, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
}

void hth_schema_push_value(hth_schema_work *w, const json_t *value)
{
    char text[64];
    const char *key;
    json_t *member;
    size_t i;

    switch (json_typeof(value)) {
    case JSON_NULL: hth_schema_push_text(w, "null"); break;
    case JSON_TRUE: hth_schema_push_text(w, "true"); break;
    case JSON_FALSE: hth_schema_push_text(w, "false"); break;
    case JSON_STRING: hth_schema_push_string(w, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER:
    case JSON_REAL:
        hth_schema_number_text(value, text);
        hth_schema_push_text(w, text);
        break;
    case JSON_ARRAY:
        hth_schema_push_text(w, "[");
        json_array_foreach((json_t *)value, i, member)
        {
            if (i > 0)
                hth_schema_push_text(w, ",");
            hth_schema_push_value(w, member);
        }
        hth_schema_push_text(w, "]");
        break;
    case JSON_OBJECT:
        hth_schema_push_text(w, "{");
        i = 0;
        json_object_foreach((json_t *)value, key, member)
        {
            if (i++ > 0)
                hth_schema_push_text(w, ",");
            hth_schema_push_string(w, key, strlen(key));
            hth_schema_push_text(w, ":");
            hth_schema_push_value(w, member);
        }
        hth_schema_push_text(w, "}");
        break;
    }
}

/* ---- rules that are shared --------------------------------------------------------------------------------------- */

/*
 * The spelling is that of llama.cpp's converter (v0.5.0). Space occurs after { [ , : and before } ] and, if the schema
 * names the member, before the colon. No \u is an unpaired surrogate.
 */
#define SPACE "space ::= | \" \" | \"\\n\"{1,2} [ \\t]{0,20}\n"
#define STRING                                                                   \
    "string ::= \"\\\"\" character* \"\\\"\"\n"                                  \
    "character ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" [\"\\\\bfnrt] |\n"       \
    "  \"\\\\u\" [0-9A-CE-Fa-ce-f] hex hex hex | \"\\\\u\" [Dd] [0-7] hex hex\n" \
    "hex ::= [0-9A-Fa-f]\n"
#define INTEGER                   \
    "integer ::= sign integral\n" \
    "sign ::= | \"-\"\n"          \
    "integral ::= \"0\" | [1-9] [0-9]{0,15}\n"
#define NUMBER                                     \
    "number ::= sign integral fraction exponent\n" \
    "fraction ::= | \".\" [0-9]{1,16}\n"           \
    "exponent ::= | [Ee] integral | [Ee] [+-] integral\n" INTEGER
#define BOOLEAN "boolean ::= \"true\" | \"false\"\n"
#define VALUE                                                                 \
    "value ::= object | array | string | number | boolean | \"null\"\n"       \
    "object ::= \"{\" space \"}\" | \"{\" space member members space \"}\"\n" \
    "member ::= string \":\" space value\n"                                   \
    "members ::= | \",\" space member members\n"                              \
    "array ::= \"[\" space \"]\" | \"[\" space value values space \"]\"\n"    \
    "values ::= | \",\" space value values\n" SPACE STRING NUMBER BOOLEAN

/* Rules that are read together, when the first of them is asked for. The root names those from first on, in order. */
static const struct {
    const char *text;
    hth_schema_shared_rule first;
    size_t n;
} groups[] = {
    { "root ::= value object array space string character number integer boolean\n" VALUE, HTH_SHARED_VALUE, 9 },
    { "root ::= space\n" SPACE, HTH_SHARED_SPACE, 1 },
    { "root ::= string character\n" STRING, HTH_SHARED_STRING, 2 },
    { "root ::= number integer\n" NUMBER, HTH_SHARED_NUMBER, 2 },
    { "root ::= integer\n" INTEGER, HTH_SHARED_INTEGER, 1 },
    { "root ::= boolean\n" BOOLEAN, HTH_SHARED_BOOLEAN, 1 },
};

/* Most schemas need few of these rules, and many small schemas may be in one grammar. */
uint32_t hth_schema_shared(hth_schema_work *w, hth_schema_shared_rule which)
{
    const hth_gbnf *g = w->tables.grammar;
    size_t group = sizeof(groups) / sizeof(groups[0]) - 1;
    uint32_t root;

    if (w->shared[which] > 0)
        return w->shared[which] - 1;
    while (groups[group].first > which)
        group--;
    root = hth_gbnf_read(&w->tables, groups[group].text, strlen(groups[group].text), NULL);
    for (size_t i = 0; i < groups[group].n && !hth_schema_failed(w); i++) {
        uint32_t *shared = &w->shared[groups[group].first + i];

        if (*shared == 0)
            *shared = g->elements[g->alternatives[g->rules[root]].begin + i].value + 1;
    }
    return hth_schema_failed(w) ? 0 : w->shared[which] - 1;
}

void hth_schema_push_shared(hth_schema_work *w, hth_schema_shared_rule which)
{
    hth_schema_push_rule(w, hth_schema_shared(w, which));
}

void hth_schema_push_space(hth_schema_work *w)
{
    hth_schema_push_shared(w, HTH_SHARED_SPACE);
}

/* All these rules form one chain. */
uint32_t hth_schema_at_most(hth_schema_work *w, uint32_t n)
{
    for (; w->n_at_most <= n && !hth_schema_failed(w); w->n_at_most++) {
        uint32_t rule = hth_gbnf_add_rule(&w->tables);
        size_t base = w->tables.n_stack;

        hth_schema_push_text(w, "\"");
        hth_schema_end(w, rule, base);
        if (w->n_at_most > 0) {
            hth_schema_push_shared(w, HTH_SHARED_CHARACTER);
            hth_schema_push_rule(w, w->at_most[w->n_at_most - 1]);
            hth_schema_end(w, rule, base);
        }
        if (hth_gbnf_reserve(&w->tables, (void **)&w->at_most, w->n_at_most, &w->at_most_capacity,
                             sizeof(w->at_most[0]), HTH_GBNF_RULES_MAX, "rules"))
            w->at_most[w->n_at_most] = rule;
    }
    return hth_schema_failed(w) ? 0 : w->at_most[n];
}
