/*
 * run.h - the model of a command that runs one in its process, and the two forms of `hearth run`: one prompt, and several
 */
#ifndef HTH_CLI_RUN_H
#define HTH_CLI_RUN_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "console/output.h"
#include "options/open_model.h"
#include "options/run_options.h"

/* A model in this process, and Ctrl-C. It is never freed, because the thread that waits for signals may still use it. */
typedef struct hth_own_model {
    hth_open_model open;
    char path[PATH_MAX];
    atomic_bool interrupted;
    /* Guards the two fields below. */
    pthread_mutex_t lock;
    void (*on_interrupt)(void *user_data); /* NULL: the flag is enough */
    void *interrupt_user_data;
} hth_own_model;

/*
 * Find the file of the setup's model, which may be downloaded, and catch Ctrl-C. False, with a message: it cannot be
 * found. warning: what Ctrl-C does if it cannot be caught.
 */
bool hth_own_model_find(hth_own_model *own, hth_model_setup *setup, bool is_quiet, bool is_verbose,
                        const char *warning);
/* Load it. False, with a message unless Ctrl-C was pressed, on failure. */
bool hth_own_model_load(hth_own_model *own);
/*
 * Call function after Ctrl-C, or at once if there was one already. It runs on the thread that waits for signals, at
 * most once. NULL ends this.
 */
void hth_own_model_on_interrupt(hth_own_model *own, void (*function)(void *user_data), void *user_data);

typedef struct hth_run {
    hth_run_options options;
    hth_own_model model;
    char *grammar; /* of --grammar-file and --json-schema-file; NULL: none */
    char *json_schema;
    uint64_t begin_ns;
    hth_word_wrap wrap; /* of standard output */
    double load_ms;
} hth_run;

/* Run the prompt or prompts and write the results. The model must be loaded. Returns the exit code. */
int hth_run_one(hth_run *run);
int hth_run_many(hth_run *run);

#endif
