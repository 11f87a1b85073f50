/*
 * filters.h - the filters of sampling, each on its own
 *
 * A list of candidates is sorted: likeliest first, of equals the lower id. While it is filtered, the field probability
 * of a candidate holds its logit; soften() makes probabilities of them in the end. Nothing here allocates. Definitions
 * are llama.cpp's (src/llama-sampler.cpp, v0.5.0) where a paper leaves them open.
 */
#ifndef HTH_ENGINE_FILTERS_H
#define HTH_ENGINE_FILTERS_H

#include "engine/backend.h"

/* The k likeliest of n logits, or fewer; those that are no finite numbers are left out. Ids are indices. */
size_t hth_filter_likeliest(const float *logits, size_t n, hth_candidate *out, size_t k);

/*
 * Keep the candidates whose surprise is nearest to the expected one, until they sum to more than p (Meister et al.,
 * "Locally Typical Sampling", arXiv:2202.00666). distances is scratch, [n].
 */
size_t hth_filter_typical_p(hth_candidate *candidates, size_t n, float p, float *distances);

/*
 * Keep the likeliest until they sum to p (Holtzman et al., "The Curious Case of Neural Text Degeneration",
 * arXiv:1904.09751). total is the sum of exp(logit - highest) over all, of which candidates may be the beginning only:
 * then the result is n + 1 where they do not suffice.
 */
size_t hth_filter_top_p(const hth_candidate *candidates, size_t n, float p, double total);
/* That total: of all candidates; of n logits of which the highest is given. */
double hth_filter_total_of(const hth_candidate *candidates, size_t n);
double hth_filter_total(const float *logits, size_t n, float highest);

/* Keep those at least p times as likely as the likeliest (Nguyen et al., "Turning Up the Heat", arXiv:2407.01082). */
size_t hth_filter_min_p(const hth_candidate *candidates, size_t n, float p);

/*
 * Exclude top choices: of the candidates at least as likely as threshold, all but the least likely go (P. E. Weidmann,
 * text-generation-webui pull request 6335). How many to leave away from the beginning.
 */
size_t hth_filter_xtc(const hth_candidate *candidates, size_t n, float threshold);

/* Logits to probabilities at a temperature > 0; how many are left when those of probability 0 are gone, at least 1. */
size_t hth_filter_soften(hth_candidate *candidates, size_t n, float temperature);

#endif
