/*
 * pressure.h - the number of bytes that must leave because memory is short
 *
 * A sample has one or several limits: the machine, each group of processes that this one belongs to, each device. Each
 * limit has its own use. Pressure begins when the use of a limit reaches the high mark, or the low mark while processes
 * stall for lack of memory. It ends when all limits are at or below the low mark. In between, the requested bytes bring
 * the fullest limit down to its low mark, so that memory does not oscillate around one mark. A sample without limits
 * means no pressure.
 */
#ifndef HTH_SUPERVISOR_PRESSURE_H
#define HTH_SUPERVISOR_PRESSURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory_limits.h"

typedef struct hth_pressure_marks {
    uint32_t high_percent, low_percent; /* of a limit; a low mark above the high one counts as equal */
    uint32_t stall_percent;             /* 0: stalls are no pressure */
    uint64_t evict_bytes_min;           /* at least this much is requested, because less is not worth an eviction */
} hth_pressure_marks;

/* Options that an operator may change at run time. */
typedef struct hth_pressure_settings {
    hth_pressure_marks marks;
    uint32_t poll_ms; /* between two samples */
    bool is_off;      /* no sample is taken */
} hth_pressure_settings;

/*
 * The bytes that must leave now; 0: none. They bring the fullest limit to its low mark, and are at least
 * evict_bytes_min. *is_pressed is the state between two calls, false at first.
 */
uint64_t hth_pressure_decide(const hth_memory_limits *sample, const hth_pressure_marks *marks, bool *is_pressed);

/* The use of the fullest limit, 0 .. 1. */
double hth_pressure_use(const hth_memory_limits *sample);

#endif
