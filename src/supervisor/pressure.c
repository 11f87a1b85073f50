/*
 * pressure.c - see pressure.h
 */
#include "supervisor/pressure.h"

/* percent of bytes, without overflow. */
static uint64_t part_of(uint64_t bytes, uint32_t percent)
{
    return bytes / 100 * percent + bytes % 100 * percent / 100;
}

uint64_t hth_pressure_decide(const hth_memory_limits *sample, const hth_pressure_marks *marks, bool *is_pressed)
{
    const uint32_t low_percent = marks->low_percent < marks->high_percent ? marks->low_percent : marks->high_percent;
    uint64_t over = 0;
    bool begins = false;

    for (size_t i = 0; i < sample->n; i++) {
        const hth_memory_limit *limit = &sample->at[i];
        const uint64_t low = part_of(limit->total_bytes, low_percent);
        const bool is_stalled = marks->stall_percent > 0 && limit->stall >= marks->stall_percent;

        if (limit->used_bytes <= low)
            continue;
        over = limit->used_bytes - low > over ? limit->used_bytes - low : over;
        begins |= is_stalled || limit->used_bytes >= part_of(limit->total_bytes, marks->high_percent);
    }
    *is_pressed = over > 0 && (begins || *is_pressed);
    if (!*is_pressed)
        return 0;
    return over > marks->evict_bytes_min ? over : marks->evict_bytes_min;
}

double hth_pressure_use(const hth_memory_limits *sample)
{
    double use = 0;

    for (size_t i = 0; i < sample->n; i++) {
        const hth_memory_limit *limit = &sample->at[i];
        const double of_limit = limit->total_bytes > 0 ? (double)limit->used_bytes / (double)limit->total_bytes : 0;

        use = of_limit > use ? of_limit : use;
    }
    return use;
}
