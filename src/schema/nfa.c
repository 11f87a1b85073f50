/*
 * nfa.c - read a pattern by recursive descent, and write its code
 *
 *   anywhere          SPLIT +1 +3, SET any, JUMP -2 before the pattern, unless all of it begins with ^
 *   x|y               SPLIT x y, x, JUMP end, y
 *   x{m,n}            x m times, then n - m times SPLIT x end, x: each SPLIT may leave for the end
 *   x{m,}             x m times, then SPLIT x end, x, JUMP back
 *
 * Jumps are relative, so code can be moved and copied. An expression that matches only the empty text is written once,
 * however often it is repeated.
 */
#include "schema/nfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"

#define LAST_CODE_POINT HTH_GBNF_LAST_CODE_POINT

enum { NESTING_MAX = 64, RANGES_MAX = 1 << 16, BYTES_MAX = 1 << 16 };

typedef struct reader {
    const char *at, *end;
    hth_nfa *nfa;
    size_t code_capacity, ranges_capacity;
    int depth;
    hearth_status status;
    hearth_error *err;
} reader;

#define FAIL(r, ...) \
    ((void)((r)->status == HEARTH_OK ? (r)->status = hth_fail((r)->err, HEARTH_MISUSE, __VA_ARGS__) : 0))

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static bool grow(reader *r, void **array, size_t n, size_t *capacity, size_t size, size_t limit)
{
    void *grown = r->status == HEARTH_OK && n < limit ? hth_grown(*array, n, capacity, size) : NULL;

    if (grown)
        *array = grown;
    else if (n >= limit)
        FAIL(r, "it is too long when its repetitions are written out");
    else if (r->status == HEARTH_OK)
        r->status = hth_fail(r->err, HEARTH_NO_MEMORY, "no memory for a pattern");
    return grown != NULL;
}

static void emit(reader *r, hth_nfa_op op, int32_t a, int32_t b)
{
    if (grow(r, (void **)&r->nfa->code, r->nfa->n_code, &r->code_capacity, sizeof(r->nfa->code[0]), HTH_NFA_CODE_MAX))
        r->nfa->code[r->nfa->n_code++] = (hth_nfa_instruction){ .op = op, .a = a, .b = b };
}

/* Move the code from begin on by one and insert an instruction there. Jumps inside remain valid. */
static void insert(reader *r, size_t begin, hth_nfa_op op, int32_t a, int32_t b)
{
    emit(r, op, a, b);
    if (r->status != HEARTH_OK)
        return;
    memmove(r->nfa->code + begin + 1, r->nfa->code + begin, (r->nfa->n_code - 1 - begin) * sizeof(r->nfa->code[0]));
    r->nfa->code[begin] = (hth_nfa_instruction){ .op = op, .a = a, .b = b };
}

static void add_range(reader *r, uint32_t first, uint32_t last)
{
    hth_nfa *nfa = r->nfa;

    if (grow(r, (void **)&nfa->ranges, nfa->n_ranges, &r->ranges_capacity, sizeof(nfa->ranges[0]), RANGES_MAX))
        nfa->ranges[nfa->n_ranges++] = (hth_gbnf_range){ .first = first, .last = last };
}

/* Sort and join the ranges from begin on. negated: replace them by all other characters. */
static void finish_ranges(reader *r, size_t begin, bool negated)
{
    hth_nfa *nfa = r->nfa;
    size_t n;

    if (!grow(r, (void **)&nfa->ranges, nfa->n_ranges, &r->ranges_capacity, sizeof(nfa->ranges[0]), RANGES_MAX))
        return;
    n = hth_gbnf_ranges_join(nfa->ranges + begin, nfa->n_ranges - begin);
    nfa->n_ranges = begin + (negated ? hth_gbnf_ranges_negate(nfa->ranges + begin, n) : n);
}

static void emit_set(reader *r, size_t begin)
{
    emit(r, HTH_NFA_SET, (int32_t)begin, (int32_t)r->nfa->n_ranges);
}

