/*
 * sampler.h - the sampling chain of hearth_sampling, for any engine
 *
 * A backend passes in the parts of its vocabulary, and puts the functions below into its table. So the chain, its order
 * and its arithmetic are the same for every engine.
 */
#ifndef HTH_SAMPLING_SAMPLER_H
#define HTH_SAMPLING_SAMPLER_H

#include "engine/backend.h"
#include "engine/vocabulary.h"
#include "grammar/gbnf.h"
#include "sampling/thinking.h"

/* A control token of sampling.shown_tokens. For the grammar and for triggers, its name is its text. */
typedef struct hth_shown_token {
    hearth_token token;
    uint32_t n_bytes;
    uint8_t bytes[120]; /* the name; a token with a longer name is left out */
} hth_shown_token;
enum { HTH_SHOWN_TOKENS_MAX = 64 };

typedef struct hth_sampler_parts {
    uint32_t n_vocab;
    const hearth_token *ends; /* tokens that end a reply; outlives the samplers */
    size_t n_ends;
    const hth_vocabulary *vocabulary; /* only if hth_sampler_needs_text; outlives the samplers */
    const hth_shown_token *shown;     /* [n_shown], copied */
    size_t n_shown;
    const hth_thinking_parts *thinking; /* copied; NULL: reasoning has no limit */
    hth_gbnf *gbnf_take;                /* of the grammar or the schema; taken over, even on failure */
} hth_sampler_parts;

/* Does an option need the text of tokens: DRY, or a grammar? */
bool hth_sampler_needs_text(const hearth_sampling *sampling);

/* Like hth_backend.sampler_new. The caller has checked sampling. */
hearth_status hth_sampler_new(const hearth_sampling *sampling, const hth_sampler_parts *parts, hth_engine_sampler **out,
                              hearth_error *err);

/* Like the functions of hth_backend. One thread at a time uses a sampler. */
hearth_status hth_sampler_new_like(const hth_engine_sampler *like, const hearth_sampling *sampling,
                                   hth_engine_sampler **out, hearth_error *err);
void hth_sampler_free(hth_engine_sampler *s);
hearth_status hth_sampler_accept(hth_engine_sampler *s, hearth_token token, bool is_reply, hearth_error *err);
hearth_status hth_sampler_apply(hth_engine_sampler *s, const float *values, const hth_sample_at *at,
                                const hth_candidate **out, size_t *n_out, hearth_error *err);
bool hth_sampler_state(const hth_engine_sampler *s, float *out);
void hth_sampler_set_state(hth_engine_sampler *s, float state);

#endif
