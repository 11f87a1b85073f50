#include "sampling/chain.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/draw.h"
#include "sampling/filters.h"

static const hearth_sampler usual_steps[] = {
    HEARTH_SAMPLER_PENALTIES,   HEARTH_SAMPLER_DRY,        HEARTH_SAMPLER_TOP_N_SIGMA, HEARTH_SAMPLER_TOP_K,
    HEARTH_SAMPLER_TYPICAL_P,   HEARTH_SAMPLER_TOP_P,      HEARTH_SAMPLER_MIN_P,       HEARTH_SAMPLER_XTC,
    HEARTH_SAMPLER_TEMPERATURE, HEARTH_SAMPLER_ADAPTIVE_P,
};
/* The steps with Mirostat, whose cut comes last. */
static const hearth_sampler mirostat_steps[] = { HEARTH_SAMPLER_PENALTIES, HEARTH_SAMPLER_DRY,
                                                 HEARTH_SAMPLER_TEMPERATURE };

/* ---- making ---- */

/* Can the step change anything? */
static bool is_on(const hearth_sampling *s, hearth_sampler step)
{
    switch (step) {
    case HEARTH_SAMPLER_PENALTIES: return hth_sampling_penalizes(s);
    case HEARTH_SAMPLER_DRY: return hth_sampling_has_dry(s);
    case HEARTH_SAMPLER_TOP_N_SIGMA: return s->top_n_sigma > 0;
    case HEARTH_SAMPLER_TOP_K: return s->top_k > 0;
    case HEARTH_SAMPLER_TYPICAL_P: return s->typical_p < 1;
    case HEARTH_SAMPLER_TOP_P: return s->top_p < 1;
    case HEARTH_SAMPLER_MIN_P: return s->min_p > 0;
    case HEARTH_SAMPLER_XTC: return s->xtc_probability > 0;
    case HEARTH_SAMPLER_TEMPERATURE: return s->temperature != 1 || s->dynatemp_range > 0;
    case HEARTH_SAMPLER_ADAPTIVE_P: return s->adaptive_target > 0;
    }
    return false;
}

static unsigned penalty_of(hearth_sampler step)
{
    return step == HEARTH_SAMPLER_PENALTIES ? HTH_PENALTY_RECENT : step == HEARTH_SAMPLER_DRY ? HTH_PENALTY_DRY : 0;
}

/* The list may begin with the k likeliest if only steps that keep the order of tokens come before top_k. */
static size_t first_of(const hth_chain *chain)
{
    for (size_t i = 0; i < chain->n_steps; i++) {
        if (chain->steps[i] == HEARTH_SAMPLER_TOP_K)
            return (size_t)chain->sampling.top_k;
        if (chain->steps[i] != HEARTH_SAMPLER_TOP_N_SIGMA &&
            (chain->steps[i] != HEARTH_SAMPLER_TEMPERATURE || chain->sampling.dynatemp_range > 0))
            return 0;
    }
    return 0;
}

