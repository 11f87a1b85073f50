/*
 * why.c - queries to the records of past.h, each about one name
 *
 * Leaves are evicted first, so the blocks of a prompt that are known to have been there come before the others: a
 * binary search finds the last of them. A hit for one key is proof, whatever was forgotten around it.
 */
#include "cache/why.h"

#include <string.h>

#include "cache/cache_inside.h"

enum {
    SUCCESSORS_MAX = 64, /* longest chain of rows that superseded one another */
    CHILDREN_MAX = 8,    /* rows that are compared token by token if the lookup did not do so */
    STATES_MAX = 64,     /* boundaries that are checked for a lost state */
};

typedef struct question {
    hth_cache *cache;
    const hth_keyspace *keyspace;
    const hth_lookup *lookup;
    const hth_policy *policy;
    const hearth_token *prompt;
    uint32_t n_prompt;
    uint32_t n_known;
    size_t n_blocks; /* of the prompt */
    bool is_gone;    /* a row after the known tokens was lost: `gone` */
    hth_gone gone;
    uint32_t left_at; /* the farthest so far */
} question;

/* ---- rows that are gone ---- */

/* Index i of all roots of all file tiers; NULL: there are no more. */
static hth_index *index_at(const hth_cache *cache, size_t i)
{
    hth_file_tier *root = hth_cache_root(cache, i, NULL);

    return root ? hth_file_tier_index(root) : NULL;
}

/* The last event of a missing row, as this process and the indexes know it. */
static bool last_event(hth_cache *cache, const hth_past_name *name, hth_gone *out)
{
    bool found = hth_past_gone(&cache->past, name, out);
    hth_index *index;
    hth_gone gone;

    for (size_t i = 0; (index = index_at(cache, i)); i++)
        if (hth_index_gone(index, name, &gone) && (!found || hth_gone_is_later(&gone, out))) {
            *out = gone;
            found = true;
        }
    return found;
}

/* Was the row lost? It was not if the last row that replaced it is still there, as far as is known. */
static bool was_lost(hth_cache *cache, const hth_row_id *id, hth_gone *out)
{
    hth_past_name name;
    bool found;

    hth_past_name_of(id, &name);
    found = last_event(cache, &name, out);
    for (int i = 0; i < SUCCESSORS_MAX && found && out->reason == HTH_GONE_SUPERSEDED; i++) {
        name = out->successor;
        found = last_event(cache, &name, out);
    }
    return found && out->reason != HTH_GONE_SUPERSEDED;
}

/* If the row that ends there was lost, note it. The answer is about the first such row found. */
static bool note_if_lost(question *q, const hth_key *key, hth_row_kind kind, uint32_t end)
{
    hth_row_id id = { .key = *key, .kind = kind };
    hth_gone gone;

    if (!was_lost(q->cache, &id, &gone))
        return false;
    if (end > q->n_known && !q->is_gone) {
        q->is_gone = true;
        q->gone = gone;
    }
    if (q->left_at < end)
        q->left_at = end;
    return true;
}

/* ---- blocks ---- */

static bool has_blocks(const question *q)
{
    return q->lookup->way != HTH_LOOKUP_STATES;
}

/* Is, or was, the prompt's block that ends at boundary i kept? */
static bool is_known_block(question *q, size_t i)
{
    const hth_key *key = &q->lookup->boundary_keys[i];
    hth_row_id id = { .key = *key, .kind = HTH_ROW_BLOCK };
    uint32_t end = (uint32_t)i * HTH_BLOCK_TOKENS;

    /* A lookup of cells found all blocks that exist. */
    if (q->lookup->way == HTH_LOOKUP_CELLS_AND_STATES && hth_cache_find(q->cache, &id, NULL) != HEARTH_TIER_NONE) {
        if (q->left_at < end)
            q->left_at = end;
        return true;
    }
    return note_if_lost(q, key, HTH_ROW_BLOCK, end);
}

