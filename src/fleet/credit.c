/*
 * credit.c - a table of sets, each with WAYS anchors, of which the one that was used least recently makes room
 */
#include "fleet/credit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum {
    WAYS = 8,
    TOKEN_BYTES = 4, /* of text, until prompts tell */
    TOKENS_MAX = 1 << 24,
    EXACT = 1 << 30,     /* in n_tokens: the number was told, not estimated */
    UNUSED_AFTER = 4096, /* questions after which a holder makes room for a new one */
    HALF_LIFE = 1024,    /* questions after which one counts half */
};

typedef struct entry {
    uint64_t digest;  /* 0: none */
    uint64_t holders; /* a bit each */
    uint32_t n_tokens;
    uint32_t asked; /* the clock at the last question or note */
    float heat;     /* then */
} entry;

typedef struct credit_holder {
    uint64_t id;    /* 0: none */
    uint32_t asked; /* as above */
} credit_holder;

struct hth_credit {
    entry *entries; /* [n_sets * WAYS] */
    size_t n_sets;
    uint32_t clock; /* number of questions */
    float heat;     /* recent ones */
    credit_holder holders[HTH_CREDIT_HOLDERS_MAX];
    uint64_t n_holders; /* of all that there were */
    double token_bytes; /* recent mean */
    uint8_t *pending;   /* [HTH_CREDIT_EXPORT_MAX] records: a ring */
    size_t first, n_pending;
};

hearth_status hth_credit_new(size_t n_anchors, hth_credit **out, hearth_error *err)
{
    hth_credit *credit = calloc(1, sizeof(*credit));

    *out = NULL;
    if (credit) {
        for (credit->n_sets = 1; credit->n_sets * WAYS < n_anchors;)
            credit->n_sets *= 2;
        credit->token_bytes = TOKEN_BYTES;
        credit->entries = calloc(credit->n_sets * WAYS, sizeof(entry));
        credit->pending = calloc(HTH_CREDIT_EXPORT_MAX, HTH_CREDIT_RECORD_BYTES);
    }
    if (!credit || !credit->entries || !credit->pending) {
        hth_credit_free(credit);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for what nodes have cached");
    }
    *out = credit;
    return HEARTH_OK;
}

void hth_credit_free(hth_credit *credit)
{
    if (!credit)
        return;
    free(credit->entries);
    free(credit->pending);
    free(credit);
}

/* ---- holders ---- */

static int find_holder(const hth_credit *credit, uint64_t id)
{
    for (int i = 0; i < HTH_CREDIT_HOLDERS_MAX; i++)
        if (credit->holders[i].id == id)
            return i;
    return -1;
}

/* The place of a holder, which may be new: then it takes that of one that nobody asks for. -1: there is none. */
static int place_of(hth_credit *credit, uint64_t id)
{
    int place = find_holder(credit, id), oldest = 0;

    if (place < 0) {
        for (int i = 1; i < HTH_CREDIT_HOLDERS_MAX; i++)
            if (credit->clock - credit->holders[i].asked > credit->clock - credit->holders[oldest].asked)
                oldest = i;
        place = find_holder(credit, 0);
        if (place < 0 && credit->clock - credit->holders[oldest].asked <= UNUSED_AFTER)
            return -1;
        if (place < 0) {
            place = oldest;
            for (size_t i = 0; i < credit->n_sets * WAYS; i++)
                credit->entries[i].holders &= ~(UINT64_C(1) << place);
        }
        credit->holders[place] = (credit_holder){ .id = id };
        credit->n_holders++;
    }
    credit->holders[place].asked = credit->clock;
    return place;
}

void hth_credit_add_holder(hth_credit *credit, uint64_t holder)
{
    (void)place_of(credit, holder);
}

uint64_t hth_credit_n_holders(const hth_credit *credit)
{
    return credit->n_holders;
}

/* ---- anchors ---- */

static entry *set_of(const hth_credit *credit, uint64_t digest)
{
    return &credit->entries[(digest >> 8 & (credit->n_sets - 1)) * WAYS];
}

static entry *find(const hth_credit *credit, uint64_t digest)
{
    entry *set = set_of(credit, digest);

    for (size_t i = 0; i < WAYS; i++)
        if (set[i].digest == digest)
            return &set[i];
    return NULL;
}