void hth_chain_init(hth_chain *chain, const hearth_sampling *sampling)
{
    const hearth_sampler *steps = sampling->samplers ? sampling->samplers : usual_steps;
    size_t n = sampling->samplers ? sampling->n_samplers : sizeof(usual_steps) / sizeof(usual_steps[0]);
    unsigned listed = 0; /* a set of samplers */

    if (sampling->mirostat != 0) {
        steps = mirostat_steps;
        n = sizeof(mirostat_steps) / sizeof(mirostat_steps[0]);
    }
    *chain = (hth_chain){ .sampling = *sampling };
    for (size_t i = 0; i < n && i < HTH_SAMPLERS_MAX; i++) {
        unsigned penalty = penalty_of(steps[i]);

        if (steps[i] == HEARTH_SAMPLER_TEMPERATURE && sampling->temperature <= 0)
            chain->is_greedy = true;
        if ((listed & 1u << steps[i]) || !is_on(sampling, steps[i]))
            continue;
        listed |= 1u << steps[i];
        if (steps[i] == HEARTH_SAMPLER_ADAPTIVE_P)
            chain->is_adaptive = true;
        else if (chain->n_steps == 0 && penalty > chain->leading) /* both in their usual order */
            chain->leading |= penalty;
        else
            chain->steps[chain->n_steps++] = steps[i];
    }
    if (chain->is_greedy) { /* penalties and DRY still matter */
        for (size_t i = 0; i < chain->n_steps; i++)
            chain->leading |= penalty_of(chain->steps[i]);
        chain->n_steps = 0;
        chain->is_adaptive = false;
    }
    chain->n_first = chain->is_greedy ? 1 : first_of(chain);
    chain->has_state = !chain->is_greedy && (sampling->mirostat != 0 || chain->is_adaptive);
    chain->state = sampling->mirostat != 0 ? 2 * sampling->mirostat_tau : sampling->adaptive_target;
}

bool hth_chain_needs_logits(const hth_chain *chain)
{
    for (size_t i = 0; i < chain->n_steps; i++)
        if (chain->steps[i] == HEARTH_SAMPLER_TOP_N_SIGMA)
            return true;
    return chain->n_first == 0;
}

/* ---- steps ---- */

/* Put all remaining candidates into the list. */
static void complete(hth_choices *c)
{
    if (c->is_all)
        return;
    c->n = hth_filter_from(c->logits, c->n_vocab, c->floor, c->list);
    if (c->n == 0) /* the list did not change */
        c->n = 1;
    c->is_all = true;
}

/* Keep only candidates whose logit is at least floor. */
static void raise_floor(hth_choices *c, float floor)
{
    float highest = c->list[0].probability;
    size_t n = c->n;

    if (floor > highest)
        floor = highest;
    while (n > 1 && c->list[n - 1].probability < floor)
        n--;
    c->is_all = c->is_all || n < c->n;
    c->n = n;
    c->floor = floor > c->floor ? floor : c->floor;
}

/* The sum of exp(logit - highest) over all remaining candidates. */
static double total_of(const hth_choices *c)
{
    return c->is_all ? hth_filter_total_of(c->list, c->n)
                     : hth_filter_total(c->logits, c->n_vocab, c->floor, c->list[0].probability);
}

static void keep_top_k(hth_choices *c, size_t k)
{
    if (k > c->n)
        complete(c);
    if (k <= c->n) {
        c->n = k;
        c->is_all = true;
    }
}

static void keep_top_p(hth_choices *c, float p)
{
    double total = total_of(c);
    size_t n = hth_filter_top_p(c->list, c->n, p, total);

    if (n > c->n && !c->is_all) {
        complete(c);
        n = hth_filter_top_p(c->list, c->n, p, total);
    }
    c->n = n < c->n ? n : c->n;
    c->is_all = true;
}

/*
 * The remaining logits: those of *n_out that are finite and at least *floor_out. If the list is complete, it is copied
 * into own.
 */
static const float *remaining(hth_choices *c, size_t *n_out, float *floor_out)
{
    *n_out = c->is_all ? c->n : c->n_vocab;
    *floor_out = c->is_all ? -FLT_MAX : c->floor;
    if (!c->is_all)
        return c->logits;
    for (size_t i = 0; i < c->n; i++)
        c->own[i] = c->list[i].probability;
    return c->own;
}

/* The temperature between its bounds, by the entropy of the probabilities (dynatemp; llama.cpp pull 4972). */
static float temperature_of(const hth_chain *chain, hth_choices *c)
{
    const hearth_sampling *s = &chain->sampling;
    double low = fmax(0, s->temperature - s->dynatemp_range), high = s->temperature + s->dynatemp_range;
    double entropy;
    const float *logits;
    float floor;
    size_t n;

    if (s->dynatemp_range <= 0)
        return s->temperature;
    logits = remaining(c, &n, &floor);
    entropy = hth_filter_entropy(logits, n, floor, c->list[0].probability, &n);
    if (n < 2)
        return s->temperature;
    return (float)(low + (high - low) * pow(fmin(fmax(entropy / log((double)n), 0), 1), s->dynatemp_exponent));
}

