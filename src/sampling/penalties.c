/*
 * penalties.c - rings of the last tokens, and the changes that follow from them
 *
 * For each earlier position, DRY needs the number of tokens before it that equal the last tokens of the text. With the
 * tokens reversed, this is the Z function of one sequence, which takes linear time (Gusfield, "Algorithms on Strings,
 * Trees, and Sequences", 1997, 1.4).
 */
#include "sampling/penalties.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_tail.h"
#include "sampling/sampling.h"

/* The bit of a count that marks the token as processed in this call. */
#define DONE (UINT32_C(1) << 31)

typedef struct ring {
    hearth_token *tokens;
    uint32_t n, capacity, next;
} ring;

struct hth_penalties {
    float repeat, frequency, presence;
    ring recent;
    uint32_t *counts; /* by token, in recent; NULL: no penalties */

    double multiplier, base;
    uint32_t allowed_length;
    ring past;
    bool *is_breaker;       /* by token; NULL: no DRY */
    uint32_t n_in_phrase;   /* number of tokens after the last one in which a breaker ended */
    hearth_token *reversed; /* the last tokens, newest first; scratch, like the next two */
    uint32_t *z;
    uint32_t *lengths; /* by token: the longest repetition that it would lengthen; 0 outside a call */

    const hth_vocabulary *vocabulary;
    char (*breakers)[HTH_DRY_BREAKER_BYTES_MAX + 1]; /* [n_breakers] */
    size_t n_breakers;
    size_t n_breaker_max;                 /* bytes of the longest */
    char tail[HTH_DRY_BREAKER_BYTES_MAX]; /* the end of the text */
    size_t n_tail;
};

static bool ring_init(ring *r, uint32_t capacity)
{
    r->capacity = capacity;
    r->tokens = calloc(capacity, sizeof(r->tokens[0]));
    return r->tokens != NULL;
}

/* Add a token. Returns the token that is pushed out, or -1. */
static hearth_token ring_put(ring *r, hearth_token token)
{
    hearth_token old = r->n == r->capacity ? r->tokens[r->next] : -1;

    r->tokens[r->next] = token;
    r->next = r->next + 1 == r->capacity ? 0 : r->next + 1;
    if (r->n < r->capacity)
        r->n++;
    return old;
}

/* ---- phrase breakers --------------------------------------------------------------------------------------------- */

static bool init_breakers(hth_penalties *p, const hearth_sampling *sampling, uint32_t n_vocab)
{
    const char *const *breakers = hth_sampling_dry_breakers(sampling, &p->n_breakers);

    p->breakers = calloc(p->n_breakers + 1, sizeof(*p->breakers));
    p->is_breaker = calloc(n_vocab, sizeof(p->is_breaker[0]));
    if (!p->breakers || !p->is_breaker)
        return false;
    for (size_t i = 0; i < p->n_breakers; i++) {
        size_t n = strlen(breakers[i]);

        memcpy(p->breakers[i], breakers[i], n);
        if (n > p->n_breaker_max)
            p->n_breaker_max = n;
        for (uint32_t j = 0; j < n_vocab; j++)
            p->is_breaker[j] = p->is_breaker[j] ||
                               memmem(p->vocabulary->pieces[j].bytes, p->vocabulary->pieces[j].n_bytes, breakers[i], n);
    }
    return true;
}

/* Does a breaker end in this token, possibly having begun in earlier ones? Advances the tail of the text. */
static bool ends_breaker(hth_penalties *p, hearth_token token)
{
    const hth_piece *piece = &p->vocabulary->pieces[token];
    uint8_t text[3 * HTH_DRY_BREAKER_BYTES_MAX];
    size_t n_new = piece->n_bytes < p->n_breaker_max ? piece->n_bytes : p->n_breaker_max;
    size_t n = p->n_tail;
    bool ends = p->is_breaker[token];

    if (p->n_breaker_max == 0)
        return false;
    memcpy(text, p->tail, n);
    memcpy(text + n, piece->bytes, n_new);
    for (size_t i = 0; i < p->n_breakers && !ends; i++) {
        size_t n_breaker = strlen(p->breakers[i]);
        size_t from = n >= n_breaker - 1 ? n - (n_breaker - 1) : 0;

        ends = memmem(text + from, n + n_new - from, p->breakers[i], n_breaker) != NULL;
    }
    /* One byte less than the longest breaker. */
    hth_text_keep_last(p->tail, &p->n_tail, p->n_breaker_max - 1, (const char *)piece->bytes, piece->n_bytes);
    return ends;
}

/* ---- making and releasing ---------------------------------------------------------------------------------------- */

static bool init_dry(hth_penalties *p, const hearth_sampling *sampling, uint32_t n_vocab)
{
    p->multiplier = sampling->dry_multiplier;
    p->base = sampling->dry_base;
    p->allowed_length = sampling->dry_allowed_length;
    p->reversed = calloc(sampling->dry_last_n, sizeof(p->reversed[0]));
    p->z = calloc(sampling->dry_last_n, sizeof(p->z[0]));
    p->lengths = calloc(n_vocab, sizeof(p->lengths[0]));
    return p->reversed && p->z && p->lengths && ring_init(&p->past, sampling->dry_last_n) &&
           init_breakers(p, sampling, n_vocab);
}

