/*
 * dialog_signals.h - Ctrl-C stops a wait of `hearth chat`, not the program
 *
 * SIGINT, SIGTERM and SIGHUP are blocked in all threads, and unblocked only while the program waits. So they interrupt
 * no unfinished step, and no signal is lost between a check and a wait.
 */
#ifndef HTH_CHAT_DIALOG_SIGNALS_H
#define HTH_CHAT_DIALOG_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

extern volatile sig_atomic_t hth_dialog_stop; /* a signal came; the code that handles it resets this */
extern volatile sig_atomic_t hth_dialog_ends; /* the number of a signal that ends the program; 0: none came */

/* Call before any other thread starts. */
void hth_dialog_signals_catch(void);
/* Has a signal come while they were blocked? */
bool hth_dialog_signals_pending(void);
/* Unblock them, or block them again: around a call that waits by itself. */
void hth_dialog_signals_let_in(bool let_in);
/* The exit code of a program that a signal ended: 128 plus its number, 130 for Ctrl-C and 143 for SIGTERM. */
int hth_dialog_signals_exit_code(void);
/*
 * For a wait in which nothing is worth saving: unblock them, so that a signal ends the program at once, with the exit
 * code above. False ends this.
 */
void hth_dialog_signals_end_at_once(bool on);
/* Wait until fd is readable. False if hth_dialog_stop is set, even by an earlier signal, or fd failed. */
bool hth_dialog_wait(int fd);

#endif
