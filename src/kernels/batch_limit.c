/*
 * batch_limit.c - limits the engine's checks of a batch to the sequences in it
 *
 * With a unified KV buffer, llama.cpp v0.5.0 checks each batch for every pair of its 256 possible sequences, whatever
 * n_seq_max is. This takes 0.05 to 0.08 ms per evaluation, a tenth of the time of a small model's evaluation. The
 * number of checked sequences is a parameter. It is lowered here to the highest sequence of the batch; higher ids are
 * not in the batch, so no check is lost. The linker redirects the call, as attention.c describes. The mangled name of
 * the symbol includes the parameter types, so a function with other types in another version would not be found.
 */
#include <llama.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/attention.h"

#define INIT _ZN18llama_batch_allocr4initERK11llama_batchRK11llama_vocabPK14llama_memory_ijjb
#define JOIN(a, b) a##b
#define JOINED(a, b) JOIN(a, b)
#define REAL_INIT JOINED(__real_, INIT)
#define WRAP_INIT JOINED(__wrap_, INIT)

bool REAL_INIT(void *self, const struct llama_batch *batch, const void *vocab, const void *memory, uint32_t n_embd,
               uint32_t n_seq_max, bool output_all);
bool WRAP_INIT(void *self, const struct llama_batch *batch, const void *vocab, const void *memory, uint32_t n_embd,
               uint32_t n_seq_max, bool output_all);

bool WRAP_INIT(void *self, const struct llama_batch *batch, const void *vocab, const void *memory, uint32_t n_embd,
               uint32_t n_seq_max, bool output_all)
{
    llama_seq_id highest = 0;

    if (hth_attention_is_on() && batch->seq_id && batch->n_seq_id) {
        for (int32_t i = 0; i < batch->n_tokens; i++)
            for (int32_t j = 0; j < batch->n_seq_id[i]; j++)
                if (batch->seq_id[i][j] > highest)
                    highest = batch->seq_id[i][j];
        if ((uint32_t)highest < n_seq_max)
            n_seq_max = (uint32_t)highest + 1;
    }
    return REAL_INIT(self, batch, vocab, memory, n_embd, n_seq_max, output_all);
}