static bool is_finite(double value)
{
    return fabs(value) <= FLT_MAX; /* false for a NaN */
}

/* Divide all remaining logits. The order does not change. A logit that becomes too low for a float is dropped. */
static void scale(hth_choices *c, float temperature)
{
    size_t n = 0;

    if (!(temperature > 0) || !is_finite(c->list[0].probability / temperature)) {
        c->n = 1;
        c->is_all = true;
        return;
    }
    for (; n < c->n && is_finite(c->list[n].probability / temperature); n++)
        c->list[n].probability /= temperature;
    c->is_all = c->is_all || n < c->n;
    c->n = n;
    for (uint32_t i = 0; !c->is_all && i < c->n_vocab; i++)
        c->own[i] = c->logits[i] / temperature;
    if (c->floor > -FLT_MAX)
        c->floor /= temperature;
    c->logits = c->own;
}

/* Penalties that come after other steps: they act on the logits that those have left. */
static void penalize(hth_choices *c, hth_penalties *penalties, unsigned which)
{
    if (!penalties)
        return;
    complete(c);
    for (uint32_t i = 0; i < c->n_vocab; i++)
        c->own[i] = -INFINITY;
    for (size_t i = 0; i < c->n; i++)
        c->own[c->list[i].token] = c->list[i].probability;
    hth_penalties_apply(penalties, which, c->own);
    for (size_t i = 0; i < c->n; i++) /* logits stay finite */
        c->list[i].probability = fminf(fmaxf(c->own[c->list[i].token], -FLT_MAX), FLT_MAX);
    hth_filter_sort(c->list, c->n);
    c->logits = c->own;
}

static void keep_by_mirostat(const hth_chain *chain, hth_choices *c)
{
    if (chain->sampling.mirostat == 1) {
        keep_top_k(c, hth_filter_mirostat(c->list, c->is_all ? c->n : c->n_vocab, c->n_vocab, chain->state));
        return;
    }
    /* Keep those whose surprisal, -log2 p, is at most mu: p >= 2^-mu. */
    raise_floor(c, (float)(c->list[0].probability + log(total_of(c)) - chain->state * log(2)));
}

static void drop_top(const hth_chain *chain, hth_choices *c, uint64_t position)
{
    size_t n_top;

    if (hth_draw_uniform_for(HTH_DRAW_XTC, chain->sampling.seed, position) >= chain->sampling.xtc_probability)
        return;
    complete(c);
    n_top = hth_filter_xtc(c->list, c->n, chain->sampling.xtc_threshold);
    c->list += n_top;
    c->n -= n_top;
}

static void step(const hth_chain *chain, hearth_sampler which, hth_choices *c, hth_penalties *penalties,
                 uint64_t position)
{
    const hearth_sampling *s = &chain->sampling;
    const float *logits;
    float floor;
    size_t n;

    switch (which) {
    case HEARTH_SAMPLER_PENALTIES:
    case HEARTH_SAMPLER_DRY: penalize(c, penalties, penalty_of(which)); break;
    case HEARTH_SAMPLER_TOP_N_SIGMA:
        logits = remaining(c, &n, &floor);
        raise_floor(c, hth_filter_sigma_floor(logits, n, floor, s->top_n_sigma));
        break;
    case HEARTH_SAMPLER_TOP_K: keep_top_k(c, (size_t)s->top_k); break;
    case HEARTH_SAMPLER_TYPICAL_P:
        complete(c);
        c->n = hth_filter_typical_p(c->list, c->n, s->typical_p, &n);
        c->list += n; /* the list keeps track of its beginning */
        break;
    case HEARTH_SAMPLER_TOP_P: keep_top_p(c, s->top_p); break;
    /* min_p: Nguyen et al., "Turning Up the Heat", arXiv:2407.01082 */
    case HEARTH_SAMPLER_MIN_P: raise_floor(c, c->list[0].probability + logf(s->min_p)); break;
    case HEARTH_SAMPLER_XTC: drop_top(chain, c, position); break;
    case HEARTH_SAMPLER_TEMPERATURE: scale(c, temperature_of(chain, c)); break;
    case HEARTH_SAMPLER_ADAPTIVE_P: break; /* comes after all other steps */
    }
}

