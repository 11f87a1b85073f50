/*
 * credit.c - a table of sets, each with WAYS anchors, of which the one that was used least recently makes room
 */
#include "fleet/credit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/exposition.h"

enum {
    WAYS = 8,
    TOKENS_MAX = 1 << 24,
    EXACT = 1 << 30,        /* in n_tokens: the number was told, not estimated */
    UNUSED_AFTER = 256,     /* uses of the table after which a holder makes room for a new one */
    HALF_LIFE = 1024,       /* questions after which one counts half */
    LEARN_DIVISOR = 8,      /* of a mean: an eighth of the way to the last value */
    LEARN_TOKENS_MIN = 512, /* a smaller prediction tells little: rows are blocks */
};

/* Tokens of a byte of text: what is possible, and what counts until prompts tell. */
static const float rate_first = 0.25F, rate_min = 0.05F, rate_max = 1.0F;
static const float trust_min = 0.05F;

typedef struct entry {
    uint64_t digest;  /* 0: none */
    uint64_t holders; /* a bit each */
    uint32_t n_tokens;
    uint32_t used;  /* at the last question, note or record; of the table's uses */
    uint32_t asked; /* the number of the last question with it */
    float heat;     /* then */
} entry;

typedef struct credit_holder {
    uint64_t id;   /* 0: none */
    uint32_t used; /* as above */
    float trust;   /* the recent part of its credit that it really had */
} credit_holder;

struct hth_credit {
    entry *entries; /* [n_sets * WAYS] */
    size_t n_sets;
    uint32_t uses; /* of the table */
    uint32_t n_asked;
    float heat; /* recent questions */
    float rate; /* recent tokens of a byte */
    credit_holder holders[HTH_CREDIT_HOLDERS_MAX];
    uint64_t n_holders;             /* of all that there were */
    uint64_t n_predicted, n_cached; /* tokens, of all that was learned */
    uint8_t *pending;               /* [HTH_CREDIT_EXPORT_MAX] records: a ring */
    size_t first, n_pending;
};

