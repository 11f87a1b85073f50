/*
 * slot_draft.h - drafts in a slot: guess the next tokens, evaluate them with the last one, cut off the wrong ones
 *
 * The draft of a planned evaluation stands behind the tokens of the slot, and in the sequence once it was evaluated. As
 * tokens are drawn they take its place in the slot. Before anybody else sees the sequence, it is cut behind the last
 * token that both have. So cells of wrong tokens are never saved or shared.
 */
#ifndef HTH_SCHED_SLOT_DRAFT_H
#define HTH_SCHED_SLOT_DRAFT_H

#include "sched/slot.h"

/*
 * The next evaluation has the last token of the slot: put a draft of its text behind it, which may be empty, but no
 * shorter than the request's least. least: see hth_draft_guess.
 */
void hth_slot_plan_draft(hth_slot *slot, float least);
/* The same of the draft model: a wish for at most n_max tokens; false: it has none. */
bool hth_slot_wish_draft(hth_slot *slot, uint32_t n_max, hth_draft_wish *out);
/* The wish was granted, perhaps with no tokens. */
void hth_slot_take_draft(hth_slot *slot, const hth_draft_wish *wish);
/* Token i of the draft was drawn, so the logits after it count, and its reader wants more. */
bool hth_slot_has_drawn_draft(const hth_slot *slot, uint32_t i);
/* Nothing more is drawn: cut the sequence, and forget the draft. */
void hth_slot_end_draft(hth_slot *slot);

#endif
