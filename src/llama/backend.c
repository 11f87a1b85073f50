/*
 * backend.c - the llama.cpp engine as an implementation of backend.h
 *
 * On many wrong arguments llama.cpp v0.5.0 aborts the process, returns wrong results or throws. All known cases are
 * checked here first; exceptions are caught in llama_shim.cpp. Three rules keep the rest simple:
 *
 *   - The contents of every sequence are tracked here, and a batch must continue them exactly. The engine reports the
 *     highest position that all of its caches have, which says nothing about a sequence that is being restored.
 *   - Only plain attention is ever rewound. Sequences of other kinds are emptied completely or not at all.
 *   - An image is parsed before the engine sees it. Afterwards the sequence must end where the image says; otherwise it
 *     is emptied, because the engine may leave behind cells of a rejected image.
 *
 * The engine copies recurrent state along with a range of cells. Setting an image without cells as the partial state
 * removes the recurrent state again and keeps the cells. So a block of a hybrid model is written without recurrent
 * state, straight into its row.
 *
 * The first image of a part that the engine writes or accepts in a context defines the layout of all others. If the
 * engine writes a form that does not match the model's kind, the model becomes HTH_MODEL_UNCACHED.
 */
#include "llama/backend_inside.h"

#include "llama/backend_sampler.h"
#include "llama/llama_chat.h"
#include "sampling/sampler.h"

static hearth_status sampler_new(const hth_engine_model *model, const hearth_sampling *sampling,
                                 hth_engine_sampler **out, hearth_error *err)
{
    hearth_status status;

    if (!model || !sampling || !out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs a model and options");
    if (!model->facts.has_vocabulary && hth_sampler_needs_text(sampling))
        return hth_fail(err, HEARTH_UNSUPPORTED, "the model has no vocabulary; it cannot follow a grammar or use DRY");
    hth_backend_llama_enter(model->log);
    status = hth_llama_sampler_new(model->llama, model->texts, model->grammars, sampling, out, err);
    hth_backend_llama_leave();
    return status;
}

HEARTH_API const hth_backend *hearth_backend(void);

const hth_backend *hearth_backend(void)
{
    static const hth_backend llama = {
        .abi = HTH_BACKEND_ABI,
        .name = "llama.cpp",
        .build = hth_backend_llama_build,
        .devices = hth_backend_llama_devices,
        .model_load = hth_backend_llama_model_load,
        .model_free = hth_backend_llama_model_free,
        .model_info = hth_backend_llama_model_info,
        .cell_room = hth_backend_llama_cell_room,
        .needs = hth_backend_llama_needs,
        .tokenize = hth_backend_llama_tokenize,
        .piece = hth_backend_llama_piece,
        .is_end = hth_backend_llama_is_end,
        .token_flags = hth_backend_llama_token_flags,
        .metadata_count = hth_backend_llama_metadata_count,
        .metadata_key = hth_backend_llama_metadata_key,
        .metadata = hth_backend_llama_metadata,
        .chat_prompt = hth_backend_llama_chat_prompt,
        .chat_reader_new = hth_llama_chat_reader_new,
        .chat_reader_free = hth_llama_chat_reader_free,
        .chat_read = hth_llama_chat_read,
        .adapter_load = hth_backend_llama_adapter_load,
        .adapter_free = hth_backend_llama_adapter_free,
        .adapters_apply = hth_backend_llama_adapters_apply,
        .context_new = hth_backend_llama_context_new,
        .context_free = hth_backend_llama_context_free,
        .context_info = hth_backend_llama_context_info,
        .decode = hth_backend_llama_decode,
        .logits = hth_backend_llama_logits,
        .vector = hth_backend_llama_vector,
        .seq_remove = hth_backend_llama_seq_remove,
        .seq_copy = hth_backend_llama_seq_copy,
        .seq_end = hth_backend_llama_seq_end,
        .state_size = hth_backend_llama_state_size,
        .state_get = hth_backend_llama_state_get,
        .state_set = hth_backend_llama_state_set,
        .sampler_new = sampler_new,
        .sampler_new_like = hth_sampler_new_like,
        .sampler_free = hth_sampler_free,
        .sampler_accept = hth_sampler_accept,
        .sampler_apply = hth_sampler_apply,
        .sampler_state = hth_sampler_state,
        .sampler_set_state = hth_sampler_set_state,
        .embedder_new = hth_backend_llama_embedder_new,
        .embedder_free = hth_backend_llama_embedder_free,
        .embedder_inputs = hth_backend_llama_embedder_inputs,
        .embedder_adapters = hth_backend_llama_embedder_adapters,
        .embed = hth_backend_llama_embed,
        .embedding = hth_backend_llama_embedding,
    };

    return &llama;
}
