/*
 * interrupt.h - Ctrl-C: the first ends the program cleanly, the second at once
 *
 * Signals are blocked in all threads. One thread waits for them, so that the reaction to the first one is ordinary
 * code. SIGTERM counts like SIGINT.
 */
#ifndef HTH_CONSOLE_INTERRUPT_H
#define HTH_CONSOLE_INTERRUPT_H

#include <stdbool.h>

/* Runs once, on the waiting thread, after the first signal. */
typedef void (*hth_interrupt_fn)(void *user_data);

/* Call this before any other thread starts, at most once in a process. False: no thread can be started. */
bool hth_interrupt_watch(hth_interrupt_fn on_first, void *user_data);

#endif
