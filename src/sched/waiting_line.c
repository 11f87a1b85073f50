/*
 * waiting_line.c - a list of newcomers for each priority, a list of returned slots, a heap of time limits
 */
#include "sched/waiting_line.h"

#include <assert.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/grow.h"

enum { N_PRIORITIES = 2 * HTH_PRIORITY_MAX + 1 };

void hth_waiting_line_deinit(hth_waiting_line *line)
{
    assert(line->n == 0);
    free(line->limited);
}

/* ---- time limits ---- */

/* The time limit of a newcomer; UINT64_MAX: none. */
static uint64_t limit_of(const hth_request *request)
{
    uint32_t ms = request->options.deadline_ms;

    if (request->options.queue_timeout_ms > 0 && (ms == 0 || request->options.queue_timeout_ms < ms))
        ms = request->options.queue_timeout_ms;
    return ms > 0 ? request->submitted_ns + hth_ms_to_ns(ms) : UINT64_MAX;
}

static bool has_limit(const hth_slot *slot)
{
    return slot->limit_ns != UINT64_MAX;
}

static void put_limited(hth_waiting_line *line, uint32_t i, hth_slot *slot)
{
    line->limited[i] = slot;
    slot->limited_place = i;
}

/* Put a slot into the heap, whose place i is free. */
static void sift(hth_waiting_line *line, uint32_t i, hth_slot *slot)
{
    while (i > 0 && slot->limit_ns < line->limited[(i - 1) / 2]->limit_ns) {
        put_limited(line, i, line->limited[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (uint32_t child = 2 * i + 1; child < line->n_limited; child = 2 * i + 1) {
        if (child + 1 < line->n_limited && line->limited[child + 1]->limit_ns < line->limited[child]->limit_ns)
            child++;
        if (line->limited[child]->limit_ns >= slot->limit_ns)
            break;
        put_limited(line, i, line->limited[child]);
        i = child;
    }
    put_limited(line, i, slot);
}

hth_slot *hth_waiting_line_overdue(const hth_waiting_line *line, uint64_t now)
{
    return hth_waiting_line_next_limit(line) <= now ? line->limited[0] : NULL;
}

uint64_t hth_waiting_line_next_limit(const hth_waiting_line *line)
{
    return line->n_limited > 0 ? line->limited[0]->limit_ns : UINT64_MAX;
}

/* ---- coming and going ---- */

static uint32_t file_of(const hth_slot *slot)
{
    assert(slot->request->options.priority >= -HTH_PRIORITY_MAX);
    assert(slot->request->options.priority <= HTH_PRIORITY_MAX);
    return (uint32_t)(slot->request->options.priority + HTH_PRIORITY_MAX);
}

/* Note when the slot arrives. Messages from two threads may arrive out of order. */
static void note_arrival(hth_waiting_line *line, hth_slot *slot)
{
    uint64_t submitted_ns = slot->request->submitted_ns, age_us = slot->request->options.age_us;

    slot->waits_since_ns = submitted_ns > line->latest_ns ? submitted_ns : line->latest_ns;
    line->latest_ns = slot->waits_since_ns;
    slot->came_ns = age_us < slot->waits_since_ns / 1000 ? slot->waits_since_ns - 1000 * age_us : 0;
}

bool hth_waiting_line_add(hth_waiting_line *line, hth_slot *slot)
{
    note_arrival(line, slot);
    if (slot->request->options.age_us > 0) {
        hth_waiting_line_return(line, slot);
        return true;
    }
    slot->limit_ns = limit_of(slot->request);
    if (has_limit(slot)) {
        hth_slot **grown = hth_grown(line->limited, line->n_limited, &line->limited_capacity, sizeof(hth_slot *));

        if (!grown)
            return false;
        line->limited = grown;
        line->n_limited++;
        sift(line, line->n_limited - 1, slot);
    }
    DL_APPEND(line->newcomers[file_of(slot)], slot);
    line->n++;
    return true;
}

void hth_waiting_line_return(hth_waiting_line *line, hth_slot *slot)
{
    slot->has_returned = true;
    DL_APPEND(line->returned, slot);
    line->n++;
}

void hth_waiting_line_remove(hth_waiting_line *line, hth_slot *slot)
{
    if (slot->has_returned) {
        DL_DELETE(line->returned, slot);
    } else {
        DL_DELETE(line->newcomers[file_of(slot)], slot);
        if (has_limit(slot)) {
            hth_slot *last = line->limited[--line->n_limited];

            if (last != slot)
                sift(line, slot->limited_place, last);
        }
    }
    line->n--;
}

/* The first newcomer of list file or of a later one; NULL: none. */
static hth_slot *first_of_files(const hth_waiting_line *line, uint32_t file)
{
    while (file < N_PRIORITIES && !line->newcomers[file])
        file++;
    return file < N_PRIORITIES ? line->newcomers[file] : NULL;
}

hth_slot *hth_waiting_line_next(const hth_waiting_line *line, const hth_slot *slot)
{
    if (slot && slot->next)
        return slot->next;
    if (!slot && line->returned)
        return line->returned;
    return first_of_files(line, !slot || slot->has_returned ? 0 : file_of(slot) + 1);
}

/* ---- the next to run ---- */

static int64_t risen(const hth_queue_place *place, uint64_t now_ns, uint64_t aging_ns)
{
    return place->priority + (int64_t)((now_ns - place->since_ns) / aging_ns);
}

bool hth_queue_is_before(const hth_queue_place *a, const hth_queue_place *b, uint64_t now_ns, uint64_t aging_ns)
{
    int64_t first = risen(a, now_ns, aging_ns), second = risen(b, now_ns, aging_ns);

    if (first != second)
        return first > second;
    return a->came_ns != b->came_ns ? a->came_ns < b->came_ns : a->number < b->number;
}

hth_queue_place hth_place_of(const hth_slot *slot, uint64_t now)
{
    uint64_t ran = slot->ran_ns + (slot->started_ns > 0 ? now - slot->started_ns : 0);

    return (hth_queue_place){
        .priority = slot->request->options.priority,
        .since_ns = slot->waits_since_ns + ran < now ? slot->waits_since_ns + ran : now,
        .came_ns = slot->came_ns,
        .number = slot->number,
    };
}

bool hth_slot_is_parked(const hth_slot *slot)
{
    return (slot->has_begun || slot->tells) && hth_slot_is_paused(slot);
}

/* Iterate over the slots that can be the next to run, as hth_waiting_line_next does over all. */
static hth_slot *next_candidate(const hth_waiting_line *line, const hth_slot *slot)
{
    hth_slot *next =
        slot && !slot->has_returned ? first_of_files(line, file_of(slot) + 1) : hth_waiting_line_next(line, slot);

    while (next && hth_slot_is_parked(next)) /* only returned slots can be parked */
        next = hth_waiting_line_next(line, next);
    return next;
}

hth_slot *hth_waiting_line_first(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns)
{
    hth_slot *first = next_candidate(line, NULL);
    hth_queue_place first_place;

    if (!first)
        return NULL;
    first_place = hth_place_of(first, now);
    for (hth_slot *slot = next_candidate(line, first); slot; slot = next_candidate(line, slot)) {
        hth_queue_place place = hth_place_of(slot, now);

        if (hth_queue_is_before(&place, &first_place, now, aging_ns)) {
            first = slot;
            first_place = place;
        }
    }
    return first;
}

uint64_t hth_waiting_line_next_rise(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns)
{
    uint64_t next_ns = UINT64_MAX;

    for (const hth_slot *slot = next_candidate(line, NULL); slot; slot = next_candidate(line, slot)) {
        uint64_t since = hth_place_of(slot, now).since_ns;
        uint64_t rises_ns = since + ((now - since) / aging_ns + 1) * aging_ns;

        if (rises_ns < next_ns)
            next_ns = rises_ns;
    }
    return next_ns;
}
