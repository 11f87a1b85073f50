/*
 * sampler_names.h - the steps of the sampling chain, by the names and letters of llama.cpp
 */
#ifndef HTH_API_SAMPLER_NAMES_H
#define HTH_API_SAMPLER_NAMES_H

#include "sampling/sampling.h"

/*
 * Names may be in any case, with "_", "-" or nothing between words: "top_k", "top-k", "TopK". False if it is not a
 * step.
 */
bool hth_api_sampler_of_name(const char *name, size_t n_bytes, hearth_sampler *out);
/* 'e' penalties, 'd' DRY, 's' top_n_sigma, 'k', 'y' typical_p, 'p', 'm', 'x', 't', 'a'. */
bool hth_api_sampler_of_letter(char letter, hearth_sampler *out);

/* "penalties, dry, ..., or their letters edskypmxta" */
enum { HTH_API_SAMPLER_LIST_BYTES = 256 };
void hth_api_sampler_list(char text[HTH_API_SAMPLER_LIST_BYTES]);
/* Fill err: the word is not a step, and these are the steps. */
void hth_api_sampler_unknown(const char *word, size_t n_bytes, hearth_error *err);

/*
 * Read names separated by semicolons or commas. A text without either that is not a name is read as letters. *n_out is
 * their number; 0 for an empty text. False, with err filled, for an unknown word or letter, or if there are too many.
 */
bool hth_api_samplers_read(const char *text, hearth_sampler out[HTH_SAMPLERS_MAX], size_t *n_out, hearth_error *err);

#endif