hearth_status hth_penalties_new(const hearth_sampling *sampling, uint32_t n_vocab, const hth_vocabulary *vocabulary,
                                hth_penalties **out, hearth_error *err)
{
    hth_penalties *p = calloc(1, sizeof(*p));
    bool ok = p != NULL;

    if (ok && hth_sampling_penalizes(sampling)) {
        p->repeat = sampling->repeat_penalty;
        p->frequency = sampling->frequency_penalty;
        p->presence = sampling->presence_penalty;
        p->counts = calloc(n_vocab, sizeof(p->counts[0]));
        ok = p->counts && ring_init(&p->recent, sampling->repeat_last_n);
    }
    if (ok)
        p->vocabulary = vocabulary;
    if (ok && vocabulary && hth_sampling_has_dry(sampling))
        ok = init_dry(p, sampling, n_vocab);
    if (!ok) {
        hth_penalties_free(p);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a sampler");
    }
    *out = p;
    return HEARTH_OK;
}

void hth_penalties_free(hth_penalties *p)
{
    if (!p)
        return;
    free(p->recent.tokens);
    free(p->counts);
    free(p->past.tokens);
    free(p->is_breaker);
    free(p->reversed);
    free(p->z);
    free(p->lengths);
    free(p->breakers);
    free(p);
}

void hth_penalties_accept(hth_penalties *p, hearth_token token)
{
    if (p->counts) {
        hearth_token old = ring_put(&p->recent, token);

        p->counts[token]++;
        if (old >= 0)
            p->counts[old]--;
    }
    if (p->is_breaker) {
        ring_put(&p->past, token);
        if (ends_breaker(p, token))
            p->n_in_phrase = 0;
        else if (p->n_in_phrase < p->past.capacity)
            p->n_in_phrase++;
    }
}

/* ---- applying ---------------------------------------------------------------------------------------------------- */

static void penalize(hth_penalties *p, float *logits)
{
    for (uint32_t i = 0; i < p->recent.n; i++) {
        hearth_token token = p->recent.tokens[i];
        uint32_t count = p->counts[token];

        if (count & DONE)
            continue;
        p->counts[token] |= DONE;
        logits[token] = logits[token] <= 0 ? logits[token] * p->repeat : logits[token] / p->repeat;
        logits[token] -= (float)count * p->frequency + p->presence;
    }
    for (uint32_t i = 0; i < p->recent.n; i++)
        p->counts[p->recent.tokens[i]] &= ~DONE;
}

/* z[k]: the number of tokens from k on that equal the tokens from 0 on. */
static void z_function(const hearth_token *s, uint32_t n, uint32_t *z)
{
    uint32_t left = 0, right = 0;

    z[0] = n;
    for (uint32_t k = 1; k < n; k++) {
        uint32_t same = k < right ? (z[k - left] < right - k ? z[k - left] : right - k) : 0;

        while (k + same < n && s[same] == s[k + same])
            same++;
        z[k] = same;
        if (k + same > right) {
            left = k;
            right = k + same;
        }
    }
}

static void punish_repetitions(hth_penalties *p, float *logits)
{
    uint32_t n = p->past.n;
    uint32_t longest = p->n_in_phrase < n ? p->n_in_phrase : n;

    if (n <= p->allowed_length || longest < p->allowed_length)
        return;
    for (uint32_t i = 0, at = p->past.next; i < n; i++) {
        at = at == 0 ? p->past.capacity - 1 : at - 1;
        p->reversed[i] = p->past.tokens[at];
    }
    z_function(p->reversed, n, p->z);
    for (uint32_t k = 1; k < n; k++) {
        uint32_t length = p->z[k] < longest ? p->z[k] : longest;
        hearth_token next = p->reversed[k - 1]; /* the token after the repetition */

        if (length >= p->allowed_length && length + 1 > p->lengths[next])
            p->lengths[next] = length + 1;
    }
    for (uint32_t k = 0; k + 1 < n; k++) {
        hearth_token token = p->reversed[k];
        uint32_t length = p->lengths[token];
        double penalty;

        if (length == 0)
            continue;
        p->lengths[token] = 0;
        if (p->is_breaker[token])
            continue;
        penalty = p->multiplier * pow(p->base, length - 1 - p->allowed_length);
        if (!(penalty < FLT_MAX / 4))
            penalty = FLT_MAX / 4;
        logits[token] -= (float)penalty;
    }
}

void hth_penalties_apply(hth_penalties *p, unsigned parts, float *logits)
{
    if (p->counts && (parts & HTH_PENALTY_RECENT))
        penalize(p, logits);
    if (p->is_breaker && (parts & HTH_PENALTY_DRY))
        punish_repetitions(p, logits);
}
