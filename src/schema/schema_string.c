/*
 * schema_string.c - strings with patterns, formats and lengths
 *
 * A string with only a length is a chain of characters, which all strings share. A format is a pattern. With patterns,
 * all constraints of the string become one machine (dfa.h), and each of its states becomes a rule:
 *
 *   state ::= character-of-class state' | ... | "\""
 *
 * A character is spelled as itself, or with its shortest escape. A bound that makes the machine too large is dropped.
 */
#include <stdlib.h>
#include <string.h>

#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define HEX "[\\dA-Fa-f]{1,4}"
#define LABEL "[A-Za-z\\d]([A-Za-z\\d-]{0,60}[A-Za-z\\d])?"
#define ATOM "[\\w+-]{1,20}"
#define IN_PATH "[\\w.~!$&'()*+,;=:@-]|%[\\dA-Fa-f]{2}"
#define COUNT "\\d{1,9}"
#define SECONDS COUNT "S"
#define MINUTES COUNT "M(" SECONDS ")?"
#define DURATION_TIME "T(" COUNT "H(" MINUTES ")?|" MINUTES "|" SECONDS ")"
#define MONTHS COUNT "M(" COUNT "D)?"
#define DATE "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
#define ZONE "(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{3})?" ZONE

/*
 * The pattern of a format; NULL: unknown. The patterns exclude some texts of their formats: leap days and seconds,
 * names in other scripts.
 */
static const char *pattern_of_format(const char *format)
{
    static const struct {
        const char *format, *pattern;
    } known[] = {
        { "date", "^" DATE "$" },
        { "time", "^" TIME "$" },
        { "date-time", "^" DATE "T" TIME "$" },
        { "uuid", "^[\\dA-Fa-f]{8}-[\\dA-Fa-f]{4}-[\\dA-Fa-f]{4}-[\\dA-Fa-f]{4}-[\\dA-Fa-f]{12}$" },
        { "ipv4", "^(" BYTE "\\.){3}" BYTE "$" },
        { "ipv6", "^((" HEX ":){7}" HEX "|(" HEX ":){1,7}:|(" HEX ":){1,6}:" HEX "|(" HEX ":){1,5}(:" HEX "){1,2}|(" HEX
                  ":){1,4}(:" HEX "){1,3}|(" HEX ":){1,3}(:" HEX "){1,4}|(" HEX ":){1,2}(:" HEX "){1,5}|" HEX ":(:" HEX
                  "){1,6}|:(:" HEX "){1,7}|::)$" },
        { "hostname", "^" LABEL "(\\." LABEL "){0,3}$" }, /* a name has room for four labels of 62 letters */
        { "email", "^" ATOM "(\\." ATOM "){0,2}@" LABEL "(\\." LABEL "){1,2}$" },
        { "uri", "^[A-Za-z][A-Za-z\\d+.-]{0,30}://" LABEL "(\\." LABEL "){0,3}(:\\d{1,5})?(/(" IN_PATH
                 ")*)*(\\?([/?]|" IN_PATH ")*)?(#([/?]|" IN_PATH ")*)?$" },
        { "duration",
          "^P((" COUNT "D|" MONTHS "|" COUNT "Y(" MONTHS ")?)(" DURATION_TIME ")?|" DURATION_TIME "|" COUNT "W)$" },
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(format, known[i].format) == 0)
            return known[i].pattern;
    return NULL;
}

/* Is it a format of the standard that has no pattern above? */
static bool is_standard_format(const char *format)
{
    static const char *const standard[] = { "idn-email",    "idn-hostname",          "uri-reference",
                                            "iri",          "iri-reference",         "uri-template",
                                            "json-pointer", "relative-json-pointer", "regex" };

    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
        if (strcmp(format, standard[i]) == 0)
            return true;
    return false;
}

static void add_part(hth_schema_work *w, const hth_nfa *nfa, bool is_excluded, uint32_t path,
                     hth_dfa_part parts[HTH_DFA_PARTS_MAX], size_t *n_parts)
{
    if (nfa && *n_parts == HTH_DFA_PARTS_MAX)
        hth_schema_fail(w, path, "pattern", "more than %d patterns bind one string", HTH_DFA_PARTS_MAX);
    else if (nfa)
        parts[(*n_parts)++] = (hth_dfa_part){ .nfa = nfa, .is_excluded = is_excluded };
}

