/*
 * sampling.h - check sampling options
 *
 * Only the checks that need no model. Whether a grammar, a schema or a pattern compiles, and whether a token is in the
 * vocabulary, is checked when the sampler is made.
 */
#ifndef HTH_SAMPLING_SAMPLING_H
#define HTH_SAMPLING_SAMPLING_H

#include "base/status.h"
#include "sampling/numbers.h"

enum {
    HTH_LOGIT_BIAS_MAX = 4096, /* token biases; over HTTP, each token of a text counts */
    HTH_DRY_BREAKERS_MAX = 64,
    HTH_DRY_BREAKER_BYTES_MAX = 64,
    HTH_GRAMMAR_BYTES_MAX = 256 * 1024, /* of a grammar, and of a schema */
    HTH_TRIGGERS_MAX = 64,
    HTH_TRIGGER_BYTES_MAX = 1024,
    HTH_SAMPLERS_MAX = 32, /* steps of the chain */
    HTH_THINKING_TEXT_BYTES_MAX = 64,
    HTH_THINKING_MESSAGE_BYTES_MAX = 1024,
};

/*
 * HEARTH_MISUSE with a message that names the option, its value and the allowed range: "sampling: top_p is 1.5; it must
 * be 0 to 1". Reserved fields are not checked. sampling must not be NULL, and arrays must have as many elements as
 * their counts say.
 */
hearth_status hth_sampling_check(const hearth_sampling *sampling, hearth_error *err);

/* Does an option need the last tokens: penalties, or DRY? */
bool hth_sampling_penalizes(const hearth_sampling *sampling);
bool hth_sampling_has_dry(const hearth_sampling *sampling);
/* Is reasoning limited, and is its end known? */
bool hth_sampling_bounds_thinking(const hearth_sampling *sampling);

/* DRY's phrase breakers, *n_out of them: those of sampling, borrowed, or the static defaults. */
const char *const *hth_sampling_dry_breakers(const hearth_sampling *sampling, size_t *n_out);

#endif
