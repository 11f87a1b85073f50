/*
 * dfa.c - subset construction
 *
 *   1. split the characters into atoms: every set of every part contains an atom entirely or not at all
 *   2. find the states breadth first, from the beginning of the text. A state is the instructions of each part that
 *      wait for a character, and the count.
 *   3. drop states that lead to no accepting state
 *
 * To look for one text, only the states along the text are made, one after another.
 *
 * A part that matches any continuation keeps only its MATCH. Atoms that advance the same instructions lead to the same
 * state, and are not followed twice in a row.
 */
#include "schema/dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/utf8.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define NONE HTH_DFA_NONE
#define N_CHARACTERS 0x110000u

enum { ATOMS_MAX = 1 << 14 };

typedef struct state {
    UT_hash_handle hh; /* by key */
    uint32_t number;
    bool accepts;
    size_t n;
    uint32_t key[]; /* [n]: the count, then for each part its instructions in order, and NONE */
} state;

typedef struct builder {
    const hth_dfa_part *parts;
    size_t n_parts;
    uint32_t least, most;
    uint64_t *steps;

    uint32_t *firsts; /* the first characters of the atoms */
    size_t n_atoms;

    uint32_t *words; /* the key that is being made, and whether its state accepts */
    size_t n_words, words_capacity;
    bool accepts;
    state **states;
    size_t n_states, states_capacity;
    state *by_key;
    uint32_t *next;
    size_t next_capacity;

    uint32_t *marks; /* by instruction of the current part: the last closure that reached it */
    uint32_t *todo;
    uint32_t mark;
    hearth_status status;
    hearth_error *err;
} builder;

static void fail_memory(builder *b)
{
    if (b->status == HEARTH_OK)
        b->status = hth_fail(b->err, HEARTH_NO_MEMORY, "no memory for a pattern");
}

static void fail_limit(builder *b)
{
    if (b->status == HEARTH_OK)
        b->status = hth_fail(b->err, HEARTH_MISUSE, "it can be met in too many ways; make it simpler, or shorter");
}

static bool spend(builder *b, uint64_t n)
{
    if (b->status == HEARTH_OK && *b->steps < n) {
        *b->steps = 0;
        fail_limit(b);
    }
    if (b->status != HEARTH_OK)
        return false;
    *b->steps -= n;
    return true;
}

static bool grow(builder *b, void **array, size_t n, size_t n_more, size_t *capacity, size_t size)
{
    void *grown = hth_grown_by(*array, n, n_more, capacity, size);

    if (grown)
        *array = grown;
    else
        fail_memory(b);
    return grown != NULL;
}

/* ---- atoms ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static void cut_atoms(builder *b)
{
    size_t n = 3, kept = 0;

    for (size_t i = 0; i < b->n_parts; i++)
        n += 2 * b->parts[i].nfa->n_ranges;
    b->firsts = malloc((n + 1) * sizeof(b->firsts[0]));
    if (!b->firsts) {
        fail_memory(b);
        return;
    }
    (void)spend(b, n);
    n = 0;
    b->firsts[n++] = 0;
    b->firsts[n++] = 0xD800;
    b->firsts[n++] = 0xE000;
    for (size_t i = 0; i < b->n_parts; i++)
        for (size_t j = 0; j < b->parts[i].nfa->n_ranges; j++) {
            b->firsts[n++] = b->parts[i].nfa->ranges[j].first;
            b->firsts[n++] = b->parts[i].nfa->ranges[j].last + 1;
        }
    qsort(b->firsts, n, sizeof(b->firsts[0]), by_value);
    for (size_t i = 0; i < n; i++)
        if (b->firsts[i] < N_CHARACTERS && (kept == 0 || b->firsts[i] != b->firsts[kept - 1]))
            b->firsts[kept++] = b->firsts[i];
    b->firsts[kept] = N_CHARACTERS;
    b->n_atoms = kept;
    if (kept > ATOMS_MAX)
        fail_limit(b);
}

static bool takes(const hth_nfa *nfa, const hth_nfa_instruction *one, uint32_t c)
{
    for (int32_t i = one->a; i < one->b; i++)
        if (c >= nfa->ranges[i].first && c <= nfa->ranges[i].last)
            return true;
    return false;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void add_word(builder *b, uint32_t word)
{
    if (b->status == HEARTH_OK && grow(b, (void **)&b->words, b->n_words, 1, &b->words_capacity, sizeof(b->words[0])))
        b->words[b->n_words++] = word;
}

/*
 * Follow all instructions from pc on that need no character, and mark them. Unless only_match is set, those that wait
 * for a character are added to the words. True if MATCH was reached.
 */