/* The machine of the texts on a list. */
static const hth_nfa *listed_texts(hth_schema_work *w, const json_t *list, uint32_t path)
{
    hth_schema_derived *known = hth_schema_derived_of(w, list, HTH_DERIVED_PATTERN);
    size_t n = json_array_size(list), i;
    hth_nfa_text *texts = malloc((n + 1) * sizeof(texts[0]));
    json_t *one;

    if (known && !known->nfa && texts && hth_schema_spend(w, path, 16 * n)) {
        json_array_foreach((json_t *)list, i, one) texts[i] =
            (hth_nfa_text){ json_string_value(one), json_string_length(one) };
        if (hth_nfa_new_texts(texts, n, &known->nfa, NULL) != HEARTH_OK)
            hth_schema_fail(w, path, NULL, "the values that must not come are too long together");
        else
            (void)hth_schema_count_code(w, known->nfa, path);
    } else if (!texts) {
        hth_schema_fail_memory(w);
    }
    free(texts);
    return known && !hth_schema_failed(w) ? known->nfa : NULL;
}

void hth_schema_text_parts(hth_schema_work *w, const hth_schema_items *items, hth_dfa_part parts[HTH_DFA_PARTS_MAX],
                           size_t *n_parts)
{
    *n_parts = 0;
    for (size_t i = 0; i < items->n && !hth_schema_failed(w); i++) {
        const hth_schema_item *item = &items->at[i];
        const json_t *given = json_object_get(item->schema, "pattern");

        if (given && !json_is_string(given))
            hth_schema_fail(w, item->path, "pattern", "'pattern' must be a string");
        else if (given)
            add_part(w, hth_schema_pattern(w, json_string_value(given), given, item->path, "pattern"), false,
                     item->path, parts, n_parts);
        given = json_object_get(item->schema, HTH_SCHEMA_NOT_PATTERN);
        if (json_is_string(given))
            add_part(w, hth_schema_pattern(w, json_string_value(given), given, item->path, "pattern"), true, item->path,
                     parts, n_parts);
        given = json_object_get(item->schema, HTH_SCHEMA_NOT_TEXTS);
        if (given)
            add_part(w, listed_texts(w, given, item->path), true, item->path, parts, n_parts);
        given = json_object_get(item->schema, "format");
        if (json_is_string(given)) {
            const char *format = json_string_value(given), *pattern = pattern_of_format(format);

            if (pattern)
                add_part(w, hth_schema_pattern(w, pattern, pattern, item->path, "format"), false, item->path, parts,
                         n_parts);
            else if (is_standard_format(format))
                hth_schema_fail(
                    w, item->path, "format",
                    "the 'format' %s cannot be honoured; those that can are date, time, date-time, duration, "
                    "email, hostname, ipv4, ipv6, uri and uuid",
                    format);
            else
                hth_schema_note(w, item->path, "format", "ignored");
        }
    }
}

/* ---- characters as they are written ------------------------------------------------------------------------------ */

static hth_gbnf_range one_character(char c)
{
    return (hth_gbnf_range){ (uint8_t)c, (uint8_t)c };
}

static void add_hex_alternative(hth_schema_work *w, uint32_t rule, const char *begin, uint32_t bits)
{
    size_t base = w->tables.n_stack, n = 0;
    hth_gbnf_range digits[16];

    if (bits == 0)
        return;
    for (uint32_t i = 0; i < 16; i++)
        if (bits >> i & 1)
            digits[n++] = one_character("0123456789abcdef"[i]);
    hth_schema_push_text(w, begin);
    hth_schema_push_ranges(w, digits, n);
    hth_schema_end(w, rule, base);
}

