/*
 * llama_slices.h - tokenizes a long text slice by slice
 *
 * The time of the engine's tokenizer grows with the square of the number of control tokens in a text, and of characters
 * that it writes as bytes. So a long text is cut where the tokens are certain to be the same:
 *
 *   - after the text of a control token that no other such text overlaps: the engine also cuts there and starts afresh;
 *   - in vocabularies of merged pieces (SPM) between two characters that no piece has side by side: no merge crosses
 *     such a place. The next slice begins with the last character before the cut, whose tokens are dropped, because the
 *     engine may put a space before a text.
 *
 * If tokens absorb spaces, no cut is next to a space. A text without such a place is one slice.
 */
#ifndef HTH_LLAMA_LLAMA_SLICES_H
#define HTH_LLAMA_LLAMA_SLICES_H

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/backend.h"
#include "llama/llama_shim.h"

typedef struct hth_llama_slices hth_llama_slices; /* any number of threads may use it */

/* The model must have a vocabulary, and outlives the result. NULL without memory. */
hth_llama_slices *hth_llama_slices_new(const struct llama_model *model);
void hth_llama_slices_free(hth_llama_slices *slices); /* accepts NULL */

/* As hth_engine_model_info.token_bytes_max. */
uint32_t hth_llama_slices_token_bytes_max(const hth_llama_slices *slices);

/*
 * As hth_shim_tokenize, in slices of n_slice bytes or a little more; 0: of the usual size. stop (may be NULL) is called
 * before each slice; if it returns true, the status is HEARTH_CANCELLED.
 */
hearth_status hth_llama_slices_tokenize(const hth_llama_slices *slices, const char *text, int32_t n_bytes,
                                        int32_t n_slice, bool add_special, bool parse_special, hearth_token *tokens,
                                        int32_t capacity, int32_t *n_out, const hth_tokenize_stop *stop,
                                        hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
