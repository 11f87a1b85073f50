/*
 * interrupt.c - the thread that waits for signals
 */
#include "console/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "console/output.h"

typedef struct watch {
    sigset_t signals;
    hth_interrupt_fn on_first;
    void *user_data;
} watch;

static void *wait_for_signals(void *context)
{
    watch *w = context;
    int number;

    if (sigwait(&w->signals, &number) == 0)
        w->on_first(w->user_data);
    if (sigwait(&w->signals, &number) == 0)
        _exit(HTH_EXIT_INTERRUPTED);
    return NULL;
}

bool hth_interrupt_watch(hth_interrupt_fn on_first, void *user_data)
{
    watch *w = malloc(sizeof(*w)); /* lives as long as the process, because the thread waits until its end */
    pthread_t thread;

    if (!w)
        return false;
    w->on_first = on_first;
    w->user_data = user_data;
    sigemptyset(&w->signals);
    sigaddset(&w->signals, SIGINT);
    sigaddset(&w->signals, SIGTERM);
    if (pthread_sigmask(SIG_BLOCK, &w->signals, NULL) != 0 || pthread_create(&thread, NULL, wait_for_signals, w) != 0) {
        (void)pthread_sigmask(SIG_UNBLOCK, &w->signals, NULL); /* so that Ctrl-C still ends the program */
        free(w);
        return false;
    }
    pthread_detach(thread);
    return true;
}
