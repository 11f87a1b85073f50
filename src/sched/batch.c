/*
 * batch.c - plan, order, evaluate
 */
#include "sched/batch.h"

#include <assert.h>
#include <stdlib.h>

enum {
    SPARE_PART = 10, /* drawing and saving get this fraction of a tick: a tenth */
    IDLE_PART = 50,  /* idle cells may cost this fraction of an evaluation: a fiftieth */
    FILL_TURNS = 16, /* of this many evaluations that padding would speed up, one is measured without */
};

static const float least_likely = 0.02f;      /* a guess of the text */
static const float least_beside_model = 0.5f; /* the same with a draft model, which probably has a better guess */
static const float least_gain = 1.05f;        /* of drafts, by their estimated probabilities */

bool hth_pulse_wants_abort(void *user_data)
{
    const hth_pulse *pulse = user_data;
    uint32_t n = atomic_load_explicit(&pulse->n, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        const atomic_bool *cancelled = atomic_load_explicit(&pulse->cancelled[i], memory_order_relaxed);

        if (!atomic_load_explicit(cancelled, memory_order_relaxed))
            return false;
    }
    return n > 0;
}

void hth_batch_free(hth_batch *batch)
{
    if (!batch)
        return;
    free(batch->rows);
    free(batch);
}

hth_batch *hth_batch_new(const hth_workplace *place, hth_pulse *pulse)
{
    hth_batch *batch = calloc(1, sizeof(*batch));

    if (!batch)
        return NULL;
    batch->place = place;
    batch->pulse = pulse;
    batch->rows = calloc(place->n_batch, sizeof(*batch->rows));
    if (!batch->rows) {
        free(batch);
        return NULL;
    }
    return batch;
}

void hth_batch_clear(hth_batch *batch)
{
    batch->n_slots = 0;
    batch->n_rows = 0;
    batch->n_fill = 0;
    batch->has_short_chunks = false;
    batch->n_draft = 0;
}

void hth_batch_add(hth_batch *batch, hth_slot *slot)
{
    uint32_t i = batch->n_slots++;

    slot->n_in_batch = 0;
    slot->n_draft = 0; /* left from a failed evaluation */
    /* The loop is short, because nearly all slots were in the last tick. Long prompts take turns. */
    for (; i > 0 && batch->slots[i - 1]->last_ticked > slot->last_ticked; i--)
        batch->slots[i] = batch->slots[i - 1];
    batch->slots[i] = slot;
}

/* ---- planning ---- */

/* Tokens of prompts that fit into the duration of a tick: whole minimal chunks, at least one. */
static uint32_t n_in_time(const hth_batch *batch, const hth_schedule *schedule)
{
    uint64_t tick_ns = hth_ms_to_ns(schedule->max_tick_ms);
    uint64_t n;

    if (batch->costs.row_ns == 0)
        return HTH_CHUNK_MIN;
    n = (tick_ns - tick_ns / SPARE_PART) / batch->costs.row_ns / HTH_CHUNK_MIN * HTH_CHUNK_MIN;
    if (n < HTH_CHUNK_MIN)
        return HTH_CHUNK_MIN;
    return n < batch->place->n_batch ? (uint32_t)n : batch->place->n_batch;
}

/* The rank of an item in the order of rows: 0 whole chunks of prompts, 1 other parts of prompts, 2 single tokens. */
static int rank_of(const hearth_plan_item *item, uint32_t n_tokens)
{
    return item->is_decode ? 2 : n_tokens % HTH_CHUNK_MIN != 0 || item->position % HTH_CHUNK_MIN != 0;
}

/* The expected tokens per unit of time for n_rows rows, by the probabilities of their drafts. */
static float rate_of(const hth_batch *batch, float n_tokens, uint32_t n_rows)
{
    return n_tokens / (float)hth_batch_costs_of(&batch->costs, hth_batch_costs_fill(&batch->costs, n_rows));
}

/*
 * The minimum cost of a draft token, as a fraction of the time of a token without drafts: the cost of a row at the best
 * number of rows up to n_max.
 */