static bool follow(builder *b, const hth_nfa *nfa, uint32_t pc, bool at_begin, bool at_end, bool only_match)
{
    size_t n_todo = 0;
    bool matches = false;

    b->todo[n_todo++] = pc;
    while (n_todo > 0 && spend(b, 1)) {
        uint32_t at = b->todo[--n_todo];
        const hth_nfa_instruction *one = &nfa->code[at];

        if (b->marks[at] == b->mark)
            continue;
        b->marks[at] = b->mark;
        switch ((hth_nfa_op)one->op) {
        case HTH_NFA_SET:
            if (!only_match)
                add_word(b, at);
            break;
        case HTH_NFA_SPLIT: b->todo[n_todo++] = at + (uint32_t)one->b; /* fall through */
        case HTH_NFA_JUMP: b->todo[n_todo++] = at + (uint32_t)one->a; break;
        case HTH_NFA_BEGIN:
            if (at_begin)
                b->todo[n_todo++] = at + 1;
            break;
        case HTH_NFA_END:
            if (at_end)
                b->todo[n_todo++] = at + 1;
            else if (!only_match)
                add_word(b, at); /* the text may end here */
            break;
        case HTH_NFA_MATCH: matches = true; break;
        }
    }
    return matches;
}

/*
 * Sort a part's instructions, from word begin on; a MATCH replaces them. Returns whether the text so far is in the
 * part.
 */
static bool end_part(builder *b, size_t part, size_t begin, bool matches, bool at_begin)
{
    const hth_nfa *nfa = b->parts[part].nfa;

    if (b->status != HEARTH_OK)
        return false;
    if (matches) {
        b->n_words = begin;
        add_word(b, (uint32_t)nfa->n_code - 1);
    } else {
        size_t n = b->n_words - begin;

        qsort(b->words + begin, n, sizeof(b->words[0]), by_value);
        b->mark++;
        for (size_t i = begin; i < begin + n && !matches; i++)
            if (nfa->code[b->words[i]].op == HTH_NFA_END)
                matches = follow(b, nfa, b->words[i] + 1, at_begin, true, true);
    }
    add_word(b, NONE);
    return matches;
}

/* A state of the key that was made. NULL with the builder failed. */
static state *state_new(builder *b)
{
    state *one = b->status == HEARTH_OK ? malloc(sizeof(*one) + b->n_words * sizeof(one->key[0])) : NULL;

    if (!one) {
        fail_memory(b);
        return NULL;
    }
    *one = (state){ .number = (uint32_t)b->n_states, .accepts = b->accepts, .n = b->n_words };
    memcpy(one->key, b->words, b->n_words * sizeof(one->key[0]));
    return one;
}

static uint32_t hash_of(const uint32_t *words, size_t n)
{
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ words[i]) * 1099511628211u;
    return (uint32_t)(hash >> 32 ^ hash);
}

/* The number of the state of the key that was made. */
static uint32_t state_of(builder *b)
{
    const size_t n_bytes = b->n_words * sizeof(b->words[0]);
    uint32_t hash;
    state *one;

    if (!spend(b, 1 + b->n_words / 4))
        return NONE;
    hash = hash_of(b->words, b->n_words);
    HASH_FIND_BYHASHVALUE(hh, b->by_key, b->words, n_bytes, hash, one);
    if (one)
        return one->number;
    if (b->n_states >= HTH_DFA_STATES_MAX || (b->n_states + 1) * b->n_atoms > HTH_DFA_CELLS_MAX) {
        fail_limit(b);
        return NONE;
    }
    if (!grow(b, (void **)&b->states, b->n_states, 1, &b->states_capacity, sizeof(b->states[0])) ||
        !grow(b, (void **)&b->next, b->n_states * b->n_atoms, b->n_atoms, &b->next_capacity, sizeof(b->next[0])))
        return NONE;
    one = state_new(b);
    if (!one)
        return NONE;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, b->by_key, one->key, n_bytes, hash, one);
    if (!one->hh.tbl) {
        free(one);
        fail_memory(b);
        return NONE;
    }
    b->states[b->n_states++] = one;
    return one->number;
}

static uint32_t count_after(const builder *b, uint32_t count)
{
    uint32_t top = b->most == UINT32_MAX ? b->least : b->most;

    if (b->most != UINT32_MAX && count == b->most)
        return NONE;
    return count < top ? count + 1 : count;
}

