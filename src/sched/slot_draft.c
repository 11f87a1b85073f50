/*
 * slot_draft.c - plan, compare, cut
 */
#include "sched/slot_draft.h"

#include <string.h>

#include "base/grow.h"
#include "base/smaller.h"

/*
 * The draft may only use promised cells. It ends with the reply, and at the end of a block, because a block can be
 * saved only when the sequence ends there.
 */
static uint32_t n_draft_max(const hth_slot *slot)
{
    uint32_t n_reply = hth_reply_n_max(slot->reply) - hth_reply_n_tokens(slot->reply);
    uint32_t n_block = HTH_BLOCK_TOKENS - (slot->n_tokens - 1) % HTH_BLOCK_TOKENS;
    uint32_t n_room = slot->n_room > slot->n_tokens ? slot->n_room - slot->n_tokens : 0;

    return hth_smaller(hth_smaller(slot->request->draft_max, n_room), hth_smaller(n_reply, n_block) - 1);
}

/* The source of drafts, updated with all tokens of the reply. NULL if out of memory. */
static hth_draft *source_of(hth_slot *slot)
{
    const hth_request *request = slot->request;
    uint32_t n_prompt = request->n_prompt, n_known;

    if (!slot->draft)
        slot->draft = hth_draft_new(request->prompt, n_prompt, request->draft, request->n_draft);
    if (!slot->draft)
        return NULL;
    n_known = n_prompt + hth_draft_n_reply(slot->draft);
    if (hth_draft_append(slot->draft, slot->tokens + n_known, slot->n_tokens - n_known))
        return slot->draft;
    hth_draft_free(slot->draft);
    slot->draft = NULL;
    return NULL;
}

/* May a draft of at most *n_max tokens follow its last token? *n_max is reduced to the room that there is. */
static bool has_room(const hth_slot *slot, uint32_t *n_max)
{
    if (slot->request->draft_max == 0 || !hth_sequence_can_be_shortened(slot->entry->sequence) ||
        !slot->was_prefilled || hth_sequence_n_tokens(slot->entry->sequence) + 1 != slot->n_tokens)
        return false;
    *n_max = hth_smaller(*n_max, n_draft_max(slot));
    return *n_max > 0;
}

static void put(hth_slot *slot, const hearth_token *guess, const float *right, uint32_t n)
{
    hearth_token *grown;

    if (n < slot->request->draft_min)
        return;
    grown = hth_grown_by(slot->tokens, slot->n_tokens, n + 1, &slot->tokens_capacity, sizeof(*grown));
    if (!grown)
        return;
    slot->tokens = grown;
    memcpy(slot->tokens + slot->n_tokens, guess, n * sizeof(*guess));
    memcpy(slot->draft_right, right, n * sizeof(*right));
    slot->n_draft = n;
}

void hth_slot_plan_draft(hth_slot *slot, float least)
{
    hearth_token guess[HEARTH_DRAFT_MAX];
    float right[HEARTH_DRAFT_MAX];
    uint32_t n_max = HEARTH_DRAFT_MAX;
    hth_draft *draft = has_room(slot, &n_max) ? source_of(slot) : NULL;

    if (draft)
        put(slot, guess, right, hth_draft_guess(draft, least, n_max, guess, right));
}

bool hth_slot_wish_draft(hth_slot *slot, uint32_t n_max, hth_draft_wish *out)
{
    if (!has_room(slot, &n_max) || n_max < slot->request->draft_min)
        return false;
    *out = (hth_draft_wish){
        .request = slot->request,
        .seat = &slot->seat,
        .tokens = slot->tokens,
        .n_tokens = slot->n_tokens,
        .n_max = n_max,
    };
    return true;
}

void hth_slot_take_draft(hth_slot *slot, const hth_draft_wish *wish)
{
    put(slot, wish->guess, wish->right, wish->n);
}

bool hth_slot_has_drawn_draft(const hth_slot *slot, uint32_t i)
{
    const hth_sequence *sequence = slot->entry ? slot->entry->sequence : NULL;
    uint32_t at;

    if (i >= slot->n_draft || slot->state != HTH_SLOT_EVALUATE || hth_slot_is_cancelled(slot) ||
        hth_slot_is_paused(slot))
        return false;
    at = hth_sequence_n_tokens(sequence) - slot->n_draft + i;
    return slot->n_tokens == at + 1 && slot->tokens[at] == hth_sequence_token(sequence, at);
}

void hth_slot_end_draft(hth_slot *slot)
{
    hearth_stats *stats = &hth_reply_result(slot->reply)->stats;
    uint32_t n_evaluated, n_keep;

    if (slot->n_draft == 0)
        return;
    n_evaluated = hth_sequence_n_tokens(slot->entry->sequence);
    /* The last drawn token is evaluated next, unless it ended the reply: in that case the slot does not have it. */
    n_keep = slot->n_tokens - (slot->state == HTH_SLOT_EVALUATE);
    stats->draft_tokens += slot->n_draft;
    stats->draft_accepted_tokens += slot->n_draft - (n_evaluated - n_keep);
    slot->n_draft = 0;
    (void)hth_sequence_shorten(slot->entry->sequence, n_keep); /* if the engine refuses, all is computed again */
}
