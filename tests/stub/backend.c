/*
 * backend.c - a deterministic engine without a model, for tests
 *
 * It behaves like the llama.cpp backend where the layers above can tell: one unified buffer of cells that sequences
 * share, images in the engine's own format, each kind's limits of cutting and rewinding, no room, aborts. What differs
 * is the arithmetic. A cell's bytes are derived from everything that the sequence held before it, its token and its
 * position; logits are derived from the bytes and positions of all cells of the sequence. So a cell that is missing,
 * altered, misplaced or taken from another prefix changes every logit that follows, and a right restore changes none.
 * What the real engine would answer with silently wrong logits (a window cut too late, a state that is missing) gives
 * wrong logits here, too: unlike the real backend, this one evaluates a sequence that is not whole.
 *
 * path is "stub:" with optional parameters, "stub:kind=window,delay_us=100":
 *
 *   n_ctx_train   4096   context that the model claims to be trained with
 *   top_k                what it claims to recommend
 *   cell_bytes    0      what it claims a cell to take
 *   free_mib      1024   MiB that it claims to be free for cells
 *   gpu_mib       0      MiB of a GPU, all of them free, of which each layer takes 8 besides its cells; 0: it tells
 *                        no needs
 *   vocab         260    tokens: 256 bytes, 4 control tokens, and made-up words beyond
 *   joins         0      1: the tokenizer reads the words " w260" to " w999"
 *   defined       0      last words of the vocabulary that are user-defined: the tokenizer always reads them
 *   delay_us      0      how long each row of a batch takes
 *   step_us       0      how long a batch takes besides
 *   gate                 a file with a number: rows at this position and beyond wait until the number is higher, or the
 *                        file is gone
 *   reading              a file: texts of 64 KiB or more are tokenized once it is gone
 *   kind          plain  plain, window, recurrent, hybrid
 *   window        64     positions of a window; a hybrid has one where it is given
 *   fills         0      1: the bytes '<', '|' and '>' ask for what stands between two texts
 *   encoder       0      1: it makes embeddings and generates nothing
 *   embeds        1      0: it makes no embeddings
 *   labels        0      of its classifier; 0: it has none
 *   short         0      a larger context has cells of another kind, as with two sets of RoPE factors; 0: none has
 *   pairs         0      1: a template joins query and document
 *
 * An adapter is a file with a number, from which its change of cells and logits is derived (adapter.c).
 *
 * A plain one may have a script of what it replies instead of a chat template (script.h).
 */
#include "stub/backend.h"

#include "stub/chat.h"
#include "stub/inside.h"

static const char *build(void)
{
    return "stub 1";
}

static hearth_status devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    (void)out;
    (void)capacity;
    if (!n_out)
        return hth_fail(err, HEARTH_MISUSE, "devices need room");
    *n_out = 0; /* it computes nothing */
    return HEARTH_OK;
}

const hth_backend *hth_backend_stub(void)
{
    static const hth_backend stub = {
        .abi = HTH_BACKEND_ABI,
        .name = "stub",
        .build = build,
        .devices = devices,
        .model_load = hth_stub_model_load,
        .model_free = hth_stub_model_free,
        .model_info = hth_stub_model_info,
        .cell_room = hth_stub_cell_room,
        .needs = hth_stub_needs,
        .tokenize = hth_stub_tokenize,
        .piece = hth_stub_piece,
        .is_end = hth_stub_is_end,
        .token_flags = hth_stub_token_flags,
        .metadata_count = hth_stub_metadata_count,
        .metadata_key = hth_stub_metadata_key,
        .metadata = hth_stub_metadata,
        .chat_prompt = hth_stub_chat_prompt,
        .chat_reader_new = hth_stub_chat_reader_new,
        .chat_reader_free = hth_stub_chat_reader_free,
        .chat_read = hth_stub_chat_read,
        .adapter_load = hth_stub_adapter_load,
        .adapter_free = hth_stub_adapter_free,
        .adapters_apply = hth_stub_adapters_apply,
        .context_new = hth_stub_context_new,
        .context_free = hth_stub_context_free,
        .context_info = hth_stub_context_info,
        .decode = hth_stub_decode,
        .logits = hth_stub_logits,
        .vector = hth_stub_vector,
        .seq_remove = hth_stub_seq_remove,
        .seq_copy = hth_stub_seq_copy,
        .seq_end = hth_stub_seq_end,
        .state_size = hth_stub_state_size,
        .state_get = hth_stub_state_get,
        .state_set = hth_stub_state_set,
        .sampler_new = hth_stub_sampler_new,
        .sampler_new_like = hth_sampler_new_like,
        .sampler_free = hth_sampler_free,
        .sampler_accept = hth_sampler_accept,
        .sampler_apply = hth_sampler_apply,
        .sampler_state = hth_sampler_state,
        .sampler_set_state = hth_sampler_set_state,
        .embedder_new = hth_stub_embedder_new,
        .embedder_free = hth_stub_embedder_free,
        .embedder_inputs = hth_stub_embedder_inputs,
        .embedder_adapters = hth_stub_embedder_adapters,
        .embed = hth_stub_embed,
        .embedding = hth_stub_embedding,
    };

    return &stub;
}
