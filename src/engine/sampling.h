/*
 * sampling.h - which sampling options make sense
 *
 * What can be said of hearth_sampling without a model. Whether a grammar, a schema or a pattern compiles, and whether a
 * token is in the vocabulary, is seen where the sampler is made.
 */
#ifndef HTH_ENGINE_SAMPLING_H
#define HTH_ENGINE_SAMPLING_H

#include "base/status.h"

enum {
    HTH_LAST_N_MAX = 65536, /* the most recent tokens that penalties and DRY can look at */
    HTH_LOGIT_BIAS_MAX = 4096,
    HTH_DRY_BREAKERS_MAX = 64,
    HTH_DRY_BREAKER_BYTES_MAX = 64,
    HTH_GRAMMAR_BYTES_MAX = 256 * 1024, /* of a grammar, and of a schema */
    HTH_TRIGGERS_MAX = 64,
    HTH_TRIGGER_BYTES_MAX = 1024,
};

/*
 * HEARTH_MISUSE with the option, what it is and what is allowed, "sampling: top_p is 1.5; it must be 0 to 1". The
 * reserved fields are not looked at. sampling must not be NULL; arrays are read as long as their counts say.
 */
hearth_status hth_sampling_check(const hearth_sampling *sampling, hearth_error *err);

/* Does anything need to know the last tokens: penalties, or DRY? */
bool hth_sampling_penalizes(const hearth_sampling *sampling);
bool hth_sampling_has_dry(const hearth_sampling *sampling);

/* The texts that end a phrase of DRY where the caller gives none: n_dry_breakers texts, static. */
const char *const *hth_sampling_dry_breakers(const hearth_sampling *sampling, size_t *n_out);

#endif
