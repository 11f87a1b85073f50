/*
 * backend_weights.h - the repacked weights of a model lie in a region that processes share
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
 * From now on the engine's calls of this thread put repacked weights into regions. NULL: they do not, and the log has
 * the reason, if the options ask for regions. path and params must live until the end.
 */
hth_llama_weights *hth_llama_weights_begin(const hth_engine_model *model, const char *path,
                                           const hth_engine_model_params *params);
/*
 * After the load, before anything is computed with the model. Publishes the regions that were filled. False: a region
 * turned out wrong and was rejected, so the model must be freed and loaded again. Accepts NULL.
 */
bool hth_llama_weights_end(hth_llama_weights *weights, bool loaded);

#endif
