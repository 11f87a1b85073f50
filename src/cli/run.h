/*
 * run.h - what the forms of `hearth run`, one prompt and several, share
 */
#ifndef HTH_CLI_RUN_H
#define HTH_CLI_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli/progress.h"
#include "cli/run_options.h"

typedef struct hth_run {
    hth_run_options options;
    char *grammar; /* of --grammar-file and --json-schema-file; NULL: none */
    char *json_schema;
    uint64_t begin_ns;
    double load_ms;
    hth_progress progress;
    hearth_runtime *runtime;
    hearth_model *model;

    atomic_bool interrupted;
    /* Guards what is called when a Ctrl-C comes. */
    pthread_mutex_t interrupt_lock;
    void (*on_interrupt)(void *user_data); /* NULL: nothing is to be done but to see the flag */
    void *interrupt_user_data;
} hth_run;

/* Do the prompt, or the prompts, and write what came of it. The model is loaded. The exit code. */
int hth_run_one(hth_run *run);
int hth_run_many(hth_run *run);

/*
 * Call function when a Ctrl-C comes, at once if it has come, from now until it is set to NULL. On the thread that waits
 * for signals, at most once.
 */
void hth_run_set_interrupt(hth_run *run, void (*function)(void *user_data), void *user_data);

void hth_run_say_error(const hearth_error *err);

#endif
