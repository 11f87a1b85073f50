/*
 * interrupt.h - Ctrl-C: once to end cleanly, twice to end at once
 *
 * Signals are blocked in all threads and taken by one that waits for them, so that what is done on the first is
 * ordinary code. SIGTERM counts like SIGINT.
 */
#ifndef HTH_CLI_INTERRUPT_H
#define HTH_CLI_INTERRUPT_H

#include <stdbool.h>

/* Runs once, on the waiting thread, when the first signal came. */
typedef void (*hth_interrupt_fn)(void *user_data);

/* Call before any other thread is started; at most once a process. False when no thread could be started. */
bool hth_interrupt_watch(hth_interrupt_fn on_first, void *user_data);

#endif
