/*
 * sampler.c - turn logits into candidates, looking at as few tokens as possible
 *
 * logit_bias, grammar, penalties and DRY change single logits, in a copy that is made only if one of them has something
 * to change. The grammar only forbids tokens, so it commutes with the others. So the likeliest tokens are found first
 * and checked against the grammar; the whole vocabulary is checked only if too few of them are allowed. Then the chain
 * (chain.c) shortens the sorted list. Without top_k, the list begins with the PREFIX_MAX likeliest.
 */
#include "sampling/sampler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/grammar.h"
#include "grammar/trigger.h"
#include "sampling/chain.h"
#include "sampling/filters.h"
#include "sampling/penalties.h"
#include "sampling/sampling.h"

enum {
    PREFIX_MAX = 1024, /* candidates to begin with if a filter may need all */
    PROBES_MIN = 256,  /* likeliest tokens that are checked against a grammar before all are */
};

struct hth_engine_sampler {
    hth_chain chain;
    uint32_t n_vocab;
    const hearth_token *ends;
    size_t n_ends;

    hearth_logit_bias *bias; /* finite or -INFINITY; [n_bias] */
    size_t n_bias;
    hth_candidate *forced; /* tokens with bias +INFINITY, with their logits, [n_forced] */
    size_t n_forced;

    hth_penalties *penalties; /* NULL: none */
    hth_gbnf *gbnf;           /* the tables of the grammar; NULL: none */
    hth_grammar *grammar;     /* likewise */
    hth_thinking *thinking;   /* NULL: reasoning has no limit */
    hth_triggers *triggers;   /* if not NULL, the grammar waits for one of them */
    const hth_vocabulary *vocabulary;
    hth_shown_token *shown; /* [n_shown] */
    size_t n_shown;

    float *logits; /* changed ones, [n_vocab]; NULL where nothing changes them */
    bool *allowed; /* by the grammar, [n_vocab]; NULL: no grammar */
    hth_candidate *candidates;
    size_t candidates_max;
    float *end_logits; /* [n_ends] */
};

bool hth_sampler_needs_text(const hearth_sampling *sampling)
{
    return hth_sampling_has_dry(sampling) || hth_sampling_bounds_thinking(sampling) || sampling->grammar ||
           sampling->json_schema;
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

static hearth_status copy_bias(hth_engine_sampler *s, const hearth_sampling *sampling, hearth_error *err)
{
    size_t n = sampling->n_logit_bias + 1;

    s->bias = calloc(n, sizeof(s->bias[0]));
    s->forced = calloc(n, sizeof(s->forced[0]));
    if (!s->bias || !s->forced)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
    for (size_t i = 0; i < sampling->n_logit_bias; i++) {
        hearth_logit_bias one = sampling->logit_bias[i];

        if ((uint32_t)one.token >= s->n_vocab)
            return hth_fail(err, HEARTH_MISUSE, "sampling: logit_bias[%zu] is for token %d; the vocabulary has 0 to %u",
                            i, one.token, s->n_vocab - 1);
        if (one.bias > FLT_MAX)
            s->forced[s->n_forced++].token = one.token;
        else
            s->bias[s->n_bias++] = one;
    }
    return HEARTH_OK;
}

/* NULL: the token is not a shown one. */
static const hth_shown_token *shown_of(const hth_engine_sampler *s, hearth_token token)
{
    for (size_t i = 0; i < s->n_shown; i++)
        if (s->shown[i].token == token)
            return &s->shown[i];
    return NULL;
}

/* The text of a token; for a shown token, its name. */
static void text_of(const hth_engine_sampler *s, hearth_token token, const uint8_t **bytes, size_t *n_bytes)
{
    const hth_shown_token *shown = shown_of(s, token);

    *bytes = shown ? shown->bytes : s->vocabulary->pieces[token].bytes;
    *n_bytes = shown ? shown->n_bytes : s->vocabulary->pieces[token].n_bytes;
}

/* Does the grammar allow the token next, or the name of a shown token? */
static bool grammar_allows(hth_engine_sampler *s, hearth_token token)
{
    const hth_shown_token *shown;

    if (hth_grammar_allows(s->grammar, token))
        return true;
    shown = shown_of(s, token);
    return shown && hth_grammar_allows_text(s->grammar, shown->bytes, shown->n_bytes);
}

static hearth_status grammar_accept(hth_engine_sampler *s, hearth_token token, hearth_error *err)
{
    const hth_shown_token *shown = shown_of(s, token);

    if (shown && !hth_grammar_allows(s->grammar, token))
        return hth_grammar_accept_text(s->grammar, shown->bytes, shown->n_bytes, err);
    return hth_grammar_accept(s->grammar, token, err);
}

/* A trigger that the grammar cannot begin with would end every reply that contains it. */
static hearth_status check_trigger(hth_engine_sampler *s, const hearth_trigger *trigger, size_t i, hearth_error *err)
{
    bool ok = true;

    hth_grammar_begin_choice(s->grammar);
    if (trigger->kind == HEARTH_TRIGGER_TOKEN && (uint32_t)trigger->token >= s->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "sampling: triggers[%zu] is token %d; the vocabulary has 0 to %u", i,
                        trigger->token, s->n_vocab - 1);
    if (trigger->kind == HEARTH_TRIGGER_TOKEN)
        ok = grammar_allows(s, trigger->token);
    else if (trigger->kind == HEARTH_TRIGGER_WORD)
        ok = hth_grammar_allows_text(s->grammar, (const uint8_t *)trigger->text, strlen(trigger->text));
    if (ok)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "sampling: triggers[%zu]: the grammar does not begin with it", i);
}

