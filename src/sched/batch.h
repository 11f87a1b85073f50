/*
 * batch.h - one evaluation for several slots
 *
 * The batcher adds the slots that are ready, the strategy chooses how many tokens of each to evaluate, and one call
 * evaluates all of them. The rows are in an order that keeps the bits of a result independent of the other slots as far
 * as the engine allows: first whole chunks of prompts, then other parts of prompts, then single tokens
 * (docs/engine.md). While a reply is being generated, chunks are only as long as max_tick_ms allows, measured by the
 * recent cost of a row.
 *
 * When all slots evaluate single tokens, drafts of the next tokens may be added. The likeliest draft tokens are added
 * first, up to the number of rows that promises the most tokens per unit of time. With many slots a token takes little
 * time, so a draft must be good to be worth its rows.
 */
#ifndef HTH_SCHED_BATCH_H
#define HTH_SCHED_BATCH_H

#include "sched/batch_costs.h"
#include "sched/slot.h"
#include "sched/strategy.h"

enum {
    HTH_PARALLEL_MAX = 128,
    HTH_TELL_TOKENS = 2048, /* the default of n_tell: takes about a millisecond */
};

/* The options of a scheduler. */
typedef struct hth_schedule {
    uint32_t n_parallel;  /* maximum number of running requests, 1 .. HTH_PARALLEL_MAX */
    uint32_t n_sequences; /* at least n_parallel + 1; the context has one more, the scratch sequence */
    hth_strategy strategy;
    uint32_t prefill_chunk; /* 64, 128 or 256 */
    uint32_t max_tick_ms;
    uint32_t session_idle_ms;
    uint32_t stalled_ms; /* a request whose reader pauses longer is ended */
    uint32_t aging_ms;
    uint32_t n_tell; /* maximum tokens of echoed prompts and replayed replies per tick; >= 1 */
} hth_schedule;

/*
 * The engine reads this during an evaluation. It is made before the context, whose abort callback receives it. During
 * an evaluation it points to the cancellation flags of the requests in the batch.
 */
typedef struct hth_pulse {
    _Atomic uint32_t n; /* 0: no evaluation in progress */
    _Atomic(const atomic_bool *) cancelled[HTH_PARALLEL_MAX];
} hth_pulse;
/* The context's abort callback; user_data is an hth_pulse. True when every request in the batch is cancelled. */
bool hth_pulse_wants_abort(void *user_data);

typedef struct hth_batch {
    /* For the batcher. */
    hth_slot *slots[HTH_PARALLEL_MAX]; /* [n_slots] */
    uint32_t n_slots;
    uint32_t n_rows;  /* of the planned evaluation */
    uint32_t n_draft; /* those of drafts */
    /*
     * Set it if a reply that is not in the batch waits for the next evaluation: chunks are then only as long as
     * max_tick_ms allows.
     */
    bool has_short_chunks;

    /* Used by the batch. */
    const hth_workplace *place;
    hth_pulse *pulse;
    hearth_plan_item items[HTH_PARALLEL_MAX]; /* [n_slots]; likewise the next two */
    uint32_t n_tokens[HTH_PARALLEL_MAX];
    hth_draft_job jobs[HTH_PARALLEL_MAX]; /* scratch space */
    hth_batch_row *rows;                  /* [n_batch] */
    uint32_t n_fill;                      /* rows of the scratch sequence after them */
    uint32_t scratch;                     /* its id, with n_fill */
    uint32_t n_fills;                     /* evaluations that were due to be padded */
    uint32_t n_sequences;                 /* with rows */
    hth_batch_costs costs;
} hth_batch;

/* NULL if out of memory. place and pulse are borrowed. */
hth_batch *hth_batch_new(const hth_workplace *place, hth_pulse *pulse);
void hth_batch_free(hth_batch *batch); /* accepts NULL */

void hth_batch_clear(hth_batch *batch);
/*
 * Add a slot in HTH_SLOT_EVALUATE. All slots of a batch have the same adapters. Slots are sorted by their last
 * evaluation, oldest first, then in the order they were added.
 */
void hth_batch_add(hth_batch *batch, hth_slot *slot);
/*
 * Choose the rows of the next evaluation. With alone, only the first slot gets rows. Returns the number of slots with
 * rows; each slot's n_in_batch is its number of rows.
 */
uint32_t hth_batch_plan(hth_batch *batch, const hth_schedule *schedule, bool alone);
/*
 * Pad an evaluation of single tokens and drafts with rows of the scratch sequence if that takes less time. The scratch
 * sequence is empty before and after. n_cells cells are unused. An evaluation with tokens of prompts is never padded,
 * so its bits do not depend on measured times.
 */
void hth_batch_fill(hth_batch *batch, uint32_t scratch, uint32_t n_cells);
/* The maximum number of idle cells for the planned evaluation, so that they cost only a small part of its time. */
uint32_t hth_batch_n_idle_max(const hth_batch *batch);

/*
 * Evaluate the planned rows. After HEARTH_OK with HTH_DECODE_OK, every slot has its tokens, and its logits if its
 * tokens are complete. Otherwise no slot has changed.
 */
hearth_status hth_batch_evaluate(hth_batch *batch, hth_decode_result *result, hearth_error *err);

/*
 * The logits after a slot's last row before its draft, valid until the next evaluation; NULL if the row did not ask for
 * logits.
 */
const float *hth_batch_logits(const hth_batch *batch, const hth_slot *slot);
/* The logits after token i of its draft. */
const float *hth_batch_draft_logits(const hth_batch *batch, const hth_slot *slot, uint32_t i);

#endif
