/*
 * backend_needs.c - the memory that a model and a context would take
 */
#include "llama/backend_inside.h"

#include "llama/llama_needs.h"

hearth_status hth_backend_llama_needs(const hth_engine_model *model, const hth_engine_context_params *params,
                                      hth_engine_needs *out, hearth_error *err)
{
    struct llama_context_params context;
    hearth_status status;

    if (!model || !params || !out)
        return hth_fail(err, HEARTH_MISUSE, "the needs of a model are asked with the parameters of a context");
    hth_backend_llama_enter(model->log);
    status = hth_backend_llama_fill_params(model, params, &context, err);
    if (status == HEARTH_OK) {
        hth_backend_llama_apply_options(model, &context);
        status = hth_llama_needs(model->path, hth_llama_placement_params(model->placement), model->facts.weight_bytes,
                                 &context, out, err);
    }
    hth_backend_llama_leave();
    return status;
}
