/*
 * patience.h - how long idle models stay under pressure
 *
 * A model leaves so that memory becomes free. Where another program takes the memory at once, departures are in vain,
 * and only cost loads. So each departure in vain doubles the time without use after which the next model may leave. A
 * departure that helps, or the end of the pressure, ends the wait.
 */
#ifndef HTH_SUPERVISOR_PATIENCE_H
#define HTH_SUPERVISOR_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum { HTH_PATIENCE_DOUBLINGS = 8 };

/* Of one source of pressure. Zeros: no wait. */
typedef struct hth_patience {
    uint64_t first_ns;      /* the wait after the first departure in vain; it doubles HTH_PATIENCE_DOUBLINGS times */
    uint64_t wait_ns;       /* models leave after so long without use */
    uint64_t wanted_bytes;  /* before the departures that are to be judged */
    uint64_t leaving_bytes; /* of these; 0: none */
} hth_patience;

/*
 * wanted_bytes must leave now (0: the pressure is over), and coming_bytes are about to. When all have left, judge: they
 * helped if the wanted bytes are fewer by an eighth of theirs.
 */
void hth_patience_judge(hth_patience *patience, uint64_t wanted_bytes, uint64_t coming_bytes);
/* Models with so many bytes were told to leave. */
void hth_patience_note(hth_patience *patience, uint64_t wanted_bytes, uint64_t leaving_bytes);

/* Does a model stay that was used then? */
bool hth_patience_keeps(const hth_patience *patience, uint64_t used_ns, uint64_t now_ns);

#endif
