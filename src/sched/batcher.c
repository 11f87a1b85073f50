/*
 * batcher.c - a batcher's opening and closing, the ends of requests, and the tick
 */
#include "sched/batcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sched/batcher_inside.h"

enum { PARENT_POLL_MS = 5 };

/* ---- making ---- */

void hth_batcher_close(hth_batcher *batcher)
{
    if (!batcher)
        return;
    assert(batcher->n_running == 0);
    hth_waiting_line_deinit(&batcher->line);
    hth_pool_close(batcher->pool);
    free(batcher->running);
    free(batcher->ready);
    hth_batch_free(batcher->batch);
    free(batcher);
}

hearth_status hth_batcher_open(const hth_workplace *workplace, const hth_schedule *schedule, hth_pulse *pulse,
                               hth_ended_fn ended, void *user_data, hth_batcher **out, hearth_error *err)
{
    hth_batcher *batcher = calloc(1, sizeof(*batcher));
    hearth_status status;

    assert(schedule->n_parallel >= 1);
    assert(schedule->n_parallel <= HTH_PARALLEL_MAX);
    assert(schedule->n_sequences > schedule->n_parallel);
    assert(schedule->n_tell >= 1);
    if (batcher) {
        batcher->place = *workplace;
        batcher->schedule = *schedule;
        batcher->ended = ended;
        batcher->user_data = user_data;
        batcher->running = calloc(schedule->n_parallel, sizeof(hth_slot *));
        batcher->ready = calloc(schedule->n_parallel, sizeof(hth_slot *));
        batcher->batch = hth_batch_new(&batcher->place, schedule->n_parallel, pulse);
    }
    if (!batcher || !batcher->running || !batcher->ready || !batcher->batch) {
        hth_batcher_close(batcher);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler");
    }
    status = hth_pool_open(&batcher->place, schedule->n_sequences, &batcher->pool, err);
    if (status == HEARTH_OK)
        hth_pool_limit_idle(batcher->pool, workplace->idle_cost.cells_max);
    if (status != HEARTH_OK) {
        hth_batcher_close(batcher);
        return status;
    }
    *out = batcher;
    return HEARTH_OK;
}

const hth_workplace *hth_batcher_workplace(const hth_batcher *batcher)
{
    return &batcher->place;
}

/* ---- ending ---- */

uint64_t hth_batcher_session_until(const hth_batcher *batcher)
{
    return hth_batcher_now(batcher) + hth_ms_to_ns(batcher->schedule.session_idle_ms);
}

/* Conclude a slot that neither waits nor runs, report it, and free it. */
static void end(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_conclude(slot, batcher->pool, hth_batcher_session_until(batcher));
    batcher->n_ended++;
    batcher->ended(slot, batcher->user_data);
    hth_slot_free(slot);
}

void hth_batcher_leave_followers(hth_batcher *batcher, const hth_slot *leader)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->leader == leader)
            batcher->running[i]->leader = NULL;
}

void hth_batcher_leave_running(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    slot->ran_ns += hth_batcher_now(batcher) - slot->started_ns;
    slot->started_ns = 0;
    memmove(&batcher->running[i], &batcher->running[i + 1], (--batcher->n_running - i) * sizeof(*batcher->running));
    batcher->n_left++;
    hth_batcher_leave_followers(batcher, slot);
}

void hth_batcher_send_back(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    hth_batcher_leave_running(batcher, i);
    hth_waiting_line_return(&batcher->line, slot);
}

void hth_batcher_end_complete(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running;) {
        hth_slot *slot = batcher->running[i];

        if (slot->state != HTH_SLOT_ENDING) {
            i++;
            continue;
        }
        hth_batcher_leave_running(batcher, i);
        end(batcher, slot);
    }
}

static bool is_past(uint64_t begin_ns, uint32_t limit_ms, uint64_t now)
{
    return limit_ms > 0 && now - begin_ns >= hth_ms_to_ns(limit_ms);
}

