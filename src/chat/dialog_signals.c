#include "chat/dialog_signals.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/os.h"

volatile sig_atomic_t hth_dialog_stop, hth_dialog_ends;

static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
enum { N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]), SIGNALLED = 128 /* as in shells */ };

static volatile sig_atomic_t ends_at_once;

static void on_signal(int number)
{
    if (ends_at_once)
        _exit(SIGNALLED + number);
    hth_dialog_stop = 1;
    if (number != SIGINT)
        hth_dialog_ends = number;
}

void hth_dialog_signals_let_in(bool let_in)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < N_NUMBERS; i++)
        sigaddset(&set, numbers[i]);
    (void)pthread_sigmask(let_in ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL); /* only an invalid `how` fails */
}

void hth_dialog_signals_catch(void)
{
    struct sigaction action = { .sa_handler = on_signal }; /* without SA_RESTART: waits must end */

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_NUMBERS; i++)
        (void)sigaction(numbers[i], &action, NULL); /* only an invalid number fails */
    hth_dialog_signals_let_in(false);
}

void hth_dialog_signals_end_at_once(bool on)
{
    if (on)
        ends_at_once = 1;
    hth_dialog_signals_let_in(on);
    if (!on)
        ends_at_once = 0;
}

bool hth_dialog_signals_pending(void)
{
    sigset_t pending;
    bool found = false;

    if (sigpending(&pending) != 0)
        return false;
    for (size_t i = 0; i < N_NUMBERS; i++)
        found |= sigismember(&pending, numbers[i]) == 1;
    return found;
}

int hth_dialog_signals_exit_code(void)
{
    hth_dialog_signals_let_in(true);
    hth_dialog_signals_let_in(false);
    return SIGNALLED + (hth_dialog_ends ? hth_dialog_ends : SIGINT);
}

bool hth_dialog_wait(int fd)
{
    sigset_t mask;

    /* A wait for available data unblocks no signal: a reply faster than its terminal could never be stopped. */
    if (hth_dialog_signals_pending()) {
        hth_dialog_signals_let_in(true);
        hth_dialog_signals_let_in(false);
    }
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask); /* only an invalid `how` fails */
    for (size_t i = 0; i < N_NUMBERS; i++)
        sigdelset(&mask, numbers[i]);
    while (!hth_dialog_stop) {
        if (hth_os_wait_readable(fd, &mask))
            return true;
        if (errno != EINTR)
            return false;
    }
    return false;
}
