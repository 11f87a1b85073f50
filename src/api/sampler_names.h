/*
 * sampler_names.h - the steps of the sampling chain, by the names and letters of llama.cpp
 */
#ifndef HTH_API_SAMPLER_NAMES_H
#define HTH_API_SAMPLER_NAMES_H

#include "sampling/sampling.h"

/* Names are read in any case, with "_", "-" or nothing between words: "top_k", "top-k", "TopK". False: no step. */
bool hth_api_sampler_of_name(const char *name, size_t n_bytes, hearth_sampler *out);
/* 'e' penalties, 'd' DRY, 's' top_n_sigma, 'k', 'y' typical_p, 'p', 'm', 'x', 't', 'a'. */
bool hth_api_sampler_of_letter(char letter, hearth_sampler *out);

/* "penalties, dry, ..., or their letters edskypmxta" */
enum { HTH_API_SAMPLER_LIST_BYTES = 256 };
void hth_api_sampler_list(char text[HTH_API_SAMPLER_LIST_BYTES]);
/* Say that a word is no step, and which there are. */
void hth_api_sampler_unknown(const char *word, size_t n_bytes, hearth_error *err);

/*
 * Read names with semicolons or commas between them, or, in a text without either that is no name, letters. *n_out of
 * them; an empty text has none. False with the first word, or letter, that is no step; or too many.
 */
bool hth_api_samplers_read(const char *text, hearth_sampler out[HTH_SAMPLERS_MAX], size_t *n_out, hearth_error *err);

#endif