static hearth_status make_grammar(hth_engine_sampler *s, const hearth_sampling *sampling, hearth_error *err)
{
    hearth_status status = hth_grammar_new(hth_gbnf_ref(s->gbnf), s->vocabulary, &s->grammar, err);

    if (status != HEARTH_OK) {
        hth_fail_prefix(err, "sampling: %s", sampling->grammar ? "grammar" : "json_schema");
        return status;
    }
    s->allowed = calloc(s->n_vocab, sizeof(s->allowed[0]));
    if (!s->allowed)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
    if (!sampling->grammar_is_lazy && sampling->grammar_prefix) {
        status = hth_grammar_accept_text(s->grammar, (const uint8_t *)sampling->grammar_prefix,
                                         strlen(sampling->grammar_prefix), err);
        return status == HEARTH_MISUSE
                 ? hth_fail(err, status, "sampling: the grammar does not begin with grammar_prefix")
                 : status;
    }
    if (!sampling->grammar_is_lazy)
        return HEARTH_OK;
    status = hth_triggers_new(sampling, &s->triggers, err);
    for (size_t i = 0; i < sampling->n_triggers && status == HEARTH_OK; i++)
        status = check_trigger(s, &sampling->triggers[i], i, err);
    return status;
}

/* Called at the first choice, because waiting requests, of which there may be thousands, need no arrays. */
static hearth_status make_arrays(hth_engine_sampler *s, hearth_error *err)
{
    size_t k = s->chain.n_first;
    size_t n = k > 0 && k < s->n_vocab / 4 ? 4 * k : s->n_vocab;

    if (n < PREFIX_MAX)
        n = PREFIX_MAX < s->n_vocab ? PREFIX_MAX : s->n_vocab;
    s->candidates_max = n;
    s->logits = malloc(s->n_vocab * sizeof(s->logits[0]));
    s->end_logits = calloc(s->n_ends ? s->n_ends : 1, sizeof(s->end_logits[0]));
    if (s->logits && s->end_logits)
        s->candidates = calloc(n, sizeof(s->candidates[0])); /* last: it marks all arrays as allocated */
    if (s->candidates)
        return HEARTH_OK;
    free(s->logits);
    free(s->end_logits);
    s->logits = NULL;
    s->end_logits = NULL;
    return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
}

hearth_status hth_sampler_new(const hearth_sampling *sampling, const hth_sampler_parts *parts, hth_engine_sampler **out,
                              hearth_error *err)
{
    hth_engine_sampler *s = calloc(1, sizeof(*s));
    hearth_status status;

    if (s)
        s->shown = calloc(parts->n_shown + 1, sizeof(s->shown[0]));
    if (!s || !s->shown) {
        hth_gbnf_unref(parts->gbnf_take);
        free(s);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
    }
    hth_chain_init(&s->chain, sampling);
    s->n_vocab = parts->n_vocab;
    s->ends = parts->ends;
    s->n_ends = parts->n_ends;
    s->vocabulary = parts->vocabulary;
    s->gbnf = parts->gbnf_take;
    for (; s->n_shown < parts->n_shown; s->n_shown++)
        s->shown[s->n_shown] = parts->shown[s->n_shown];
    status = s->gbnf ? make_grammar(s, sampling, err) : HEARTH_OK;
    if (status == HEARTH_OK)
        status = copy_bias(s, sampling, err);
    if (status == HEARTH_OK && parts->thinking) {
        s->thinking = hth_thinking_new(parts->thinking, s->vocabulary);
        if (!s->thinking)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
    }
    if (status == HEARTH_OK && (hth_sampling_penalizes(sampling) || hth_sampling_has_dry(sampling)))
        status = hth_penalties_new(sampling, s->n_vocab, s->vocabulary, &s->penalties, err);
    if (status != HEARTH_OK) {
        hth_sampler_free(s);
        return status;
    }
    *out = s;
    return HEARTH_OK;
}

