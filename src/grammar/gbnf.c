/*
 * gbnf.c - references to a grammar's tables, and the contents of a class
 */
#include "grammar/gbnf.h"

#include <stdlib.h>

hth_gbnf *hth_gbnf_ref(hth_gbnf *grammar)
{
    (void)atomic_fetch_add_explicit(&grammar->n_refs, 1, memory_order_relaxed);
    return grammar;
}

size_t hth_gbnf_bytes(const hth_gbnf *grammar)
{
    return sizeof(*grammar) + grammar->n_elements * sizeof(grammar->elements[0]) +
           grammar->n_alternatives * sizeof(grammar->alternatives[0]) + grammar->n_rules * sizeof(grammar->rules[0]) +
           grammar->n_classes * sizeof(grammar->classes[0]) + grammar->n_ranges * sizeof(grammar->ranges[0]);
}

void hth_gbnf_unref(hth_gbnf *grammar)
{
    if (!grammar || atomic_fetch_sub_explicit(&grammar->n_refs, 1, memory_order_acq_rel) > 1)
        return;
    free(grammar->elements);
    free(grammar->alternatives);
    free(grammar->rules);
    free(grammar->classes);
    free(grammar->ranges);
    free(grammar);
}

bool hth_gbnf_class_has_any(const hth_gbnf *grammar, uint32_t class_id, uint32_t first, uint32_t last)
{
    const hth_gbnf_class *class_ = &grammar->classes[class_id];
    uint32_t low = class_->begin;
    uint32_t high = class_->end;

    while (low < high) { /* the first range that does not end before first */
        uint32_t middle = low + (high - low) / 2;

        if (grammar->ranges[middle].last < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low < class_->end && grammar->ranges[low].first <= last;
}

bool hth_gbnf_class_has(const hth_gbnf *grammar, uint32_t class_id, uint32_t code_point)
{
    if (code_point < 128)
        return grammar->classes[class_id].ascii[code_point / 64] >> code_point % 64 & 1;
    return hth_gbnf_class_has_any(grammar, class_id, code_point, code_point);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

static int by_first(const void *a, const void *b)
{
    const hth_gbnf_range *left = a;
    const hth_gbnf_range *right = b;

    return left->first < right->first ? -1 : left->first > right->first;
}

size_t hth_gbnf_ranges_join(hth_gbnf_range *ranges, size_t n)
{
    size_t n_joined = 0;

    if (n > 1)
        qsort(ranges, n, sizeof(ranges[0]), by_first);
    for (size_t i = 0; i < n; i++) {
        hth_gbnf_range *last = n_joined > 0 ? &ranges[n_joined - 1] : NULL;

        if (!last || ranges[i].first > last->last + 1)
            ranges[n_joined++] = ranges[i];
        else if (ranges[i].last > last->last)
            last->last = ranges[i].last;
    }
    return n_joined;
}

size_t hth_gbnf_ranges_negate(hth_gbnf_range *ranges, size_t n)
{
    size_t n_gaps = 0; /* never passes i: each range has at most one gap before it */
    uint32_t next = 0;

    for (size_t i = 0; i < n; i++) {
        hth_gbnf_range range = ranges[i];

        if (range.first > next)
            ranges[n_gaps++] = (hth_gbnf_range){ .first = next, .last = range.first - 1 };
        next = range.last + 1;
    }
    if (next <= HTH_GBNF_LAST_CODE_POINT)
        ranges[n_gaps++] = (hth_gbnf_range){ .first = next, .last = HTH_GBNF_LAST_CODE_POINT };
    return n_gaps;
}
