/*
 * backend_weights.h - places the repacked weights of a model in regions that processes share
 *
 *   hth_llama_weights *weights = hth_llama_weights_begin(...);
 *   load the model on this thread
 *   hth_llama_weights_end(weights, loaded)
 */
#ifndef HTH_LLAMA_BACKEND_WEIGHTS_H
#define HTH_LLAMA_BACKEND_WEIGHTS_H

#include "llama/backend_inside.h"

typedef struct hth_llama_weights hth_llama_weights;

/*
 * From now on, engine calls on this thread put repacked weights into regions. NULL: they do not; if the options ask for
 * regions, the log has the reason. path and params must live until the end.
 */
hth_llama_weights *hth_llama_weights_begin(const hth_engine_model *model, const char *path,
                                           const hth_engine_model_params *params);
/*
 * After the load, before anything is computed with the model. Publishes the regions that were filled. False: a region
 * turned out to be wrong and was rejected, so the model must be freed and loaded again. Accepts NULL.
 */
bool hth_llama_weights_end(hth_llama_weights *weights, bool loaded);

#endif