/* The anchor's entry, which may be new: then it takes the place of the least recently used one of its set. */
static entry *made(hth_credit *credit, uint64_t digest)
{
    entry *found = find(credit, digest), *set = set_of(credit, digest);

    if (found)
        return found;
    found = set;
    for (size_t i = 1; i < WAYS && found->digest != 0; i++)
        if (set[i].digest == 0 || credit->clock - set[i].asked > credit->clock - found->asked)
            found = &set[i];
    *found = (entry){ .digest = digest, .asked = credit->clock };
    return found;
}

static uint32_t tokens_of(const entry *e)
{
    return e->n_tokens & ~(uint32_t)EXACT;
}

/* The tokens of n_bytes more than those of a known anchor, at the recent mean. */
static uint32_t estimate(const hth_credit *credit, uint32_t n_known, uint32_t n_bytes)
{
    const double n = n_known + n_bytes / credit->token_bytes;

    return n < 1 ? 1 : n > TOKENS_MAX ? TOKENS_MAX : (uint32_t)n;
}

/* The deepest anchor whose tokens are known, as an index behind it; 0: none. */
static size_t deepest(const hth_credit *credit, const hth_anchor *anchors, size_t n, uint32_t *n_tokens_out)
{
    for (*n_tokens_out = 0; n > 0; n--) {
        const entry *e = find(credit, anchors[n - 1].digest);

        if (!e)
            continue;
        *n_tokens_out = tokens_of(e);
        return n;
    }
    return 0;
}

/* The probable number of tokens of the prompt. */
static uint32_t n_prompt_of(const hth_credit *credit, const hth_anchor *anchors, size_t n)
{
    uint32_t n_known;
    const size_t i = deepest(credit, anchors, n, &n_known);

    return n > 0 ? estimate(credit, n_known, anchors[n - 1].n_bytes - (i > 0 ? anchors[i - 1].n_bytes : 0)) : 1;
}

/* How hot an anchor is now: the number of recent questions with it. */
static float heat_of(const entry *e, uint32_t now)
{
    return e->heat * exp2f(-(float)(now - e->asked) / HALF_LIFE);
}

/*
 * The deepest anchor with which so many of the recent questions came that more holders should have it: holders in
 * proportion to the part of questions. NULL: none.
 */
static const entry *popular(const hth_credit *credit, size_t n_holders, const hth_anchor *anchors, size_t n)
{
    for (; n > 0; n--) {
        const entry *e = find(credit, anchors[n - 1].digest);
        const float n_deserved = e ? heat_of(e, credit->clock) / credit->heat * (float)n_holders : 0;

        if (e && n_deserved >= 2 && (float)__builtin_popcountll(e->holders) < n_deserved)
            return e;
    }
    return NULL;
}

hth_credit_answer hth_credit_ask(hth_credit *credit, const uint64_t *holders, size_t n_holders,
                                 const hth_anchor *anchors, size_t n, uint32_t *n_cached_out)
{
    uint32_t n_at[HTH_CREDIT_HOLDERS_MAX] = { 0 };
    uint64_t missing = UINT64_MAX; /* holders without a credit so far */
    const entry *hot;

    credit->clock++;
    credit->heat = credit->heat * exp2f(-1.0F / HALF_LIFE) + 1;
    for (size_t k = n; k > 0; k--) {
        entry *e = find(credit, anchors[k - 1].digest);

        if (!e)
            continue;
        for (int i = 0; e->holders & missing && i < HTH_CREDIT_HOLDERS_MAX; i++)
            if ((e->holders & missing) >> i & 1)
                n_at[i] = tokens_of(e);
        missing &= ~e->holders;
        e->heat = heat_of(e, credit->clock) + 1;
        e->asked = credit->clock;
    }
    for (size_t i = 0; i < n_holders; i++) {
        const int place = place_of(credit, holders[i]);

        n_cached_out[i] = place >= 0 ? n_at[place] : 0;
    }
    hot = popular(credit, n_holders, anchors, n);
    return (hth_credit_answer){ .n_prompt = n_prompt_of(credit, anchors, n), .n_popular = hot ? tokens_of(hot) : 0 };
}

/* ---- notes ---- */

