/*
 * open_model.h - loads a model into this process, for the commands that work without a server
 */
#ifndef HTH_OPTIONS_OPEN_MODEL_H
#define HTH_OPTIONS_OPEN_MODEL_H

#include "console/progress.h"
#include "options/model_options.h"

typedef struct hth_open_model {
    /* given */
    hth_model_setup *setup;
    bool is_quiet;                     /* no warnings */
    bool is_verbose;                   /* the log, with the engine's */
    bool (*is_ended)(void *user_data); /* asked while the model loads: give up? */
    void *user_data;
    hth_progress progress; /* initialised by the caller; may be used for other work afterwards */

    /* made; NULL before */
    hearth_runtime *runtime;
    hearth_model *model;
} hth_open_model;

/*
 * Open the runtime, and load the model with its template and adapters. HEARTH_CANCELLED: is_ended said so. After a
 * failure hth_open_model_close is still due. The log goes to standard error while the model is open, so `open` must
 * live.
 */
hearth_status hth_open_model_load(hth_open_model *open, hearth_error *err);
/* Wait until its rows are kept, for at most a minute, and close both. A failure of that is told unless is_quiet. */
void hth_open_model_close(hth_open_model *open);

/*
 * Values that the command line does not give are those that a server would use: the recommendations in the model's
 * file, then those beside it. The result is the size of the context; 0: unknown.
 */
uint32_t hth_open_model_recommend(hth_open_model *open);

#endif