hearth_status hth_sampler_new_like(const hth_engine_sampler *like, const hearth_sampling *sampling,
                                   hth_engine_sampler **out, hearth_error *err)
{
    const hth_sampler_parts parts = {
        .n_vocab = like->n_vocab,
        .ends = like->ends,
        .n_ends = like->n_ends,
        .vocabulary = like->vocabulary,
        .shown = like->shown,
        .n_shown = like->n_shown,
        .thinking = like->thinking ? hth_thinking_parts_of(like->thinking) : NULL,
        .gbnf_take = like->gbnf ? hth_gbnf_ref(like->gbnf) : NULL,
    };

    return hth_sampler_new(sampling, &parts, out, err);
}

void hth_sampler_free(hth_engine_sampler *s)
{
    if (!s)
        return;
    free(s->shown);
    free(s->bias);
    free(s->forced);
    hth_penalties_free(s->penalties);
    hth_thinking_free(s->thinking);
    hth_grammar_free(s->grammar);
    hth_gbnf_unref(s->gbnf);
    hth_triggers_free(s->triggers);
    free(s->logits);
    free(s->allowed);
    free(s->candidates);
    free(s->end_logits);
    free(s);
}

/* ---- accepting --------------------------------------------------------------------------------------------------- */

/* Accept a token of a reply while the grammar waits for a trigger. */
static hearth_status accept_waiting(hth_engine_sampler *s, hearth_token token, hearth_error *err)
{
    bool has_token = hth_triggers_has_token(s->triggers, token);
    bool fires = false;
    const uint8_t *bytes, *text;
    size_t n_bytes, n;
    hearth_status status = HEARTH_OK;

    text_of(s, token, &bytes, &n_bytes);
    if (!has_token)
        status = hth_triggers_read(s->triggers, bytes, n_bytes, &fires, &text, &n, err);
    if (status != HEARTH_OK || (!has_token && !fires))
        return status;
    status = has_token ? grammar_accept(s, token, err) : hth_grammar_accept_text(s->grammar, text, n, err);
    hth_triggers_free(s->triggers);
    s->triggers = NULL;
    return status;
}

hearth_status hth_sampler_accept(hth_engine_sampler *s, hearth_token token, bool is_reply, hearth_error *err)
{
    if (!s || token < 0 || (uint32_t)token >= s->n_vocab)
        return hth_fail(err, HEARTH_MISUSE, "token %d is not in the vocabulary", token);
    if (s->penalties)
        hth_penalties_accept(s->penalties, token);
    if (s->thinking && token == hth_thinking_forced(s->thinking))
        s->chain.n_seen = 0; /* nothing was chosen */
    if (is_reply && (!s->grammar || s->triggers || s->chain.is_adaptive))
        hth_chain_accept(&s->chain, token);
    if (is_reply && s->thinking)
        hth_thinking_accept(s->thinking, token);
    if (!is_reply || !s->grammar)
        return HEARTH_OK;
    return s->triggers ? accept_waiting(s, token, err) : grammar_accept(s, token, err);
}

/* ---- single logits ----------------------------------------------------------------------------------------------- */

static void add_bias(hth_engine_sampler *s)
{
    for (size_t i = 0; i < s->n_bias; i++) {
        float *logit = &s->logits[s->bias[i].token];
        bool was_finite = fabsf(*logit) <= FLT_MAX;

        *logit += s->bias[i].bias;
        if (was_finite && *logit > FLT_MAX)
            *logit = FLT_MAX;
    }
}

