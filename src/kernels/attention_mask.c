/*
 * attention_mask.c - converts a mask to bits, and groups its rows
 *
 * A row of a prompt follows the row before it if it sees one more cell, its own, or, in an encoder, whose rows see the
 * whole input, if it sees the same cells. A window may have dropped one cell; then the row two before still sees it.
 * Otherwise the lost cell is the last cell of another sequence's row, and no other row sees it. The first two rows of a
 * run do not show which case it is; the third row decides, because with a window it also drops one cell. Rows that
 * follow one another are a run. Runs of HTH_RUN_ROWS rows and more are cut into groups of HTH_CHUNK_ROWS.
 *
 * Most of a row equals the row before it, so 64 cells with unchanged values are skipped.
 */
#include "kernels/attention_mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/smaller.h"

typedef uint16_t halves __attribute__((vector_size(32)));

#define N_HALVES ((size_t)16)
#define N_BITS ((size_t)64)

/* ---- bits of a row ---- */

/* Bit i: value i of up to 64 differs from the given one. */
static uint64_t other_bits(const uint16_t *mask, uint16_t value)
{
    static const halves weights = { 1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                                    1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15 };
    uint64_t bits = 0;

    for (size_t i = 0; i < N_BITS / N_HALVES; i++) {
        halves values;
        uint64_t folded[4];

        memcpy(&values, mask + i * N_HALVES, sizeof(values));
        values = (halves)(values != value) & weights;
        memcpy(folded, &values, sizeof(folded));
        folded[0] |= folded[1] | folded[2] | folded[3];
        folded[0] |= folded[0] >> 32;
        folded[0] |= folded[0] >> 16;
        bits |= (folded[0] & 0xffff) << (i * N_HALVES);
    }
    return bits;
}

/* Up to 64 values of a row, filled up with closed ones after its end. */
static const uint16_t *values_at(const uint16_t *row, size_t n_cells, size_t cell, uint16_t *room)
{
    if (cell + N_BITS <= n_cells)
        return row + cell;
    for (size_t i = 0; i < N_BITS; i++)
        room[i] = cell + i < n_cells ? row[cell + i] : HTH_MASK_CLOSED;
    return room;
}

/* ---- making a plan ---- */

/* The state while the rows are read. */
typedef struct reader {
    hth_mask_plan *plan;
    size_t n_words;  /* of a row */
    size_t kept;     /* offset of [2 + HTH_CHUNK_ROWS][n_words]: bits of the last rows of the run, in a ring */
    size_t any;      /* offset of [n_words]: cells that any row of the current group sees */
    size_t begin;    /* of the run */
    bool is_unsure;  /* it is unclear whether the run's first two rows are of one sequence */
    size_t n_closed; /* rows of it that are already in groups of a chunk */
} reader;

/* Make room for n more words, zeroed; false without memory. */
static bool take_words(hth_mask_plan *plan, size_t n, size_t *offset)
{
    uint64_t *words = hth_grown_by(plan->words, plan->n_words, n, &plan->words_capacity, sizeof(*words));

    if (!words)
        return false;
    plan->words = words;
    memset(words + plan->n_words, 0, n * sizeof(*words));
    *offset = plan->n_words;
    plan->n_words += n;
    return true;
}

static uint64_t *bits_of(const reader *r, size_t row)
{
    return r->plan->words + r->kept + row % (HTH_CHUNK_ROWS + 2) * r->n_words;
}

/* How a row differs from the one before it. */
typedef struct difference {
    size_t n_gained;
    size_t n_lost;
    bool is_seen_twice; /* the lost cells: the row two before also saw them, in the same run */
} difference;

