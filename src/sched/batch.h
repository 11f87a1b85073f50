/*
 * batch.h - one evaluation for several slots
 *
 * The batcher adds slots that are ready, the strategy chooses how many tokens of each are evaluated, and one call
 * evaluates all of them. The rows lie in an order that keeps the bits of a result independent of the other slots as far
 * as the engine allows it: first whole chunks of prompts, then other parts of prompts, then single tokens
 * (docs/engine.md). While a reply is being generated, chunks are only as long as max_tick_ms allows, measured by the
 * recent cost of a row.
 *
 * When all slots evaluate single tokens, drafts of the next tokens may go with them. The likeliest tokens come first,
 * and as many of them as promise the most tokens in the time that so many rows take. With many slots a token takes
 * little time, so a draft must be good to be worth its rows.
 */
#ifndef HTH_SCHED_BATCH_H
#define HTH_SCHED_BATCH_H

#include "sched/schedule.h"
#include "sched/slot.h"

/*
 * The engine reads this in the middle of an evaluation. It exists before the context, whose abort callback gets it.
 * During an evaluation it points to the cancellation flags of the requests in the batch.
 */
typedef struct hth_pulse {
    _Atomic uint32_t n; /* 0: nothing is evaluated */
    _Atomic(const atomic_bool *) cancelled[HTH_PARALLEL_MAX];
} hth_pulse;
/* The context's abort callback; user_data is an hth_pulse. True when every request in the batch is cancelled. */
bool hth_pulse_wants_abort(void *user_data);

typedef struct hth_batch hth_batch;

/* For at most n_slots slots. NULL without memory. place and pulse are borrowed. */
hth_batch *hth_batch_new(const hth_workplace *place, uint32_t n_slots, hth_pulse *pulse);
void hth_batch_free(hth_batch *batch); /* accepts NULL */

void hth_batch_clear(hth_batch *batch);
/*
 * Add a slot in HTH_SLOT_EVALUATE. All slots of a batch have the same adapters. Slots are sorted by their last
 * evaluation, the oldest first, then by their adding.
 */
void hth_batch_add(hth_batch *batch, hth_slot *slot);
/* A reply that is not in the batch waits for the next evaluation: chunks are only as long as max_tick_ms allows. */
void hth_batch_hurry(hth_batch *batch);
/*
 * Choose the rows of the next evaluation. With alone, only the first slot gets rows. Returns how many slots have rows;
 * their n_in_batch tells how many rows each has.
 */
uint32_t hth_batch_plan(hth_batch *batch, const hth_schedule *schedule, bool alone);
uint32_t hth_batch_n_rows(const hth_batch *batch);
/*
 * If that takes less time, fill an evaluation of single tokens and drafts up with rows of the scratch sequence, which
 * is empty before and after it. n_cells are unused. An evaluation with tokens of prompts is never filled, so its bits
 * do not depend on measured times.
 */
void hth_batch_fill(hth_batch *batch, uint32_t scratch, uint32_t n_cells);
/* Most idle cells for the planned evaluation: they cost at most a small part of its time. */
uint32_t hth_batch_n_idle_max(const hth_batch *batch);

/*
 * Evaluate the planned rows. After HEARTH_OK with HTH_DECODE_OK every slot has its tokens, and its logits where its
 * tokens are complete. Otherwise no slot was changed.
 */
hearth_status hth_batch_evaluate(hth_batch *batch, hth_decode_result *result, hearth_error *err);

uint32_t hth_batch_n_slots(const hth_batch *batch);
hth_slot *hth_batch_slot(const hth_batch *batch, uint32_t i);
/*
 * The logits after a slot's last row before its draft, valid until the next evaluation; NULL when the row asked for
 * none.
 */
const float *hth_batch_logits(const hth_batch *batch, const hth_slot *slot);
/* The logits after token i of its draft. */
const float *hth_batch_draft_logits(const hth_batch *batch, const hth_slot *slot, uint32_t i);
/* Tokens of drafts in the planned evaluation. */
uint32_t hth_batch_n_draft(const hth_batch *batch);

#endif
