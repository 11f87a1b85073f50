/*
 * batcher_beginning.c - an admitted slot waits for a prefix that another computes, or occupies a sequence and restores
 */
#include "sched/batcher_inside.h"

#include <string.h>

enum { QUIET_PART = 10 };

/* ---- waiting for a common prefix ---- */

/* Leading tokens that slot can take from other, because both prompts begin with them. */
static uint32_t n_in_common(const hth_batcher *batcher, const hth_slot *slot, const hth_slot *other)
{
    hth_pool_query mine = hth_slot_pool_query(slot), theirs = hth_slot_pool_query(other);
    uint32_t end = mine.n_tokens < theirs.n_tokens ? mine.n_tokens : theirs.n_tokens;
    uint32_t n;

    if (memcmp(mine.keyspace->fingerprint, theirs.keyspace->fingerprint, sizeof(mine.keyspace->fingerprint)) != 0)
        return 0;
    if (end > mine.n_limit)
        end = mine.n_limit;
    n = hth_tokens_common(mine.tokens, theirs.tokens, end);
    /* Other kinds of models share only rows: whole blocks, and the row at the end of an equal prompt. */
    if (batcher->place.kind != HTH_MODEL_PLAIN && !(n == mine.n_tokens && n == theirs.n_tokens))
        n = n / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    return n;
}

uint32_t hth_batcher_n_evaluated(const hth_slot *slot)
{
    return slot->entry ? hth_sequence_n_tokens(slot->entry->sequence) : 0;
}

/*
 * Can slot wait for leader? A leader that waits itself must have come before slot, so that no two wait for each other.
 */
static bool can_lead(const hth_slot *leader, const hth_slot *slot)
{
    if (leader == slot || leader->was_prefilled || leader->is_going || hth_slot_is_paused(leader))
        return false;
    return leader->state == HTH_SLOT_RESTORE || leader->state == HTH_SLOT_EVALUATE ||
           (leader->state == HTH_SLOT_PREFIX && leader->number < slot->number);
}

hth_slot *hth_batcher_find_leader(const hth_batcher *batcher, const hth_slot *slot, uint32_t n_have, uint32_t *n_out)
{
    uint32_t gain_min = batcher->place.kind == HTH_MODEL_PLAIN ? HTH_GAIN_MIN : HTH_BLOCK_TOKENS;
    hth_slot *found = NULL;

    *n_out = 0;
    if (!hth_slot_may_read(slot) || batcher->place.kind == HTH_MODEL_UNCACHED ||
        (batcher->place.kind != HTH_MODEL_PLAIN && !batcher->place.cache))
        return NULL;
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *leader = batcher->running[i];
        uint32_t n, have;

        if (!can_lead(leader, slot))
            continue;
        n = n_in_common(batcher, slot, leader);
        have = hth_batcher_n_evaluated(leader) > n_have ? hth_batcher_n_evaluated(leader) : n_have;
        if (n >= have + gain_min && n > *n_out && n > slot->n_awaited_before) {
            found = leader;
            *n_out = n;
        }
    }
    return found;
}

/* ---- beginning ---- */

/* Are the parent's tokens in the context or in rows? True after a failure too: the real lookup will tell. */
static bool parent_is_known(const hth_batcher *batcher, const hth_slot *slot)
{
    const hth_request *request = slot->request;
    hth_prompt_place place = hth_workplace_prompt_place(&batcher->place);
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held;
    hth_lookup lookup;
    bool known;

    if (hth_pool_n_shared(batcher->pool, &query, &n_held) >= request->n_parent)
        return true;
    if (hth_prompt_lookup(&place, &request->keyspace, request->prompt, request->n_prompt, true, &lookup, NULL) !=
        HEARTH_OK)
        return true;
    known = lookup.n_cached >= request->n_parent;
    hth_lookup_deinit(&lookup);
    return known;
}

/*
 * A parent key that is not known yet may name rows that another process is still writing. They are waited for as long
 * as anything is written at all, at most resume_wait_ms: what is not heard of for a tenth of that time is not coming.
 * Only this request's own lookup decides, so that the wait tells nothing of rows under other salts. True while it
 * waits.
 */
