/*
 * waiting_line_test.c - who waits, against a naive model that compares all with all, and looks at every limit
 */
#include "sched/waiting_line.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"

enum { SLOTS = 60, ROUNDS = 60000 };

typedef struct model {
    hth_waiting_line line;
    hth_slot slots[SLOTS];
    hth_request requests[SLOTS];
    enum { OUTSIDE, WAITING, RUNNING } at[SLOTS];
    uint64_t seed;
    uint64_t now;
    uint64_t aging_ns;
    uint64_t n_arrived;
    unsigned n_first, n_returned_first, n_overdue; /* seen: answers that were not "nobody" */
} model;

static uint64_t pick(model *m, uint64_t bound)
{
    return hth_test_random(&m->seed, bound);
}

/* ---- the naive answers ---- */

static hth_slot *naive_first(model *m)
{
    hth_slot *first = NULL;

    for (size_t i = 0; i < SLOTS; i++) {
        hth_slot *slot = &m->slots[i];
        hth_queue_place place, best;

        if (m->at[i] != WAITING || hth_slot_is_parked(slot))
            continue;
        place = hth_place_of(slot, m->now);
        best = hth_place_of(first ? first : slot, m->now);
        if (!first || hth_queue_is_before(&place, &best, m->now, m->aging_ns))
            first = slot;
    }
    return first;
}

static uint64_t naive_limit(const model *m)
{
    uint64_t limit_ns = UINT64_MAX;

    for (size_t i = 0; i < SLOTS; i++) {
        const hth_request *request = &m->requests[i];
        const uint32_t limits_ms[] = { request->options.deadline_ms, request->options.queue_timeout_ms };

        for (size_t k = 0; k < 2 && m->at[i] == WAITING && !m->slots[i].has_returned; k++)
            if (limits_ms[k] > 0 && request->submitted_ns + limits_ms[k] * 1000000u < limit_ns)
                limit_ns = request->submitted_ns + limits_ms[k] * 1000000u;
    }
    return limit_ns;
}

static void compare(model *m)
{
    hth_slot *first = hth_waiting_line_first(&m->line, m->now, m->aging_ns);
    hth_slot *overdue = hth_waiting_line_overdue(&m->line, m->now);
    bool seen[SLOTS] = { false };
    bool newcomers = false;
    uint32_t n = 0;

    assert_ptr_equal(first, naive_first(m));
    assert_int_equal(hth_waiting_line_next_limit(&m->line), naive_limit(m));
    assert_int_equal(overdue != NULL, naive_limit(m) <= m->now);
    for (hth_slot *slot = hth_waiting_line_next(&m->line, NULL); slot; slot = hth_waiting_line_next(&m->line, slot)) {
        assert_int_equal(m->at[slot - m->slots], WAITING);
        assert_false(seen[slot - m->slots]);
        seen[slot - m->slots] = true;
        assert_false(newcomers && slot->has_returned);
        newcomers |= !slot->has_returned;
        n++;
    }
    for (size_t i = 0; i < SLOTS; i++)
        assert_int_equal(seen[i], m->at[i] == WAITING);
    assert_int_equal(m->line.n, n);
    m->n_first += first != NULL;
    m->n_returned_first += first && first->has_returned;
    m->n_overdue += overdue != NULL;
}

/* Nothing changes before the next rise: not who is first, nor before whom anybody who runs would be. */
static void compare_until_rise(model *m)
{
    uint64_t now = m->now, rises_ns = hth_waiting_line_next_rise(&m->line, now, m->aging_ns);
    hth_slot *first = naive_first(m);

    if (!first) {
        assert_int_equal(rises_ns, UINT64_MAX);
        return;
    }
    assert_true(rises_ns > now);
    assert_true(rises_ns <= now + m->aging_ns);
    for (unsigned i = 0; i < 3; i++) {
        m->now = now + (i < 2 ? pick(m, rises_ns - now) : rises_ns - now - 1);
        assert_ptr_equal(naive_first(m), first);
    }
    m->now = now;
}