static float price_of(const hth_batch *batch, uint32_t n_streams, uint32_t n_max)
{
    float without = 1 / rate_of(batch, (float)n_streams, n_streams), least = 1;

    for (uint32_t n = n_streams + 1; n <= n_max; n++) {
        float more = 1 / rate_of(batch, 1, n) - 1 / rate_of(batch, 1, n_streams);
        float price = more / (float)(n - n_streams) / without;

        if (price < least)
            least = price;
    }
    return least > 0 ? least : 0;
}

/* Get drafts from the draft model for the slots without a draft from the text, with at most n_max rows in total. */
static void guess_by_model(hth_batch *batch, uint32_t n_streams, uint32_t n_max)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the caller has streams */
    uint64_t token_ns = hth_batch_costs_of(&batch->costs, n_streams) / n_streams;
    uint32_t n = 0, n_drafting = 0, n_each;

    for (uint32_t i = 0; i < batch->n_slots; i++)
        n_drafting += batch->n_tokens[i] == 1 && batch->slots[i]->n_draft == 0;
    n_each = n_drafting > 0 ? (n_max - n_streams) / n_drafting : 0;
    if (n_each > HEARTH_DRAFT_MAX)
        n_each = HEARTH_DRAFT_MAX;
    for (uint32_t i = 0; i < batch->n_slots; i++) {
        hth_slot *slot = batch->slots[i];

        if (batch->n_tokens[i] == 1 && slot->n_draft == 0 && hth_slot_draft_job(slot, n_each, &batch->jobs[n]))
            n++;
    }
    if (n == 0)
        return;
    hth_draft_model_guess(batch->place->draft_model, batch->jobs, n, price_of(batch, n_streams, n_streams + n * n_each),
                          token_ns);
    for (uint32_t i = 0; i < n; i++)
        hth_slot_take_draft(batch->jobs[i].owner, &batch->jobs[i]);
}

/* The slot whose next draft token, after the chosen ones, is the likeliest; n_slots: no slot has more. */
static uint32_t likeliest(const hth_batch *batch)
{
    float most = 0;
    uint32_t at = batch->n_slots;

    for (uint32_t i = 0; i < batch->n_slots; i++) {
        const hth_slot *slot = batch->slots[i];
        uint32_t n_chosen = batch->n_tokens[i] - 1; /* for a slot without tokens, more than any draft has */

        if (n_chosen < slot->n_draft && slot->draft_right[n_chosen] > most) {
            most = slot->draft_right[n_chosen];
            at = i;
        }
    }
    return at;
}

/*
 * Choose the number of rows, at most n_max, that promises the most tokens per unit of time, and cut the drafts to it.
 * No draft becomes shorter than its request's minimum.
 */
static void choose_drafts(hth_batch *batch, uint32_t n_streams, uint32_t n_max)
{
    uint32_t order[HTH_CHUNK_MIN], n_best = n_streams, n = n_streams, n_short = 0, at;
    float n_tokens = (float)n_streams, best = rate_of(batch, n_tokens, n) * least_gain;

    for (; n < n_max && (at = likeliest(batch)) < batch->n_slots; n++) {
        uint32_t n_chosen = batch->n_tokens[at]++, n_least = batch->slots[at]->request->draft_min;

        order[n] = at;
        n_tokens += batch->slots[at]->draft_right[n_chosen - 1];
        n_short += (n_chosen == 1 && n_least > 1);
        n_short -= (n_chosen == n_least && n_least > 1);
        if (n_short == 0 && rate_of(batch, n_tokens, n + 1) > best) {
            best = rate_of(batch, n_tokens, n + 1);
            n_best = n + 1;
        }
    }
    while (n > n_best)
        batch->n_tokens[order[--n]]--;
    for (uint32_t i = 0; i < batch->n_slots; i++)
        if (batch->n_tokens[i] > 0)
            batch->slots[i]->n_draft = batch->n_tokens[i] - 1;
    batch->n_draft = n_best - n_streams;
}