/* ---- adaptive-p ---- */

/*
 * Prefer candidates whose probability is near a target, which moves so that the average probability of the drawn tokens
 * approaches the wanted one (llama.cpp pull request 17927, src/llama-sampler.cpp, v0.5.0). The list has probabilities
 * before and after.
 */
static void adapt(hth_chain *chain, hth_choices *c)
{
    const double width = 0.3, peak = 5, sharpness = 10;
    double target = fmin(fmax(2 * (double)chain->sampling.adaptive_target - chain->state, 0), 1);

    for (size_t i = 0; i < c->n; i++) {
        double distance = fabs(c->list[i].probability - target) / width;

        c->own[c->list[i].token] = c->list[i].probability;
        c->list[i].probability = (float)(peak - sharpness * distance * distance / (1 + distance));
    }
    hth_filter_sort(c->list, c->n);
    c->n = hth_filter_soften(c->list, c->n, 1);
}

/* ---- running ---- */

void hth_chain_run(hth_chain *chain, hth_choices *c, hth_penalties *penalties, uint64_t position, size_t *first_out,
                   size_t *n_out)
{
    const hth_candidate *begin = c->list;
    size_t n_steps = chain->n_steps;
    float temperature = 1;

    assert(c->n > 0);
    if (chain->is_greedy) {
        c->n = 1;
        c->list[0].probability = 1;
        *first_out = 0;
        *n_out = 1;
        return;
    }
    for (size_t i = 0; i < n_steps; i++)
        if (i + 1 == n_steps && chain->steps[i] == HEARTH_SAMPLER_TEMPERATURE && chain->sampling.mirostat == 0)
            temperature = temperature_of(chain, c); /* applied when softening */
        else
            step(chain, chain->steps[i], c, penalties, position);
    if (chain->sampling.mirostat != 0)
        keep_by_mirostat(chain, c);
    complete(c);
    c->n = temperature > 0 ? hth_filter_soften(c->list, c->n, temperature) : 0;
    if (c->n == 0 || !(c->list[0].probability > 0)) { /* also without a finite total */
        c->n = 1;
        c->list[0].probability = 1;
    }
    if (chain->is_adaptive)
        adapt(chain, c);
    else if (chain->has_state)
        for (size_t i = 0; i < c->n; i++)
            c->own[c->list[i].token] = c->list[i].probability;
    chain->seen = c->list;
    chain->n_seen = c->n;
    chain->observed = c->own;
    *first_out = (size_t)(c->list - begin);
    *n_out = c->n;
}

void hth_chain_accept(hth_chain *chain, hearth_token token)
{
    const hearth_sampling *s = &chain->sampling;
    size_t n = chain->n_seen;

    chain->n_seen = 0;
    if (!chain->has_state)
        return;
    for (size_t i = 0; i < n; i++) {
        double p;

        if (chain->seen[i].token != token)
            continue;
        p = chain->observed[token];
        if (s->mirostat != 0)
            chain->state -= (float)(s->mirostat_eta * (-log2(p) - s->mirostat_tau));
        else
            chain->state = (float)((1 - s->adaptive_decay) * p + (double)s->adaptive_decay * chain->state);
        return;
    }
}
