/*
 * gbnf_reader.c - a reader of GBNF by recursive descent
 *
 * A group or a repeated part becomes its own rule. So writing out a repetition copies one element:
 *
 *   s*      R       R ::= s R |
 *   s+      s R
 *   s?      Q       Q ::= s |
 *   s{m,n}  s ... s Qn-m   Qk ::= s Qk-1 |
 *
 * The elements of an unfinished alternative are on a stack, those of an open group above those around it. At the end of
 * the alternative they move to the grammar's table. The position in the text never moves back, so time is linear.
 */
#include "grammar/gbnf_reader.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/gbnf_builder.h"

#define NONE HTH_GBNF_NONE
#define LAST_CODE_POINT HTH_GBNF_LAST_CODE_POINT

typedef struct rule_name {
    const char *text;
    uint32_t n_bytes;
    uint32_t rule;
    uint32_t next; /* in the same bucket */
    uint32_t line; /* first seen */
} rule_name;

enum {
    N_BUCKETS = 4096,
    /*
     * Comparisons of names in one grammar. With the maximum number of names, a reference takes about 16. Only names
     * that were chosen to fall into one bucket take more.
     */
    COMPARISONS_MAX = 1 << 22,
};

typedef struct reader {
    hth_gbnf_builder *tables; /* the reader uses its line and status */
    const char *at, *end;

    rule_name *names;
    size_t n_names, names_capacity;
    uint32_t buckets[N_BUCKETS]; /* first name there; NONE: empty */
    uint32_t n_comparisons;

    const hth_gbnf_outside *outside;
} reader;

/* ---- failing ----------------------------------------------------------------------------------------------------- */

#define FAIL(r, ...)                                                                           \
    ((void)((r)->tables->status == HEARTH_OK                                                   \
                ? (r)->tables->status = hth_fail((r)->tables->err, HEARTH_MISUSE, __VA_ARGS__) \
                : 0))