/* Does the grammar allow the token next? */
static bool is_allowed(hth_engine_sampler *s, hearth_token token)
{
    const uint8_t *bytes, *text;
    size_t n_bytes, n;
    bool fires;

    if (!s->grammar)
        return true;
    if (!s->triggers || hth_triggers_has_token(s->triggers, token))
        return grammar_allows(s, token);
    /* The grammar waits. If the text fires a trigger, the grammar must be able to begin with it. */
    text_of(s, token, &bytes, &n_bytes);
    if (n_bytes == 0)
        return true;
    hth_triggers_try(s->triggers, bytes, n_bytes, &fires, &text, &n);
    return !fires || hth_grammar_allows_text(s->grammar, text, n);
}

static bool may_begin(void *user_data, const uint8_t *bytes, size_t n_bytes)
{
    hth_engine_sampler *s = user_data;

    return hth_grammar_allows_text(s->grammar, bytes, n_bytes);
}

/*
 * Which tokens may come while the grammar waits? If a text fires a trigger, the grammar must be able to begin with it.
 */
static hearth_status mask_waiting(hth_engine_sampler *s, hearth_error *err)
{
    hearth_status status = hth_triggers_mask(s->triggers, s->vocabulary, s->allowed, may_begin, s, err);

    for (size_t i = 0; status == HEARTH_OK && i < s->n_shown; i++)
        s->allowed[s->shown[i].token] = is_allowed(s, s->shown[i].token);
    for (size_t i = 0; status == HEARTH_OK && i < hth_triggers_n(s->triggers); i++) {
        hearth_token token = hth_triggers_token(s->triggers, i);

        if (token >= 0)
            s->allowed[token] = is_allowed(s, token);
    }
    return status;
}

static hearth_status forbid_by_grammar(hth_engine_sampler *s, hearth_error *err)
{
    hearth_status status = s->triggers ? mask_waiting(s, err) : hth_grammar_mask(s->grammar, s->allowed, err);

    for (size_t i = 0; status == HEARTH_OK && !s->triggers && i < s->n_shown; i++)
        s->allowed[s->shown[i].token] = s->allowed[s->shown[i].token] || grammar_allows(s, s->shown[i].token);
    for (uint32_t i = 0; status == HEARTH_OK && i < s->n_vocab; i++)
        if (!s->allowed[i])
            s->logits[i] = -INFINITY;
    return status;
}

static void forbid_all(hth_engine_sampler *s)
{
    for (uint32_t i = 0; i < s->n_vocab; i++)
        s->logits[i] = -INFINITY;
}

/* Keep only tokens with bias +INFINITY, if the grammar allows one of them. True if only these are left. */
static bool force(hth_engine_sampler *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_forced; i++) {
        float logit = s->logits[s->forced[i].token];
        bool is_possible = fabsf(logit) <= FLT_MAX && is_allowed(s, s->forced[i].token);

        s->forced[i].probability = is_possible ? logit : -INFINITY;
        n += is_possible;
    }
    if (n == 0)
        return false;
    forbid_all(s);
    for (size_t i = 0; i < s->n_forced; i++)
        s->logits[s->forced[i].token] = s->forced[i].probability;
    return true;
}

/*
 * Forbid all but the next token of a forced end of reasoning, if the grammar allows it. True if only that token is
 * left.
 */
static bool close_thinking(hth_engine_sampler *s)
{
    hearth_token token = s->thinking ? hth_thinking_forced(s->thinking) : HTH_NO_TOKEN;

    if (token == HTH_NO_TOKEN || !is_allowed(s, token))
        return false;
    forbid_all(s);
    s->logits[token] = 0;
    return true;
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

/* The k likeliest candidates that the grammar allows. */
static hearth_status select_allowed(hth_engine_sampler *s, size_t k, size_t *n_out, hearth_error *err)
{
    size_t n_probes = k < PROBES_MIN / 4 ? PROBES_MIN : 4 * k;
    size_t n_probed, n = 0;
    hearth_status status;

    if (n_probes <= s->candidates_max) {
        n_probed = hth_filter_likeliest(s->logits, s->n_vocab, s->candidates, n_probes);
        for (size_t i = 0; i < n_probed && n < k; i++)
            if (is_allowed(s, s->candidates[i].token))
                s->candidates[n++] = s->candidates[i];
        if (n == k || n_probed < n_probes) {
            *n_out = n;
            return HEARTH_OK;
        }
    }
    status = forbid_by_grammar(s, err);
    if (status == HEARTH_OK)
        *n_out = hth_filter_likeliest(s->logits, s->n_vocab, s->candidates, k);
    return status;
}

static bool any_finite(const float *logits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fabsf(logits[i]) <= FLT_MAX)
            return true;
    return false;
}

