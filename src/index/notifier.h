/*
 * notifier.h - wakes threads that wait for an event in the index, in this process and in others
 *
 * A notifier is a number in a small file that all processes map. Notifying adds one and wakes every thread that sleeps
 * on the number. A waiter reads the number, checks for its event, and sleeps until the number changes. So it misses no
 * notification between the check and the sleep. Some systems cannot sleep on a number in shared memory. There, a
 * condition variable wakes threads of this process, which poll for notifications of other processes at growing
 * intervals of at most 50 ms.
 *
 * A process that dies does not notify, and a waiter that maps a replaced file gets no notifications. So a waiter checks
 * again after a while.
 */
#ifndef HTH_INDEX_NOTIFIER_H
#define HTH_INDEX_NOTIFIER_H

#include <stdint.h>

#include "base/status.h"

typedef struct hth_notifier hth_notifier;

/*
 * Open the notifier in the file at path; a missing file is made with mode 0600. If that fails, the notifier works only
 * inside this process. NULL: no memory.
 */
hth_notifier *hth_notifier_open(const char *path);
void hth_notifier_close(hth_notifier *notifier); /* accepts NULL; no thread may be waiting */

/* Any thread may call these. */
void hth_notifier_notify(hth_notifier *notifier);
uint32_t hth_notifier_count(hth_notifier *notifier);
/* Sleep until the count differs from seen, or for timeout_ms; may return early. */
void hth_notifier_wait(hth_notifier *notifier, uint32_t seen, uint32_t timeout_ms);

#endif