static void emit_character(reader *r, uint32_t c)
{
    size_t begin = r->nfa->n_ranges;

    add_range(r, c, c);
    emit_set(r, begin);
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static int peek(const reader *r)
{
    return r->at < r->end ? (uint8_t)*r->at : -1;
}

static bool take(reader *r, const char *text)
{
    size_t n = strlen(text);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

static uint32_t read_hex(reader *r, size_t n_least, size_t n_most)
{
    uint32_t value;

    if (hth_hex_read(&r->at, r->end, n_most, &value) < n_least)
        FAIL(r, "an escape lacks its hexadecimal digits");
    if (value > LAST_CODE_POINT)
        FAIL(r, "an escape is of no character");
    return value > LAST_CODE_POINT ? 0 : value;
}

/* Add the ranges of \d, \w, \s or of the opposite of one. False for another escape. */
static bool read_class_escape(reader *r)
{
    static const hth_gbnf_range digits[] = { { '0', '9' } };
    static const hth_gbnf_range words[] = { { '0', '9' }, { 'A', 'Z' }, { '_', '_' }, { 'a', 'z' } };
    static const hth_gbnf_range spaces[] = { { 0x09, 0x0D },     { 0x20, 0x20 },     { 0xA0, 0xA0 },
                                             { 0x1680, 0x1680 }, { 0x2000, 0x200A }, { 0x2028, 0x2029 },
                                             { 0x202F, 0x202F }, { 0x205F, 0x205F }, { 0x3000, 0x3000 },
                                             { 0xFEFF, 0xFEFF } };
    int c = peek(r);
    int kind = c | 0x20;
    const hth_gbnf_range *ranges = kind == 'd' ? digits : kind == 'w' ? words : spaces;
    size_t n = kind == 'd' ? 1 : kind == 'w' ? 4 : sizeof(spaces) / sizeof(spaces[0]), begin = r->nfa->n_ranges;

    if (c < 0 || (kind != 'd' && kind != 'w' && kind != 's'))
        return false;
    r->at++;
    for (size_t i = 0; i < n; i++)
        add_range(r, ranges[i].first, ranges[i].last);
    finish_ranges(r, begin, c != kind);
    return true;
}

/* The character that an escape stands for. */
static uint32_t read_escape(reader *r, bool in_class)
{
    int c = peek(r);
    uint32_t value;

    if (c < 0) {
        FAIL(r, "it ends in a backslash");
        return 0;
    }
    if (c >= 0x80)
        return hth_utf8_next(&r->at, r->end);
    r->at++;
    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case '0':
        if (peek(r) < '0' || peek(r) > '9')
            return 0;
        break;
    case 'c':
        if ((peek(r) | 0x20) >= 'a' && (peek(r) | 0x20) <= 'z')
            return (uint32_t)*r->at++ & 0x1F;
        break;
    case 'x': return read_hex(r, 2, 2);
    case 'u':
        if (take(r, "{")) {
            value = read_hex(r, 1, 6);
            if (!take(r, "}"))
                FAIL(r, "an escape \\u{...} has no end");
            return value;
        }
        value = read_hex(r, 4, 4);
        if (value >= 0xD800 && value < 0xDC00 && take(r, "\\u")) {
            uint32_t low = read_hex(r, 4, 4);

            if (low >= 0xDC00 && low < 0xE000)
                return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            FAIL(r, "an escape is half a character");
        }
        return value;
    case 'b':
        if (in_class)
            return '\b';
        break;
    default:
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '1' && c <= '9'))
            return (uint32_t)c;
    }
    FAIL(r, "\\%c cannot be honoured", c);
    return 0;
}

static void read_class(reader *r)
{
    size_t begin = r->nfa->n_ranges;
    bool negated = take(r, "^");

    while (r->status == HEARTH_OK && peek(r) != ']') {
        uint32_t first, last;

        if (peek(r) < 0) {
            FAIL(r, "a class has no ']'");
            return;
        }
        if (take(r, "\\")) {
            if (read_class_escape(r))
                continue;
            first = read_escape(r, true);
        } else {
            first = hth_utf8_next(&r->at, r->end);
        }
        last = first;
        if (peek(r) == '-' && r->end - r->at > 1 && r->at[1] != ']') {
            r->at++;
            if (take(r, "\\"))
                last = read_escape(r, true);
            else
                last = hth_utf8_next(&r->at, r->end);
        }
        if (last < first)
            FAIL(r, "a range of a class ends before it begins");
        add_range(r, first, last);
    }
    if (r->status != HEARTH_OK)
        return; /* it may be at the end */
    r->at++;
    finish_ranges(r, begin, negated);
    emit_set(r, begin);
}

/* ---- structure --------------------------------------------------------------------------------------------------- */