/* Make the key of the state before the first character. */
static void first_key(builder *b)
{
    b->accepts = b->least == 0;
    add_word(b, 0);
    for (size_t i = 0; i < b->n_parts && b->status == HEARTH_OK; i++) {
        size_t begin = b->n_words;
        bool matches;

        b->mark++;
        matches = follow(b, b->parts[i].nfa, 0, true, false, false);
        matches = end_part(b, i, begin, matches, true);
        b->accepts = b->accepts && matches != b->parts[i].is_excluded;
    }
}

/* Do both characters advance the same instructions of the state? */
static bool alike(builder *b, const state *from, uint32_t c, uint32_t other)
{
    size_t part = 0;

    for (size_t i = 1; i < from->n && spend(b, 1); i++) {
        const hth_nfa_instruction *one;

        if (from->key[i] == NONE) {
            part++;
            continue;
        }
        one = &b->parts[part].nfa->code[from->key[i]];
        if (one->op == HTH_NFA_SET && (!spend(b, (uint64_t)(one->b - one->a) / 4) ||
                                       takes(b->parts[part].nfa, one, c) != takes(b->parts[part].nfa, one, other)))
            return false;
    }
    return b->status == HEARTH_OK;
}

/* Make the key of the state after from and one more character. False: no text goes on like that. */
static bool step(builder *b, const state *from, uint32_t c)
{
    uint32_t count = count_after(b, from->key[0]);
    bool matches = false, is_dead = count == NONE || (c >= 0xD800 && c < 0xE000);
    size_t part = 0, begin = 1;

    b->n_words = 0;
    b->accepts = count >= b->least;
    add_word(b, count);
    b->mark++;
    for (size_t i = 1; i < from->n && !is_dead && b->status == HEARTH_OK; i++) {
        const hth_nfa *nfa = b->parts[part].nfa;
        uint32_t pc = from->key[i];

        if (pc != NONE && nfa->code[pc].op == HTH_NFA_MATCH) {
            matches = true;
        } else if (pc != NONE && nfa->code[pc].op == HTH_NFA_SET) {
            if (spend(b, 1 + (uint64_t)(nfa->code[pc].b - nfa->code[pc].a) / 4) && takes(nfa, &nfa->code[pc], c))
                matches = follow(b, nfa, pc + 1, false, false, false) || matches;
        } else if (pc == NONE) {
            is_dead = b->parts[part].is_excluded ? matches : !matches && b->n_words == begin;
            matches = end_part(b, part, begin, matches, false);
            b->accepts = b->accepts && matches != b->parts[part].is_excluded;
            part++;
            begin = b->n_words;
            matches = false;
            b->mark++;
        }
    }
    return !is_dead && b->status == HEARTH_OK;
}

static void build(builder *b)
{
    first_key(b);
    (void)state_of(b);
    for (size_t i = 0; i < b->n_states && b->status == HEARTH_OK; i++)
        for (uint32_t atom = 0; atom < b->n_atoms && b->status == HEARTH_OK; atom++) {
            uint32_t c = b->firsts[atom], to;

            if (atom > 0 && c != 0xD800 && b->firsts[atom - 1] != 0xD800 &&
                alike(b, b->states[i], c, b->firsts[atom - 1]))
                to = b->next[i * b->n_atoms + atom - 1];
            else
                to = step(b, b->states[i], c) ? state_of(b) : NONE;
            if (b->status == HEARTH_OK)
                b->next[i * b->n_atoms + atom] = to;
        }
}

/*
 * Number the states that lead to an accepting one: numbers[i] is that of state i, or NONE. Returns their count. Most
 * transitions lead to later states, so the first pass is backward; the others alternate.
 */
static uint32_t number_useful(builder *b, uint32_t *numbers)
{
    uint32_t n = 0;
    bool changes = true;

    memset(numbers, 0xFF, b->n_states * sizeof(numbers[0]));
    for (size_t pass = 0; changes; pass++) {
        changes = false;
        for (size_t k = 0; k < b->n_states; k++) {
            size_t i = pass % 2 ? k : b->n_states - 1 - k, atom = 0;
            const uint32_t *next = b->next + i * b->n_atoms;
            bool leads = b->states[i]->accepts;

            if (numbers[i] != NONE)
                continue;
            for (; atom < b->n_atoms && !leads; atom++)
                leads = next[atom] != NONE && numbers[next[atom]] != NONE;
            if (!spend(b, 1 + atom / 8))
                return 0;
            if (leads) {
                numbers[i] = 0;
                changes = true;
            }
        }
    }
    for (size_t i = 0; i < b->n_states; i++)
        if (numbers[i] != NONE)
            numbers[i] = n++;
    return n;
}

