/*
 * run.c - see run.h
 */
#include "cli/run.h"

#include <stdio.h>

void hth_run_set_interrupt(hth_run *run, void (*function)(void *user_data), void *user_data)
{
    pthread_mutex_lock(&run->interrupt_lock);
    run->on_interrupt = function;
    run->interrupt_user_data = user_data;
    if (function && atomic_load(&run->interrupted))
        function(user_data);
    pthread_mutex_unlock(&run->interrupt_lock);
}