static bool waits_for_parent(const hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    const hth_workplace *place = &batcher->place;
    const hth_request *request = slot->request;
    uint64_t wait_ns = hth_ms_to_ns(place->resume_wait_ms);
    uint32_t changes;

    if (!request->has_parent_key || slot->waited_for_parent || !place->cache || !hth_cache_is_shared(place->cache) ||
        request->no_cache_read || place->kind == HTH_MODEL_UNCACHED)
        return false;
    changes = hth_cache_changes(place->cache);
    if (slot->parent_wait_ns == 0) {
        slot->parent_wait_ns = now + wait_ns;
    } else if (slot->cache_changes == changes) {
        slot->waited_for_parent = now >= slot->parent_wait_ns || now >= slot->quiet_ns;
        if (!slot->waited_for_parent)
            slot->state = HTH_SLOT_PARENT;
        return !slot->waited_for_parent;
    }
    slot->cache_changes = changes;
    slot->quiet_ns = now + wait_ns / QUIET_PART;
    slot->waited_for_parent = parent_is_known(batcher, slot) || now >= slot->parent_wait_ns;
    if (!slot->waited_for_parent)
        slot->state = HTH_SLOT_PARENT;
    return !slot->waited_for_parent;
}

void hth_batcher_start(hth_batcher *batcher, hth_slot *slot)
{
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held;

    if (!hth_slot_tell(slot, &batcher->n_to_tell))
        return;
    if (waits_for_parent(batcher, slot, hth_batcher_now(batcher)))
        return;
    slot->leader =
        hth_batcher_find_leader(batcher, slot, hth_pool_n_shared(batcher->pool, &query, &n_held), &slot->n_awaited);
    if (slot->leader) {
        slot->n_awaited_before = batcher->place.kind == HTH_MODEL_PLAIN ? 0 : slot->n_awaited;
        slot->leader->has_followers = true;
        slot->state = HTH_SLOT_PREFIX;
        return;
    }
    slot->n_spare = hth_batcher_n_available(batcher);
    batcher->n_begun++;
    hth_slot_begin(slot, batcher->pool);
}

/* The prefix that it can share has changed since its admission, so it may need more cells now. */
static void start_again(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];
    uint32_t n_cells = hth_batcher_n_needed(batcher, slot);

    slot->n_needed = 0;
    if (hth_batcher_n_available(batcher) >= n_cells) {
        slot->n_needed = n_cells;
        hth_batcher_start(batcher, slot);
    } else {
        slot->state = HTH_SLOT_WAITING;
        hth_batcher_send_back(batcher, i);
    }
}

static bool anybody_streams(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->was_prefilled && batcher->running[i]->state == HTH_SLOT_EVALUATE)
            return true;
    return false;
}

void hth_batcher_tell(hth_batcher *batcher)
{
    batcher->n_to_tell = batcher->schedule.n_tell;
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        uint32_t n_running = batcher->n_running;

        if (batcher->running[i]->state == HTH_SLOT_TELL && hth_slot_tell(batcher->running[i], &batcher->n_to_tell))
            start_again(batcher, i);
        if (batcher->n_running < n_running)
            i--;
    }
}

void hth_batcher_advance(hth_batcher *batcher)
{
    uint64_t slice_ns = hth_ms_to_ns(batcher->schedule.max_tick_ms) / HTH_RESTORE_PART;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];
        uint32_t n_running = batcher->n_running;

        if (slot->state == HTH_SLOT_PARENT ||
            (slot->state == HTH_SLOT_PREFIX &&
             (!slot->leader || hth_batcher_n_evaluated(slot->leader) >= slot->n_awaited)))
            start_again(batcher, i);
        slot->n_spare = hth_batcher_n_available(batcher);
        if (slot->state == HTH_SLOT_RESTORE)
            hth_slot_restore(slot, batcher->pool,
                             anybody_streams(batcher) ? hth_batcher_now(batcher) + slice_ns : UINT64_MAX);
        if (batcher->n_running < n_running)
            i--;
    }
    hth_batcher_end_complete(batcher); /* slots that need no evaluation; they cannot be preempted any more */
}
