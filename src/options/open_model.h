/*
 * open_model.h - loads a model into this process, for commands that run without a server
 */
#ifndef HTH_OPTIONS_OPEN_MODEL_H
#define HTH_OPTIONS_OPEN_MODEL_H

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
 * Open the runtime, and load the model with its template and adapters. HEARTH_CANCELLED: is_ended returned true. After
 * a failure, hth_open_model_close must still be called. The log goes to standard error while the model is open, so
 * `open` must stay valid.
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

#endif
