/*
 * filters.h - the filters of sampling, each on its own
 *
 * A list of candidates is sorted: likeliest first; of equals, the lower id first. During filtering, the field
 * probability of a candidate holds its logit; in the end hth_filter_soften() turns it into a probability. Nothing here
 * allocates. Where a paper leaves a definition open, it is llama.cpp's (src/llama-sampler.cpp, v0.5.0). The filters
 * return the number of candidates that are left, unless they say otherwise.
 */
#ifndef HTH_ENGINE_FILTERS_H
#define HTH_ENGINE_FILTERS_H

#include "engine/backend.h"

/* The k likeliest of n logits, or fewer: logits that are not finite are left out. Ids are indices. */
size_t hth_filter_likeliest(const float *logits, size_t n, hth_candidate *out, size_t k);

/*
 * Keep the candidates whose surprise is nearest to the expected surprise, until their probabilities sum to more than p
 * (Meister et al., "Locally Typical Sampling", arXiv:2202.00666). distances is scratch, [n].
 */
size_t hth_filter_typical_p(hth_candidate *candidates, size_t n, float p, float *distances);

/*
 * Keep the likeliest candidates until their probabilities sum to p (Holtzman et al., "The Curious Case of Neural Text
 * Degeneration", arXiv:1904.09751). total is the sum of exp(logit - highest) over all logits. candidates may be only
 * the first of all; when they do not suffice, the result is n + 1.
 */
size_t hth_filter_top_p(const hth_candidate *candidates, size_t n, float p, double total);
/* That total: over all candidates; over n logits with the given highest. */
double hth_filter_total_of(const hth_candidate *candidates, size_t n);
double hth_filter_total(const float *logits, size_t n, float highest);

/*
 * Keep candidates at least p times as likely as the likeliest (Nguyen et al., "Turning Up the Heat", arXiv:2407.01082).
 */
size_t hth_filter_min_p(const hth_candidate *candidates, size_t n, float p);

/*
 * Exclude top choices: drop all candidates at least as likely as threshold but the least likely of them (P. E.
 * Weidmann, text-generation-webui pull request 6335). Returns how many to drop from the beginning.
 */
size_t hth_filter_xtc(const hth_candidate *candidates, size_t n, float threshold);

/* Turn logits into probabilities at a temperature > 0, and drop candidates of probability 0. At least 1 is left. */
size_t hth_filter_soften(hth_candidate *candidates, size_t n, float temperature);

#endif