static bool failed(const reader *r)
{
    return r->tables->status != HEARTH_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static uint32_t rule_of_name(reader *r, const char *text, uint32_t n_bytes)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    uint32_t *bucket;

    for (uint32_t i = 0; i < n_bytes; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    bucket = &r->buckets[hash % N_BUCKETS];
    for (uint32_t i = r->names ? *bucket : NONE; i != NONE; i = r->names[i].next) {
        if (r->names[i].n_bytes == n_bytes && memcmp(r->names[i].text, text, n_bytes) == 0)
            return r->names[i].rule;
        if (++r->n_comparisons > COMPARISONS_MAX) {
            FAIL(r, "line %u: too many names of rules are alike here; rename some", r->tables->line);
            return 0;
        }
    }
    if (!hth_gbnf_reserve(r->tables, (void **)&r->names, r->n_names, &r->names_capacity, sizeof(r->names[0]),
                          HTH_GBNF_RULES_MAX, "rules"))
        return 0;
    r->names[r->n_names] = (rule_name){
        .text = text, .n_bytes = n_bytes, .rule = hth_gbnf_add_rule(r->tables), .next = *bucket, .line = r->tables->line
    };
    *bucket = (uint32_t)r->n_names;
    return r->names[r->n_names++].rule;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int peek(const reader *r)
{
    return r->at < r->end ? (uint8_t)*r->at : -1;
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* The text at the reader's position, for a message. */
static const char *here(const reader *r, char text[24])
{
    int c = peek(r);
    size_t at = 0;

    if (c < 0)
        return "the end";
    if (c == '\n' || c == '\r')
        return "the end of the line";
    text[at++] = '\'';
    for (size_t i = 0; i == 0 || (i < 4 && r->at + i < r->end && hth_utf8_goes_on(r->at[i])); i++)
        text[at++] = r->at[i];
    text[at++] = '\'';
    text[at] = '\0';
    return text;
}

static void skip_space(reader *r, bool newline_too)
{
    for (; r->at < r->end; r->at++) {
        int c = (unsigned char)*r->at;

        if (c == '#') {
            while (r->at + 1 < r->end && r->at[1] != '\n' && r->at[1] != '\r')
                r->at++;
        } else if (c == '\n' || c == '\r') {
            if (!newline_too)
                return;
            r->tables->line += c == '\n';
        } else if (c != ' ' && c != '\t') {
            return;
        }
    }
}

static uint32_t read_hex(reader *r, size_t n_digits)
{
    uint32_t value;

    if (hth_hex_read(&r->at, r->end, n_digits, &value) < n_digits) {
        FAIL(r, "line %u: an escape needs %zu hexadecimal digits", r->tables->line, n_digits);
        return 0;
    }
    if (value > LAST_CODE_POINT)
        FAIL(r, "line %u: there is no character U+%X", r->tables->line, value);
    return value;
}

/* One character of a literal or class; the text was checked to be UTF-8. */
static uint32_t read_character(reader *r)
{
    int c = peek(r);

    if (c < 0) {
        FAIL(r, "line %u: the grammar ends inside a literal or a class", r->tables->line);
        return 0;
    }
    r->tables->line += c == '\n';
    if (c == '\\') {
        r->at++;
        c = peek(r);
        r->at += c >= 0;
        switch (c) {
        case 'x': return read_hex(r, 2);
        case 'u': return read_hex(r, 4);
        case 'U': return read_hex(r, 8);
        case 't': return '\t';
        case 'r': return '\r';
        case 'n': return '\n';
        case '\\':
        case '"':
        case '[':
        case ']':
        case '-': return (uint32_t)c;
        default: FAIL(r, "line %u: unknown escape; known are x u U t r n \\ \" [ ] -", r->tables->line); return 0;
        }
    }
    return hth_utf8_next(&r->at, r->end);
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static void read_literal(reader *r)
{
    r->at++;
    while (!failed(r) && peek(r) != '"') {
        size_t begin = r->tables->grammar->n_ranges;
        uint32_t c = read_character(r);

        hth_gbnf_add_range(r->tables, c, c);
        hth_gbnf_push(r->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(r->tables, begin));
    }
    r->at++;
}

static void read_class(reader *r)
{
    size_t begin = r->tables->grammar->n_ranges;
    bool negated;

    r->at++;
    negated = peek(r) == '^';
    r->at += negated;
    if (peek(r) == ']')
        FAIL(r, "line %u: a class has no characters; write . for any character", r->tables->line);
    while (!failed(r) && peek(r) != ']') {
        uint32_t first = read_character(r);
        uint32_t last = first;

        if (peek(r) == '-' && r->end - r->at > 1 && r->at[1] != ']') {
            r->at++;
            last = read_character(r);
        }
        if (last < first)
            FAIL(r, "line %u: a range of a class ends before it begins", r->tables->line);
        hth_gbnf_add_range(r->tables, first, last);
    }
    if (failed(r))
        return;
    r->at++;
    if (negated)
        hth_gbnf_negate_ranges(r->tables, begin);
    hth_gbnf_push(r->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(r->tables, begin));
}

static uint64_t read_number(reader *r)
{
    uint64_t value = 0;

    if (peek(r) < '0' || peek(r) > '9')
        FAIL(r, "line %u: a number is expected", r->tables->line);
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
        if (value < UINT32_MAX) /* a value beyond every limit is enough */
            value = value * 10 + (uint64_t)(peek(r) - '0');
    return value;
}

static void read_token(reader *r)
{
    bool negated = peek(r) == '!';
    const char *begin;
    hearth_token token = 0;

    r->at += negated;
    begin = r->at;
    if (peek(r) != '<') {
        FAIL(r, "line %u: '!' goes before a token, !<...>", r->tables->line);
        return;
    }
    r->at++;
    if (peek(r) == '[') {
        uint64_t id;

        r->at++;
        id = read_number(r);
        if (r->end - r->at < 2 || memcmp(r->at, "]>", 2) != 0)
            FAIL(r, "line %u: a token id is written <[id]>", r->tables->line);
        else if (id >= r->outside->n_tokens)
            FAIL(r, "line %u: there is no token %llu in the vocabulary of %u", r->tables->line, (unsigned long long)id,
                 r->outside->n_tokens);
        r->at += 2;
        token = (hearth_token)id;
    } else {
        while (peek(r) >= 0 && peek(r) != '>' && peek(r) != '\n')
            r->at++;
        if (peek(r) != '>') {
            FAIL(r, "line %u: a token's name has no end '>'", r->tables->line);
            return;
        }
        r->at++;
        if (!r->outside->token || !r->outside->token(r->outside->token_data, begin, (size_t)(r->at - begin), &token) ||
            token < 0 || (uint32_t)token >= r->outside->n_tokens)
            FAIL(r, "line %u: '%.*s' is not the name of one token", r->tables->line,
                 (int)(r->at - begin < 60 ? r->at - begin : 60), begin);
    }
    r->tables->grammar->has_tokens = true;
    hth_gbnf_push(r->tables, negated ? HTH_GBNF_TOKEN_NOT : HTH_GBNF_TOKEN, (uint32_t)token);
}

/* Skip an object or a list; the JSON reader checks the contents. False if it has no end. */
static bool skip_json(reader *r)
{
    size_t depth = 0;
    bool in_string = false;

    while (r->at < r->end) {
        char c = *r->at++;

        r->tables->line += c == '\n';
        if (in_string && c == '\\')
            r->at += r->at < r->end;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            depth++;
        else if (!in_string && (c == '}' || c == ']') && --depth == 0)
            return true;
    }
    return false;
}

static void read_json(reader *r)
{
    static const char word[] = "%json";
    uint32_t line = r->tables->line;
    hth_gbnf *grammar = NULL;
    const char *begin;
    hearth_status status;

    if ((size_t)(r->end - r->at) < sizeof(word) - 1 || memcmp(r->at, word, sizeof(word) - 1) != 0) {
        FAIL(r, "line %u: what begins with '%%' is %%json and a schema", r->tables->line);
        return;
    }
    r->at += sizeof(word) - 1;
    skip_space(r, false);
    begin = r->at;
    if ((peek(r) != '{' && peek(r) != '[') || !skip_json(r)) {
        FAIL(r, "line %u: behind %%json a JSON schema is expected, {...} or [\"#/place\", {...}]", line);
        return;
    }
    if (!r->outside->json) {
        FAIL(r, "line %u: this engine has no %%json", line);
        return;
    }
    status = r->outside->json(r->outside->json_data, begin, (size_t)(r->at - begin), &grammar, r->tables->err);
    if (status == HEARTH_OK) {
        hth_gbnf_push(r->tables, HTH_GBNF_RULE, hth_gbnf_add_grammar(r->tables, grammar));
        hth_gbnf_unref(grammar);
    } else {
        r->tables->status = status;
        hth_fail_prefix(r->tables->err, "line %u: the schema", line);
    }
}

/* ---- repetitions ------------------------------------------------------------------------------------------------- */

/* Repeat the elements on the stack from item on, least to most times; most UINT64_MAX: unlimited. */
static void repeat(reader *r, size_t item, uint64_t least, uint64_t most)
{
    hth_gbnf_element one;
    uint32_t rest = NONE;

    if (item == r->tables->n_stack)
        FAIL(r, "line %u: there is nothing before a repetition", r->tables->line);
    else if (least > HTH_GBNF_REPETITIONS_MAX || (most != UINT64_MAX && most > HTH_GBNF_REPETITIONS_MAX))
        FAIL(r, "line %u: a repetition may have at most %d times; leave the end away for any number", r->tables->line,
             HTH_GBNF_REPETITIONS_MAX);
    else if (most < least)
        FAIL(r, "line %u: a repetition ends before it begins", r->tables->line);
    if (failed(r))
        return;
    if (r->tables->n_stack - item > 1) {
        uint32_t rule = hth_gbnf_add_rule(r->tables);

        hth_gbnf_end_alternative(r->tables, rule, item);
        hth_gbnf_push(r->tables, HTH_GBNF_RULE, rule);
        if (failed(r))
            return;
    }
    one = r->tables->stack[item];
    r->tables->n_stack = item;
    for (uint64_t i = 0; i < least && !failed(r); i++)
        hth_gbnf_push(r->tables, one.type, one.value);
    if (most == UINT64_MAX)
        rest = hth_gbnf_add_optional(r->tables, one, NONE, true);
    else
        for (uint64_t i = least; i < most && !failed(r); i++)
            rest = hth_gbnf_add_optional(r->tables, one, rest, false);
    if (rest != NONE)
        hth_gbnf_push(r->tables, HTH_GBNF_RULE, rest);
}

static void read_braces(reader *r, size_t item, bool nested)
{
    uint64_t least, most;

    r->at++;
    skip_space(r, nested);
    least = read_number(r);
    most = least;
    skip_space(r, nested);
    if (peek(r) == ',') {
        r->at++;
        skip_space(r, nested);
        most = peek(r) >= '0' && peek(r) <= '9' ? read_number(r) : UINT64_MAX;
        skip_space(r, nested);
    }
    if (peek(r) != '}')
        FAIL(r, "line %u: a repetition is written {m}, {m,} or {m,n}", r->tables->line);
    r->at++;
    repeat(r, item, least, most);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

static void read_alternatives(reader *r, uint32_t rule, int depth);

static void read_group(reader *r, int depth)
{
    uint32_t rule = hth_gbnf_add_rule(r->tables);

    if (depth >= HTH_GBNF_NESTING_MAX)
        FAIL(r, "line %u: groups are nested more than %d deep", r->tables->line, HTH_GBNF_NESTING_MAX);
    r->at++;
    skip_space(r, true);
    if (failed(r))
        return;
    read_alternatives(r, rule, depth + 1);
    if (peek(r) != ')') {
        char text[24];

        FAIL(r, "line %u: ')' is expected before %s", r->tables->line, here(r, text));
        return;
    }
    r->at++;
    hth_gbnf_push(r->tables, HTH_GBNF_RULE, rule);
}

/* The items of one alternative, left on the stack. */
static void read_sequence(reader *r, int depth)
{
    bool nested = depth > 0;
    size_t item = r->tables->n_stack;

    while (!failed(r)) {
        int c = peek(r);

        if (c == '*' || c == '+' || c == '?') {
            r->at++;
            repeat(r, item, c == '+', c == '?' ? 1 : UINT64_MAX);
        } else if (c == '{') {
            read_braces(r, item, nested);
        } else {
            item = r->tables->n_stack;
            if (c == '"') {
                read_literal(r);
            } else if (c == '[') {
                read_class(r);
            } else if (c == '<' || c == '!') {
                read_token(r);
            } else if (c == '%') {
                read_json(r);
            } else if (c == '(') {
                read_group(r, depth);
            } else if (c == '.') {
                size_t begin = r->tables->grammar->n_ranges;

                r->at++;
                hth_gbnf_add_range(r->tables, 0, LAST_CODE_POINT);
                hth_gbnf_push(r->tables, HTH_GBNF_CLASS, hth_gbnf_end_class(r->tables, begin));
            } else if (is_word(c)) {
                const char *begin = r->at;

                while (is_word(peek(r)))
                    r->at++;
                hth_gbnf_push(r->tables, HTH_GBNF_RULE, rule_of_name(r, begin, (uint32_t)(r->at - begin)));
            } else {
                return;
            }
        }
        skip_space(r, nested);
    }
}

static void read_alternatives(reader *r, uint32_t rule, int depth)
{
    size_t base = r->tables->n_stack;

    for (;;) {
        read_sequence(r, depth);
        if (failed(r))
            return;
        hth_gbnf_end_alternative(r->tables, rule, base);
        if (peek(r) != '|')
            return;
        r->at++;
        skip_space(r, true);
    }
}

static void read_rule(reader *r)
{
    const char *name = r->at;
    char text[24];
    ptrdiff_t n_name;
    uint32_t rule;

    while (is_word(peek(r)))
        r->at++;
    if (r->at == name) {
        FAIL(r, "line %u: the name of a rule is expected before %s", r->tables->line, here(r, text));
        return;
    }
    n_name = r->at - name;
    rule = rule_of_name(r, name, (uint32_t)n_name);
    skip_space(r, false);
    if (failed(r))
        return;
    if (r->end - r->at < 3 || memcmp(r->at, "::=", 3) != 0) {
        FAIL(r, "line %u: '::=' is expected before %s", r->tables->line, here(r, text));
        return;
    }
    if (r->tables->grammar->rules[rule] != NONE) {
        FAIL(r, "line %u: the rule '%.*s' is defined twice", r->tables->line, (int)(n_name < 60 ? n_name : 60), name);
        return;
    }
    r->at += 3;
    skip_space(r, true);
    read_alternatives(r, rule, 0);
    if (!failed(r) && peek(r) >= 0 && peek(r) != '\n' && peek(r) != '\r')
        FAIL(r, "line %u: nothing can be made of %s", r->tables->line, here(r, text));
    skip_space(r, true);
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

/* Returns the root. */
static uint32_t check_names(reader *r)
{
    uint32_t root = NONE;

    for (size_t i = 0; i < r->n_names && !failed(r); i++) {
        const rule_name *name = &r->names[i];

        /* Set with the name. NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
        if (r->tables->grammar->rules[name->rule] == NONE)
            FAIL(r, "line %u: the rule '%.*s' is not defined", name->line,
                 (int)(name->n_bytes < 60 ? name->n_bytes : 60), name->text);
        if (name->n_bytes == 4 && memcmp(name->text, "root", 4) == 0)
            root = name->rule;
    }
    if (root == NONE)
        FAIL(r, "there is no rule 'root', with which every grammar begins");
    return root;
}

uint32_t hth_gbnf_read(hth_gbnf_builder *builder, const char *text, size_t n_bytes, const hth_gbnf_outside *outside)
{
    static const hth_gbnf_outside nothing;
    reader *r = calloc(1, sizeof(*r));
    uint32_t root = NONE;

    if (!r) {
        if (builder->status == HEARTH_OK)
            builder->status = hth_fail(builder->err, HEARTH_NO_MEMORY, "no memory for a grammar");
        return NONE;
    }
    *r = (reader){ .tables = builder, .at = text, .end = text + n_bytes, .outside = outside ? outside : &nothing };
    memset(r->buckets, 0xFF, sizeof(r->buckets));
    if (memchr(text, 0, n_bytes) || !hth_utf8_is_valid(text, n_bytes))
        FAIL(r, "the grammar is not UTF-8 text");
    builder->line = 1;
    skip_space(r, true);
    while (!failed(r) && r->at < r->end)
        read_rule(r);
    if (!failed(r))
        root = check_names(r);
    builder->line = 0;
    free(r->names);
    free(r);
    return root;
}

hearth_status hth_gbnf_new(const char *text, size_t n_bytes, const hth_gbnf_outside *outside, hth_gbnf **out,
                           hearth_error *err)
{
    hth_gbnf_builder builder;

    if (hth_gbnf_builder_init(&builder, err) == HEARTH_OK)
        builder.grammar->root = hth_gbnf_read(&builder, text, n_bytes, outside);
    return hth_gbnf_builder_end(&builder, out);
}
