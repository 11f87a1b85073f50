/*
 * schema_text.c - JSON as elements of a grammar, and the rules that all schemas share
 *
 * The spelling is that of llama.cpp's converter (v0.5.0):
 *
 *   space      nothing, one blank, or one or two newlines and up to 20 blanks or tabs. It occurs after { [ , : and
 *              before } ] and, if the schema names the member, before the colon.
 *   number     up to 16 digits before the point, after it, and in the exponent
 *   character  any but quote, backslash and controls, or an escape. No \u is an unpaired surrogate.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

void hth_schema_push_class(hth_schema_work *w, uint32_t first, uint32_t last)
{
    size_t begin;

    if (hth_schema_failed(w))
        return;
    begin = w->tables.grammar->n_ranges;
    hth_gbnf_add_range(&w->tables, first, last);
    hth_gbnf_push(&w->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(&w->tables, begin));
}

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
    hth_gbnf_join_ranges(w->tables.grammar, begin);
    hth_gbnf_push(&w->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(&w->tables, begin));
}

void hth_schema_push_text(hth_schema_work *w, const char *text)
{
    const char *end = text + strlen(text);

    while (text < end && !hth_schema_failed(w)) {
        uint32_t value = hth_utf8_next(&text, end);

        hth_schema_push_class(w, value, value);
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

static void end_text(hth_schema_work *w, uint32_t rule, const char *text)
{
    size_t base = w->tables.n_stack;

    hth_schema_push_text(w, text);
    hth_schema_end(w, rule, base);
}

/* Push a class least to most times; most -1: any number of times. */
static void push_repeated(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n, int least, int most)
{
    size_t at = w->tables.n_stack;
    hth_gbnf_element one;
    uint32_t rest = NONE;

    hth_schema_push_ranges(w, ranges, n);
    if (hth_schema_failed(w))
        return;
    one = w->tables.stack[at];
    w->tables.n_stack = at;
    for (int i = 0; i < least; i++)
        hth_gbnf_push(&w->tables, one.type, one.value);
    if (most < 0)
        rest = hth_gbnf_add_optional(&w->tables, one, NONE, true);
    else
        for (int i = least; i < most; i++)
            rest = hth_gbnf_add_optional(&w->tables, one, rest, false);
    if (rest != NONE)
        hth_schema_push_rule(w, rest);
}

static const hth_gbnf_range digit[] = { { '0', '9' } };

static void make_space(hth_schema_work *w, uint32_t rule)
{
    static const hth_gbnf_range blank[] = { { ' ', ' ' }, { '\t', '\t' } };
    uint32_t indent = hth_gbnf_add_rule(&w->tables);
    size_t base = w->tables.n_stack;

    push_repeated(w, blank, 2, 0, 20);
    hth_schema_end(w, indent, base);
    hth_schema_end(w, rule, base);
    end_text(w, rule, " ");
    for (int n = 1; n <= 2; n++) {
        hth_schema_push_text(w, n == 1 ? "\n" : "\n\n");
        hth_schema_push_rule(w, indent);
        hth_schema_end(w, rule, base);
    }
}

static void make_character(hth_schema_work *w, uint32_t rule)
{
    static const hth_gbnf_range plain[] = { { ' ', '!' }, { '#', '[' }, { ']', '~' }, { 0x80, 0x10FFFF } };
    static const hth_gbnf_range letters[] = { { '"', '"' }, { '\\', '\\' }, { 'b', 'b' }, { 'f', 'f' },
                                              { 'n', 'n' }, { 'r', 'r' },   { 't', 't' } };
    static const hth_gbnf_range hex[] = { { '0', '9' }, { 'A', 'F' }, { 'a', 'f' } };
    static const hth_gbnf_range not_d[] = { { '0', '9' }, { 'A', 'C' }, { 'E', 'F' }, { 'a', 'c' }, { 'e', 'f' } };
    static const hth_gbnf_range d[] = { { 'D', 'D' }, { 'd', 'd' } };
    size_t base = w->tables.n_stack;

    hth_schema_push_ranges(w, plain, 4);
    hth_schema_end(w, rule, base);
    hth_schema_push_text(w, "\\");
    hth_schema_push_ranges(w, letters, 7);
    hth_schema_end(w, rule, base);
    hth_schema_push_text(w, "\\u");
    hth_schema_push_ranges(w, not_d, 5);
    push_repeated(w, hex, 3, 3, 3);
    hth_schema_end(w, rule, base);
    hth_schema_push_text(w, "\\u");
    hth_schema_push_ranges(w, d, 2);
    hth_schema_push_class(w, '0', '7');
    push_repeated(w, hex, 3, 2, 2);
    hth_schema_end(w, rule, base);
}

static uint32_t integral_part(hth_schema_work *w)
{
    uint32_t rule = hth_gbnf_add_rule(&w->tables);
    size_t base = w->tables.n_stack;

    end_text(w, rule, "0");
    hth_schema_push_class(w, '1', '9');
    push_repeated(w, digit, 1, 0, 15);
    hth_schema_end(w, rule, base);
    return rule;
}