/* Add drafts to the planned single tokens. */
static void plan_drafts(hth_batch *batch, uint32_t n_streams)
{
    uint32_t n_batch = batch->place->n_batch, n_max = n_batch < HTH_CHUNK_MIN ? n_batch : HTH_CHUNK_MIN - 1;
    float least = batch->place->draft_model ? least_beside_model : least_likely;

    if (n_streams >= n_max || !hth_batch_costs_knows(&batch->costs, n_streams))
        return; /* no room, or nothing to compare with */
    for (uint32_t i = 0; i < batch->n_slots; i++)
        if (batch->n_tokens[i] == 1)
            hth_slot_plan_draft(batch->slots[i], least);
    if (batch->place->draft_model)
        guess_by_model(batch, n_streams, n_max);
    choose_drafts(batch, n_streams, n_max);
}

static uint32_t place_rows(hth_batch *batch)
{
    uint32_t n_with_rows = 0;

    batch->n_rows = 0;
    for (int rank = 0; rank <= 2; rank++)
        for (uint32_t i = 0; i < batch->n_slots; i++) {
            hth_slot *slot = batch->slots[i];

            if (batch->n_tokens[i] == 0 || rank_of(&batch->items[i], batch->n_tokens[i]) != rank)
                continue;
            slot->n_in_batch = batch->n_tokens[i];
            slot->first_row = batch->n_rows;
            hth_slot_fill_rows(slot, slot->n_in_batch, batch->rows + batch->n_rows);
            batch->n_rows += slot->n_in_batch;
            n_with_rows++;
        }
    return n_with_rows;
}

uint32_t hth_batch_plan(hth_batch *batch, const hth_schedule *schedule, bool alone)
{
    uint32_t n_batch = batch->place->n_batch, chunk = schedule->prefill_chunk, n_streams = 0;

    if (batch->n_slots == 0)
        return 0;
    if (alone)
        batch->n_slots = 1;
    for (uint32_t i = 0; i < batch->n_slots; i++) {
        batch->items[i] = hth_slot_plan_item(batch->slots[i]);
        n_streams += batch->items[i].is_decode;
    }
    if ((n_streams > 0 || batch->has_short_chunks) && n_streams < batch->n_slots) {
        uint32_t n = n_in_time(batch, schedule);

        while (chunk > n && chunk > HTH_CHUNK_MIN)
            chunk /= 2;
        if (n_streams + n < n_batch)
            n_batch = n_streams + n;
    }
    hth_strategy_plan(&schedule->strategy, batch->items, batch->n_slots, n_batch, chunk, batch->n_tokens);
    if (n_streams == batch->n_slots && !alone)
        plan_drafts(batch, n_streams);
    batch->n_sequences = place_rows(batch);
    return batch->n_sequences;
}

uint32_t hth_batch_n_idle_max(const hth_batch *batch)
{
    const hth_idle_cost *cost = &batch->place->idle_cost;
    uint64_t cell_ps = (uint64_t)batch->n_rows * cost->row_ps + (uint64_t)batch->n_sequences * cost->sequence_ps;
    uint64_t spent_ns = hth_batch_costs_of(&batch->costs, batch->n_rows);
    uint64_t n;

    if (cell_ps == 0 || spent_ns == 0)
        return cost->cells_max;
    n = spent_ns * (1000 / IDLE_PART) / cell_ps;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void hth_batch_fill(hth_batch *batch, uint32_t scratch, uint32_t n_cells)
{
    uint32_t n_rows = batch->n_rows, n = hth_batch_costs_fill(&batch->costs, n_rows);

    for (uint32_t i = 0; i < batch->n_slots; i++)
        if (!batch->items[i].is_decode)
            return;
    if (n_rows == 0 || n == n_rows || n > batch->place->n_batch || n > n_cells || batch->place->kind != HTH_MODEL_PLAIN)
        return;
    if (++batch->n_fills % FILL_TURNS == 0)
        return;
    batch->n_fill = n - n_rows;
    batch->scratch = scratch;
    for (uint32_t i = 0; i < batch->n_fill; i++)
        batch->rows[n_rows + i] = (hth_batch_row){ .token = batch->rows[0].token, .sequence = scratch, .position = i };
}

/* ---- evaluating ---- */

static void set_pulse(hth_batch *batch)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < batch->n_slots; i++)
        if (batch->slots[i]->n_in_batch > 0)
            atomic_store_explicit(&batch->pulse->cancelled[n++], &batch->slots[i]->request->cancelled,
                                  memory_order_relaxed);
    atomic_store_explicit(&batch->pulse->n, n, memory_order_release);
}

