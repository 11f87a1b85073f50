/*
 * schema_sequence.c - members or values that occur at most once each, with commas and counts
 *
 * A rule describes the rest of the sequence. It depends on the parts that are decided (the first i or, in any order, a
 * set of them), and on c, the number of parts so far. c stops at the highest count that matters. So there are at most
 * (parts + 2) * (counts + 1) rules, or 2 ^ parts * (counts + 1) in any order.
 *
 *   rule(i, c) ::= part i rule(i + 1, c + 1) | rule(i + 1, c)     the latter if part i is optional
 *   rule(n, c) ::= more rule(n + 1, c + 1) | end                  the end if c is enough
 *   rule(n + 1, c) ::= more rule(n + 1, c + 1) | end
 *
 * Two further members may have the same name, and are then one member. So only the first of them counts: it is allowed
 * only if c + 1 is enough.
 */
#include <stdlib.h>

#include "schema/schema_inside.h"

#define NONE HTH_GBNF_NONE

typedef struct machine {
    hth_schema_work *w;
    const hth_schema_sequence *of;
    size_t n_rows;
    uint32_t least, most, top; /* top: the highest count with rules of its own */
    uint32_t *rules;           /* by row and count */
} machine;

static uint32_t *rule_at(const machine *m, size_t row, uint32_t count)
{
    return &m->rules[row * ((size_t)m->top + 1) + count];
}

static uint32_t count_after(const machine *m, uint32_t count)
{
    if (count < m->top)
        return count + 1;
    return m->most == UINT32_MAX ? m->top : NONE;
}

/* Add the alternative of an item and the rest after it. */
static void add_step(const machine *m, uint32_t rule, uint32_t item, size_t row, uint32_t count)
{
    hth_schema_work *w = m->w;
    size_t base = w->tables.n_stack;
    uint32_t next = count_after(m, count);

    if (next == NONE || item == NONE)
        return;
    if (count > 0) {
        hth_schema_push_text(w, ",");
        hth_schema_push_space(w);
    }
    hth_schema_push_rule(w, item);
    hth_schema_push_rule(w, *rule_at(m, row, next));
    hth_schema_end(w, rule, base);
}

static void add_end(const machine *m, uint32_t rule, uint32_t count)
{
    size_t base = m->w->tables.n_stack;

    if (count < m->least)
        return;
    if (count > 0)
        hth_schema_push_space(m->w);
    hth_schema_push_text(m->w, m->of->end);
    hth_schema_end(m->w, rule, base);
}

static void fill_ordered(const machine *m, size_t row, uint32_t count)
{
    const hth_schema_part *part = &m->of->parts[row];
    uint32_t rule = *rule_at(m, row, count);
    size_t base = m->w->tables.n_stack;

    if (row >= m->of->n_parts) {
        if (count + 1 >= m->least)
            add_step(m, rule, m->of->more, m->of->n_parts + 1, count);
        add_end(m, rule, count);
        return;
    }
    add_step(m, rule, part->rule, row + 1, count);
    if (!part->is_required) {
        hth_schema_push_rule(m->w, *rule_at(m, row + 1, count));
        hth_schema_end(m->w, rule, base);
    }
}

static void fill_any_order(const machine *m, size_t row, uint32_t count)
{
    uint32_t rule = *rule_at(m, row, count);
    bool may_end = true;

    for (size_t i = 0; i < m->of->n_parts; i++) {
        if (row >> i & 1)
            continue;
        add_step(m, rule, m->of->parts[i].rule, row | (size_t)1 << i, count);
        may_end = may_end && !m->of->parts[i].is_required;
    }
    add_step(m, rule, m->of->more, row, count);
    if (may_end)
        add_end(m, rule, count);
}

/* False: its counts take too many rules. */
static bool add(hth_schema_work *w, const hth_schema_sequence *of, uint32_t rule)
{
    machine m = { .w = w, .of = of, .least = of->least, .most = of->most };
    size_t n_required = 0, n_cells;
    bool is_any_order;
    size_t base = w->tables.n_stack;

    for (size_t i = 0; i < of->n_parts; i++)
        n_required += of->parts[i].is_required;
    if (m.least <= n_required)
        m.least = 0; /* the required parts are enough */
    if (of->more == NONE && m.most >= of->n_parts)
        m.most = UINT32_MAX;
    if (of->least > of->most || n_required > of->most || (of->more == NONE && of->least > of->n_parts))
        return true;
    m.top = m.most != UINT32_MAX ? m.most : m.least > 1 ? m.least : 1;
    is_any_order = of->is_any_order && (of->more == NONE || m.least == 0);
    m.n_rows = is_any_order ? (size_t)1 << of->n_parts : of->n_parts + 2;
    n_cells = m.n_rows * ((size_t)m.top + 1);
    if (m.top > 1 && !hth_schema_has_room(w, n_cells))
        return false;
    if (!hth_schema_spend(w, of->path, n_cells))
        return true;
    m.rules = calloc(n_cells, sizeof(m.rules[0]));
    if (!m.rules) {
        hth_schema_fail_memory(w);
        return true;
    }
    for (size_t i = 0; i < n_cells && !hth_schema_failed(w); i++)
        m.rules[i] = hth_gbnf_add_rule(&w->tables);
    for (size_t row = 0; row < m.n_rows && !hth_schema_failed(w); row++)
        for (uint32_t count = 0; count <= m.top && !hth_schema_failed(w); count++) {
            if (is_any_order)
                fill_any_order(&m, row, count);
            else
                fill_ordered(&m, row, count);
        }
    if (!hth_schema_failed(w)) {
        hth_schema_push_text(w, of->begin);
        hth_schema_push_space(w);
        hth_schema_push_rule(w, *rule_at(&m, 0, 0));
        hth_schema_end(w, rule, base);
    }
    free(m.rules);
    return true;
}

void hth_schema_add_sequence(hth_schema_work *w, const hth_schema_sequence *of, uint32_t rule)
{
    hth_schema_sequence uncounted = *of;

    if (hth_schema_failed(w) || add(w, of, rule))
        return;
    hth_schema_note(w, of->path, of->counts, "dropped");
    uncounted.least = 0;
    uncounted.most = UINT32_MAX;
    (void)add(w, &uncounted, rule); /* without counts it fits, or the work fails */
}