static void read_choice(reader *r);

static void read_group(reader *r)
{
    if (take(r, "?")) {
        if (take(r, "<") && peek(r) != '=' && peek(r) != '!') {
            while (peek(r) >= 0 && peek(r) != '>')
                r->at++;
            if (!take(r, ">"))
                FAIL(r, "the name of a group has no '>'");
        } else if (!take(r, ":")) {
            FAIL(r, "look-around and flags cannot be honoured");
        }
    }
    if (++r->depth > NESTING_MAX)
        FAIL(r, "its groups are nested more than %d deep", NESTING_MAX);
    if (r->status == HEARTH_OK)
        read_choice(r);
    if (!take(r, ")"))
        FAIL(r, "a group has no ')'");
    r->depth--;
}

/* Read one atom. False if it matches only the empty text, so it need not be repeated. */
static bool read_atom(reader *r)
{
    size_t begin = r->nfa->n_ranges;

    if (take(r, "(")) {
        read_group(r);
    } else if (take(r, "[")) {
        read_class(r);
    } else if (take(r, "^")) {
        emit(r, HTH_NFA_BEGIN, 0, 0);
        return false;
    } else if (take(r, "$")) {
        emit(r, HTH_NFA_END, 0, 0);
        return false;
    } else if (take(r, ".")) {
        add_range(r, '\n', '\n');
        add_range(r, '\r', '\r');
        add_range(r, 0x2028, 0x2029);
        finish_ranges(r, begin, true);
        emit_set(r, begin);
    } else if (take(r, "\\")) {
        if (read_class_escape(r))
            emit_set(r, begin);
        else
            emit_character(r, read_escape(r, false));
    } else if (strchr("*+?{}]", peek(r))) {
        FAIL(r, "'%c' stands where nothing can be made of it", peek(r));
    } else {
        emit_character(r, hth_utf8_next(&r->at, r->end));
    }
    return true;
}

static int32_t read_count(reader *r)
{
    int32_t value = 0;

    if (peek(r) < '0' || peek(r) > '9')
        FAIL(r, "a repetition is not {m}, {m,} or {m,n}");
    for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
        if (value <= HTH_NFA_REPETITIONS_MAX)
            value = value * 10 + (peek(r) - '0');
    if (value > HTH_NFA_REPETITIONS_MAX)
        FAIL(r, "it repeats more than %d times", HTH_NFA_REPETITIONS_MAX);
    return value;
}

/* Repeat the code from begin on, least to most times; most -1: any number of times. */
static void repeat(reader *r, size_t begin, int32_t least, int32_t most)
{
    hth_nfa *nfa = r->nfa;
    size_t n = nfa->n_code - begin;
    int32_t n_copies = most < 0 ? least + 1 : most;
    hth_nfa_instruction *copy;

    if (n == 0)
        return;
    copy = malloc(n * sizeof(copy[0]));
    if (!copy) {
        r->status = hth_fail(r->err, HEARTH_NO_MEMORY, "no memory for a pattern");
        return;
    }
    memcpy(copy, nfa->code + begin, n * sizeof(copy[0]));
    nfa->n_code = begin;
    for (int32_t i = 0; i < n_copies && r->status == HEARTH_OK; i++) {
        if (i >= least)
            emit(r, HTH_NFA_SPLIT, 1, most < 0 ? (int32_t)n + 2 : (most - i) * (int32_t)(n + 1));
        for (size_t j = 0; j < n && r->status == HEARTH_OK; j++)
            emit(r, (hth_nfa_op)copy[j].op, copy[j].a, copy[j].b);
        if (i >= least && most < 0)
            emit(r, HTH_NFA_JUMP, -(int32_t)(n + 1), 0);
    }
    free(copy);
}

static void read_sequence(reader *r)
{
    while (r->status == HEARTH_OK && peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
        size_t begin = r->nfa->n_code;
        bool can_repeat = read_atom(r);
        int32_t least, most;

        if (r->status != HEARTH_OK)
            return;
        if (take(r, "*")) {
            least = 0, most = -1;
        } else if (take(r, "+")) {
            least = 1, most = -1;
        } else if (take(r, "?")) {
            least = 0, most = 1;
        } else if (take(r, "{")) {
            least = most = read_count(r);
            if (take(r, ","))
                most = peek(r) == '}' ? -1 : read_count(r);
            if (!take(r, "}") || (most >= 0 && most < least))
                FAIL(r, "a repetition is not {m}, {m,} or {m,n}");
        } else {
            continue;
        }
        if (!can_repeat)
            FAIL(r, "^ or $ is repeated");
        (void)take(r, "?");
        if (r->status == HEARTH_OK)
            repeat(r, begin, least, most);
    }
}