static hth_dfa *finish(builder *b)
{
    hth_dfa *dfa = calloc(1, sizeof(*dfa));
    uint32_t *numbers = malloc(b->n_states * sizeof(numbers[0])), n = 0;
    bool *accepts = malloc(b->n_states * sizeof(accepts[0]));

    if (dfa && numbers && accepts)
        n = number_useful(b, numbers);
    else
        fail_memory(b);
    if (b->status != HEARTH_OK) {
        free(dfa);
        free(numbers);
        free(accepts);
        return NULL;
    }
    for (size_t i = 0; i < b->n_states; i++) { /* in place: no number is above that of the state */
        /* All are set where the status is OK.
         * NOLINTNEXTLINE(clang-analyzer-core.NullDereference,clang-analyzer-core.UndefinedBinaryOperatorResult) */
        if (numbers[i] == NONE)
            continue;
        accepts[numbers[i]] = b->states[i]->accepts;
        for (size_t atom = 0; atom < b->n_atoms; atom++) {
            uint32_t to = b->next[i * b->n_atoms + atom];

            b->next[numbers[i] * b->n_atoms + atom] = to == NONE ? NONE : numbers[to];
        }
    }
    free(numbers);
    *dfa = (hth_dfa){
        .n_states = n,
        .n_atoms = (uint32_t)b->n_atoms,
        .firsts = b->firsts,
        .next = b->next,
        .accepts = accepts,
    };
    b->firsts = b->next = NULL;
    return dfa;
}

/* ---- top level --------------------------------------------------------------------------------------------------- */

static void builder_init(builder *b)
{
    size_t n_code = 1;

    for (size_t i = 0; i < b->n_parts; i++)
        n_code = b->parts[i].nfa->n_code > n_code ? b->parts[i].nfa->n_code : n_code;
    b->marks = calloc(n_code, sizeof(b->marks[0]));
    b->todo = malloc((2 * n_code + 2) * sizeof(b->todo[0]));
    if (!b->marks || !b->todo)
        fail_memory(b);
}

static void builder_deinit(builder *b)
{
    HASH_CLEAR(hh, b->by_key);
    for (size_t i = 0; i < b->n_states; i++)
        free(b->states[i]);
    free(b->firsts);
    free(b->words);
    free(b->states);
    free(b->next);
    free(b->marks);
    free(b->todo);
}

hearth_status hth_dfa_new(const hth_dfa_part *parts, size_t n_parts, uint32_t least, uint32_t most, uint64_t *steps,
                          hth_dfa **out, hearth_error *err)
{
    builder b = { .parts = parts, .n_parts = n_parts, .least = least, .most = most, .steps = steps, .err = err };
    hth_dfa *dfa = NULL;

    if (n_parts > HTH_DFA_PARTS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "more than %d patterns bind one text", HTH_DFA_PARTS_MAX);
    builder_init(&b);
    if (b.status == HEARTH_OK)
        cut_atoms(&b);
    if (b.status == HEARTH_OK)
        build(&b);
    if (b.status == HEARTH_OK)
        dfa = finish(&b);
    builder_deinit(&b);
    if (b.status == HEARTH_OK)
        *out = dfa;
    return b.status;
}

hearth_status hth_nfa_has(const hth_nfa *nfa, const char *text, size_t n_bytes, uint64_t *steps, bool *out)
{
    const hth_dfa_part part = { .nfa = nfa };
    builder b = { .parts = &part, .n_parts = 1, .most = UINT32_MAX, .steps = steps };
    const char *at = text, *end = text + n_bytes;
    state *now = NULL, *next;

    *out = false;
    builder_init(&b);
    if (spend(&b, nfa->n_code + 1)) { /* for the memory, which is cleared */
        first_key(&b);
        now = state_new(&b);
    }
    while (now && at < end && b.status == HEARTH_OK) {
        next = step(&b, now, hth_utf8_next(&at, end)) ? state_new(&b) : NULL;
        free(now);
        now = next;
    }
    *out = now && now->accepts && b.status == HEARTH_OK;
    free(now);
    builder_deinit(&b);
    return b.status;
}

void hth_dfa_free(hth_dfa *dfa)
{
    if (!dfa)
        return;
    free(dfa->firsts);
    free(dfa->next);
    free(dfa->accepts);
    free(dfa);
}