/* ---- what happens ---- */

static void come(model *m, size_t i)
{
    hth_request *request = &m->requests[i];

    memset(request, 0, sizeof(*request));
    request->options.priority = pick(m, 4) ? (int32_t)pick(m, 3) - 1 : (int32_t)pick(m, 201) - 100;
    request->submitted_ns = m->now - pick(m, 3); /* others may have been heard of before */
    request->options.deadline_ms = pick(m, 3) ? 0 : 1 + (uint32_t)pick(m, 40);
    request->options.queue_timeout_ms = pick(m, 3) ? 0 : 1 + (uint32_t)pick(m, 40);
    request->options.age_us = pick(m, 8) ? 0 : pick(m, 2000000);
    m->slots[i] = (hth_slot){ .request = request, .number = ++m->n_arrived };
    assert_true(hth_waiting_line_add(&m->line, &m->slots[i]));
    m->at[i] = WAITING;
}

static void go(model *m, size_t i)
{
    hth_waiting_line_remove(&m->line, &m->slots[i]);
    m->at[i] = OUTSIDE;
    if (pick(m, 2)) {
        m->at[i] = RUNNING;
        m->slots[i].started_ns = m->now;
        m->slots[i].has_begun = pick(m, 2);
    }
}

static void come_back(model *m, size_t i)
{
    m->slots[i].ran_ns += m->now - m->slots[i].started_ns;
    m->slots[i].started_ns = 0;
    hth_waiting_line_return(&m->line, &m->slots[i]);
    m->at[i] = WAITING;
}

TEST(the_line_agrees_with_a_naive_model)
{
    model *m = calloc(1, sizeof(*m));

    assert_non_null(m);
    m->seed = hth_test_seed();
    m->now = 1000000000u;
    m->aging_ns = 20000000u;
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t i = pick(m, SLOTS);

        switch (m->at[i]) {
        case OUTSIDE: come(m, i); break;
        case WAITING:
            if (pick(m, 3) == 0)
                go(m, i);
            else
                atomic_store(&m->requests[i].paused, pick(m, 3) == 0);
            break;
        case RUNNING: come_back(m, i); break;
        }
        m->now += pick(m, 4) ? pick(m, 3) : pick(m, 10000000);
        compare(m);
        compare_until_rise(m);
    }
    assert_true(m->n_first > ROUNDS / 2);
    assert_true(m->n_returned_first > ROUNDS / 100);
    assert_true(m->n_overdue > ROUNDS / 100);
    for (size_t i = 0; i < SLOTS; i++)
        if (m->at[i] == WAITING)
            hth_waiting_line_remove(&m->line, &m->slots[i]);
    hth_waiting_line_deinit(&m->line);
    free(m);
}

/* One newcomer of each priority in use and those who came back are compared, whatever the number of newcomers. */
TEST(newcomers_behind_the_first_are_not_looked_at)
{
    hth_waiting_line line = { .n = 0 };
    static hth_request requests[SLOTS];
    static hth_slot slots[SLOTS];

    for (size_t i = 0; i < SLOTS; i++) {
        requests[i].submitted_ns = 10 + i;
        requests[i].options.priority = i % 2;
        slots[i] = (hth_slot){ .request = &requests[i], .number = i + 1 };
        assert_true(hth_waiting_line_add(&line, &slots[i]));
        if (i >= 2)
            slots[i].request = NULL; /* whoever looks fails */
    }
    assert_ptr_equal(hth_waiting_line_first(&line, 100, 1000), &slots[1]);
    assert_int_equal(hth_waiting_line_next_rise(&line, 100, 1000), 1010);
    assert_int_equal(hth_waiting_line_next_limit(&line), UINT64_MAX);
    assert_null(hth_waiting_line_overdue(&line, 100));
    for (size_t i = 0; i < SLOTS; i++) {
        slots[i].request = &requests[i];
        hth_waiting_line_remove(&line, &slots[i]);
    }
    hth_waiting_line_deinit(&line);
}
