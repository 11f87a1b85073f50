/*
 * choice.h - choose the files of a repository that make up the wanted model
 *
 * Files are grouped: a split file is one model. Projectors ("mmproj") and importance matrices ("imatrix") are not
 * models. Without a choice, the first of Q4_K_M, Q8_0, ... that the repository has is used, or its only model.
 */
#ifndef HTH_HUB_CHOICE_H
#define HTH_HUB_CHOICE_H

#include <stdbool.h>

#include "hub/listing.h"

enum { HTH_HUB_QUANT_BYTES = 32 };

/*
 * The quant in the name of a GGUF file: "Q4_K_M" of "Model-8B-Q4_K_M-00001-of-00002.gguf". Names follow conventions,
 * not a format. The reader takes the last word that looks like a quant in the file's name, otherwise in its
 * directory's, and writes it in capital letters. False, with "", if the path has none.
 */
bool hth_hub_quant_of(const char *path, char out[HTH_HUB_QUANT_BYTES]);
/* Does the path contain this text as a word, in either case, not inside a longer word or quant? */
bool hth_hub_path_has_word(const char *path, const char *word);

/*
 * Find the files of the model: their indexes in listing->files, in the order of the parts, [*n_out], which the caller
 * frees. HEARTH_NOT_FOUND if there is none, a part is missing, or several match; the message lists the names to choose
 * from.
 */
hearth_status hth_hub_choose(const hth_hub_listing *listing, const hth_hub_reference *wanted, size_t **out,
                             size_t *n_out, hearth_error *err);

/*
 * The short name of a model among the files: its quant, written to out, if no other model has it, otherwise its path.
 */
const char *hth_hub_choice_name(const hth_hub_listing *listing, const char *path, char out[HTH_HUB_QUANT_BYTES]);

/* Is the file a model, or the first part of one? */
bool hth_hub_is_model(const char *path);
/* Do both paths belong to the same model: equal, or parts of one split file? */
bool hth_hub_is_same_model(const char *a, const char *b);

#endif