/* The last boundary up to which the blocks of the prompt are or were known. */
static size_t last_known_block(question *q)
{
    size_t known = q->n_known / HTH_BLOCK_TOKENS, unknown = q->n_blocks + 1;

    /* The next boundary first: its answer is nearly always no, which ends the search. */
    if (!has_blocks(q) || known + 1 >= unknown || !is_known_block(q, known + 1))
        return known;
    known++;
    while (known + 1 < unknown) {
        size_t middle = known + (unknown - known) / 2;

        if (is_known_block(q, middle))
            known = middle;
        else
            unknown = middle;
    }
    return known;
}

/* ---- inside a block ---- */

/* If the lookup did not compare the rows after a boundary: how far does the prompt agree with them? */
static void compare_children(question *q, size_t i)
{
    uint32_t begin = (uint32_t)i * HTH_BLOCK_TOKENS;
    hth_leaf_search search = {
        .boundary = q->lookup->boundary_keys[i],
        .position = begin,
        .tokens = q->prompt + begin,
        .n_tokens = q->n_prompt - begin,
        .n_rows_max = CHILDREN_MAX,
    };

    if (q->lookup->way != HTH_LOOKUP_CELLS_AND_STATES || begin == q->n_prompt)
        return;
    hth_cache_find_leaf(q->cache, &search);
    if (q->left_at < begin + search.n_agreed)
        q->left_at = begin + search.n_agreed;
}

typedef struct lost_ends {
    bool is_lost[HTH_BLOCK_TOKENS]; /* index: tokens beyond the boundary */
    bool any;
} lost_ends;

static void add_ends(lost_ends *l, const hth_past_ends *ends)
{
    for (size_t i = 0; i < HTH_PAST_ENDS && ends->ends[i] != 0; i++)
        l->is_lost[ends->ends[i]] = l->any = true;
}

/* Earlier prompts had rows that ended inside the block after boundary i: were they rows of this prompt? */
static void ask_lost_ends(question *q, size_t i)
{
    const hth_key *boundary = &q->lookup->boundary_keys[i];
    lost_ends l = { .any = false };
    uint32_t begin = (uint32_t)i * HTH_BLOCK_TOKENS, at = 0;
    hth_key_stream *stream;
    hth_past_ends ends;
    hth_index *index;

    if (hth_past_ends_get(&q->cache->past, boundary, &ends))
        add_ends(&l, &ends);
    for (size_t k = 0; (index = index_at(q->cache, k)); k++)
        if (hth_index_past_ends(index, boundary, &ends))
            add_ends(&l, &ends);
    stream = l.any ? hth_key_stream_new(q->keyspace) : NULL;
    if (!stream)
        return;
    /* From the first token, because no stream at the boundary is kept. */
    for (uint32_t end = 1; end < HTH_BLOCK_TOKENS && begin + end < q->n_prompt; end++) {
        hth_key key;

        if (!l.is_lost[end] || begin + end <= q->n_known)
            continue;
        hth_key_stream_push(stream, q->prompt + at, begin + end - at);
        hth_key_stream_key(stream, &key);
        at = begin + end;
        (void)note_if_lost(q, &key, HTH_ROW_TAIL, at); /* makes its own note */
        (void)note_if_lost(q, &key, HTH_ROW_STATE, at);
    }
    hth_key_stream_free(stream);
}

/* ---- states ---- */

/* Find the last boundary where a state of this prompt was lost. */
static void ask_lost_states(question *q)
{
    size_t step = (size_t)q->policy->snapshot_interval / HTH_BLOCK_TOKENS;
    size_t i = step > 0 ? q->n_blocks / step * step : 0;

    if (q->lookup->way == HTH_LOOKUP_CELLS)
        return;
    for (int n = 0; n < STATES_MAX && i > 0 && i * HTH_BLOCK_TOKENS > q->n_known; n++, i -= step)
        if (note_if_lost(q, &q->lookup->boundary_keys[i], HTH_ROW_STATE, (uint32_t)i * HTH_BLOCK_TOKENS))
            return;
}

/* ---- the prompt's end ---- */

/* Was the whole prompt once known? */
static void ask_end(question *q)
{
    static const hth_row_kind kinds[] = { HTH_ROW_TAIL, HTH_ROW_STATE, HTH_ROW_LOGITS };
    const hth_key *key = &q->lookup->prompt_key;
    hth_row_id logits = { .key = *key, .kind = HTH_ROW_LOGITS };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        (void)note_if_lost(q, key, kinds[i], q->n_prompt); /* makes its own note */
    if (!q->is_gone && hth_cache_find(q->cache, &logits, NULL) != HEARTH_TIER_NONE) {
        q->is_gone = true; /* their cells were saved before them */
        q->gone = (hth_gone){ .reason = HTH_GONE_EVICTED };
        q->left_at = q->n_prompt;
    }
}

