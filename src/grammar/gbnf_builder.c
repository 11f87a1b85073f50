/*
 * gbnf_builder.c - arrays that grow up to the limits of a grammar
 */
#include "grammar/gbnf_builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

hearth_status hth_gbnf_builder_init(hth_gbnf_builder *b, hearth_error *err)
{
    *b = (hth_gbnf_builder){ .grammar = calloc(1, sizeof(*b->grammar)), .err = err };
    if (!b->grammar)
        b->status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a grammar");
    else
        atomic_init(&b->grammar->n_refs, 1);
    return b->status;
}

hearth_status hth_gbnf_builder_end(hth_gbnf_builder *b, hth_gbnf **out)
{
    free(b->last_alternative);
    free(b->stack);
    if (b->status == HEARTH_OK)
        *out = b->grammar;
    else
        hth_gbnf_unref(b->grammar);
    b->grammar = NULL;
    return b->status;
}

bool hth_gbnf_reserve(hth_gbnf_builder *b, void **array, size_t n, size_t *capacity, size_t size, size_t limit,
                      const char *what)
{
    void *grown;

    if (b->status != HEARTH_OK)
        return false;
    if (n >= limit) {
        b->status = hth_fail(b->err, HEARTH_MISUSE, "the grammar has more than %zu %s; make it smaller or repeat less",
                             limit, what);
        if (b->line > 0)
            hth_fail_prefix(b->err, "line %u", b->line);
        return false;
    }
    grown = hth_grown(*array, n, capacity, size);
    if (!grown) {
        b->status = hth_fail(b->err, HEARTH_NO_MEMORY, "no memory for a grammar");
        return false;
    }
    *array = grown;
    return true;
}

void hth_gbnf_push(hth_gbnf_builder *b, hth_gbnf_type type, uint32_t value)
{
    if (hth_gbnf_reserve(b, (void **)&b->stack, b->n_stack, &b->stack_capacity, sizeof(b->stack[0]),
                         HTH_GBNF_ELEMENTS_MAX, "elements"))
        b->stack[b->n_stack++] = (hth_gbnf_element){ .type = type, .value = value };
}

uint32_t hth_gbnf_add_rule(hth_gbnf_builder *b)
{
    hth_gbnf *g = b->grammar;

    if (!hth_gbnf_reserve(b, (void **)&g->rules, g->n_rules, &b->rules_capacity, sizeof(g->rules[0]),
                          HTH_GBNF_RULES_MAX, "rules") ||
        !hth_gbnf_reserve(b, (void **)&b->last_alternative, g->n_rules, &b->last_capacity,
                          sizeof(b->last_alternative[0]), HTH_GBNF_RULES_MAX, "rules"))
        return 0;
    g->rules[g->n_rules] = HTH_GBNF_NONE;
    b->last_alternative[g->n_rules] = HTH_GBNF_NONE;
    return (uint32_t)g->n_rules++;
}

void hth_gbnf_end_alternative(hth_gbnf_builder *b, uint32_t rule, size_t base)
{
    hth_gbnf *g = b->grammar;
    size_t begin = g->n_elements;
    uint32_t id = (uint32_t)g->n_alternatives;

    if (b->status != HEARTH_OK)
        return;
    for (size_t i = base; i <= b->n_stack; i++) {
        if (!hth_gbnf_reserve(b, (void **)&g->elements, g->n_elements, &b->elements_capacity, sizeof(g->elements[0]),
                              HTH_GBNF_ELEMENTS_MAX, "elements"))
            return;
        g->elements[g->n_elements++] =
            i < b->n_stack ? b->stack[i] : (hth_gbnf_element){ .type = HTH_GBNF_END, .value = rule };
    }
    b->n_stack = base;
    if (!hth_gbnf_reserve(b, (void **)&g->alternatives, g->n_alternatives, &b->alternatives_capacity,
                          sizeof(g->alternatives[0]), HTH_GBNF_ELEMENTS_MAX, "alternatives"))
        return;
    g->alternatives[g->n_alternatives++] = (hth_gbnf_alternative){ .begin = (uint32_t)begin, .next = HTH_GBNF_NONE };
    if (b->last_alternative[rule] == HTH_GBNF_NONE)
        g->rules[rule] = id;
    else
        g->alternatives[b->last_alternative[rule]].next = id;
    b->last_alternative[rule] = id;
}

uint32_t hth_gbnf_add_optional(hth_gbnf_builder *b, hth_gbnf_element item, uint32_t rest, bool self)
{
    uint32_t rule = hth_gbnf_add_rule(b);
    size_t base = b->n_stack;

    if (b->status != HEARTH_OK)
        return 0;
    hth_gbnf_push(b, item.type, item.value);
    if (self || rest != HTH_GBNF_NONE)
        hth_gbnf_push(b, HTH_GBNF_RULE, self ? rule : rest);
    hth_gbnf_end_alternative(b, rule, base);
    hth_gbnf_end_alternative(b, rule, base);
    return rule;
}

