/*
 * pressure.h - how many bytes must leave, because memory is short
 *
 * A sample has one or several limits: the machine, each group of processes that this one belongs to, each device. Each
 * limit has its own use. Pressure begins when the use of a limit reaches the high mark; or the low mark while processes
 * stand still for want of memory. It ends when all limits are at or below the low mark. In between, so many bytes are
 * asked for that the fullest limit comes to its low mark: so memory does not swing about one mark.
 */
#ifndef HTH_SERVER_PRESSURE_H
#define HTH_SERVER_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTH_PRESSURE_LIMITS_MAX = 16 };

typedef struct hth_pressure_limit {
    uint64_t used_bytes; /* without memory that the system frees by itself */
    uint64_t total_bytes;
    double stall; /* percent of the last ten seconds in which a process stood still for want of memory; 0: unknown */
} hth_pressure_limit;

typedef struct hth_pressure_sample {
    hth_pressure_limit limits[HTH_PRESSURE_LIMITS_MAX];
    size_t n; /* 0: nothing is known, which is no pressure */
} hth_pressure_sample;

typedef struct hth_pressure_marks {
    uint32_t high_percent, low_percent; /* of a limit; a low mark above the high one counts as equal */
    uint32_t stall_percent;
    uint64_t evict_bytes_min; /* less is not worth an eviction: so much is asked for at least */
} hth_pressure_marks;

/*
 * The bytes that must leave now; 0: none. *is_pressed is the state between two calls, false at first. They bring the
 * fullest limit to its low mark, and are evict_bytes_min at least.
 */
uint64_t hth_pressure_decide(const hth_pressure_sample *sample, const hth_pressure_marks *marks, bool *is_pressed);

/* The use of the fullest limit, 0 .. 1. */
double hth_pressure_use(const hth_pressure_sample *sample);

#endif