/* The characters of sorted ranges as strings spell them: one class, or a rule if some need an escape. */
static hth_gbnf_element text_class(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n)
{
    static const char escaped[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    hth_gbnf_range *plain = malloc((n + 3) * sizeof(plain[0])), short_ones[sizeof(letters) - 1];
    uint32_t controls[2] = { 0 };
    size_t n_plain = 0, n_short = 0, base = w->tables.n_stack;
    hth_gbnf_element element = { .type = HTH_GBNF_RULE };
    bool has_delete = false;

    if (!plain) {
        hth_schema_fail_memory(w);
        return element;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t first = ranges[i].first;

        for (uint32_t c = first; c <= ranges[i].last && c < 0x80; c++) {
            const char *found = c ? strchr(escaped, (int)c) : NULL;

            if (!found && c >= 0x20 && c != 0x7F)
                continue;
            if (c > first)
                plain[n_plain++] = (hth_gbnf_range){ first, c - 1 };
            first = c + 1;
            if (found)
                short_ones[n_short++] = one_character(letters[found - escaped]);
            else if (c < 0x20)
                controls[c / 16] |= 1u << c % 16;
            else
                has_delete = true;
        }
        if (first <= ranges[i].last)
            plain[n_plain++] = (hth_gbnf_range){ first, ranges[i].last };
    }
    if (n_short == 0 && !controls[0] && !controls[1] && !has_delete) {
        hth_schema_push_ranges(w, plain, n_plain);
        if (!hth_schema_failed(w))
            element = w->tables.stack[--w->tables.n_stack];
    } else {
        element.value = hth_gbnf_add_rule(&w->tables);
        if (n_plain > 0) {
            hth_schema_push_ranges(w, plain, n_plain);
            hth_schema_end(w, element.value, base);
        }
        if (n_short > 0) {
            hth_schema_push_text(w, "\\");
            hth_schema_push_ranges(w, short_ones, n_short);
            hth_schema_end(w, element.value, base);
        }
        add_hex_alternative(w, element.value, "\\u000", controls[0]);
        add_hex_alternative(w, element.value, "\\u001", controls[1]);
        add_hex_alternative(w, element.value, "\\u007", has_delete ? 1u << 15 : 0);
    }
    free(plain);
    return element;
}

/* The same, from the stored classes if possible. */
static hth_gbnf_element text_class_of(hth_schema_work *w, const hth_gbnf_range *ranges, size_t n)
{
    hth_schema_text_class *to;

    for (size_t i = 0; i < w->n_text_classes; i++)
        if (w->text_classes[i].n == n && memcmp(w->text_classes[i].ranges, ranges, n * sizeof(ranges[0])) == 0)
            return w->text_classes[i].element;
    if (w->n_text_classes == HTH_SCHEMA_TEXT_CLASSES)
        return text_class(w, ranges, n);
    to = &w->text_classes[w->n_text_classes];
    to->ranges = malloc((n ? n : 1) * sizeof(ranges[0]));
    if (!to->ranges) {
        hth_schema_fail_memory(w);
        return (hth_gbnf_element){ .type = HTH_GBNF_RULE };
    }
    memcpy(to->ranges, ranges, n * sizeof(ranges[0]));
    to->n = n;
    to->element = text_class(w, ranges, n);
    w->n_text_classes++;
    return to->element;
}

/* Add the alternatives of one state: one for each next state, with all characters that lead to it. */
static void add_state(hth_schema_work *w, const hth_dfa *dfa, uint32_t state, const uint32_t *rules,
                      hth_gbnf_range *ranges, uint32_t *order)
{
    const uint32_t *next = dfa->next + (size_t)state * dfa->n_atoms;
    size_t base = w->tables.n_stack;

    if (dfa->accepts[state]) {
        hth_schema_push_text(w, "\"");
        hth_schema_end(w, rules[state], base);
    }
    memset(order, 0, dfa->n_atoms * sizeof(order[0])); /* 1: the atom is taken */
    for (uint32_t i = 0; i < dfa->n_atoms && !hth_schema_failed(w); i++) {
        hth_gbnf_element characters;
        size_t n = 0;

        if (order[i] || next[i] == HTH_DFA_NONE || !hth_schema_spend(w, 0, 1 + (dfa->n_atoms - i) / 8))
            continue;
        for (uint32_t j = i; j < dfa->n_atoms; j++) {
            if (next[j] != next[i])
                continue;
            order[j] = 1;
            if (n > 0 && ranges[n - 1].last + 1 == dfa->firsts[j])
                ranges[n - 1].last = dfa->firsts[j + 1] - 1;
            else
                ranges[n++] = (hth_gbnf_range){ dfa->firsts[j], dfa->firsts[j + 1] - 1 };
        }
        characters = text_class_of(w, ranges, n);
        hth_gbnf_push(&w->tables, (hth_gbnf_type)characters.type, characters.value);
        hth_schema_push_rule(w, rules[next[i]]);
        hth_schema_end(w, rules[state], base);
    }
}

uint32_t hth_schema_text_rule(hth_schema_work *w, const hth_dfa *dfa)
{
    uint32_t *rules = malloc(((size_t)dfa->n_states + 1) * sizeof(rules[0]));
    uint32_t *order = malloc(((size_t)dfa->n_atoms + 1) * sizeof(order[0])), first = NONE;
    hth_gbnf_range *ranges = malloc(((size_t)dfa->n_atoms + 1) * sizeof(ranges[0]));

    if (!rules || !order || !ranges) {
        hth_schema_fail_memory(w);
    } else if (dfa->n_states > 0) {
        for (uint32_t i = 0; i < dfa->n_states; i++)
            rules[i] = hth_gbnf_add_rule(&w->tables);
        for (uint32_t i = 0; i < dfa->n_states && !hth_schema_failed(w); i++)
            add_state(w, dfa, i, rules, ranges, order);
        first = rules[0];
    }
    free(rules);
    free(order);
    free(ranges);
    return hth_schema_failed(w) ? NONE : first;
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

/* The machine of parts and lengths. Lengths that take too many states are dropped. NULL with the work failed. */
static hth_dfa *machine_of(hth_schema_work *w, const hth_schema_items *items, const hth_dfa_part *parts, size_t n_parts,
                           uint32_t least, uint32_t most)
{
    const char *keyword = hth_schema_path_of(items, "pattern") != NONE ? "pattern"
                        : hth_schema_path_of(items, "format") != NONE  ? "format"
                                                                       : NULL;
    uint32_t path = keyword ? hth_schema_path_of(items, keyword) : items->at[0].path;
    hearth_error err = { .message = "" };
    hearth_status status;
    hth_dfa *dfa = NULL;

    for (;;) {
        uint64_t given = w->steps / 2, steps = given; /* the rest is for an attempt without the length */
        bool has_length = least > 0 || most != UINT32_MAX;

        status = hth_dfa_new(parts, n_parts, least, most, &steps, &dfa, &err);
        if (!hth_schema_spend(w, path, given - steps))
            break;
        if (status == HEARTH_OK && has_length && !hth_schema_has_room(w, dfa->n_states)) {
            hth_dfa_free(dfa);
            dfa = NULL;
            status = HEARTH_MISUSE;
        }
        if (status != HEARTH_MISUSE || !has_length)
            break;
        if (most != UINT32_MAX)
            hth_schema_note(w, hth_schema_path_of(items, "maxLength"), "maxLength", "dropped");
        else
            hth_schema_note(w, hth_schema_path_of(items, "minLength"), "minLength", "dropped");
        least = most != UINT32_MAX ? least : 0;
        most = UINT32_MAX;
    }
    if (status == HEARTH_NO_MEMORY)
        hth_schema_fail_memory(w);
    else if (status != HEARTH_OK)
        hth_schema_fail(w, path, keyword, "'%s' cannot be honoured: %s", keyword ? keyword : "not", err.message);
    if (!hth_schema_failed(w))
        return dfa;
    hth_dfa_free(dfa);
    return NULL;
}

void hth_schema_string(hth_schema_work *w, const hth_schema_items *items, uint32_t rule)
{
    hth_dfa_part parts[HTH_DFA_PARTS_MAX];
    size_t n_parts, base = w->tables.n_stack;
    uint32_t least, most, characters = NONE;

    hth_schema_text_parts(w, items, parts, &n_parts);
    hth_schema_counts(w, items, (const char *const[]){ "minLength", "maxLength" }, &least, &most);
    if (hth_schema_failed(w) || least > most)
        return;
    if (n_parts > 0) {
        hth_dfa *dfa = machine_of(w, items, parts, n_parts, least, most);

        if (dfa)
            characters = hth_schema_text_rule(w, dfa);
        hth_dfa_free(dfa);
        if (characters == NONE)
            return;
        hth_schema_push_text(w, "\"");
        hth_schema_push_rule(w, characters);
    } else if (least == 0 && most == UINT32_MAX) {
        hth_schema_push_shared(w, HTH_SHARED_STRING);
    } else {
        uint32_t character = hth_schema_shared(w, HTH_SHARED_CHARACTER);
        hth_gbnf_element one = { .type = HTH_GBNF_RULE, .value = character };
        uint32_t any = most == UINT32_MAX ? hth_gbnf_add_optional(&w->tables, one, NONE, true) : 0;
        uint32_t rest = most == UINT32_MAX ? 0 : hth_schema_at_most(w, most - least);

        hth_schema_push_text(w, "\"");
        for (uint32_t i = 0; i < least && !hth_schema_failed(w); i++)
            hth_schema_push_rule(w, character);
        hth_schema_push_rule(w, most == UINT32_MAX ? any : rest);
        if (most == UINT32_MAX)
            hth_schema_push_text(w, "\"");
    }
    hth_schema_end(w, rule, base);
}