/* Has the reader paused the request for too long? A newcomer that has told nothing may wait paused. */
static bool is_stalled(hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    unsigned n_pauses = atomic_load_explicit(&slot->request->n_pauses, memory_order_relaxed);

    if (slot->started_ns > 0 ? !hth_slot_is_paused(slot) : !hth_slot_is_parked(slot)) {
        slot->paused_ns = 0;
        return false;
    }
    if (slot->paused_ns == 0 || slot->n_pauses != n_pauses)
        slot->paused_ns = now ? now : 1;
    slot->n_pauses = n_pauses;
    return now - slot->paused_ns >= hth_ms_to_ns(batcher->schedule.stalled_ms);
}

/* Must a lingering slot end: its prompt is evaluated, its time is over, or another request waits? */
static bool has_lingered(const hth_batcher *batcher, const hth_slot *slot, uint64_t now)
{
    uint64_t until = atomic_load_explicit(&slot->request->linger_until_ns, memory_order_relaxed);

    return until > 0 && (slot->started_ns == 0 || slot->was_prefilled || batcher->somebody_waits || now >= until);
}

/* End a slot that was cancelled or whose time is over. True: it ended. */
static bool end_if_due(hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    const hth_request *request = slot->request;
    bool waits = slot->started_ns == 0;
    const char *problem = NULL;

    if (hth_slot_is_cancelled(slot) || has_lingered(batcher, slot, now)) {
        hth_slot_stop(slot, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED,
                      waits ? "the request was cancelled while it waited" : "the request was cancelled");
        return true;
    }
    if (is_past(request->submitted_ns, request->deadline_ms, now))
        problem = "the request's deadline_ms has passed";
    else if (waits && !slot->has_begun && is_past(request->submitted_ns, request->queue_timeout_ms, now))
        problem = "the request has waited for its queue_timeout_ms";
    else if (!waits && request->run_timeout_ms > 0 &&
             slot->ran_ns + now - slot->started_ns >= hth_ms_to_ns(request->run_timeout_ms))
        problem = "the request has run for its run_timeout_ms";
    else if (is_stalled(batcher, slot, now))
        problem = "the request's reader has taken nothing for too long";
    if (!problem)
        return false;
    hth_slot_stop(slot, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT, problem);
    return true;
}

static void end_waiting_if_due(hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    if (!end_if_due(batcher, slot, now))
        return;
    hth_waiting_line_remove(&batcher->line, slot);
    end(batcher, slot);
}

static void end_due(hth_batcher *batcher, uint64_t now)
{
    bool all = atomic_exchange_explicit(&batcher->any_cancelled, false, memory_order_acquire);
    hth_slot *slot, *next;

    for (slot = hth_waiting_line_next(&batcher->line, NULL); slot && (all || slot->has_returned); slot = next) {
        next = hth_waiting_line_next(&batcher->line, slot);
        end_waiting_if_due(batcher, slot, now);
    }
    while ((slot = hth_waiting_line_overdue(&batcher->line, now)))
        end_waiting_if_due(batcher, slot, now);
    for (uint32_t i = 0; i < batcher->n_running; i++)
        (void)end_if_due(batcher, batcher->running[i], now);
    hth_batcher_end_complete(batcher);
}

/* ---- coming ---- */

void hth_batcher_add(hth_batcher *batcher, hth_slot *slot)
{
    slot->number = ++batcher->n_arrived;
    if (!hth_waiting_line_add(&batcher->line, slot)) {
        hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory to queue the request");
        end(batcher, slot);
    } else if (hth_slot_is_cancelled(slot) ||
               hth_slot_lingers(slot)) { /* an earlier tick may have looked before this slot arrived */
        atomic_store_explicit(&batcher->any_cancelled, true, memory_order_relaxed);
    }
}

bool hth_batcher_admit_now(hth_batcher *batcher)
{
    hth_batcher_admit(batcher);
    return batcher->line.n == 0;
}

