/*
 * waiting_line.h - those who wait for a place: whose turn it is, and whose time is over
 *
 * Requests rise while they wait, so who of two comes first depends on the time (queue.h). But of newcomers of one priority,
 * who have never run, the first to come is the first at any time: its number is the least, and it has waited longest. So
 * newcomers stand in one file a priority, and only the first of each is compared. Who has run and came back has an old
 * number and has waited less than it says; each of them is compared by itself. They are few, for each has made room.
 *
 * The time limits of newcomers are fixed when they come; a heap has the next one. Those of who came back are the batcher's
 * to look at.
 *
 * So to look costs as much as there are priorities in use and requests that came back, however many newcomers there are.
 * Scheduler thread only.
 */
#ifndef HTH_SCHED_WAITING_LINE_H
#define HTH_SCHED_WAITING_LINE_H

#include "sched/queue.h"
#include "sched/slot.h"

typedef struct hth_waiting_line {
    hth_slot *newcomers[2 * HTH_PRIORITY_MAX + 1]; /* by priority, lists in the order of their coming */
    hth_slot *returned;                            /* a list */
    uint32_t n;                                    /* in all */
    uint64_t latest_ns;                            /* since when the latest newcomer waits */
    hth_slot **limited; /* [n_limited], a heap of newcomers: limit_ns of the first is the least */
    uint32_t n_limited;
    uint32_t limited_capacity;
} hth_waiting_line;

/* A line of zeros is empty. It borrows its slots; there are none left (asserted). */
void hth_waiting_line_deinit(hth_waiting_line *line);

/* A slot that comes for the first time, with the number of its arrival. False when there is no memory. */
bool hth_waiting_line_add(hth_waiting_line *line, hth_slot *slot);
/* One that was removed, ran, and waits again. */
void hth_waiting_line_return(hth_waiting_line *line, hth_slot *slot);
void hth_waiting_line_remove(hth_waiting_line *line, hth_slot *slot);

/* Where a slot stands, waiting or running: only the time that it has waited lets it rise. */
hth_queue_place hth_place_of(const hth_slot *slot, uint64_t now);
/* Whose turn it is; nobody's where all are parked: NULL. */
hth_slot *hth_waiting_line_first(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns);
/* What made room because nobody reads it does not come back before somebody does. */
bool hth_slot_is_parked(const hth_slot *slot);
/* When it may come to be another's turn, or somebody's to push out another, because somebody rises; UINT64_MAX: never. */
uint64_t hth_waiting_line_next_rise(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns);

/* The newcomer whose time is over first, if it is; else NULL. */
hth_slot *hth_waiting_line_overdue(const hth_waiting_line *line, uint64_t now);
/* When the next newcomer's time is over; UINT64_MAX: never. */
uint64_t hth_waiting_line_next_limit(const hth_waiting_line *line);

/* All of them one by one: the one after slot, of NULL the first; NULL: there are no more. Who came back comes first. */
hth_slot *hth_waiting_line_next(const hth_waiting_line *line, const hth_slot *slot);

#endif
