#include "carrier/wanted.h"

/* The boundary with that key; wanted->n: none. */
static uint32_t boundary_of(const hth_wanted *wanted, const hth_key *key)
{
    uint32_t i = 0;

    while (i < wanted->n && !hth_key_equal(&wanted->wishes[i].key, key))
        i++;
    return i;
}

static uint64_t position_of(const hth_wanted *wanted, uint32_t i)
{
    return wanted->begin + (uint64_t)(i + 1) * HTH_BLOCK_TOKENS;
}

/* A row at boundary i. */
static bool fits_at(const hth_wanted *wanted, uint32_t i, const hth_row_meta *meta)
{
    const uint64_t end = position_of(wanted, i);

    switch (meta->id.kind) {
    case HTH_ROW_BLOCK:
        return meta->n_tokens == HTH_BLOCK_TOKENS && meta->first_position + (uint64_t)HTH_BLOCK_TOKENS == end &&
               (i == 0 || hth_key_equal(&meta->parent, &wanted->wishes[i - 1].key));
    case HTH_ROW_STATE:
    case HTH_ROW_LOGITS:
        return meta->n_tokens == 0 && meta->first_position == end && hth_key_equal(&meta->parent, &meta->id.key);
    default: return false;
    }
}

/* A row that ends inside the block after boundary i. */
static bool fits_after(const hth_wanted *wanted, uint32_t i, const hth_row_meta *meta)
{
    const uint64_t begin = position_of(wanted, i), end = (uint64_t)meta->first_position + meta->n_tokens;

    if (end <= begin || end >= begin + HTH_BLOCK_TOKENS)
        return false;
    switch (meta->id.kind) {
    case HTH_ROW_TAIL: return meta->first_position == begin;
    case HTH_ROW_STATE: return meta->n_tokens == 0;
    default: return false;
    }
}

/* Logits at the end of a leaf that was taken. */
static bool fits_end(const hth_wanted *wanted, const hth_row_meta *meta)
{
    if (meta->id.kind != HTH_ROW_LOGITS || meta->n_tokens != 0 || !hth_key_equal(&meta->parent, &meta->id.key))
        return false;
    for (uint32_t k = 0; k < wanted->n_ends; k++)
        if (hth_key_equal(&wanted->ends[k].id.key, &meta->id.key))
            return meta->first_position == wanted->ends[k].first_position + wanted->ends[k].n_tokens;
    return false;
}

bool hth_wanted_take(hth_wanted *wanted, const hth_row_meta *meta)
{
    uint32_t i = boundary_of(wanted, &meta->id.key);

    if (i < wanted->n)
        return fits_at(wanted, i, meta);
    i = boundary_of(wanted, &meta->parent);
    if (i == wanted->n)
        return fits_end(wanted, meta);
    if (!fits_after(wanted, i, meta) || wanted->n_ends == HTH_WANTED_ENDS_MAX)
        return false;
    wanted->ends[wanted->n_ends++] = *meta;
    return true;
}