void hth_batcher_cancel(hth_batcher *batcher, hth_request *request)
{
    atomic_store_explicit(&request->cancelled, true, memory_order_relaxed);
    atomic_store_explicit(&batcher->any_cancelled, true, memory_order_release); /* publishes the store above */
}

void hth_batcher_linger(hth_batcher *batcher, hth_request *request, uint32_t ms)
{
    uint64_t until = hth_batcher_now(batcher) + hth_ms_to_ns(ms);

    atomic_store_explicit(&request->paused, 0, memory_order_relaxed);
    atomic_store_explicit(&request->linger_until_ns, until > 0 ? until : 1, memory_order_relaxed);
    atomic_store_explicit(&batcher->any_cancelled, true, memory_order_release); /* ends it if it waits */
}

/* ---- the tick ---- */

static void draw_saved(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        hth_slot_draw(batcher->running[i]);
    hth_batcher_end_complete(batcher);
}

static bool is_busy(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        if (hth_batcher_is_ready(slot) || (slot->state == HTH_SLOT_TELL && !hth_slot_is_paused(slot)) ||
            slot->state == HTH_SLOT_RESTORE || slot->state == HTH_SLOT_ENDING ||
            (slot->is_short && hth_batcher_n_available(batcher) > 0) ||
            (slot->state == HTH_SLOT_PREFIX &&
             (!slot->leader || hth_batcher_n_evaluated(slot->leader) >= slot->n_awaited)))
            return true;
    }
    return false;
}

/* Room and prefixes, for which slots wait, come from slots that leave, begin or are evaluated. */
static uint64_t n_events(const hth_batcher *batcher)
{
    return batcher->n_left + batcher->n_begun + batcher->n_ticks;
}

bool hth_batcher_tick(hth_batcher *batcher)
{
    uint64_t now = hth_batcher_now(batcher), n_before;

    end_due(batcher, now);
    n_before = n_events(batcher);
    hth_pool_expire_sessions(batcher->pool, now);
    hth_batcher_tell(batcher);
    hth_batcher_advance(batcher);
    hth_batcher_admit(batcher);
    batcher->somebody_waits = hth_waiting_line_next(&batcher->line, NULL) != NULL;
    hth_batcher_advance(batcher); /* the admitted slots */
    draw_saved(batcher);
    hth_workplace_note(&batcher->place, HEARTH_WORK_TOLD, NULL, 0);
    hth_batcher_gather_ready(batcher);
    hth_batcher_evaluate(batcher);
    hth_batcher_end_complete(batcher);
    return is_busy(batcher) || (!hth_batcher_is_idle(batcher) && n_events(batcher) != n_before);
}

static void wake_before(uint64_t *wake, uint64_t begin_ns, uint32_t limit_ms)
{
    uint64_t due = begin_ns + hth_ms_to_ns(limit_ms);

    if (limit_ms > 0 && due < *wake)
        *wake = due;
}

/* Wake for the next time limit or rise of a waiting slot. */
static void wake_for_waiting(uint64_t *wake, const hth_batcher *batcher)
{
    const hth_waiting_line *line = &batcher->line;
    uint64_t limit_ns = hth_waiting_line_next_limit(line);
    uint64_t rises_ns = hth_waiting_line_next_rise(line, batcher->looked_ns, hth_batcher_aging_ns(batcher));
    const hth_slot *slot = hth_waiting_line_next(line, NULL);

    for (; slot && slot->has_returned; slot = hth_waiting_line_next(line, slot)) {
        wake_before(wake, slot->request->submitted_ns, slot->request->deadline_ms);
        if (!slot->has_begun)
            wake_before(wake, slot->request->submitted_ns, slot->request->queue_timeout_ms);
        if (hth_slot_is_parked(slot) && slot->paused_ns > 0)
            wake_before(wake, slot->paused_ns, batcher->schedule.stalled_ms);
    }
    if (limit_ns < *wake)
        *wake = limit_ns;
    if (rises_ns < *wake)
        *wake = rises_ns;
}

