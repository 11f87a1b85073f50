/*
 * waiting_line.h - the slots that wait for a place: the next to run, and the next time limit
 *
 * The order is by priority, then by arrival. A request's priority rises by one for each aging_ns that it has waited, so
 * that none starves. So the order of two requests depends on the time. A preempted request keeps its number, and a
 * request that another process lost keeps the time when it came there.
 *
 * Newcomers have never run. Among newcomers of one priority the order never changes: the first has the lowest number
 * and has waited longest. So each priority has one list of newcomers, and only the first of each list is compared. A
 * returned slot has run before. It has an old number but has waited for a shorter time, so each returned slot is
 * compared individually, and so is one that came back from another process. Usually these are few: each was preempted,
 * or its process was lost.
 *
 * The time limit of a newcomer is fixed when it arrives. A heap gives the next limit. The batcher watches the limits of
 * returned slots.
 *
 * So the cost of a check grows with the priorities in use and the returned slots, but not with the newcomers. Scheduler
 * thread only.
 */
#ifndef HTH_SCHED_WAITING_LINE_H
#define HTH_SCHED_WAITING_LINE_H

#include "sched/slot.h"

typedef struct hth_queue_place {
    int32_t priority;
    uint64_t since_ns; /* arrival time, plus the time that it has run */
    uint64_t came_ns;  /* arrival time, perhaps in another process */
    uint64_t number;   /* assigned at arrival */
} hth_queue_place;

/* Does a come before b? A strict order for any now_ns >= both since_ns; aging_ns > 0. */
bool hth_queue_is_before(const hth_queue_place *a, const hth_queue_place *b, uint64_t now_ns, uint64_t aging_ns);

typedef struct hth_waiting_line {
    hth_slot *newcomers[2 * HTH_PRIORITY_MAX + 1]; /* lists by priority, in the order of arrival */
    hth_slot *returned;                            /* a list */
    uint32_t n;                                    /* in all */
    uint64_t latest_ns;                            /* arrival of the latest newcomer */
    hth_slot **limited;                            /* [n_limited], a heap of newcomers with the least limit_ns first */
    uint32_t n_limited;
    size_t limited_capacity;
} hth_waiting_line;

/* An all-zero line is empty. It borrows its slots. deinit asserts that no slot is left. */
void hth_waiting_line_deinit(hth_waiting_line *line);

/* Add a newcomer, or a request of another process; its number must be set. False if out of memory. */
bool hth_waiting_line_add(hth_waiting_line *line, hth_slot *slot);
/* Add a slot that was removed, has run, and waits again. */
void hth_waiting_line_return(hth_waiting_line *line, hth_slot *slot);
void hth_waiting_line_remove(hth_waiting_line *line, hth_slot *slot);

/*
 * The position of a slot in the order, whether waiting or running. It rises only by the time that the slot has waited.
 */
hth_queue_place hth_place_of(const hth_slot *slot, uint64_t now);
/* The next slot to run; NULL if all are parked. */
hth_slot *hth_waiting_line_first(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns);
/* Is the slot parked? A slot that was preempted because of its pause does not run again before the pause ends. */
bool hth_slot_is_parked(const hth_slot *slot);
/* The next time when a slot rises, which may change the next to run or allow a preemption; UINT64_MAX: never. */
uint64_t hth_waiting_line_next_rise(const hth_waiting_line *line, uint64_t now, uint64_t aging_ns);

/* A newcomer whose time limit has passed; NULL: none. */
hth_slot *hth_waiting_line_overdue(const hth_waiting_line *line, uint64_t now);
/* The next time limit of a newcomer; UINT64_MAX: none. */
uint64_t hth_waiting_line_next_limit(const hth_waiting_line *line);

/* Iterate: the slot after slot, or the first for NULL; NULL at the end. Returned slots come first. */
hth_slot *hth_waiting_line_next(const hth_waiting_line *line, const hth_slot *slot);

#endif
