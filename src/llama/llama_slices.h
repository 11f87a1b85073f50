/*
 * llama_slices.h - the tokens of a long text, made slice by slice
 *
 * The engine's tokenizer takes time by the square of the control tokens in a text, and of the characters that it writes
 * as bytes. So a long text is cut where its tokens are surely the same:
 *
 *   - behind the text of a control token that no other such text overlaps: the engine, too, cuts there and begins anew;
 *   - in vocabularies of merged pieces (SPM) between two characters that no piece has side by side: no merge crosses
 *     such a place. The next slice begins with the last character before the cut, whose tokens are left out, because
 *     the engine may put a blank before a text.
 *
 * Where tokens take blanks with them, no cut is next to a blank. A text without such a place is one slice.
 */
#ifndef HTH_LLAMA_LLAMA_SLICES_H
#define HTH_LLAMA_LLAMA_SLICES_H

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/backend.h"
#include "llama/llama_shim.h"

typedef struct hth_llama_slices hth_llama_slices; /* any number of threads may use it */

/* The model has a vocabulary, and outlives it. NULL without memory. */
hth_llama_slices *hth_llama_slices_new(const struct llama_model *model);
void hth_llama_slices_free(hth_llama_slices *slices); /* accepts NULL */

/* As hth_engine_model_info has it. */
uint32_t hth_llama_slices_token_bytes_max(const hth_llama_slices *slices);

/*
 * As hth_shim_tokenize, in slices of n_slice bytes or a little more; 0: of the usual size. stop (NULL: nobody) is asked
 * before each slice: HEARTH_CANCELLED.
 */
hearth_status hth_llama_slices_tokenize(const hth_llama_slices *slices, const char *text, int32_t n_bytes,
                                        int32_t n_slice, bool add_special, bool parse_special, hearth_token *tokens,
                                        int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                        hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