/* ---- other keyspaces ---- */

typedef struct other {
    question *q;
    hth_beginning_name name;
    hth_beginning_space own;
    hearth_miss miss; /* the nearest reason so far */
} other;

/* Does that keyspace still have the row of the beginning, or one that replaced it? */
static bool is_kept(hth_cache *cache, const hth_beginning_space *space)
{
    hth_row_id id = { .kind = (hth_row_kind)space->kind };
    hth_past_name name;
    hth_gone gone;

    memcpy(id.key.bytes, space->key, sizeof(id.key.bytes));
    if (hth_cache_find(cache, &id, NULL) != HEARTH_TIER_NONE)
        return true;
    hth_past_name_of(&id, &name);
    return last_event(cache, &name, &gone) && gone.reason == HTH_GONE_SUPERSEDED && !was_lost(cache, &id, &gone);
}

static bool is_same(const uint8_t a[HTH_PAST_DIGEST_BYTES], const uint8_t b[HTH_PAST_DIGEST_BYTES])
{
    return memcmp(a, b, HTH_PAST_DIGEST_BYTES) == 0;
}

/* The closer the keyspace that knows the beginning, the more informative the reason. */
static int nearness(hearth_miss miss)
{
    switch (miss) {
    case HEARTH_MISS_OTHER_PARAMETERS: return 3;
    case HEARTH_MISS_OTHER_ADAPTER: return 2;
    case HEARTH_MISS_OTHER_MODEL: return 1;
    default: return 0;
    }
}

static void consider_beginning(other *o, const hth_beginning *beginning)
{
    for (size_t i = 0; i < HTH_PAST_SPACES && beginning->spaces[i].is_used; i++) {
        const hth_beginning_space *space = &beginning->spaces[i];
        hearth_miss miss = is_same(space->fingerprint, o->own.fingerprint) ? HEARTH_MISS_OTHER_PARAMETERS
                         : is_same(space->base, o->own.base)               ? HEARTH_MISS_OTHER_ADAPTER
                                                                           : HEARTH_MISS_OTHER_MODEL;

        if (!hth_beginning_space_is_same(space, &o->own) && space->kind < HTH_ROW_KINDS &&
            nearness(miss) > nearness(o->miss) && is_kept(o->q->cache, space))
            o->miss = miss;
    }
}

static void name_beginning(question *q, other *o)
{
    *o = (other){ .q = q, .miss = HEARTH_MISS_NEVER_SEEN };
    hth_beginning_name_of(q->keyspace, q->prompt, q->n_prompt, &o->name);
    hth_beginning_space_of(q->keyspace, &(hth_row_id){ .kind = HTH_ROW_BLOCK }, &o->own);
}

static hearth_miss ask_others(question *q)
{
    hth_beginning beginning;
    hth_index *index;
    other o;

    if (!hth_keyspace_has_tenancy(q->keyspace))
        return HEARTH_MISS_NEVER_SEEN;
    name_beginning(q, &o);
    if (hth_past_beginning(&q->cache->past, &o.name, &beginning))
        consider_beginning(&o, &beginning);
    for (size_t i = 0; o.miss != HEARTH_MISS_OTHER_PARAMETERS && (index = index_at(q->cache, i)); i++)
        if (hth_index_beginning(index, &o.name, &beginning))
            consider_beginning(&o, &beginning);
    return o.miss;
}

/* Collect rows that keep the beginning for other tenants of the same model, up to a limit. */
enum { TENANTS_MAX = 64 };

typedef struct tenants {
    const other *o;
    hth_beginning_space found[TENANTS_MAX];
    size_t n;
} tenants;