const float *hth_batch_logits(const hth_batch *batch, const hth_slot *slot)
{
    uint32_t last = slot->first_row + slot->n_in_batch - slot->n_draft - 1;

    return batch->rows[last].wants_logits ? batch->place->backend->logits(batch->place->context, last) : NULL;
}

/* The embedding of the slot's prompt, if its last row asked for it. */
static const float *vector_of(const hth_batch *batch, const hth_slot *slot)
{
    uint32_t last = slot->first_row + slot->n_in_batch - 1;

    return batch->rows[last].wants_vector ? batch->place->backend->vector(batch->place->context, last) : NULL;
}

const float *hth_batch_draft_logits(const hth_batch *batch, const hth_slot *slot, uint32_t i)
{
    return batch->place->backend->logits(batch->place->context, slot->first_row + slot->n_in_batch - slot->n_draft + i);
}

/* Does it have the results that its last tokens asked for? */
static bool has_results(const hth_batch *batch, const hth_slot *slot)
{
    const hth_batch_row *last = &batch->rows[slot->first_row + slot->n_in_batch - 1];

    for (uint32_t i = 0; i < slot->n_draft; i++)
        if (!hth_batch_draft_logits(batch, slot, i))
            return false;
    return (!last->wants_logits || hth_batch_logits(batch, slot)) && (!last->wants_vector || vector_of(batch, slot));
}

/* Pass logits to the slots that want them after each token of their prompts. */
static void note_prompt_logits(hth_batch *batch)
{
    const hth_workplace *place = batch->place;

    for (uint32_t i = 0; i < batch->n_slots; i++) {
        hth_slot *slot = batch->slots[i];

        if (!hth_slot_wants_prompt_logprobs(slot))
            continue;
        for (uint32_t k = 0; k < slot->n_in_batch && slot->state == HTH_SLOT_EVALUATE; k++) {
            if (hth_slot_is_cancelled(slot)) /* the rest is not needed */
                hth_slot_stop(slot, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED, "the request was cancelled");
            else
                hth_slot_note_prompt_logits(slot, k, place->backend->logits(place->context, slot->first_row + k));
        }
    }
}

hearth_status hth_batch_evaluate(hth_batch *batch, hth_decode_result *result, hearth_error *err)
{
    const hth_workplace *place = batch->place;
    uint64_t begin = hth_workplace_now(place), end;
    hearth_status status;

    *result = HTH_DECODE_OK;
    status = hth_adapter_set_apply(batch->slots[0]->request->adapters, place->backend, place->context, err);
    if (status != HEARTH_OK)
        return status;
    set_pulse(batch);
    status = place->backend->decode(place->context, batch->rows, batch->n_rows + batch->n_fill, result, err);
    if (batch->n_fill > 0)
        (void)place->backend->seq_remove(place->context, batch->scratch, 0, UINT32_MAX); /* all of it: never fails */
    atomic_store_explicit(&batch->pulse->n, 0, memory_order_release);
    for (uint32_t i = 0; status == HEARTH_OK && *result == HTH_DECODE_OK && i < batch->n_slots; i++) {
        const hth_slot *slot = batch->slots[i];

        if (slot->n_in_batch > 0 && !has_results(batch, slot))
            status = hth_fail(err, HEARTH_ENGINE, "the engine computed no logits, or no vector, for the last token");
    }
    if (status != HEARTH_OK || *result != HTH_DECODE_OK) {
        batch->n_fill = 0; /* it may be the reason */
        return status;
    }
    note_prompt_logits(batch);
    end = hth_workplace_now(place);
    hth_batch_costs_note(&batch->costs, batch->n_rows + batch->n_fill,
                         end - begin); /* including the prompts' log probabilities */
    for (uint32_t i = 0; i < batch->n_slots; i++) {
        hth_slot *slot = batch->slots[i];

        if (slot->n_in_batch == 0)
            continue;
        slot->vector = vector_of(batch, slot);
        hth_slot_note_evaluated(slot, slot->n_in_batch, hth_batch_logits(batch, slot), begin, end);
    }
    return HEARTH_OK;
}
