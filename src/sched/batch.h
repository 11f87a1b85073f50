/*
 * batch.h - one evaluation for several slots
 *
 * Slots that are ready are added, planned by the strategy, and evaluated in one go. The rows lie in an order that keeps
 * bits the same where the engine lets them be: whole chunks of prompts first, then what is left of prompts, then single
 * tokens (docs/engine.md). While a reply is being generated the chunks are as long as max_tick_ms allows, measured by
 * what a row has cost lately.
 */
#ifndef HTH_SCHED_BATCH_H
#define HTH_SCHED_BATCH_H

#include "sched/batcher.h"

typedef struct hth_batch hth_batch;

/* For at most n_slots slots. NULL when there is no memory. place and pulse are borrowed. */
hth_batch *hth_batch_new(const hth_workplace *place, uint32_t n_slots, hth_pulse *pulse);
void hth_batch_free(hth_batch *batch); /* accepts NULL */

void hth_batch_clear(hth_batch *batch);
/* A slot in HTH_SLOT_EVALUATE. They are kept in the order of who was served least lately, then of adding. */
void hth_batch_add(hth_batch *batch, hth_slot *slot);
/*
 * Choose the rows of the next evaluation; of one slot alone, the one that was evaluated least lately, where alone is set.
 * How many slots have rows; their n_in_batch says how many.
 */
uint32_t hth_batch_plan(hth_batch *batch, const hth_schedule *schedule, bool alone);
uint32_t hth_batch_n_rows(const hth_batch *batch);
/* Cells of sequences without rows that the planned evaluation bears: they cost it no more than a small part of its time. */
uint32_t hth_batch_n_idle_max(const hth_batch *batch);

/*
 * Evaluate. With HEARTH_OK and HTH_DECODE_OK every slot has its tokens, and its logits where they are complete; otherwise
 * nothing is noted: the caller knows what to do.
 */
hearth_status hth_batch_evaluate(hth_batch *batch, hth_decode_result *result, hearth_error *err);

uint32_t hth_batch_n_slots(const hth_batch *batch);
hth_slot *hth_batch_slot(const hth_batch *batch, uint32_t i);
/* Those after a slot's last row, valid until the next evaluation; NULL where none were asked for. */
const float *hth_batch_logits(const hth_batch *batch, const hth_slot *slot);

#endif
