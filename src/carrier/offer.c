#include "carrier/offer.h"

#include <stdlib.h>

enum {
    NAMES_MAX = 64,     /* missing files that a request may look for by name */
    CHILDREN_MAX = 128, /* of one boundary that are looked at */
    STATES_BACK = 64,   /* boundaries before the end of the blocks at which a state is looked for */
};

typedef struct search {
    hth_tiers *tiers;
    const hth_row_wish *wishes;
    uint32_t n_wishes;
    unsigned n_names;
    hth_offer *offer;
    hth_row_meta children[CHILDREN_MAX];
} search;

static bool add(search *s, const hth_row_meta *meta)
{
    hth_row_manifest *manifest = &s->offer->manifest;

    if (meta->bytes > HTH_FETCHED_ROW_BYTES_MAX || manifest->n_rows == HTH_ROW_OFFER_MAX)
        return true; /* the client would not take it */
    manifest->n_rows++;
    manifest->n_bytes += meta->bytes;
    return hth_row_list_add(&s->offer->rows, meta);
}

static bool look(search *s, const hth_key *key, hth_row_kind kind, hth_row_meta *out)
{
    const hth_row_id id = { .key = *key, .kind = kind };

    return hth_tiers_look(s->tiers, &id, out, &s->n_names);
}

/* The number of keys whose blocks are here or at the client, without a gap. */
static uint32_t run_of_blocks(search *s)
{
    uint32_t n = 0;
    hth_row_meta meta;

    while (n < s->n_wishes &&
           (hth_row_wish_has(&s->wishes[n], HTH_ROW_BLOCK) || look(s, &s->wishes[n].key, HTH_ROW_BLOCK, &meta)))
        n++;
    return n;
}

/* Is this child of a boundary a state inside the block after it? */
static bool is_inside(const hth_row_meta *meta, const hth_key *boundary)
{
    return meta->id.kind == HTH_ROW_STATE && !hth_key_equal(&meta->id.key, boundary);
}

static bool has_state_at(search *s, uint32_t i)
{
    const hth_key *boundary = &s->wishes[i].key;
    hth_row_meta meta;
    size_t n;

    if (look(s, boundary, HTH_ROW_STATE, &meta))
        return true;
    n = hth_tiers_children(s->tiers, boundary, s->children, CHILDREN_MAX);
    for (size_t k = 0; k < n; k++)
        if (is_inside(&s->children[k], boundary))
            return true;
    return false;
}

/* The last key with a state at it or inside the block after it, among the last n_back before end; end: none. */
static uint32_t last_state(search *s, uint32_t end, uint32_t n_back)
{
    for (uint32_t i = end; i > 0 && end - i < n_back; i--)
        if (has_state_at(s, i - 1))
            return i - 1;
    return end;
}

/* The leaf and what belongs to its end. */
static bool add_leaf(search *s, const hth_row_meta *leaf)
{
    hth_row_meta meta;

    return add(s, leaf) &&
           (leaf->id.kind != HTH_ROW_STATE || !look(s, &leaf->id.key, HTH_ROW_TAIL, &meta) || add(s, &meta)) &&
           (!look(s, &leaf->id.key, HTH_ROW_LOGITS, &meta) || add(s, &meta));
}

/* What stands on a boundary: states inside the next block if there are any, and otherwise tails. */
static bool add_leaves(search *s, const hth_key *boundary, bool has_states)
{
    const size_t n = hth_tiers_children(s->tiers, boundary, s->children, CHILDREN_MAX);
    unsigned n_added = 0;

    for (size_t k = 0; k < n && n_added < HTH_OFFER_LEAVES_MAX; k++) {
        const hth_row_meta *child = &s->children[k];

        if (has_states ? !is_inside(child, boundary) : child->id.kind != HTH_ROW_TAIL)
            continue;
        if (!add_leaf(s, child))
            return false;
        n_added++;
    }
    return true;
}

static bool fill(search *s)
{
    const uint32_t n_run = run_of_blocks(s), end = n_run > 0 ? n_run : s->n_wishes,
                   at = last_state(s, end, n_run > 0 ? STATES_BACK : end);
    const bool has_states = at < end;
    const uint32_t last = has_states ? at : end - 1; /* the boundary where the offer ends */
    const hth_row_wish *wish = &s->wishes[last];
    hth_row_meta meta;

    if (n_run == 0 && !has_states)
        return true;
    s->offer->manifest.n_keys = n_run > 0 ? last + 1 : 0;
    if (has_states && !hth_row_wish_has(wish, HTH_ROW_STATE) && look(s, &wish->key, HTH_ROW_STATE, &meta) &&
        !add(s, &meta))
        return false;
    if (has_states && !add_leaves(s, &wish->key, true))
        return false;
    for (uint32_t i = 0; i < s->offer->manifest.n_keys; i++)
        if (!hth_row_wish_has(&s->wishes[i], HTH_ROW_BLOCK) && look(s, &s->wishes[i].key, HTH_ROW_BLOCK, &meta) &&
            !add(s, &meta))
            return false;
    if (last + 1 == s->n_wishes && !hth_row_wish_has(wish, HTH_ROW_LOGITS) &&
        look(s, &wish->key, HTH_ROW_LOGITS, &meta) && !add(s, &meta))
        return false;
    return has_states || add_leaves(s, &wish->key, false);
}

bool hth_offer_make(hth_tiers *tiers, const hth_row_wish *wishes, uint32_t n_wishes, hth_offer *out)
{
    search *s = calloc(1, sizeof(*s));
    bool done;

    *out = (hth_offer){ .rows = { .rows = NULL } };
    if (!s)
        return false;
    s->tiers = tiers;
    s->wishes = wishes;
    s->n_wishes = n_wishes;
    s->n_names = NAMES_MAX;
    s->offer = out;
    done = n_wishes == 0 || fill(s);
    free(s);
    return done;
}

void hth_offer_deinit(hth_offer *offer)
{
    free(offer->rows.rows);
    offer->rows = (hth_row_list){ .rows = NULL };
}