static void add_pending(hth_credit *credit, uint64_t holder, const entry *e)
{
    uint8_t *record;

    if (credit->n_pending == HTH_CREDIT_EXPORT_MAX) {
        credit->first = (credit->first + 1) % HTH_CREDIT_EXPORT_MAX;
        credit->n_pending--;
    }
    record = credit->pending + (credit->first + credit->n_pending++) % HTH_CREDIT_EXPORT_MAX * HTH_CREDIT_RECORD_BYTES;
    hth_put_u64(record, holder);
    hth_put_u64(record + 8, e->digest);
    hth_put_u32(record + 16, e->n_tokens);
}

/* True: this is new. */
static bool set_entry(hth_credit *credit, uint64_t digest, int place, uint32_t n_tokens)
{
    entry *e = made(credit, digest);
    const uint64_t bit = UINT64_C(1) << place;
    const bool is_better = e->n_tokens == 0 || (n_tokens & EXACT && n_tokens != e->n_tokens),
               is_new = is_better || !(e->holders & bit);

    if (is_better)
        e->n_tokens = n_tokens;
    e->holders |= bit;
    return is_new;
}

/* The tokens up to anchor i, before a known one: its share of those. */
static uint32_t tokens_before(const hth_credit *credit, const hth_anchor *anchors, size_t i, size_t n_behind)
{
    const entry *known = find(credit, anchors[n_behind - 1].digest);
    const double part = (double)anchors[i].n_bytes / anchors[n_behind - 1].n_bytes;

    return known ? (uint32_t)(part * tokens_of(known)) + 1 : 1;
}

void hth_credit_note(hth_credit *credit, uint64_t holder, const hth_anchor *anchors, size_t n, uint32_t n_tokens)
{
    const int place = place_of(credit, holder);
    uint32_t n_prompt, n_known, begin;
    size_t n_behind;

    if (n == 0 || place < 0)
        return;
    n_prompt = n_tokens > 0 && n_tokens < TOKENS_MAX ? n_tokens : n_prompt_of(credit, anchors, n);
    if (n_tokens > 0 && n_tokens < TOKENS_MAX)
        credit->token_bytes += (anchors[n - 1].n_bytes / (double)n_tokens - credit->token_bytes) / 16;
    n_behind = deepest(credit, anchors, n - 1, &n_known); /* between it and the end, tokens are spread evenly */
    if (n_known > n_prompt)
        n_known = n_behind = 0;
    begin = n_behind > 0 ? anchors[n_behind - 1].n_bytes : 0;
    for (size_t i = 0; i < n; i++) {
        const double part = (double)(anchors[i].n_bytes - begin) / (anchors[n - 1].n_bytes - begin);
        const uint32_t n_here = i + 1 == n && n_tokens > 0 ? n_prompt | EXACT
                              : i < n_behind               ? tokens_before(credit, anchors, i, n_behind)
                                                           : n_known + (uint32_t)(part * (n_prompt - n_known)) + 1;

        if (set_entry(credit, anchors[i].digest, place, n_here))
            add_pending(credit, holder, find(credit, anchors[i].digest));
    }
}

/* ---- exchange ---- */

void hth_credit_export(hth_credit *credit, hth_buffer *out)
{
    for (; credit->n_pending > 0; credit->n_pending--) {
        hth_buffer_add(out, (const char *)credit->pending + credit->first * HTH_CREDIT_RECORD_BYTES,
                       HTH_CREDIT_RECORD_BYTES);
        credit->first = (credit->first + 1) % HTH_CREDIT_EXPORT_MAX;
    }
}

void hth_credit_import(hth_credit *credit, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;

    for (; n >= HTH_CREDIT_RECORD_BYTES; n -= HTH_CREDIT_RECORD_BYTES, at += HTH_CREDIT_RECORD_BYTES) {
        const uint64_t holder = hth_get_u64(at), digest = hth_get_u64(at + 8);
        const uint32_t n_tokens = hth_get_u32(at + 16);
        const int place = holder != 0 ? find_holder(credit, holder) : -1;

        if (place >= 0 && digest != 0 && (n_tokens & ~(uint32_t)EXACT) <= TOKENS_MAX &&
            (n_tokens & ~(uint32_t)EXACT) > 0)
            (void)set_entry(credit, digest, place, n_tokens);
    }
}