static bool note_tenant(const hth_beginning_name *name, const hth_beginning *beginning, void *user_data)
{
    tenants *t = user_data;

    if (!is_same(name->digest, t->o->name.digest) || is_same(name->scope, t->o->name.scope))
        return true;
    for (size_t i = 0; i < HTH_PAST_SPACES && beginning->spaces[i].is_used && t->n < TENANTS_MAX; i++)
        if (is_same(beginning->spaces[i].base, t->o->own.base) &&
            is_same(beginning->spaces[i].parameters, t->o->own.parameters) && beginning->spaces[i].kind < HTH_ROW_KINDS)
            t->found[t->n++] = beginning->spaces[i];
    return t->n < TENANTS_MAX;
}

/* Is the beginning known under another salt? The rows are looked up afterwards: a visitor may not call the index. */
static bool is_of_another_tenant(question *q)
{
    tenants t = { .n = 0 };
    hth_index *index;
    other o;

    if (!hth_keyspace_has_tenancy(q->keyspace))
        return false;
    name_beginning(q, &o);
    t.o = &o;
    hth_past_visit_beginnings(&q->cache->past, note_tenant, &t);
    for (size_t i = 0; (index = index_at(q->cache, i)); i++)
        hth_index_visit_beginnings(index, note_tenant, &t);
    for (size_t i = 0; i < t.n; i++)
        if (is_kept(q->cache, &t.found[i]))
            return true;
    return false;
}

/* ---- the answer ---- */

static hearth_miss why(question *q, bool of_all)
{
    size_t n_blocks_known;
    hearth_miss miss;

    if (!q->cache || q->lookup->way == HTH_LOOKUP_KEYS)
        return HEARTH_MISS_NOT_READ;
    if (q->n_known >= q->n_prompt)
        return HEARTH_MISS_NONE;
    n_blocks_known = last_known_block(q);
    ask_end(q);
    if (q->left_at < q->n_prompt) {
        compare_children(q, n_blocks_known);
        ask_lost_ends(q, n_blocks_known);
        ask_lost_states(q);
    }
    if (q->n_known + 1 >= q->n_prompt)
        return HEARTH_MISS_NONE;
    if (q->is_gone)
        return q->gone.reason == HTH_GONE_DAMAGED ? HEARTH_MISS_DAMAGED : HEARTH_MISS_EVICTED;
    if (!hth_policy_should_save_prompt(q->n_prompt, q->policy) || n_blocks_known > q->n_known / HTH_BLOCK_TOKENS)
        return HEARTH_MISS_BELOW_POLICY;
    if (q->n_known > 0)
        return HEARTH_MISS_NEVER_SEEN;
    miss = ask_others(q);
    if (miss == HEARTH_MISS_NEVER_SEEN && of_all && is_of_another_tenant(q))
        miss = HEARTH_MISS_OTHER_TENANT;
    return miss;
}

static void answer(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
                   const hearth_token *prompt, size_t n_prompt, uint32_t n_known, bool of_all, hth_why_answer *out)
{
    question q = {
        .cache = cache,
        .keyspace = keyspace,
        .lookup = lookup,
        .policy = policy,
        .prompt = prompt,
        .n_prompt = (uint32_t)n_prompt,
        .n_blocks = (uint32_t)n_prompt / HTH_BLOCK_TOKENS,
        .n_known = lookup->n_cached > n_known ? lookup->n_cached : n_known,
    };

    if (q.n_known > q.n_prompt)
        q.n_known = q.n_prompt;
    q.left_at = lookup->n_agreed > q.n_known ? lookup->n_agreed : q.n_known;
    out->miss = why(&q, of_all);
    out->left_at = q.left_at < q.n_prompt ? q.left_at : q.n_prompt;
    out->gone_time = out->miss == HEARTH_MISS_EVICTED || out->miss == HEARTH_MISS_DAMAGED ? q.gone.time : 0;
}

void hth_why(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
             const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out)
{
    answer(cache, keyspace, lookup, policy, prompt, n_prompt, n_known, false, out);
}

void hth_why_of_all(hth_cache *cache, const hth_keyspace *keyspace, const hth_lookup *lookup, const hth_policy *policy,
                    const hearth_token *prompt, size_t n_prompt, uint32_t n_known, hth_why_answer *out)
{
    answer(cache, keyspace, lookup, policy, prompt, n_prompt, n_known, true, out);
}
