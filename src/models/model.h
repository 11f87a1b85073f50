/*
 * model.h - what the runtime and streams need of a model
 */
#ifndef HTH_MODELS_MODEL_H
#define HTH_MODELS_MODEL_H

#include "base/status.h"

/*
 * Take a reference of a model that is in the runtime's list, unless its last one is being given back. Called with the
 * runtime's list locked, which a dying model takes before it goes.
 */
bool hth_model_try_ref(hearth_model *model);

/* End a model's work at once: cancel its requests, save, free the engine's part. The handle stays. Blocks. */
void hth_model_shut_down(hearth_model *model);

/* A caller's request as this version's struct, what it does not have as the defaults. HEARTH_MISUSE. Copies no array. */
hearth_status hth_read_request(const hearth_request *request, hearth_request *out, hearth_error *err);

#endif
