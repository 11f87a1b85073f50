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

/* ---- samples that programs print ---- */

/* Parse lines of nvidia-smi, one "USED, TOTAL" in MiB for each device. False: text has another form. */
bool hth_pressure_read_devices(const char *text, hth_memory_limits *out);
/*
 * Parse a line of an operator's command: "USED TOTAL" in bytes, or a fraction, 0 to 1, of total_bytes. False: neither.
 */
bool hth_pressure_read_command(const char *text, uint64_t total_bytes, hth_memory_limits *out);

/* ---- how long idle models stay under pressure ---- */

enum { HTH_DEPARTURES_DOUBLINGS = 8 };

/*
 * The state of one source of pressure. Zeros: no wait. A model leaves to free memory. If another program takes that
 * memory at once, the departure does not help and only costs another load. So each such departure doubles the time
 * without use after which the next model may leave. A departure that helps, or the end of the pressure, resets this
 * time.
 */
typedef struct hth_departures {
    uint64_t first_ns;      /* the wait after the first departure in vain; it doubles HTH_DEPARTURES_DOUBLINGS times */
    uint64_t wait_ns;       /* models leave after this time without use */
    uint64_t wanted_bytes;  /* before the departures that are to be judged */
    uint64_t leaving_bytes; /* of these; 0: none */
} hth_departures;

/*
 * wanted_bytes must leave now (0: the pressure is over), and coming_bytes are about to become free. When all of those
 * have left, judge the departures: they helped if wanted_bytes fell by at least an eighth of their bytes.
 */
void hth_departures_judge(hth_departures *departures, uint64_t wanted_bytes, uint64_t coming_bytes);
/* Models with leaving_bytes were told to leave. */
void hth_departures_note(hth_departures *departures, uint64_t wanted_bytes, uint64_t leaving_bytes);

/* Must a model that was last used at used_ns stay? */
bool hth_departures_keep(const hth_departures *departures, uint64_t used_ns, uint64_t now_ns);

#endif