static difference read_row(const reader *r, const void *mask, size_t row_bytes, size_t row, size_t n_cells)
{
    const uint16_t *values = (const uint16_t *)((const char *)mask + row * row_bytes);
    const uint16_t *before = row > 0 ? (const uint16_t *)((const char *)values - row_bytes) : NULL;
    uint64_t *now = bits_of(r, row);
    const uint64_t *then = row > 0 ? bits_of(r, row - 1) : NULL;
    const uint64_t *earlier = row > r->begin + 1 ? bits_of(r, row - 2) : NULL;
    difference d = { .is_seen_twice = true };

    for (size_t i = 0; i < r->n_words; i++) {
        size_t cell = i * N_BITS;
        uint16_t room[N_BITS];
        const uint16_t *here;
        uint64_t lost;

        if (before && cell + N_BITS <= n_cells && memcmp(values + cell, before + cell, N_BITS * sizeof(*values)) == 0) {
            now[i] = then[i];
            continue;
        }
        here = values_at(values, n_cells, cell, room);
        now[i] = other_bits(here, HTH_MASK_CLOSED);
        r->plan->has_values |= (now[i] & other_bits(here, 0)) != 0;
        if (!then)
            continue;
        lost = then[i] & ~now[i];
        d.n_gained += (size_t)__builtin_popcountll(now[i] & ~then[i]);
        d.n_lost += (size_t)__builtin_popcountll(lost);
        d.is_seen_twice &= lost == 0 || (earlier && (earlier[i] & lost) == lost);
    }
    return d;
}

/* Find the cells that any row of a group sees, the range of words that contain such cells, and their number. */
static void measure(const reader *r, hth_mask_group *group)
{
    size_t begin = r->n_words, end = 0;

    group->n_open = 0;
    for (size_t i = 0; i < r->n_words; i++) {
        uint64_t any = 0;

        for (size_t row = 0; row < group->n_rows; row++)
            any |= bits_of(r, group->row + row)[i];
        r->plan->words[r->any + i] = any;
        if (any == 0)
            continue;
        if (begin == r->n_words)
            begin = i;
        end = i + 1;
        group->n_open += (size_t)__builtin_popcountll(any);
    }
    group->first_cell = begin < end ? begin * N_BITS : 0;
    group->n_words = begin < end ? end - begin : 0;
}

/* Transpose the bits: cells by rows become rows by cells. */
static void turn(const reader *r, const hth_mask_group *group, size_t word, uint64_t *columns)
{
    for (size_t row = 0; row < group->n_rows; row++) {
        uint64_t open = bits_of(r, group->row + row)[word];

        for (; open != 0; open &= open - 1)
            columns[__builtin_ctzll(open)] |= 1ull << row;
    }
}

static bool fill_chunk(const reader *r, hth_mask_group *group)
{
    hth_mask_plan *plan = r->plan;
    size_t first = group->first_cell / N_BITS;

    if (!take_words(plan, 2 * group->n_words, &group->all))
        return false;
    group->columns = group->all + group->n_words;
    for (size_t i = 0; i < group->n_words; i++) {
        uint64_t all = UINT64_MAX;
        size_t columns;

        for (size_t row = 0; row < group->n_rows; row++)
            all &= bits_of(r, group->row + row)[first + i];
        plan->words[group->all + i] = all;
        if (plan->words[group->any + i] == all)
            continue;
        if (!take_words(plan, N_BITS, &columns))
            return false;
        plan->words[group->columns + i] = columns; /* never 0: other words lie before it */
        turn(r, group, first + i, plan->words + columns);
    }
    return true;
}

static bool add_group(reader *r, size_t row, size_t n_rows, bool is_chunk)
{
    hth_mask_plan *plan = r->plan;
    hth_mask_group group = { .row = row, .n_rows = n_rows, .is_chunk = is_chunk };

    hth_mask_group *groups = hth_grown(plan->groups, plan->n_groups, &plan->groups_capacity, sizeof(*groups));

    if (!groups)
        return false;
    plan->groups = groups;
    measure(r, &group);
    if (!take_words(plan, group.n_words, &group.any))
        return false;
    memcpy(plan->words + group.any, plan->words + r->any + group.first_cell / N_BITS, group.n_words * sizeof(uint64_t));
    if (is_chunk && !fill_chunk(r, &group))
        return false;
    plan->groups[plan->n_groups++] = group;
    return true;
}

/* Add the run's rows up to end that are not in a group yet. */
static bool end_run(reader *r, size_t end)
{
    bool ok = true;

    if (end - r->begin >= HTH_RUN_ROWS)
        return r->begin + r->n_closed == end ||
               add_group(r, r->begin + r->n_closed, end - r->begin - r->n_closed, true);
    for (size_t row = r->begin; ok && row < end; row++)
        ok = add_group(r, row, 1, false);
    return ok;
}