hearth_status hth_credit_new(size_t n_anchors, hth_credit **out, hearth_error *err)
{
    hth_credit *credit = calloc(1, sizeof(*credit));

    *out = NULL;
    if (credit) {
        for (credit->n_sets = 1; credit->n_sets * WAYS < n_anchors;)
            credit->n_sets *= 2;
        credit->rate = rate_first;
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

/* -1: it is not known. */
static int find_holder(const hth_credit *credit, uint64_t id)
{
    for (int i = 0; id != 0 && i < HTH_CREDIT_HOLDERS_MAX; i++)
        if (credit->holders[i].id == id)
            return i;
    return -1;
}

/* A place for a new holder: a free one, or that of one that nobody asks for, which loses it. -1: there is none. */
static int make_place(hth_credit *credit)
{
    int oldest = 0;

    for (int i = 0; i < HTH_CREDIT_HOLDERS_MAX; i++) {
        if (credit->holders[i].id == 0)
            return i;
        if (credit->uses - credit->holders[i].used > credit->uses - credit->holders[oldest].used)
            oldest = i;
    }
    if (credit->uses - credit->holders[oldest].used <= UNUSED_AFTER)
        return -1;
    for (size_t i = 0; i < credit->n_sets * WAYS; i++)
        credit->entries[i].holders &= ~(UINT64_C(1) << oldest);
    return oldest;
}

/* The place of a holder, which may be new. -1: there is none, or the holder is not known yet (0). */
static int place_of(hth_credit *credit, uint64_t id)
{
    int place = find_holder(credit, id);

    if (place < 0 && id != 0) {
        place = make_place(credit);
        if (place < 0)
            return -1;
        credit->holders[place] = (credit_holder){ .id = id, .trust = 1 };
        credit->n_holders++;
    }
    if (place >= 0)
        credit->holders[place].used = credit->uses;
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
        if (set[i].digest == 0 || credit->uses - set[i].used > credit->uses - found->used)
            found = &set[i];
    *found = (entry){ .digest = digest, .asked = credit->n_asked };
    return found;
}

static uint32_t without_mark(uint32_t n_tokens)
{
    return n_tokens & ~(uint32_t)EXACT;
}

static uint32_t tokens_of(const entry *e)
{
    return without_mark(e->n_tokens);
}

/* The tokens of n_bytes more than those of a known anchor, at the recent mean. */
static uint32_t estimate(const hth_credit *credit, uint32_t n_known, uint32_t n_bytes)
{
    const double n = n_known + (double)n_bytes * credit->rate;

    return n < 1 ? 1 : n > TOKENS_MAX ? TOKENS_MAX : (uint32_t)n;
}

/* The deepest anchor whose tokens are known, exactly or not, as an index behind it; 0: none. */
static size_t deepest(const hth_credit *credit, const hth_anchor *anchors, size_t n, bool exactly,
                      uint32_t *n_tokens_out)
{
    for (*n_tokens_out = 0; n > 0; n--) {
        const entry *e = find(credit, anchors[n - 1].digest);

        if (!e || (exactly && !(e->n_tokens & EXACT)))
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
    const size_t i = deepest(credit, anchors, n, false, &n_known);

    return n > 0 ? estimate(credit, n_known, anchors[n - 1].n_bytes - (i > 0 ? anchors[i - 1].n_bytes : 0)) : 1;
}

/* How hot an anchor is now: the number of recent questions with it. */
static float heat_of(const hth_credit *credit, const entry *e)
{
    return e->heat * exp2f(-(float)(credit->n_asked - e->asked) / HALF_LIFE);
}

/*
 * Did so many of the recent questions come with this anchor that more of these holders, [n_holders], a bit each, should
 * have it? Holders should be in proportion to the part of questions.
 */
static bool is_popular(const hth_credit *credit, const entry *e, uint64_t holders, size_t n_holders)
{
    const float n_deserved = heat_of(credit, e) / credit->heat * (float)n_holders;

    return n_deserved >= 1.25F && (float)__builtin_popcountll(e->holders & holders) < n_deserved;
}

hth_credit_answer hth_credit_ask(hth_credit *credit, const uint64_t *holders, size_t n_holders,
                                 const hth_anchor *anchors, size_t n, uint32_t *n_cached_out)
{
    uint32_t n_at[HTH_CREDIT_HOLDERS_MAX] = { 0 };
    uint64_t asked = 0, missing; /* a bit for each of the holders, and for each without a credit so far */
    const entry *popular = NULL; /* the deepest one */

    credit->uses++;
    credit->n_asked++;
    credit->heat = credit->heat * exp2f(-1.0F / HALF_LIFE) + 1;
    for (size_t i = 0; i < n_holders; i++) {
        const int place = place_of(credit, holders[i]);

        asked |= place >= 0 ? UINT64_C(1) << place : 0;
    }
    missing = asked;
    for (size_t k = n; k > 0; k--) {
        entry *e = find(credit, anchors[k - 1].digest);

        if (!e)
            continue;
        for (int i = 0; e->holders & missing && i < HTH_CREDIT_HOLDERS_MAX; i++)
            if ((e->holders & missing) >> i & 1)
                n_at[i] = (uint32_t)((float)tokens_of(e) * credit->holders[i].trust);
        missing &= ~e->holders;
        e->heat = heat_of(credit, e) + 1;
        e->asked = credit->n_asked;
        e->used = credit->uses;
        if (!popular && is_popular(credit, e, asked, n_holders))
            popular = e;
    }
    for (size_t i = 0; i < n_holders; i++) {
        const int place = find_holder(credit, holders[i]);

        n_cached_out[i] = place >= 0 ? n_at[place] : 0;
    }
    return (hth_credit_answer){ .n_prompt = n_prompt_of(credit, anchors, n),
                                .n_popular = popular ? tokens_of(popular) : 0 };
}

void hth_credit_learn(hth_credit *credit, uint64_t holder, uint32_t n_predicted, uint32_t n_cached)
{
    const int place = find_holder(credit, holder);
    const float part = n_cached < n_predicted ? (float)n_cached / (float)n_predicted : 1;
    float *trust = place >= 0 ? &credit->holders[place].trust : NULL;

    credit->n_predicted += n_predicted;
    credit->n_cached += n_cached;
    if (!trust || n_predicted < LEARN_TOKENS_MIN)
        return;
    /* The prediction counted what is not trusted already. A full hit tells that more can be trusted. */
    *trust += (part < 1 ? part * *trust - *trust : 1 - *trust) / LEARN_DIVISOR;
    *trust = fmaxf(*trust, trust_min);
}

void hth_credit_write_metrics(const hth_credit *credit, hth_buffer *out)
{
    static const char predicted[] = "hearth_fleet_predicted_tokens_total",
                      cached[] = "hearth_fleet_cached_tokens_total";

    hth_exposition_family(out, predicted, "counter",
                          "Tokens of prompts that the chosen nodes probably had in their caches.");
    hth_exposition_count(out, predicted, (hth_labels){ NULL, 0 }, credit->n_predicted);
    hth_exposition_family(out, cached, "counter", "Tokens of the same prompts that they had.");
    hth_exposition_count(out, cached, (hth_labels){ NULL, 0 }, credit->n_cached);
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

/*
 * The holder has this anchor. is_told: the number is better than an earlier estimate. Returns the entry if others
 * should know what is new; otherwise NULL.
 */
static const entry *set_entry(hth_credit *credit, uint64_t digest, int place, uint32_t n_tokens, bool is_told)
{
    entry *e = made(credit, digest);
    const uint64_t bit = UINT64_C(1) << place;
    const uint32_t n_before = tokens_of(e), n = without_mark(n_tokens),
                   n_off = n > n_before ? n - n_before : n_before - n;
    const bool is_better = n_before == 0 || (n_tokens & EXACT) || (is_told && !(e->n_tokens & EXACT)),
               is_new = !(e->holders & bit) || (is_better && n_off > n / 8);

    if (is_better)
        e->n_tokens = n_tokens;
    e->holders |= bit;
    e->used = credit->uses;
    return is_new ? e : NULL;
}

/* The tokens of n_bytes, of which a known anchor has more: their share of its tokens. */
static uint32_t tokens_before(uint32_t n_bytes, uint32_t n_known_bytes, uint32_t n_known)
{
    const double n = (double)n_bytes / n_known_bytes * n_known;

    return n > 1 ? (uint32_t)n : 1;
}

void hth_credit_note(hth_credit *credit, uint64_t holder, const hth_anchor *anchors, size_t n, uint32_t n_tokens)
{
    const int place = place_of(credit, holder);
    const bool is_told = n_tokens > 0 && n_tokens < TOKENS_MAX;
    uint32_t n_prompt, n_known, begin;
    size_t n_behind;
    float rate;

    if (n == 0 || place < 0)
        return;
    credit->uses++;
    n_prompt = is_told ? n_tokens : n_prompt_of(credit, anchors, n);
    if (is_told) {
        rate = fmaxf(rate_min, fminf((float)n_tokens / (float)anchors[n - 1].n_bytes, rate_max));
        credit->rate += (rate - credit->rate) / LEARN_DIVISOR;
    }
    n_behind =
        deepest(credit, anchors, n - 1, is_told, &n_known); /* between it and the end, tokens are spread evenly */
    if (n_known > n_prompt)
        n_known = n_behind = 0;
    begin = n_behind > 0 ? anchors[n_behind - 1].n_bytes : 0;
    for (size_t i = 0; i < n; i++) {
        const double part = (double)(anchors[i].n_bytes - begin) / (anchors[n - 1].n_bytes - begin);
        const uint32_t n_here = i + 1 == n && is_told ? n_prompt | EXACT
                              : i < n_behind          ? tokens_before(anchors[i].n_bytes, begin, n_known)
                                                      : n_known + (uint32_t)(part * (n_prompt - n_known)) + 1;
        const entry *news = set_entry(credit, anchors[i].digest, place, n_here, is_told);

        if (news)
            add_pending(credit, holder, news);
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

    credit->uses++;
    for (; n >= HTH_CREDIT_RECORD_BYTES; n -= HTH_CREDIT_RECORD_BYTES, at += HTH_CREDIT_RECORD_BYTES) {
        const uint64_t holder = hth_get_u64(at), digest = hth_get_u64(at + 8);
        const uint32_t n_tokens = hth_get_u32(at + 16);
        const int place = find_holder(credit, holder);

        if (place >= 0 && digest != 0 && without_mark(n_tokens) <= TOKENS_MAX && without_mark(n_tokens) > 0)
            (void)set_entry(credit, digest, place, n_tokens, false);
    }
}
