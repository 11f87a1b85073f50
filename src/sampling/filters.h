/*
 * filters.h - the filters of sampling, each on its own
 *
 * A list of candidates is sorted: likeliest first; of equals, the lower id first. During filtering, the field
 * probability of a candidate holds its logit; in the end hth_filter_soften() turns it into a probability. Nothing here
 * allocates. Where a paper leaves a definition open, it is llama.cpp's (src/llama-sampler.cpp, v0.5.0). The filters
 * return the number of candidates that are left, unless they say otherwise.
 */
#ifndef HTH_SAMPLING_FILTERS_H
#define HTH_SAMPLING_FILTERS_H

#include "engine/backend.h"

/* The k likeliest of n logits, or fewer: logits that are not finite are left out. Ids are indices. */
size_t hth_filter_likeliest(const float *logits, size_t n, hth_candidate *out, size_t k);
/* All of n logits from floor on, sorted; likewise. */
size_t hth_filter_from(const float *logits, size_t n, float floor, hth_candidate *out);
/* Sort a list whose logits have changed. */
void hth_filter_sort(hth_candidate *candidates, size_t n);

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
/* That total: over all candidates; over n logits, from floor on, with the given highest. */
double hth_filter_total_of(const hth_candidate *candidates, size_t n);
double hth_filter_total(const float *logits, size_t n, float floor, float highest);

/*
 * Exclude top choices: drop all candidates at least as likely as threshold but the least likely of them (P. E.
 * Weidmann, text-generation-webui pull request 6335). Returns how many to drop from the beginning.
 */
size_t hth_filter_xtc(const hth_candidate *candidates, size_t n, float threshold);

/*
 * The logit below which candidates go: n standard deviations under the highest of the logits from floor on (Tang et
 * al., "Top-nsigma: Not All Logits Are You Need", arXiv:2411.07641).
 */
float hth_filter_sigma_floor(const float *logits, size_t n_logits, float floor, float n);

/* The entropy of n logits, in nats, of those from floor on; *n_out of them there are. */
double hth_filter_entropy(const float *logits, size_t n, float floor, float highest, size_t *n_out);

/*
 * Mirostat: how many of the likeliest to keep, 1 .. n, so that the expected surprise is mu bits (Basu et al.,
 * "Mirostat", arXiv:2007.14966, algorithm 1, with the exponent s of Zipf's law from the first 100).
 */
size_t hth_filter_mirostat(const hth_candidate *candidates, size_t n, uint32_t n_vocab, float mu);

/* Turn logits into probabilities at a temperature > 0, and drop candidates of probability 0. At least 1 is left. */
size_t hth_filter_soften(hth_candidate *candidates, size_t n, float temperature);

#endif