static bool begin_run(reader *r, size_t row)
{
    bool ok = end_run(r, row);

    r->begin = row;
    r->n_closed = 0;
    return ok;
}

/* Continue the run, or begin another one. */
static bool add_row(reader *r, size_t row, difference d)
{
    bool is_second = row == r->begin + 1;
    bool was_unsure = r->is_unsure;
    bool ok;

    r->is_unsure = false;
    if (row == 0)
        return true;
    if (was_unsure && d.n_lost != 1) { /* no window: the first row was another sequence's */
        ok = add_group(r, r->begin++, 1, false);
        return ok && ((d.n_gained == 1 && d.n_lost == 0) || begin_run(r, row));
    }
    if (d.n_gained == 0 && d.n_lost == 0)
        return true;
    if (d.n_gained == 1 && (d.n_lost == 0 || (d.n_lost == 1 && (d.is_seen_twice || is_second)))) {
        r->is_unsure = is_second && d.n_lost == 1;
        return true;
    }
    return begin_run(r, row);
}

bool hth_mask_plan_make(hth_mask_plan *plan, const void *mask, size_t row_bytes, size_t n_rows, size_t n_cells)
{
    reader r = { .plan = plan, .n_words = (n_cells + N_BITS - 1) / N_BITS };
    bool ok;

    plan->n_groups = 0;
    plan->n_words = 0;
    plan->has_values = false;
    plan->is_ordered = false;
    ok = take_words(plan, (HTH_CHUNK_ROWS + 2) * r.n_words, &r.kept) && take_words(plan, r.n_words, &r.any);
    for (size_t row = 0; ok && row < n_rows; row++) {
        if (row - r.begin - r.n_closed == HTH_CHUNK_ROWS) {
            ok = add_group(&r, r.begin + r.n_closed, HTH_CHUNK_ROWS, true);
            r.n_closed += HTH_CHUNK_ROWS;
        }
        if (ok)
            ok = add_row(&r, row, read_row(&r, mask, row_bytes, row, n_cells));
    }
    return ok && end_run(&r, n_rows);
}

void hth_mask_plan_free(hth_mask_plan *plan)
{
    free(plan->groups);
    free(plan->words);
    free(plan->ordered);
    *plan = (hth_mask_plan){ .groups = NULL };
}

/* ---- order ---- */

/* Do the open cells of a word have consecutive positions starting at next? */
static bool has_positions(uint64_t open, const uint32_t *positions, uint32_t next)
{
    uint32_t wrong = 0;

    if (open != UINT64_MAX) {
        for (; open != 0; open &= open - 1)
            wrong |= positions[__builtin_ctzll(open)] ^ next++;
        return wrong == 0;
    }
    for (uint32_t i = 0; i < N_BITS; i++) /* so that the compiler can vectorise it */
        wrong |= positions[i] ^ (next + i);
    return wrong == 0;
}

/* Are the group's cells in the order of their positions, without a gap? */
static bool is_sorted(const hth_mask_plan *plan, hth_mask_group *group, const uint32_t *positions)
{
    uint32_t next = 0;

    for (size_t i = 0; i < group->n_words; i++) {
        uint64_t open = plan->words[group->any + i];
        const uint32_t *here = positions + group->first_cell + i * N_BITS;

        if (i == 0)
            group->first_position = next = here[__builtin_ctzll(open)]; /* the first word of a group has open cells */
        if (!has_positions(open, here, next))
            return false;
        next += (uint32_t)__builtin_popcountll(open);
    }
    return true;
}

static bool sees(const hth_mask_plan *plan, const hth_mask_group *group, uint32_t cell)
{
    size_t word = cell / N_BITS - group->first_cell / N_BITS;

    return cell >= group->first_cell && word < group->n_words &&
           (plan->words[group->any + word] >> cell % N_BITS & 1) != 0;
}

/*
 * Does the list of another group begin with the cells of this one? This is the case for a later row of the same
 * sequence.
 */
