/*
 * slot_draft.h - drafts in a slot: guess the next tokens, evaluate them with the last one, remove the wrong ones
 *
 * The draft of a planned evaluation follows the tokens of the slot, and is in the sequence once it has been evaluated.
 * Drawn tokens replace it in the slot. Before the sequence is saved or shared, it is cut after the last token that both
 * have in common. So cells of wrong tokens are never saved or shared.
 */
#ifndef HTH_SCHED_SLOT_DRAFT_H
#define HTH_SCHED_SLOT_DRAFT_H

#include "sched/slot.h"

/*
 * The next evaluation has the last token of the slot: append a draft from its text, which is either empty or at least
 * as long as the request's minimum. least: see hth_draft_guess.
 */
void hth_slot_plan_draft(hth_slot *slot, float least);
/* The same for the draft model: make a wish for at most n_max tokens. False if the slot has no wish. */
bool hth_slot_wish_draft(hth_slot *slot, uint32_t n_max, hth_draft_wish *out);
/* The wish was granted, perhaps with no tokens. */
void hth_slot_take_draft(hth_slot *slot, const hth_draft_wish *wish);
/* Was token i of the draft drawn, so that the logits after it are valid, and does the reply continue? */
bool hth_slot_has_drawn_draft(const hth_slot *slot, uint32_t i);
/* Nothing more is drawn: cut the sequence and discard the draft. */
void hth_slot_end_draft(hth_slot *slot);

#endif
