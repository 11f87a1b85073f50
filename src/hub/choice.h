/*
 * choice.h - choose the files of a repository that make up the wanted model
 *
 * Files are grouped: a split file is one model. Projectors ("mmproj") and importance matrices ("imatrix") are not
 * models. Without a choice, the first of Q4_K_M, Q8_0, ... that the repository has is used, or its only model.
 */
#ifndef HTH_HUB_CHOICE_H
#define HTH_HUB_CHOICE_H

#include "hub/listing.h"
#include "hub/quant.h"
#include "hub/reference.h"

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