static bool shares_list(const hth_mask_plan *plan, hth_mask_group *group, const hth_mask_group *other)
{
    if (group->n_open > other->n_open)
        return false;
    for (size_t i = 0; i < group->n_open; i++)
        if (!sees(plan, group, plan->ordered[other->ordered + i]))
            return false;
    group->ordered = other->ordered;
    group->first_position = other->first_position;
    return true;
}

/* Put the group's cells into the order of their positions. */
static bool make_list(hth_mask_plan *plan, hth_mask_group *group, const uint32_t *positions, bool *has_gap)
{
    uint32_t *ordered =
        hth_grown_by(plan->ordered, plan->n_ordered, group->n_open, &plan->ordered_capacity, sizeof(*ordered));
    hth_open_cells walk = hth_mask_group_walk(plan, group), again = walk;
    uint32_t cells[N_BITS], lowest = UINT32_MAX;
    size_t n;

    if (!ordered)
        return false;
    plan->ordered = ordered;
    ordered += plan->n_ordered;
    memset(ordered, 0xff, group->n_open * sizeof(*ordered));
    while ((n = hth_open_cells_next(&walk, cells, N_BITS)) > 0)
        for (size_t i = 0; i < n; i++)
            if (positions[cells[i]] < lowest)
                lowest = positions[cells[i]];
    while ((n = hth_open_cells_next(&again, cells, N_BITS)) > 0)
        for (size_t i = 0; i < n; i++) {
            size_t place = positions[cells[i]] - lowest;

            *has_gap = place >= group->n_open || ordered[place] != UINT32_MAX;
            if (*has_gap)
                return false;
            ordered[place] = cells[i];
        }
    group->first_position = lowest;
    group->ordered = plan->n_ordered;
    plan->n_ordered += group->n_open;
    return true;
}

/* Start from the last row, because the list of a row begins with those of the rows before it. */
bool hth_mask_plan_order(hth_mask_plan *plan, const uint32_t *positions, bool *has_gap)
{
    const hth_mask_group *listed = NULL;

    *has_gap = false;
    plan->n_ordered = 0;
    plan->is_ordered = false; /* the walks above visit cells in buffer order */
    for (size_t i = plan->n_groups; i-- > 0;) {
        hth_mask_group *group = &plan->groups[i];

        group->is_listed = false;
        if (listed && shares_list(plan, group, listed)) {
            group->is_listed = true;
            continue;
        }
        if (is_sorted(plan, group, positions))
            continue;
        if (!make_list(plan, group, positions, has_gap))
            return false;
        group->is_listed = true;
        listed = group;
    }
    plan->is_ordered = true;
    return true;
}

/* ---- walking ---- */

/* Go to the next word with open cells; false at the end. */
static bool look_further(hth_open_cells *walk)
{
    while (walk->open == 0 && walk->next < walk->n_words)
        walk->open = walk->words[walk->next++];
    return walk->open != 0;
}

size_t hth_open_cells_next(hth_open_cells *walk, uint32_t *cells, size_t n_max)
{
    size_t n = 0;

    if (walk->is_aligned)
        n_max -= walk->position % n_max;
    if (walk->ordered) {
        n = hth_smaller(n_max, walk->n_ordered);
        memcpy(cells, walk->ordered, n * sizeof(*cells));
        walk->ordered += n;
        walk->n_ordered -= n;
    }
    while (!walk->ordered && n < n_max && look_further(walk)) {
        uint32_t first = (uint32_t)(walk->first_cell + (walk->next - 1) * N_BITS);

        for (; walk->open != 0 && n < n_max; walk->open &= walk->open - 1)
            cells[n++] = first + (uint32_t)__builtin_ctzll(walk->open);
    }
    walk->position += n;
    return n;
}

void hth_open_cells_skip(hth_open_cells *walk, size_t n)
{
    while (n > 0 && look_further(walk)) {
        size_t n_here = (size_t)__builtin_popcountll(walk->open);

        if (n_here <= n) {
            walk->open = 0;
            n -= n_here;
            continue;
        }
        for (; n > 0; n--)
            walk->open &= walk->open - 1;
    }
}
