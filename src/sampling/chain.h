/*
 * chain.h - the steps of sampling in order, from logits to candidates with probabilities
 *
 * A chain works on choices: a list of the likeliest candidates, which may be only some of those that are left. After a
 * step that cuts within the list, the list is complete. A step that needs more candidates than the list has completes
 * it first. So a vocabulary of 150,000 tokens is sorted only if the order of the steps requires it.
 *
 * Mirostat and adaptive-p have a state, one float, which is a function of the probabilities of the accepted tokens.
 * When a reply is continued elsewhere, the logits of earlier tokens are no longer available, so the state is passed
 * along with the tokens.
 */
#ifndef HTH_SAMPLING_CHAIN_H
#define HTH_SAMPLING_CHAIN_H

#include "engine/backend.h"
#include "sampling/penalties.h"
#include "sampling/sampling.h"

typedef struct hth_chain {
    hearth_sampling sampling; /* its numbers */
    hearth_sampler steps[HTH_SAMPLERS_MAX];
    size_t n_steps;   /* without adaptive-p, and without the leading penalties and DRY */
    unsigned leading; /* a set of hth_penalty that changes logits before everything else */
    bool is_greedy;   /* the likeliest token wins: only penalties and DRY matter */
    bool is_adaptive; /* adaptive-p chooses */
    size_t n_first;   /* the list may begin with this many likeliest tokens; 0: any number, and all may be needed */
    bool has_state;
    float state;
    /* From the last run: [n_seen] of the list, and the probabilities that the state is updated with, by token. */
    const hth_candidate *seen;
    size_t n_seen;
    const float *observed;
} hth_chain;

typedef struct hth_choices {
    const float *logits; /* [n_vocab]; left are those that are finite and not below floor */
    float *own;          /* [n_vocab], scratch; logits may be this array */
    uint32_t n_vocab;
    float floor;
    hth_candidate *list; /* [n], likeliest first; has room for n_first, or n_vocab if that is 0 */
    size_t n;
    bool is_all;
} hth_choices;

/* sampling must have been checked. */
void hth_chain_init(hth_chain *chain, const hearth_sampling *sampling);
/* Does a step read logits that are not in the list? If so, a grammar must already have masked the logits. */
bool hth_chain_needs_logits(const hth_chain *chain);

/*
 * Run the steps. The candidates are choices->list from *first_out on, *n_out of them, and have probabilities. penalties
 * may be NULL. At least one candidate must be given, and at least one is left.
 */
void hth_chain_run(hth_chain *chain, hth_choices *choices, hth_penalties *penalties, uint64_t position,
                   size_t *first_out, size_t *n_out);
/* Update the state with a token that was drawn after a run. Does nothing if there was no run. */
void hth_chain_accept(hth_chain *chain, hearth_token token);

#endif
