/*
 * chain.h - the steps of sampling in their order, from logits to candidates with probabilities
 *
 * A chain works on choices: a list of the likeliest candidates, which need not be all that are left. A step that cuts
 * the list inside makes it all. A step that needs more candidates than the list has completes it first. So a vocabulary
 * of 150,000 tokens is sorted only where the order of the steps demands it.
 *
 * Mirostat and adaptive-p have a state, one float, which is a function of the probabilities of the accepted tokens. The
 * logits of earlier tokens are gone when a reply is continued elsewhere, so the state travels with the tokens.
 */
#ifndef HTH_SAMPLING_CHAIN_H
#define HTH_SAMPLING_CHAIN_H

#include "engine/backend.h"
#include "sampling/penalties.h"
#include "sampling/sampling.h"

typedef struct hth_chain {
    hearth_sampling sampling; /* its numbers */
    hearth_sampler steps[HTH_SAMPLERS_MAX];
    size_t n_steps;   /* on the list: without adaptive-p, and without the leading penalties and DRY */
    unsigned leading; /* a set of hth_penalty that changes logits before everything else */
    bool is_greedy;   /* the likeliest token: no step matters but penalties and DRY */
    bool is_adaptive; /* adaptive-p chooses */
    size_t n_first;   /* the list may begin with so many likeliest; 0: with any number, and all may be needed */
    bool has_state;
    float state;
    /* Since the last run; [n_seen] of the list, and the probabilities that the state is updated with, by token. */
    const hth_candidate *seen;
    size_t n_seen;
    const float *observed;
} hth_chain;

typedef struct hth_choices {
    const float *logits; /* [n_vocab], of what is left all that are finite and not below floor */
    float *own;          /* [n_vocab], scratch; logits may be this array */
    uint32_t n_vocab;
    float floor;
    hth_candidate *list; /* [n], likeliest first; has room for n_first, or where that is 0, for n_vocab */
    size_t n;
    bool is_all;
    float *distances; /* scratch for typical_p, as long as list's room */
} hth_choices;

/* sampling was checked. */
void hth_chain_init(hth_chain *chain, const hearth_sampling *sampling);
/* Does a step read logits that are not in the list? Then a grammar must have forbidden tokens in the logits. */
bool hth_chain_needs_logits(const hth_chain *chain);
/* Does typical_p need its scratch? */
bool hth_chain_has(const hth_chain *chain, hearth_sampler step);

/*
 * Run the steps. The candidates are choices->list from *first_out on, *n_out of them, and have probabilities. penalties
 * is NULL when there are none. At least one candidate comes in, and at least one is left.
 */
void hth_chain_run(hth_chain *chain, hth_choices *choices, hth_penalties *penalties, uint64_t position,
                   size_t *first_out, size_t *n_out);
/* Update the state by a token that was drawn after a run. Without a run, nothing changes. */
void hth_chain_accept(hth_chain *chain, hearth_token token);

#endif
