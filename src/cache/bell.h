/*
 * bell.h - waking those who wait for something in the index, in this process and in others
 *
 * A bell is a number in a small file that all processes map; ringing it adds one and wakes who sleeps on it. Who waits
 * reads the number, looks whether what it waits for has come about, and sleeps until the number is another one: so no
 * ring between the look and the sleep is lost. Where the system cannot sleep on a number in shared memory, threads of
 * this process are woken by a condition, and rings of other processes are looked for at growing intervals of at most 50
 * ms.
 *
 * A process that dies rings nothing, and a bell whose file was replaced is not heard by those who have the old one: a
 * waiter looks again by itself after a while.
 */
#ifndef HTH_CACHE_BELL_H
#define HTH_CACHE_BELL_H

#include <stdint.h>

#include "base/status.h"

typedef struct hth_bell hth_bell;

/*
 * Open the bell in the file at path, made with mode 0600 when there is none. Where that fails the bell is one of this
 * process alone. NULL: no memory.
 */
hth_bell *hth_bell_open(const char *path);
void hth_bell_close(hth_bell *bell); /* accepts NULL; nobody waits any more */

/* All of these from any thread. */
void hth_bell_ring(hth_bell *bell);
uint32_t hth_bell_count(const hth_bell *bell);
/* Sleep until the count is no longer seen, or timeout_ms are over; may return early. */
void hth_bell_wait(hth_bell *bell, uint32_t seen, uint32_t timeout_ms);

#endif
