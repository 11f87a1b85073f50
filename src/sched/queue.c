/*
 * queue.c - priority, aging, arrival
 */
#include "sched/queue.h"

int64_t hth_queue_rank(const hth_queue_place *place, uint64_t now_ns, uint64_t aging_ns)
{
    return place->priority + (int64_t)((now_ns - place->since_ns) / aging_ns);
}

bool hth_queue_is_before(const hth_queue_place *a, const hth_queue_place *b, uint64_t now_ns, uint64_t aging_ns)
{
    int64_t first = hth_queue_rank(a, now_ns, aging_ns), second = hth_queue_rank(b, now_ns, aging_ns);

    return first != second ? first > second : a->number < b->number;
}
