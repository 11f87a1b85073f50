/*
 * patience.h - how long idle models stay under pressure
 *
 * A model leaves to free memory. If another program takes that memory at once, the departure does not help and only
 * costs another load. So each such departure doubles the time without use after which the next model may leave. A
 * departure that helps, or the end of the pressure, resets this time.
 */
#ifndef HTH_SUPERVISOR_PATIENCE_H
#define HTH_SUPERVISOR_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { HTH_PATIENCE_DOUBLINGS = 8 };

/* The state of one source of pressure. Zeros: no wait. */
typedef struct hth_patience {
    uint64_t first_ns;      /* the wait after the first departure in vain; it doubles HTH_PATIENCE_DOUBLINGS times */
    uint64_t wait_ns;       /* models leave after this time without use */
    uint64_t wanted_bytes;  /* before the departures that are to be judged */
    uint64_t leaving_bytes; /* of these; 0: none */
} hth_patience;

/*
 * wanted_bytes must leave now (0: the pressure is over), and coming_bytes are about to become free. When all of those
 * have left, judge the departures: they helped if wanted_bytes fell by at least an eighth of their bytes.
 */
void hth_patience_judge(hth_patience *patience, uint64_t wanted_bytes, uint64_t coming_bytes);
/* Models with leaving_bytes were told to leave. */
void hth_patience_note(hth_patience *patience, uint64_t wanted_bytes, uint64_t leaving_bytes);

/* Must a model that was last used at used_ns stay? */
bool hth_patience_keeps(const hth_patience *patience, uint64_t used_ns, uint64_t now_ns);

#endif