/* The k likeliest tokens after all changes of single logits. *logits_out has all changed logits. */
static hearth_status select_candidates(hth_engine_sampler *s, const float *values, bool forbids_end, size_t k,
                                       const float **logits_out, size_t *n_out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;
    bool binds = s->grammar != NULL;

    assert(s->logits); /* made with the first choice */
    assert(s->candidates);
    *logits_out = values;
    if (!binds && !s->thinking && s->chain.leading == 0 && s->n_bias == 0 && s->n_forced == 0 && !forbids_end) {
        *n_out = hth_filter_likeliest(values, s->n_vocab, s->candidates, k);
        return HEARTH_OK;
    }
    *logits_out = s->logits;
    memcpy(s->logits, values, s->n_vocab * sizeof(s->logits[0]));
    add_bias(s);
    if (s->penalties)
        hth_penalties_apply(s->penalties, s->chain.leading, s->logits);
    for (size_t i = 0; forbids_end && i < s->n_ends; i++) {
        s->end_logits[i] = s->logits[s->ends[i]];
        s->logits[s->ends[i]] = -INFINITY;
    }
    if (binds)
        hth_grammar_begin_choice(s->grammar);
    if (s->triggers)
        hth_triggers_begin_choice(s->triggers);
    if (close_thinking(s) || (s->n_forced > 0 && force(s)))
        binds = false;
    if (binds && hth_chain_needs_logits(&s->chain)) {
        status = forbid_by_grammar(s, err); /* forbids all that are not allowed */
        binds = false;
    }
    if (binds)
        status = select_allowed(s, k, n_out, err);
    else if (status == HEARTH_OK)
        *n_out = hth_filter_likeliest(s->logits, s->n_vocab, s->candidates, k);
    if (status == HEARTH_OK && *n_out == 0 && s->grammar && forbids_end) {
        /* The grammar allows only the end. forbid_all is needed: logits that were only probed are not -INFINITY yet. */
        forbid_all(s);
        for (size_t i = 0; i < s->n_ends; i++)
            s->logits[s->ends[i]] = is_allowed(s, s->ends[i]) ? s->end_logits[i] : -INFINITY;
        *n_out = hth_filter_likeliest(s->logits, s->n_vocab, s->candidates, k);
    }
    return status;
}

hearth_status hth_sampler_apply(hth_engine_sampler *s, const float *values, const hth_sample_at *at,
                                const hth_candidate **out, size_t *n_out, hearth_error *err)
{
    hth_choices choices = { .n_vocab = s ? s->n_vocab : 0, .floor = -FLT_MAX };
    size_t first = 0;
    size_t k;
    hearth_status status;

    if (!s || !values || !at || !out || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "sampling needs logits");
    if (!s->candidates) {
        status = make_arrays(s, err);
        if (status != HEARTH_OK)
            return status;
    }
    k = s->chain.n_first > 0 ? s->chain.n_first : PREFIX_MAX;
    if (k > s->n_vocab)
        k = s->n_vocab;
    status = select_candidates(s, values, at->forbids_end, k, &choices.logits, &choices.n, err);
    if (status != HEARTH_OK)
        return status;
    if (s->triggers && hth_triggers_is_too_much(s->triggers))
        return hth_fail(err, HEARTH_ENGINE,
                        "the patterns of triggers can go on in too many ways here; make them shorter, or fewer");
    if (choices.n == 0 && !any_finite(values, s->n_vocab))
        return hth_fail(err, HEARTH_ENGINE, "the model gave no finite logit; its weights or its state are damaged");
    if (choices.n == 0)
        return hth_fail(err, HEARTH_ENGINE, "sampling left no token; %s",
                        s->grammar ? "the grammar has come to a dead end" : "logit_bias forbids all of them");
    assert(s->candidates);
    choices.own = s->logits;
    choices.list = s->candidates;
    choices.is_all = choices.n < k;
    hth_chain_run(&s->chain, &choices, s->penalties, at->position, &first, n_out);
    *out = s->candidates + first;
    return HEARTH_OK;
}

bool hth_sampler_state(const hth_engine_sampler *s, float *out)
{
    *out = s->chain.state;
    return s->chain.has_state;
}

void hth_sampler_set_state(hth_engine_sampler *s, float state)
{
    s->chain.state = state;
}
