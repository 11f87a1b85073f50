/*
 * open_model.h - loads a model into this process, for commands that run without a server
 */
#ifndef HTH_OPTIONS_OPEN_MODEL_H
#define HTH_OPTIONS_OPEN_MODEL_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "console/progress.h"
#include "options/model_options.h"

typedef struct hth_open_model {
    /* inputs */
    hth_model_setup *setup;
    bool is_quiet;                     /* no warnings */
    bool is_verbose;                   /* print the log, including the engine's */
    bool (*is_ended)(void *user_data); /* polled while the model loads; true cancels the load */
    void *user_data;
    hth_progress progress; /* initialised by the caller; may be used for other work afterwards */

    /* outputs; NULL before the load */
    hearth_runtime *runtime;
    hearth_model *model;
} hth_open_model;

/*
 * Open the runtime, and load the model with its template and adapters. HEARTH_CANCELLED: is_ended returned true.
 * HEARTH_INVALID_TEXT without a message: the template cannot be used, as was printed. After a failure,
 * hth_open_model_close must still be called. The log goes to standard error while the model is open, so `open` must
 * stay valid.
 */
hearth_status hth_open_model_load(hth_open_model *open, hearth_error *err);
/*
 * Wait until its rows are saved, for at most a minute, and close model and runtime. A failed save is reported unless
 * is_quiet.
 */
void hth_open_model_close(hth_open_model *open);

/*
 * Fill values that are missing on the command line as a server would: with the recommendations in the model's file,
 * then those beside it. Returns the size of the context; 0: unknown.
 */
uint32_t hth_open_model_recommend(hth_open_model *open);

/*
 * A model that Ctrl-C interrupts. After hth_own_model_find has succeeded it is never freed, because the thread that
 * waits for signals may still use it.
 */
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

#endif
