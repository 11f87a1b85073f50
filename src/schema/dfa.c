/*
 * dfa.c - subset construction
 *
 *   1. split the characters into atoms: every set of every part contains an atom entirely or not at all
 *   2. find the states breadth first, from the beginning of the text. A state is the instructions of each part that
 *      wait for a character, and the count. A hash table finds a state by this key.
 *   3. drop states that lead to no accepting state
 *
 * A part that matches any continuation keeps only its MATCH. Atoms that advance the same instructions lead to the same
 * state, and are not followed twice in a row.
 */
#include "schema/dfa.h"

#include <stdlib.h>
#include <string.h>

#define NONE HTH_DFA_NONE
#define N_CHARACTERS 0x110000u

enum { ATOMS_MAX = 1 << 14 };

typedef struct key_place {
    uint32_t begin, end; /* of its words */
    bool accepts;
} key_place;

typedef struct builder {
    const hth_dfa_part *parts;
    size_t n_parts;
    uint32_t least, most;
    uint64_t *steps;

    uint32_t *firsts; /* the first characters of the atoms */
    size_t n_atoms;
    uint32_t **atoms_of; /* by part: first and last atom of each range */

    /* Keys: the count, then for each part its instructions in order, and NONE. */
    uint32_t *words;
    size_t n_words, words_capacity;
    key_place *states;
    size_t n_states, states_capacity;
    uint32_t *slots; /* hash table of states */
    size_t n_slots;
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

static bool grow(builder *b, void **array, size_t n, size_t *capacity, size_t size)
{
    size_t more = *capacity ? *capacity : 256;
    void *grown;

    while (more < n)
        more *= 2;
    if (more == *capacity)
        return true;
    grown = realloc(*array, more * size);
    if (!grown) {
        fail_memory(b);
        return false;
    }
    *array = grown;
    *capacity = more;
    return true;
}

/* ---- atoms ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

static uint32_t atom_at(const builder *b, uint32_t c)
{
    size_t low = 0, high = b->n_atoms;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (b->firsts[middle] <= c)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static void cut_atoms(builder *b)
{
    size_t n = 3, kept = 0;

    for (size_t i = 0; i < b->n_parts; i++)
        n += 2 * b->parts[i].nfa->n_ranges;
    b->firsts = malloc((n + 1) * sizeof(b->firsts[0]));
    b->atoms_of = calloc(b->n_parts ? b->n_parts : 1, sizeof(b->atoms_of[0]));
    if (!b->firsts || !b->atoms_of) {
        fail_memory(b);
        return;
    }
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
    for (size_t i = 0; i < b->n_parts && spend(b, b->parts[i].nfa->n_ranges); i++) {
        const hth_nfa *nfa = b->parts[i].nfa;

        b->atoms_of[i] = malloc((2 * nfa->n_ranges + 1) * sizeof(b->atoms_of[i][0]));
        if (!b->atoms_of[i])
            fail_memory(b);
        for (size_t j = 0; j < nfa->n_ranges && b->atoms_of[i]; j++) {
            b->atoms_of[i][2 * j] = atom_at(b, nfa->ranges[j].first);
            b->atoms_of[i][2 * j + 1] = atom_at(b, nfa->ranges[j].last);
        }
    }
}

static bool takes(const builder *b, size_t part, const hth_nfa_instruction *one, uint32_t atom)
{
    for (int32_t i = one->a; i < one->b; i++) {
        const uint32_t *range = b->atoms_of[part] + 2 * (size_t)i;

        if (atom >= range[0] && atom <= range[1])
            return true;
    }
    return false;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void add_word(builder *b, uint32_t word)
{
    if (b->status == HEARTH_OK && grow(b, (void **)&b->words, b->n_words + 1, &b->words_capacity, sizeof(b->words[0])))
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

static uint32_t hash_of(const uint32_t *words, size_t n)
{
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ words[i]) * 1099511628211u;
    return (uint32_t)(hash >> 32 ^ hash);
}

static bool same_words(const builder *b, key_place known, size_t begin)
{
    size_t n = b->n_words - begin;

    return known.end - known.begin == n &&
           memcmp(b->words + known.begin, b->words + begin, n * sizeof(b->words[0])) == 0;
}

static void rehash(builder *b)
{
    size_t n = b->n_slots ? 2 * b->n_slots : 1024;
    uint32_t *slots = malloc(n * sizeof(slots[0]));

    if (!slots) {
        fail_memory(b);
        return;
    }
    memset(slots, 0xFF, n * sizeof(slots[0]));
    for (size_t i = 0; i < b->n_states; i++) {
        size_t at = hash_of(b->words + b->states[i].begin, b->states[i].end - b->states[i].begin) & (n - 1);

        while (slots[at] != NONE)
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i;
    }
    free(b->slots);
    b->slots = slots;
    b->n_slots = n;
}

/* The state whose key is the words from begin on. If the state is known, the words are dropped. */
static uint32_t state_of(builder *b, size_t begin, bool accepts)
{
    size_t at;

    if (b->status == HEARTH_OK && 2 * (b->n_states + 1) > b->n_slots)
        rehash(b);
    if (!spend(b, 1 + (b->n_words - begin) / 4))
        return NONE;
    for (at = hash_of(b->words + begin, b->n_words - begin) & (b->n_slots - 1); b->slots[at] != NONE;
         at = (at + 1) & (b->n_slots - 1))
        if (b->states && same_words(b, b->states[b->slots[at]], begin)) {
            b->n_words = begin;
            return b->slots[at];
        }
    if (b->n_states >= HTH_DFA_STATES_MAX || (b->n_states + 1) * b->n_atoms > HTH_DFA_CELLS_MAX ||
        b->n_words > UINT32_MAX / 2) {
        fail_limit(b);
        return NONE;
    }
    if (!grow(b, (void **)&b->states, b->n_states + 1, &b->states_capacity, sizeof(b->states[0])) ||
        !grow(b, (void **)&b->next, (b->n_states + 1) * b->n_atoms, &b->next_capacity, sizeof(b->next[0])))
        return NONE;
    b->states[b->n_states] = (key_place){ .begin = (uint32_t)begin, .end = (uint32_t)b->n_words, .accepts = accepts };
    b->slots[at] = (uint32_t)b->n_states;
    return (uint32_t)b->n_states++;
}

static uint32_t count_after(const builder *b, uint32_t count)
{
    uint32_t top = b->most == UINT32_MAX ? b->least : b->most;

    if (b->most != UINT32_MAX && count == b->most)
        return NONE;
    return count < top ? count + 1 : count;
}

static uint32_t first_state(builder *b)
{
    bool accepts = b->least == 0;

    add_word(b, 0);
    for (size_t i = 0; i < b->n_parts && b->status == HEARTH_OK; i++) {
        size_t begin = b->n_words;
        bool matches;

        b->mark++;
        matches = follow(b, b->parts[i].nfa, 0, true, false, false);
        matches = end_part(b, i, begin, matches, true);
        accepts = accepts && matches != b->parts[i].is_excluded;
    }
    return b->status == HEARTH_OK ? state_of(b, 0, accepts) : NONE;
}

/* Do both atoms advance the same instructions of the state? */
static bool alike(builder *b, key_place from, uint32_t atom, uint32_t other)
{
    size_t part = 0;

    for (uint32_t i = from.begin + 1; i < from.end && spend(b, 1); i++) {
        const hth_nfa_instruction *one;

        if (b->words[i] == NONE) {
            part++;
            continue;
        }
        one = &b->parts[part].nfa->code[b->words[i]];
        if (one->op == HTH_NFA_SET &&
            (!spend(b, (uint64_t)(one->b - one->a) / 4) || takes(b, part, one, atom) != takes(b, part, one, other)))
            return false;
    }
    return b->status == HEARTH_OK;
}

static uint32_t go(builder *b, key_place from, uint32_t atom)
{
    size_t base = b->n_words, part = 0, part_begin;
    uint32_t count = count_after(b, b->words[from.begin]);
    bool accepts = count != NONE && count >= b->least, is_dead = count == NONE;
    bool matches = false;

    if (is_dead || (b->firsts[atom] >= 0xD800 && b->firsts[atom] < 0xE000))
        return NONE;
    add_word(b, count);
    part_begin = b->n_words;
    b->mark++;
    for (uint32_t i = from.begin + 1; i < from.end && !is_dead && b->status == HEARTH_OK; i++) {
        uint32_t pc = b->words[i];
        const hth_nfa *nfa = b->parts[part].nfa;

        if (pc != NONE && nfa->code[pc].op == HTH_NFA_MATCH) {
            matches = true;
        } else if (pc != NONE && nfa->code[pc].op == HTH_NFA_SET) {
            if (spend(b, 1 + (uint64_t)(nfa->code[pc].b - nfa->code[pc].a) / 4) && takes(b, part, &nfa->code[pc], atom))
                matches = follow(b, nfa, pc + 1, false, false, false) || matches;
        } else if (pc == NONE) {
            is_dead = !b->parts[part].is_excluded && !matches && b->n_words == part_begin;
            is_dead = is_dead || (b->parts[part].is_excluded && matches);
            matches = end_part(b, part, part_begin, matches, false);
            accepts = accepts && matches != b->parts[part].is_excluded;
            part++;
            part_begin = b->n_words;
            matches = false;
            b->mark++;
        }
    }
    if (is_dead || b->status != HEARTH_OK) {
        b->n_words = base;
        return NONE;
    }
    return state_of(b, base, accepts);
}

static void build(builder *b)
{
    if (first_state(b) == NONE)
        return;
    for (size_t i = 0; i < b->n_states && b->status == HEARTH_OK; i++)
        for (uint32_t atom = 0; atom < b->n_atoms && b->status == HEARTH_OK; atom++) {
            uint32_t to;

            if (atom > 0 && b->firsts[atom] != 0xD800 && b->firsts[atom - 1] != 0xD800 &&
                alike(b, b->states[i], atom, atom - 1))
                to = b->next[i * b->n_atoms + atom - 1];
            else
                to = go(b, b->states[i], atom);
            if (b->status == HEARTH_OK)
                b->next[i * b->n_atoms + atom] = to;
        }
}

/* ---- dropping dead states ---------------------------------------------------------------------------------------- */

/* places[i]: the new number of state i, or NONE. Returns the number of states left. */
static uint32_t find_useful(builder *b, uint32_t *places)
{
    size_t n = b->n_states, n_edges = n * b->n_atoms, n_todo = 0;
    uint32_t *heads = calloc(n + 2, sizeof(heads[0])); /* edges into a state, [heads[i], heads[i + 1]) */
    uint32_t *from = malloc((n_edges ? n_edges : 1) * sizeof(from[0])); /* their origins */
    uint32_t *todo = malloc((n ? n : 1) * sizeof(todo[0]));
    uint32_t n_left = 0;

    memset(places, 0xFF, n * sizeof(places[0]));
    if (!heads || !from || !todo) {
        fail_memory(b);
    } else {
        for (size_t i = 0; i < n_edges; i++)
            if (b->next[i] != NONE)
                heads[b->next[i] + 2]++;
        for (size_t i = 2; i < n + 2; i++)
            heads[i] += heads[i - 1];
        for (size_t i = 0; i < n_edges; i++)
            if (b->next[i] != NONE)
                from[heads[b->next[i] + 1]++] = (uint32_t)(i / b->n_atoms);
        for (size_t i = 0; i < n; i++)
            if (b->states[i].accepts) {
                places[i] = 0;
                todo[n_todo++] = (uint32_t)i;
            }
        while (n_todo > 0) {
            uint32_t state = todo[--n_todo];

            for (uint32_t i = heads[state]; i < heads[state + 1]; i++)
                if (places[from[i]] == NONE) {
                    places[from[i]] = 0;
                    todo[n_todo++] = from[i];
                }
        }
        for (size_t i = 0; i < n; i++)
            if (places[i] != NONE)
                places[i] = n_left++;
        if (n > 0 && places[0] == NONE)
            n_left = 0;
    }
    free(heads);
    free(from);
    free(todo);
    return n_left;
}

static hth_dfa *finish(builder *b)
{
    uint32_t *places = malloc((b->n_states ? b->n_states : 1) * sizeof(places[0]));
    hth_dfa *dfa = calloc(1, sizeof(*dfa));

    if (places && dfa) {
        dfa->n_states = find_useful(b, places);
        dfa->n_atoms = (uint32_t)b->n_atoms;
        dfa->firsts = b->firsts;
        b->firsts = NULL;
        dfa->next = malloc(((size_t)dfa->n_states * b->n_atoms + 1) * sizeof(dfa->next[0]));
        dfa->accepts = calloc((size_t)dfa->n_states + 1, sizeof(dfa->accepts[0]));
    }
    if (!places || !dfa || !dfa->next || !dfa->accepts)
        fail_memory(b);
    for (size_t i = 0; places && dfa && dfa->next && dfa->accepts && i < b->n_states && dfa->n_states > 0; i++) {
        if (places[i] == NONE)
            continue;
        dfa->accepts[places[i]] = b->states[i].accepts;
        for (size_t atom = 0; atom < b->n_atoms; atom++) {
            uint32_t to = b->next[i * b->n_atoms + atom];

            dfa->next[places[i] * b->n_atoms + atom] = to == NONE ? NONE : places[to];
        }
    }
    free(places);
    return dfa;
}

hearth_status hth_dfa_new(const hth_dfa_part *parts, size_t n_parts, uint32_t least, uint32_t most, uint64_t *steps,
                          hth_dfa **out, hearth_error *err)
{
    builder b = { .parts = parts, .n_parts = n_parts, .least = least, .most = most, .steps = steps, .err = err };
    size_t n_code = 1;
    hth_dfa *dfa = NULL;

    if (n_parts > HTH_DFA_PARTS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "more than %d patterns bind one text", HTH_DFA_PARTS_MAX);
    for (size_t i = 0; i < n_parts; i++)
        n_code = parts[i].nfa->n_code > n_code ? parts[i].nfa->n_code : n_code;
    b.marks = calloc(n_code, sizeof(b.marks[0]));
    b.todo = malloc((2 * n_code + 2) * sizeof(b.todo[0]));
    if (!b.marks || !b.todo)
        fail_memory(&b);
    else
        cut_atoms(&b);
    if (b.status == HEARTH_OK)
        build(&b);
    if (b.status == HEARTH_OK)
        dfa = finish(&b);
    for (size_t i = 0; i < n_parts && b.atoms_of; i++)
        free(b.atoms_of[i]);
    free(b.atoms_of);
    free(b.firsts);
    free(b.words);
    free(b.states);
    free(b.slots);
    free(b.next);
    free(b.marks);
    free(b.todo);
    if (b.status == HEARTH_OK)
        *out = dfa;
    else
        hth_dfa_free(dfa);
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