uint64_t hth_batcher_wake_ns(const hth_batcher *batcher)
{
    uint64_t wake = hth_pool_next_expiry(batcher->pool);

    wake_for_waiting(&wake, batcher);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        wake_before(&wake, slot->request->submitted_ns, slot->request->deadline_ms);
        wake_before(&wake, slot->started_ns - slot->ran_ns, slot->request->run_timeout_ms);
        if (slot->paused_ns > 0)
            wake_before(&wake, slot->paused_ns, batcher->schedule.stalled_ms);
        if (hth_slot_lingers(slot) && atomic_load(&slot->request->linger_until_ns) < wake)
            wake = atomic_load(&slot->request->linger_until_ns);
        if (slot->state == HTH_SLOT_PARENT)
            wake_before(&wake, hth_batcher_now(batcher), PARENT_POLL_MS);
    }
    return wake;
}

bool hth_batcher_is_idle(const hth_batcher *batcher)
{
    return batcher->line.n == 0 && batcher->n_running == 0;
}

void hth_batcher_save(hth_batcher *batcher, hearth_save_reason reason)
{
    hth_pool_save(batcher->pool, reason);
    if (batcher->place.draft_model)
        hth_draft_model_save(batcher->place.draft_model, reason);
}

bool hth_batcher_end_session(hth_batcher *batcher, const hth_keyspace *tenant, const char *session)
{
    return hth_pool_end_session(batcher->pool, tenant, session);
}

void hth_batcher_forget(hth_batcher *batcher, const uint8_t fingerprint[32], const hearth_token *tokens,
                        uint32_t n_tokens, uint32_t n_kept)
{
    hth_pool_forget(batcher->pool, fingerprint, tokens, n_tokens, n_kept);
    if (batcher->place.draft_model) /* the fingerprint is of one of the two */
        hth_draft_model_forget(batcher->place.draft_model, fingerprint, tokens, n_tokens, n_kept);
}

void hth_batcher_count(hth_counters *counters, const hth_slot *slot)
{
    const hearth_stats *stats = &hth_reply_result(slot->reply)->stats;

    hth_count(counters, HTH_COUNT_REQUESTS, 1);
    hth_count_hit(counters, stats->hit, stats->tier);
    hth_count(counters, HTH_COUNT_TOKENS_PROMPT, stats->prompt_tokens);
    hth_count(counters, HTH_COUNT_TOKENS_CACHED, stats->cached_tokens);
    hth_count(counters, HTH_COUNT_TOKENS_GENERATED, stats->completion_tokens - slot->request->n_replayed);
    if (stats->lookup_ms > 0)
        hth_histogram_add(counters, HTH_PATH_LOOKUP, (uint64_t)(stats->lookup_ms * 1e6));
}

void hth_batcher_status_get(const hth_batcher *batcher, hth_batcher_status *out)
{
    const hth_cells *cells = hth_pool_cells(batcher->pool);

    *out = (hth_batcher_status){
        .activity = HEARTH_IDLE,
        .n_waiting = batcher->line.n,
        .n_running = batcher->n_running,
        .n_idle_sequences = hth_pool_n_idle(batcher->pool),
        .n_cells_used = hth_cells_n_total(cells) - hth_cells_n_unused(cells),
        .n_ticks = batcher->n_ticks,
        .n_preempted = batcher->n_preempted,
    };
    if (batcher->n_running > 0) {
        const hth_slot *slot = batcher->running[0];

        out->activity = slot->was_prefilled ? HEARTH_GENERATING : HEARTH_PREFILLING;
        out->request_id = slot->request->id;
        out->n_done = slot->was_prefilled ? hth_reply_n_tokens(slot->reply) : hth_batcher_n_evaluated(slot);
        out->n_total = slot->was_prefilled ? hth_reply_n_max(slot->reply) : slot->request->n_prompt;
    }
}
