/*
 * filters.h - the individual filters of sampling
 *
 * A list of candidates is sorted: likeliest first; ties are ordered by id. During filtering, the field probability of a
 * candidate holds its logit; in the end hth_filter_soften() turns it into a probability. No function allocates. Where a
 * paper leaves a definition open, llama.cpp's is used (src/llama-sampler.cpp, v0.5.0). Unless noted otherwise, filters
 * return the number of candidates that are left.
 */
#ifndef HTH_SAMPLING_FILTERS_H
#define HTH_SAMPLING_FILTERS_H

#include "base/draw.h"
#include "engine/backend.h"

/* The k likeliest of n logits, or fewer: logits that are not finite are left out. Ids are indices. */
size_t hth_filter_likeliest(const float *logits, size_t n, hth_candidate *out, size_t k);
/* All of n logits that are at least floor, sorted; otherwise like hth_filter_likeliest. */
size_t hth_filter_from(const float *logits, size_t n, float floor, hth_candidate *out);
/* Sort a list whose logits have changed. */
void hth_filter_sort(hth_candidate *candidates, size_t n);

/*
 * Keep the candidates whose surprisal is nearest to the expected surprisal, until their probabilities sum to more than
 * p (Meister et al., "Locally Typical Sampling", arXiv:2202.00666). They begin at *first_out.
 */
size_t hth_filter_typical_p(hth_candidate *candidates, size_t n, float p, size_t *first_out);

/*
 * Keep the likeliest candidates until their probabilities sum to p (Holtzman et al., "The Curious Case of Neural Text
 * Degeneration", arXiv:1904.09751). total is the sum of exp(logit - highest) over all logits. candidates may be only
 * the first of all; if they are not enough, the result is n + 1.
 */
size_t hth_filter_top_p(const hth_candidate *candidates, size_t n, float p, double total);
/* That total: over all candidates, or over n logits that are at least floor, with the given highest. */
double hth_filter_total_of(const hth_candidate *candidates, size_t n);
double hth_filter_total(const float *logits, size_t n, float floor, float highest);

/*
 * Exclude top choices: of the candidates at least as likely as threshold, drop all but the least likely (P. E.
 * Weidmann, text-generation-webui pull request 6335). Returns how many to drop from the beginning.
 */
size_t hth_filter_xtc(const hth_candidate *candidates, size_t n, float threshold);

/*
 * The logit below which candidates are dropped: n standard deviations below the highest of the logits that are at least
 * floor (Tang et al., "Top-nsigma: Not All Logits Are You Need", arXiv:2411.07641).
 */
float hth_filter_sigma_floor(const float *logits, size_t n_logits, float floor, float n);

/* The entropy, in nats, of those of n logits that are at least floor; *n_out is their number. */
double hth_filter_entropy(const float *logits, size_t n, float floor, float highest, size_t *n_out);

/*
 * Mirostat: how many of the likeliest to keep, 1 .. n, so that the expected surprisal is mu bits (Basu et al.,
 * "Mirostat", arXiv:2007.14966, algorithm 1, with the exponent s of Zipf's law from the first 100).
 */
size_t hth_filter_mirostat(const hth_candidate *candidates, size_t n, uint32_t n_vocab, float mu);

/* Turn logits into probabilities at a temperature > 0, and drop candidates of probability 0. At least 1 is left. */
size_t hth_filter_soften(hth_candidate *candidates, size_t n, float temperature);

/* Draw one of n >= 1 candidates with probabilities. The draw depends on (seed, position), see base/draw.h. */
hearth_token hth_draw_token(const hth_candidate *candidates, size_t n, uint64_t seed, uint64_t position);

#endif
