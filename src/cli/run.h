/*
 * run.h - the state shared by the two forms of `hearth run`: one prompt, and several
 */
#ifndef HTH_CLI_RUN_H
#define HTH_CLI_RUN_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "console/output.h"
#include "options/open_model.h"
#include "options/run_options.h"

typedef struct hth_run {
    hth_run_options options;
    char model_path[PATH_MAX];
    char *grammar; /* of --grammar-file and --json-schema-file; NULL: none */
    char *json_schema;
    uint64_t begin_ns;
    hth_open_model open;
    hth_word_wrap wrap; /* of standard output */
    double load_ms;

    atomic_bool interrupted;
    /* Guards the two fields below. */
    pthread_mutex_t interrupt_lock;
    void (*on_interrupt)(void *user_data); /* NULL: the flag is enough */
    void *interrupt_user_data;
} hth_run;

/* Run the prompt or prompts and write the results. The model must be loaded. Returns the exit code. */
int hth_run_one(hth_run *run);
int hth_run_many(hth_run *run);

/*
 * Call function after Ctrl-C, or at once if there was one already. It runs on the thread that waits for signals, at
 * most once. NULL ends this.
 */
static inline void hth_run_set_interrupt(hth_run *run, void (*function)(void *user_data), void *user_data)
{
    pthread_mutex_lock(&run->interrupt_lock);
    run->on_interrupt = function;
    run->interrupt_user_data = user_data;
    if (function && atomic_load(&run->interrupted))
        function(user_data);
    pthread_mutex_unlock(&run->interrupt_lock);
}

#endif