static void read_choice(reader *r)
{
    int32_t last_jump = -1; /* the jumps are a list, each with the one before it, until the end is known */

    for (;;) {
        size_t begin = r->nfa->n_code;

        read_sequence(r);
        if (r->status != HEARTH_OK || !take(r, "|"))
            break;
        insert(r, begin, HTH_NFA_SPLIT, 1, (int32_t)(r->nfa->n_code - begin) + 2);
        emit(r, HTH_NFA_JUMP, last_jump, 0);
        last_jump = (int32_t)r->nfa->n_code - 1;
    }
    while (r->status == HEARTH_OK && last_jump >= 0) {
        int32_t before = r->nfa->code[last_jump].a;

        r->nfa->code[last_jump].a = (int32_t)r->nfa->n_code - last_jump;
        last_jump = before;
    }
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

/* A text of no bytes may be NULL. */
static hearth_status begin(reader *r, const char *text, size_t n_bytes, hearth_error *err)
{
    if (!text)
        text = "";
    *r = (reader){ .at = text, .end = text + n_bytes, .nfa = calloc(1, sizeof(*r->nfa)), .err = err };
    if (!r->nfa)
        return r->status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a pattern");
    return HEARTH_OK;
}

static hearth_status end(reader *r, hth_nfa **out)
{
    emit(r, HTH_NFA_MATCH, 0, 0);
    if (r->status == HEARTH_OK)
        *out = r->nfa;
    else
        hth_nfa_free(r->nfa);
    return r->status;
}

hearth_status hth_nfa_new_pattern(const char *pattern, size_t n_bytes, hth_nfa **out, hearth_error *err)
{
    reader r;
    bool is_tied;

    if (n_bytes > BYTES_MAX)
        return hth_fail(err, HEARTH_MISUSE, "it is longer than 64 KiB");
    if (begin(&r, pattern, n_bytes, err) != HEARTH_OK)
        return r.status;
    emit(&r, HTH_NFA_SPLIT, 3, 1);
    add_range(&r, 0, LAST_CODE_POINT);
    emit(&r, HTH_NFA_SET, 0, 1);
    emit(&r, HTH_NFA_JUMP, -2, 0);
    read_choice(&r);
    if (r.status == HEARTH_OK && peek(&r) == ')')
        FAIL(&r, "a ')' has no '('");
    /* A single ^ at the very beginning anchors the whole pattern, unless there is another alternative. */
    is_tied = r.status == HEARTH_OK && r.nfa->n_code > 3 && r.nfa->code[3].op == HTH_NFA_BEGIN;
    if (is_tied)
        r.nfa->code[0] = (hth_nfa_instruction){ .op = HTH_NFA_JUMP, .a = 3 };
    return end(&r, out);
}

hearth_status hth_nfa_new_texts(const hth_nfa_text *texts, size_t n, hth_nfa **out, hearth_error *err)
{
    reader r;

    if (begin(&r, NULL, 0, err) != HEARTH_OK)
        return r.status;
    for (size_t i = 0; i < n && r.status == HEARTH_OK; i++) {
        size_t split = r.nfa->n_code;

        emit(&r, HTH_NFA_SPLIT, 1, 0);
        r.at = texts[i].bytes;
        r.end = texts[i].bytes + texts[i].n;
        while (r.at < r.end && r.status == HEARTH_OK)
            emit_character(&r, hth_utf8_next(&r.at, r.end));
        emit(&r, HTH_NFA_END, 0, 0);
        emit(&r, HTH_NFA_MATCH, 0, 0);
        if (r.status == HEARTH_OK)
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): emit fails where it has no code */
            r.nfa->code[split].b = (int32_t)(r.nfa->n_code - split);
    }
    emit(&r, HTH_NFA_JUMP, 0, 0); /* no text is left: a jump to itself leads nowhere */
    return end(&r, out);
}

void hth_nfa_free(hth_nfa *nfa)
{
    if (!nfa)
        return;
    free(nfa->code);
    free(nfa->ranges);
    free(nfa);
}