static void make_number(hth_schema_work *w, uint32_t rule, bool is_integer)
{
    uint32_t integral = integral_part(w);
    uint32_t sign = hth_gbnf_add_rule(&w->tables);
    uint32_t fraction = hth_gbnf_add_rule(&w->tables);
    uint32_t exponent = hth_gbnf_add_rule(&w->tables);
    size_t base = w->tables.n_stack;

    hth_schema_end(w, sign, base);
    end_text(w, sign, "-");
    hth_schema_push_rule(w, sign);
    hth_schema_push_rule(w, integral);
    if (!is_integer) {
        hth_schema_push_rule(w, fraction);
        hth_schema_push_rule(w, exponent);
    }
    hth_schema_end(w, rule, base);
    hth_schema_end(w, fraction, base);
    hth_schema_push_text(w, ".");
    push_repeated(w, digit, 1, 1, 16);
    hth_schema_end(w, fraction, base);
    hth_schema_end(w, exponent, base);
    for (int i = 0; i < 2; i++) { /* without a sign, and with one */
        static const hth_gbnf_range e[] = { { 'E', 'E' }, { 'e', 'e' } };
        static const hth_gbnf_range signs[] = { { '+', '+' }, { '-', '-' } };

        hth_schema_push_ranges(w, e, 2);
        if (i == 1)
            hth_schema_push_ranges(w, signs, 2);
        hth_schema_push_rule(w, integral);
        hth_schema_end(w, exponent, base);
    }
}

/* Any number of items between brackets: "[" space (item ("," space item)*)? space "]". */
static void make_any_number(hth_schema_work *w, uint32_t rule, const char *brackets, bool is_object)
{
    uint32_t item = hth_gbnf_add_rule(&w->tables);
    uint32_t more = hth_gbnf_add_rule(&w->tables);
    size_t base = w->tables.n_stack;
    uint32_t value = hth_schema_shared(w, &w->value);

    if (is_object) {
        hth_schema_push_rule(w, hth_schema_shared(w, &w->string));
        hth_schema_push_text(w, ":");
        hth_schema_push_space(w);
    }
    hth_schema_push_rule(w, value);
    hth_schema_end(w, item, base);
    hth_schema_end(w, more, base);
    hth_schema_push_text(w, ",");
    hth_schema_push_space(w);
    hth_schema_push_rule(w, item);
    hth_schema_push_rule(w, more);
    hth_schema_end(w, more, base);
    for (int i = 0; i < 2; i++) {
        hth_schema_push_class(w, (uint8_t)brackets[0], (uint8_t)brackets[0]);
        hth_schema_push_space(w);
        if (i == 1) {
            hth_schema_push_rule(w, item);
            hth_schema_push_rule(w, more);
            hth_schema_push_space(w);
        }
        hth_schema_push_class(w, (uint8_t)brackets[1], (uint8_t)brackets[1]);
        hth_schema_end(w, rule, base);
    }
}

static void make_string(hth_schema_work *w, uint32_t rule)
{
    hth_gbnf_element one = { .type = HTH_GBNF_RULE, .value = hth_schema_shared(w, &w->character) };
    uint32_t characters = hth_gbnf_add_optional(&w->tables, one, NONE, true);
    size_t base = w->tables.n_stack;

    hth_schema_push_text(w, "\"");
    hth_schema_push_rule(w, characters);
    hth_schema_push_text(w, "\"");
    hth_schema_end(w, rule, base);
}

static void make_value(hth_schema_work *w, uint32_t rule)
{
    uint32_t *const kinds[] = { &w->object, &w->array, &w->string, &w->number, &w->boolean, &w->null };
    size_t base = w->tables.n_stack;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        hth_schema_push_rule(w, hth_schema_shared(w, kinds[i]));
        hth_schema_end(w, rule, base);
    }
}

uint32_t hth_schema_shared(hth_schema_work *w, uint32_t *which)
{
    uint32_t rule;

    if (*which != NONE)
        return *which;
    rule = *which = hth_gbnf_add_rule(&w->tables);
    if (hth_schema_failed(w))
        return rule;
    if (which == &w->space) {
        make_space(w, rule);
    } else if (which == &w->value) {
        make_value(w, rule);
    } else if (which == &w->object) {
        make_any_number(w, rule, "{}", true);
    } else if (which == &w->array) {
        make_any_number(w, rule, "[]", false);
    } else if (which == &w->string) {
        make_string(w, rule);
    } else if (which == &w->character) {
        make_character(w, rule);
    } else if (which == &w->number || which == &w->integer) {
        make_number(w, rule, which == &w->integer);
    } else if (which == &w->boolean) {
        end_text(w, rule, "true");
        end_text(w, rule, "false");
    } else {
        end_text(w, rule, which == &w->true_ ? "true" : which == &w->false_ ? "false" : "null");
    }
    return rule;
}

void hth_schema_push_space(hth_schema_work *w)
{
    hth_schema_push_rule(w, hth_schema_shared(w, &w->space));
}

/* All these rules form one chain. */
uint32_t hth_schema_at_most(hth_schema_work *w, uint32_t n)
{
    uint32_t character = hth_schema_shared(w, &w->character);
    uint32_t known = n;

    if (!w->at_most) {
        w->at_most = malloc(((size_t)w->repetitions_max + 1) * sizeof(w->at_most[0]));
        if (!w->at_most) {
            hth_schema_fail_memory(w);
            return 0;
        }
        memset(w->at_most, 0xFF, ((size_t)w->repetitions_max + 1) * sizeof(w->at_most[0]));
    }
    while (known > 0 && w->at_most[known] == NONE)
        known--;
    for (uint32_t i = known; i <= n && !hth_schema_failed(w); i++) {
        size_t base = w->tables.n_stack;

        if (w->at_most[i] != NONE)
            continue;
        w->at_most[i] = hth_gbnf_add_rule(&w->tables);
        hth_schema_push_text(w, "\"");
        hth_schema_end(w, w->at_most[i], base);
        if (i == 0)
            continue;
        hth_schema_push_rule(w, character);
        hth_schema_push_rule(w, w->at_most[i - 1]);
        hth_schema_end(w, w->at_most[i], base);
    }
    return hth_schema_failed(w) ? 0 : w->at_most[n];
}