void hth_gbnf_add_range(hth_gbnf_builder *b, uint32_t first, uint32_t last)
{
    hth_gbnf *g = b->grammar;

    if (hth_gbnf_reserve(b, (void **)&g->ranges, g->n_ranges, &b->ranges_capacity, sizeof(g->ranges[0]),
                         HTH_GBNF_ELEMENTS_MAX, "character ranges"))
        g->ranges[g->n_ranges++] = (hth_gbnf_range){ .first = first, .last = last };
}

void hth_gbnf_negate_ranges(hth_gbnf_builder *b, size_t begin)
{
    hth_gbnf *g = b->grammar;

    if (hth_gbnf_reserve(b, (void **)&g->ranges, g->n_ranges, &b->ranges_capacity, sizeof(g->ranges[0]),
                         HTH_GBNF_ELEMENTS_MAX, "character ranges"))
        g->n_ranges = begin + hth_gbnf_ranges_negate(g->ranges + begin,
                                                     hth_gbnf_ranges_join(g->ranges + begin, g->n_ranges - begin));
}

uint32_t hth_gbnf_end_class(hth_gbnf_builder *b, size_t begin)
{
    hth_gbnf *g = b->grammar;
    /* Without ranges there may be no array yet. */
    size_t n = g->n_ranges > begin ? hth_gbnf_ranges_join(g->ranges + begin, g->n_ranges - begin) : 0;
    hth_gbnf_class *class_;

    g->n_ranges = begin + n;
    /* The same few classes recur, and are mostly among the last. */
    for (size_t i = 0; i < g->n_classes && i < 128; i++) {
        const hth_gbnf_class *known = &g->classes[g->n_classes - 1 - i];

        if (known->end - known->begin == n && n > 0 &&
            memcmp(g->ranges + known->begin, g->ranges + begin, n * sizeof(g->ranges[0])) == 0) {
            g->n_ranges = begin;
            return (uint32_t)(g->n_classes - 1 - i);
        }
    }
    if (!hth_gbnf_reserve(b, (void **)&g->classes, g->n_classes, &b->classes_capacity, sizeof(g->classes[0]),
                          HTH_GBNF_ELEMENTS_MAX, "classes"))
        return 0;
    class_ = &g->classes[g->n_classes];
    *class_ = (hth_gbnf_class){ .begin = (uint32_t)begin, .end = (uint32_t)g->n_ranges };
    for (size_t i = begin; i < g->n_ranges; i++)
        for (uint32_t c = g->ranges[i].first; c <= g->ranges[i].last && c < 128; c++)
            class_->ascii[c / 64] |= UINT64_C(1) << c % 64;
    return (uint32_t)g->n_classes++;
}

static uint32_t add_class(hth_gbnf_builder *b, const hth_gbnf *from, uint32_t id)
{
    size_t begin = b->grammar->n_ranges;

    for (uint32_t i = from->classes[id].begin; i < from->classes[id].end; i++)
        hth_gbnf_add_range(b, from->ranges[i].first, from->ranges[i].last);
    return hth_gbnf_end_class(b, begin);
}

uint32_t hth_gbnf_add_grammar(hth_gbnf_builder *b, const hth_gbnf *from)
{
    uint32_t first = (uint32_t)b->grammar->n_rules;
    uint32_t *classes = calloc(from->n_classes + 1, sizeof(*classes));

    if (!classes) {
        if (b->status == HEARTH_OK)
            b->status = hth_fail(b->err, HEARTH_NO_MEMORY, "no memory for a grammar");
        return 0;
    }
    for (uint32_t i = 0; i < from->n_classes && b->status == HEARTH_OK; i++)
        classes[i] = add_class(b, from, i);
    for (size_t i = 0; i < from->n_rules && b->status == HEARTH_OK; i++)
        (void)hth_gbnf_add_rule(b);
    for (uint32_t rule = 0; rule < from->n_rules && b->status == HEARTH_OK; rule++)
        for (uint32_t i = from->rules[rule]; i != HTH_GBNF_NONE; i = from->alternatives[i].next) {
            size_t base = b->n_stack;

            for (const hth_gbnf_element *e = &from->elements[from->alternatives[i].begin]; e->type != HTH_GBNF_END; e++)
                hth_gbnf_push(b, (hth_gbnf_type)e->type,
                              e->type == HTH_GBNF_RULE    ? first + e->value
                              : e->type == HTH_GBNF_CLASS ? classes[e->value]
                                                          : e->value);
            hth_gbnf_end_alternative(b, first + rule, base);
        }
    free(classes);
    if (from->has_tokens && b->status == HEARTH_OK)
        b->grammar->has_tokens = true;
    return first + from->root;
}
