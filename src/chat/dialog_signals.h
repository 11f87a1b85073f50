/*
 * dialog_signals.h - Ctrl-C stops a wait of `hearth chat`, not the program
 *
 * SIGINT, SIGTERM and SIGHUP are blocked in all threads, and let in only while the program waits. So no half-done step
 * sees them, and no signal is lost between a check and a wait.
 */
#ifndef HTH_CHAT_DIALOG_SIGNALS_H
#define HTH_CHAT_DIALOG_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

extern volatile sig_atomic_t hth_dialog_stop; /* a signal came; whoever reacts to it sets it back */
extern volatile sig_atomic_t hth_dialog_ends; /* the number of one that ends the program; 0: none came */

/* Before any other thread starts. */
void hth_dialog_signals_catch(void);
/* Has one come since, while they were blocked? */
bool hth_dialog_signals_pending(void);
/* Let them in, or block them again: around a call that waits by itself. */
void hth_dialog_signals_let_in(bool let_in);
/* The exit code of a program that a signal ended: 128 and its number, 130 for Ctrl-C and 143 for SIGTERM. */
int hth_dialog_signals_exit_code(void);
/*
 * Around a wait in which nothing is worth saving: let them in, and a signal ends the program at once, with the exit
 * code above. False ends this.
 */
void hth_dialog_signals_end_at_once(bool on);
/* Wait until fd can be read. False: hth_dialog_stop is set, by a signal that came before, too, or fd failed. */
bool hth_dialog_wait(int fd);

#endif
