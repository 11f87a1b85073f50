/*
 * slot.h - the place of one running request: from its prompt to its last token
 *
 * A slot is a state machine that the scheduler steps: each step is at most one evaluation, so that cancels, saves and
 * status requests take effect in between.
 *
 *   start    -> look up the prompt, shorten the sequence to what it shares, restore rows
 *   PREFILL  -> one chunk a step, aligned to blocks; each block is saved as soon as it is evaluated
 *   GENERATE -> sample, emit, evaluate the sampled token
 *   DONE     -> the rest is saved, the result complete
 */
#ifndef HTH_SCHED_SLOT_H
#define HTH_SCHED_SLOT_H

#include "sched/request.h"
#include "sched/sequence.h"

typedef struct hth_slot hth_slot;

typedef enum hth_slot_state { HTH_SLOT_PREFILL, HTH_SLOT_GENERATE, HTH_SLOT_DONE } hth_slot_state;

/*
 * Begin a request on a sequence. Always gives a slot, except without memory (HEARTH_NO_MEMORY): what fails otherwise is
 * in the slot's result, whose state is then HTH_SLOT_DONE. request and sequence are borrowed until hth_slot_free.
 */
hearth_status hth_slot_start(const hth_workplace *workplace, hth_sequence *sequence, hth_request *request,
                             hth_slot **out, hearth_error *err);
hth_slot_state hth_slot_state_of(const hth_slot *slot);
/* One step; nothing where the state is HTH_SLOT_DONE. */
void hth_slot_step(hth_slot *slot);
/* The result so far; complete when the state is HTH_SLOT_DONE. Borrowed until hth_slot_free. */
const hearth_result *hth_slot_result(hth_slot *slot);
/* Tokens done of how many in the present state. */
void hth_slot_progress(const hth_slot *slot, uint32_t *n_done_out, uint32_t *n_total_out);
void hth_slot_free(hth_slot *slot); /* accepts NULL */

#endif
