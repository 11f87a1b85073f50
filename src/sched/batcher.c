/*
 * batcher.c - the tick
 */
#include "sched/batcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sched/batch.h"
#include "sched/batcher_inside.h"
#include "sched/queue.h"

enum { PARENT_POLL_MS = 5, QUIET_PART = 10 };

static uint64_t now_of(const hth_batcher *batcher)
{
    return hth_workplace_now(&batcher->place);
}

/* ---- making ---- */

void hth_batcher_close(hth_batcher *batcher)
{
    if (!batcher)
        return;
    assert(batcher->n_waiting == 0);
    assert(batcher->n_running == 0);
    hth_pool_close(batcher->pool);
    free(batcher->waiting);
    free(batcher->running);
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
    if (batcher) {
        batcher->place = *workplace;
        batcher->schedule = *schedule;
        batcher->ended = ended;
        batcher->user_data = user_data;
        batcher->running = calloc(schedule->n_parallel, sizeof(hth_slot *));
        batcher->batch = hth_batch_new(&batcher->place, schedule->n_parallel, pulse);
    }
    if (!batcher || !batcher->running || !batcher->batch) {
        hth_batcher_close(batcher);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler");
    }
    status = hth_pool_open(&batcher->place, schedule->n_sequences, &batcher->pool, err);
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

static uint64_t session_until(const hth_batcher *batcher)
{
    return now_of(batcher) + hth_ms_to_ns(batcher->schedule.session_idle_ms);
}

static void end(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_conclude(slot, batcher->pool, session_until(batcher));
    batcher->n_ended++;
    batcher->ended(slot, batcher->user_data);
    hth_slot_free(slot);
}

static void remove_at(hth_slot **slots, uint32_t *n, uint32_t i)
{
    memmove(&slots[i], &slots[i + 1], (--*n - i) * sizeof(*slots));
}

/* Those who wait for what it was computing look for themselves now. */
static void leave_followers(hth_batcher *batcher, const hth_slot *leader)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->leader == leader)
            batcher->running[i]->leader = NULL;
}

static void leave_running(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    slot->ran_ns += now_of(batcher) - slot->started_ns;
    slot->started_ns = 0;
    remove_at(batcher->running, &batcher->n_running, i);
    batcher->n_left++;
    leave_followers(batcher, slot);
}

static void end_complete(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running;) {
        hth_slot *slot = batcher->running[i];

        if (slot->state != HTH_SLOT_ENDING) {
            i++;
            continue;
        }
        leave_running(batcher, i);
        end(batcher, slot);
    }
}

static bool is_past(uint64_t begin_ns, uint32_t limit_ms, uint64_t now)
{
    return limit_ms > 0 && now - begin_ns >= hth_ms_to_ns(limit_ms);
}

/* A reader that has paused the request for too long is gone. */
static bool is_stalled(hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    unsigned n_pauses = atomic_load_explicit(&slot->request->n_pauses, memory_order_relaxed);

    if (!hth_slot_is_paused(slot)) {
        slot->paused_ns = 0;
        return false;
    }
    if (slot->paused_ns == 0 || slot->n_pauses != n_pauses)
        slot->paused_ns = now ? now : 1;
    slot->n_pauses = n_pauses;
    return now - slot->paused_ns >= hth_ms_to_ns(batcher->schedule.stalled_ms);
}

/* End a slot that was cancelled or whose time is over; true when it ended. */
static bool end_if_due(hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    const hth_request *request = slot->request;
    bool waits = slot->started_ns == 0;
    const char *problem = NULL;

    if (hth_slot_is_cancelled(slot)) {
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
    else if ((!waits || slot->has_begun) && is_stalled(batcher, slot, now))
        problem = "the request's reader has taken nothing for too long";
    if (!problem)
        return false;
    hth_slot_stop(slot, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT, problem);
    return true;
}

static void end_due(hth_batcher *batcher, uint64_t now)
{
    for (uint32_t i = 0; i < batcher->n_waiting;) {
        hth_slot *slot = batcher->waiting[i];

        if (!end_if_due(batcher, slot, now)) {
            i++;
            continue;
        }
        remove_at(batcher->waiting, &batcher->n_waiting, i);
        end(batcher, slot);
    }
    for (uint32_t i = 0; i < batcher->n_running; i++)
        (void)end_if_due(batcher, batcher->running[i], now);
    end_complete(batcher);
}

/* ---- the queue ---- */

/* False when there is no memory. */
static bool enqueue(hth_batcher *batcher, hth_slot *slot)
{
    if (batcher->n_waiting == batcher->waiting_capacity) {
        uint32_t capacity = 2 * batcher->waiting_capacity + 16;
        hth_slot **grown = realloc(batcher->waiting, capacity * sizeof(hth_slot *));

        if (!grown)
            return false;
        batcher->waiting = grown;
        batcher->waiting_capacity = capacity;
    }
    batcher->waiting[batcher->n_waiting++] = slot;
    return true;
}

void hth_batcher_add(hth_batcher *batcher, hth_slot *slot)
{
    slot->number = ++batcher->n_arrived;
    if (enqueue(batcher, slot))
        return;
    hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory to queue the request");
    end(batcher, slot);
}

/* Where a slot stands, waiting or running: only the time that it has waited lets it rise. */
static hth_queue_place place_of(const hth_slot *slot, uint64_t now)
{
    uint64_t ran = slot->ran_ns + (slot->started_ns > 0 ? now - slot->started_ns : 0);

    return (hth_queue_place){
        .priority = slot->request->priority,
        .since_ns = slot->request->submitted_ns + ran < now ? slot->request->submitted_ns + ran : now,
        .number = slot->number,
    };
}

static uint64_t aging_of(const hth_batcher *batcher)
{
    return hth_ms_to_ns(batcher->schedule.aging_ms);
}

static bool is_before(const hth_batcher *batcher, const hth_slot *a, const hth_slot *b, uint64_t now)
{
    hth_queue_place first = place_of(a, now), second = place_of(b, now);

    return hth_queue_is_before(&first, &second, now, aging_of(batcher));
}

/* What made room because nobody reads it does not come back before somebody does. */
static bool is_parked(const hth_slot *slot)
{
    return slot->has_begun && hth_slot_is_paused(slot);
}

/* Whose turn it is; n_waiting: nobody's. */
static uint32_t head(const hth_batcher *batcher, uint64_t now)
{
    uint32_t found = batcher->n_waiting;

    for (uint32_t i = 0; i < batcher->n_waiting; i++)
        if (!is_parked(batcher->waiting[i]) &&
            (found == batcher->n_waiting || is_before(batcher, batcher->waiting[i], batcher->waiting[found], now)))
            found = i;
    return found;
}

/* ---- who computes what another needs ---- */

/* Tokens of their prompts that two slots have in common, as far as one can take them from the other. */
static uint32_t n_in_common(const hth_batcher *batcher, const hth_slot *slot, const hth_slot *other)
{
    hth_guest mine = hth_slot_guest(slot), theirs = hth_slot_guest(other);
    uint32_t end = mine.n_tokens < theirs.n_tokens ? mine.n_tokens : theirs.n_tokens;
    uint32_t n;

    if (memcmp(mine.keyspace->fingerprint, theirs.keyspace->fingerprint, sizeof(mine.keyspace->fingerprint)) != 0)
        return 0;
    if (end > mine.n_limit)
        end = mine.n_limit;
    n = hth_tokens_common(mine.tokens, theirs.tokens, end);
    /* Rows are all that such a model can pass on: blocks, and what is saved where the prompt ends. */
    if (batcher->place.kind != HTH_MODEL_PLAIN && !(n == mine.n_tokens && n == theirs.n_tokens))
        n = n / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    return n;
}

/* How far a running slot has come. */
static uint32_t n_evaluated(const hth_slot *slot)
{
    return slot->seat ? hth_sequence_n_tokens(slot->seat->sequence) : 0;
}

/*
 * Can others wait for it? Those that wait themselves only for who came before them, so that no two wait for each other.
 */
static bool can_lead(const hth_slot *leader, const hth_slot *slot)
{
    if (leader == slot || leader->was_prefilled || hth_slot_is_paused(leader))
        return false;
    return leader->state == HTH_SLOT_RESTORE || leader->state == HTH_SLOT_EVALUATE ||
           (leader->state == HTH_SLOT_PREFIX && leader->number < slot->number);
}

/* The running slot that computes most of what this one needs; NULL where nobody does enough of it. */
static hth_slot *find_leader(const hth_batcher *batcher, const hth_slot *slot, uint32_t n_have, uint32_t *n_out)
{
    uint32_t gain_min = batcher->place.kind == HTH_MODEL_PLAIN ? HTH_GAIN_MIN : HTH_BLOCK_TOKENS;
    hth_slot *found = NULL;

    *n_out = 0;
    if ((slot->request->no_cache_read && !slot->has_begun) || batcher->place.kind == HTH_MODEL_UNCACHED ||
        (batcher->place.kind != HTH_MODEL_PLAIN && !batcher->place.cache))
        return NULL;
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *leader = batcher->running[i];
        uint32_t n, have;

        if (!can_lead(leader, slot))
            continue;
        n = n_in_common(batcher, slot, leader);
        have = n_evaluated(leader) > n_have ? n_evaluated(leader) : n_have;
        if (n >= have + gain_min && n > *n_out && n > slot->n_awaited_before) {
            found = leader;
            *n_out = n;
        }
    }
    return found;
}

/* ---- admission ---- */

static uint32_t n_outstanding(const hth_slot *slot)
{
    uint32_t n = n_evaluated(slot);

    if (!slot->seat)
        return slot->n_needed;
    return slot->n_room > n ? slot->n_room - n : 0;
}

/* Cells that nobody has, and nobody was promised. */
static uint32_t n_available(const hth_batcher *batcher)
{
    uint64_t promised = 0;
    uint32_t n = hth_cells_n_unheld(hth_pool_cells(batcher->pool));

    for (uint32_t i = 0; i < batcher->n_running; i++)
        promised += n_outstanding(batcher->running[i]);
    return promised < n ? n - (uint32_t)promised : 0;
}

/* Cells that a slot would take: all of its tokens but those that it shares with running ones, now or soon. */
static uint32_t n_needed(const hth_batcher *batcher, const hth_slot *slot)
{
    hth_guest guest = hth_slot_guest(slot);
    uint32_t n_held = 0, n_led = 0;
    uint32_t n_have = hth_pool_n_shared(batcher->pool, &guest, &n_held);

    if (batcher->place.kind == HTH_MODEL_PLAIN && find_leader(batcher, slot, n_have, &n_led) && n_led > n_held)
        n_held = n_led;
    if (n_held == guest.n_tokens)
        n_held--; /* the last one may be evaluated once more, for its logits */
    return hth_slot_n_expected(slot) - n_held;
}

/*
 * May a waiting slot push a running one out? It has to be of higher priority, and not behind it in the queue: what has
 * risen by waiting is not sent back to wait.
 */
static bool may_push_out(const hth_batcher *batcher, const hth_slot *waiting, const hth_slot *running)
{
    return running->request->priority < waiting->request->priority && !running->cannot_suspend &&
           is_before(batcher, waiting, running, batcher->looked_ns);
}

/* The running slot that makes room first for a waiting one: of the lowest priority, the youngest. NULL: none does. */
static hth_slot *next_victim(const hth_batcher *batcher, const hth_slot *waiting, uint32_t *i_out)
{
    hth_slot *found = NULL;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (!may_push_out(batcher, waiting, slot))
            continue;
        if (!found || slot->request->priority < found->request->priority ||
            (slot->request->priority == found->request->priority && slot->number > found->number)) {
            found = slot;
            *i_out = i;
        }
    }
    return found;
}

/* Would there be room for n_cells if all went that it may push out? */
static bool could_have(const hth_batcher *batcher, const hth_slot *waiting, uint32_t n_cells)
{
    uint64_t n = n_available(batcher);

    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (may_push_out(batcher, waiting, batcher->running[i]))
            n += n_evaluated(batcher->running[i]) + n_outstanding(batcher->running[i]);
    return n >= n_cells;
}

/* Back into the queue, where it was. Where it cannot be saved, or queued, it stays: false. */
static bool suspend_at(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    if (!enqueue(batcher, slot))
        return false;
    if (!hth_slot_suspend(slot, batcher->pool, session_until(batcher))) {
        slot->cannot_suspend = true;
        batcher->n_waiting--;
        return false;
    }
    slot->is_short = false;
    slot->leader = NULL;
    leave_running(batcher, i);
    batcher->n_preempted++;
    return true;
}

/* Let somebody of lower priority make room. */
static bool preempt_for(hth_batcher *batcher, const hth_slot *slot, uint32_t n_cells)
{
    uint32_t i = 0;

    while (could_have(batcher, slot, n_cells) && next_victim(batcher, slot, &i))
        if (suspend_at(batcher, i))
            return true;
    return false;
}

static void start(hth_batcher *batcher, hth_slot *slot);

/* Can it not be admitted, whatever it shares? Said without comparing its prompt with anybody's, for most ticks. */
static bool is_hopeless(const hth_batcher *batcher, const hth_slot *slot)
{
    uint32_t n_alone = hth_slot_n_expected(slot);
    uint32_t n_least = n_alone - (hth_slot_n_limit(slot) < n_alone ? hth_slot_n_limit(slot) : n_alone);
    uint32_t i;

    return (batcher->n_running == batcher->schedule.n_parallel || n_available(batcher) < n_least) &&
           !next_victim(batcher, slot, &i);
}

/* Admit the head of the queue; false when it has to wait, and so all others. */
static bool admit_one(hth_batcher *batcher, uint64_t now)
{
    uint32_t i = head(batcher, now);
    hth_slot *slot;
    uint32_t n_cells;

    if (i == batcher->n_waiting)
        return false;
    slot = batcher->waiting[i];
    if (is_hopeless(batcher, slot))
        return false;
    n_cells = n_needed(batcher, slot);
    while (batcher->n_running == batcher->schedule.n_parallel || n_available(batcher) < n_cells) {
        if (!preempt_for(batcher, slot, n_cells))
            return false;
        n_cells = n_needed(batcher, slot); /* what it shared may no longer be held */
    }
    remove_at(batcher->waiting, &batcher->n_waiting, i); /* what made room was appended behind it */
    slot->n_needed = n_cells;
    slot->started_ns = now ? now : 1;
    if (!slot->has_begun)
        hth_reply_result(slot->reply)->stats.queue_ms = (double)(now - slot->request->submitted_ns) / 1e6;
    batcher->running[batcher->n_running++] = slot;
    start(batcher, slot);
    return true;
}

static void admit(hth_batcher *batcher)
{
    do
        batcher->looked_ns = now_of(batcher);
    while (batcher->n_waiting > 0 && admit_one(batcher, batcher->looked_ns));
}

/* ---- beginning ---- */

/* Are the parent's tokens in the context, or in rows? On failure they might be: the real lookup tells. */
static bool parent_is_known(const hth_batcher *batcher, const hth_slot *slot)
{
    const hth_request *request = slot->request;
    hth_prompt_place place = hth_workplace_prompt_place(&batcher->place);
    hth_guest guest = hth_slot_guest(slot);
    uint32_t n_held;
    hth_lookup lookup;
    bool known;

    if (hth_pool_n_shared(batcher->pool, &guest, &n_held) >= request->n_parent)
        return true;
    if (hth_prompt_lookup(&place, &request->keyspace, request->prompt, request->n_prompt, true, &lookup, NULL) !=
        HEARTH_OK)
        return true;
    known = lookup.n_cached >= request->n_parent;
    hth_lookup_deinit(&lookup);
    return known;
}

/*
 * A parent key that is not known yet may name rows that another process is still writing. They are waited for as long as
 * anything is written at all, at most resume_wait_ms: what is not heard of for a tenth of that time is not coming. Only
 * this request's own lookup decides, so that the wait tells nothing of rows under other salts. True while it waits.
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

/* Begin what was admitted: wait for somebody, or take a seat. */
static void start(hth_batcher *batcher, hth_slot *slot)
{
    hth_guest guest = hth_slot_guest(slot);
    uint32_t n_held;

    if (waits_for_parent(batcher, slot, now_of(batcher)))
        return;
    slot->leader = find_leader(batcher, slot, hth_pool_n_shared(batcher->pool, &guest, &n_held), &slot->n_awaited);
    if (slot->leader) {
        slot->n_awaited_before = batcher->place.kind == HTH_MODEL_PLAIN ? 0 : slot->n_awaited;
        slot->leader->has_followers = true;
        slot->state = HTH_SLOT_PREFIX;
        return;
    }
    slot->n_spare = n_available(batcher);
    batcher->n_begun++;
    hth_slot_begin(slot, batcher->pool);
}

/* What it could share has changed since it was admitted: it may need more cells now. */
static void start_again(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];
    uint32_t n_before = slot->n_needed;
    uint32_t n_cells = n_needed(batcher, slot);

    slot->n_needed = 0;
    if (n_available(batcher) >= n_cells) {
        slot->n_needed = n_cells;
        start(batcher, slot);
    } else if (enqueue(batcher, slot)) {
        slot->state = HTH_SLOT_WAITING;
        leave_running(batcher, i);
    } else {
        slot->n_needed = n_before; /* without memory to wait elsewhere it waits here */
    }
}

static bool anybody_streams(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->was_prefilled && batcher->running[i]->state == HTH_SLOT_EVALUATE)
            return true;
    return false;
}

/* Bring everything that is beginning as far as it comes without an evaluation. */
static void advance(hth_batcher *batcher)
{
    uint64_t slice_ns = hth_ms_to_ns(batcher->schedule.max_tick_ms) / HTH_RESTORE_PART;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];
        uint32_t n_running = batcher->n_running;

        if (slot->state == HTH_SLOT_PARENT ||
            (slot->state == HTH_SLOT_PREFIX && (!slot->leader || n_evaluated(slot->leader) >= slot->n_awaited)))
            start_again(batcher, i);
        slot->n_spare = n_available(batcher);
        if (slot->state == HTH_SLOT_RESTORE)
            hth_slot_restore(slot, batcher->pool, anybody_streams(batcher) ? now_of(batcher) + slice_ns : UINT64_MAX);
        if (batcher->n_running < n_running)
            i--;
    }
    end_complete(batcher); /* what needs no evaluation; it does not make room for others any more */
}

/* ---- evaluating ---- */

/* Where a reply has outgrown what it was admitted for: more room, or it waits in place. */
static void grow_room(hth_batcher *batcher, hth_slot *slot)
{
    uint32_t n = HTH_BLOCK_TOKENS, n_max = batcher->place.n_ctx - slot->n_room;

    slot->is_short = false;
    if (slot->n_tokens <= slot->n_room)
        return;
    if (n > n_max)
        n = n_max;
    if (n > n_available(batcher))
        n = n_available(batcher);
    slot->n_room += n;
    slot->is_short = slot->n_tokens > slot->n_room;
}

static bool is_paused(const hth_slot *slot)
{
    return slot->was_prefilled && hth_slot_is_paused(slot);
}

/*
 * Everybody who runs has outgrown the context, or is paused. Who is paused makes room first, for nobody is to wait for a
 * slow reader; then the youngest does, and goes on when there is some. What cannot be saved for that ends here, as in a
 * context that is full.
 */
static void relieve(hth_batcher *batcher)
{
    bool any_paused = false;

    for (uint32_t i = batcher->n_running; i-- > 0;) {
        if (batcher->running[i]->state != HTH_SLOT_EVALUATE || !is_paused(batcher->running[i]))
            continue;
        if (!batcher->running[i]->cannot_suspend && suspend_at(batcher, i))
            return;
        any_paused = true;
    }
    if (any_paused)
        return; /* what it has cannot be saved: it goes on, or is given up, before long */
    for (uint32_t i = batcher->n_running; i-- > 0;) {
        hth_slot *slot = batcher->running[i];

        if (!slot->is_short)
            continue;
        if (!suspend_at(batcher, i)) {
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
            end_complete(batcher);
        }
        return;
    }
}

static bool is_ready(const hth_slot *slot)
{
    return slot->state == HTH_SLOT_EVALUATE && !slot->is_short && !is_paused(slot);
}

static void gather_ready(hth_batcher *batcher)
{
    bool any_short = false, any_other = false;

    hth_batch_clear(batcher->batch);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->state == HTH_SLOT_EVALUATE)
            grow_room(batcher, slot);
        any_short |= slot->is_short;
        any_other |= !slot->is_short && slot->state != HTH_SLOT_PREFIX && !is_paused(slot);
        if (is_ready(slot))
            hth_batch_add(batcher->batch, slot); /* who was served least lately comes first */
    }
    if (any_short && !any_other)
        relieve(batcher);
}

/* After an evaluation that went well. */
static void use_logits(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++)
        hth_slot_draw(hth_batch_slot(batcher->batch, i)); /* first, for somebody waits for it */
    hth_workplace_note(&batcher->place, HEARTH_WORK_TOLD, NULL, 0);
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++) {
        hth_slot *slot = hth_batch_slot(batcher->batch, i);

        if (slot->n_in_batch == 0)
            continue;
        hth_slot_save(slot, hth_batch_logits(batcher->batch, slot), slot->has_followers || !batcher->place.cache);
        slot->last_ticked = batcher->n_ticks;
    }
}

/* A sequence that was emptied under its slot is brought in again. */
static void begin_again(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_note_broken(slot);
    if (slot->n_breaks++ >= HTH_BREAKS_MAX)
        return; /* what is left of it is evaluated; the next failure is its own */
    if (hth_sequence_n_tokens(slot->seat->sequence) == 0) {
        hth_slot_leave(slot, batcher->pool, session_until(batcher));
        slot->n_needed = slot->n_room; /* with its reply it may need more: the next tick sees whether that is there */
        slot->leader = NULL;
        slot->state = HTH_SLOT_PREFIX;
        leave_followers(batcher, slot); /* else it might choose one of them, and both would wait */
    }
}

static void evaluate(hth_batcher *batcher)
{
    hearth_error err = { .message = "" };
    uint32_t n_slots;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_status status;

    n_slots = hth_batch_plan(batcher->batch, &batcher->schedule, batcher->one_by_one > 0);
    if (n_slots == 0)
        return;
    batcher->n_ticks++;
    if (batcher->one_by_one > 0)
        batcher->one_by_one--;
    (void)hth_pool_make_room(batcher->pool, hth_batch_n_rows(batcher->batch)); /* what was promised is there */
    status = hth_batch_evaluate(batcher->batch, &result, &err);
    if (status == HEARTH_OK && result == HTH_DECODE_NO_ROOM &&
        hth_pool_make_room(batcher->pool, hth_cells_n_unheld(hth_pool_cells(batcher->pool))))
        status = hth_batch_evaluate(batcher->batch, &result, &err); /* the engine sees it otherwise: all that can go */
    if (status == HEARTH_OK && result == HTH_DECODE_OK) {
        use_logits(batcher);
        return;
    }
    for (uint32_t i = 0; i < hth_batch_n_slots(batcher->batch); i++) {
        hth_slot *slot = hth_batch_slot(batcher->batch, i);

        if (slot->n_in_batch == 0)
            continue;
        if (result == HTH_DECODE_ABORTED)
            hth_slot_note_broken(slot); /* all are cancelled, and end with the next tick */
        else if (status != HEARTH_OK)
            begin_again(batcher, slot);
        if (n_slots > 1 || result == HTH_DECODE_ABORTED)
            continue;
        if (status != HEARTH_OK)
            hth_slot_stop(slot, status, HEARTH_FINISH_NONE, err.message);
        else if (slot->was_prefilled)
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
        else
            hth_slot_stop(slot, HEARTH_ENGINE, HEARTH_FINISH_NONE, "the engine has no room for the prompt");
    }
    if (n_slots > 1) /* whose fault it is shows when each is evaluated alone */
        batcher->one_by_one = n_slots;
}

/* ---- the tick ---- */

static void draw_saved(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        hth_slot_draw(batcher->running[i]);
    end_complete(batcher);
}

static bool is_busy(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        if (is_ready(slot) || slot->state == HTH_SLOT_RESTORE || slot->state == HTH_SLOT_ENDING ||
            (slot->is_short && n_available(batcher) > 0) ||
            (slot->state == HTH_SLOT_PREFIX && (!slot->leader || n_evaluated(slot->leader) >= slot->n_awaited)))
            return true;
    }
    return false;
}

/* What somebody waits for, room or a prefix, comes of who leaves, begins or is evaluated. */
static uint64_t n_events(const hth_batcher *batcher)
{
    return batcher->n_left + batcher->n_begun + batcher->n_ticks;
}

bool hth_batcher_tick(hth_batcher *batcher)
{
    uint64_t now = now_of(batcher), n_before;

    end_due(batcher, now);
    n_before = n_events(batcher);
    hth_pool_expire_sessions(batcher->pool, now);
    advance(batcher);
    admit(batcher);
    advance(batcher); /* what was admitted */
    draw_saved(batcher);
    hth_workplace_note(&batcher->place, HEARTH_WORK_TOLD, NULL, 0);
    gather_ready(batcher);
    evaluate(batcher);
    end_complete(batcher);
    return is_busy(batcher) || (!hth_batcher_is_idle(batcher) && n_events(batcher) != n_before);
}

static void wake_before(uint64_t *wake, uint64_t begin_ns, uint32_t limit_ms)
{
    uint64_t due = begin_ns + hth_ms_to_ns(limit_ms);

    if (limit_ms > 0 && due < *wake)
        *wake = due;
}

/* When a waiting request rises it may be its turn. */
static void wake_to_rise(uint64_t *wake, const hth_batcher *batcher, const hth_slot *slot)
{
    uint64_t since = place_of(slot, batcher->looked_ns).since_ns;
    uint64_t aging = aging_of(batcher);
    uint64_t due = since + ((batcher->looked_ns - since) / aging + 1) * aging;

    if (due < *wake)
        *wake = due;
}

uint64_t hth_batcher_wake_ns(const hth_batcher *batcher)
{
    uint64_t wake = hth_pool_next_expiry(batcher->pool);

    for (uint32_t i = 0; i < batcher->n_waiting; i++) {
        const hth_request *request = batcher->waiting[i]->request;

        wake_before(&wake, request->submitted_ns, request->deadline_ms);
        if (!batcher->waiting[i]->has_begun)
            wake_before(&wake, request->submitted_ns, request->queue_timeout_ms);
        if (is_parked(batcher->waiting[i]) && batcher->waiting[i]->paused_ns > 0)
            wake_before(&wake, batcher->waiting[i]->paused_ns, batcher->schedule.stalled_ms);
        wake_to_rise(&wake, batcher, batcher->waiting[i]);
    }
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        wake_before(&wake, slot->request->submitted_ns, slot->request->deadline_ms);
        wake_before(&wake, slot->started_ns - slot->ran_ns, slot->request->run_timeout_ms);
        if (slot->paused_ns > 0)
            wake_before(&wake, slot->paused_ns, batcher->schedule.stalled_ms);
        if (slot->state == HTH_SLOT_PARENT)
            wake_before(&wake, now_of(batcher), PARENT_POLL_MS);
    }
    return wake;
}

bool hth_batcher_is_idle(const hth_batcher *batcher)
{
    return batcher->n_waiting == 0 && batcher->n_running == 0;
}

void hth_batcher_save(hth_batcher *batcher, hearth_save_reason reason)
{
    hth_pool_save(batcher->pool, reason);
}

bool hth_batcher_end_session(hth_batcher *batcher, const uint8_t fingerprint[32], const char *session)
{
    return hth_pool_end_session(batcher->pool, fingerprint, session);
}

void hth_batcher_status_get(const hth_batcher *batcher, hth_batcher_status *out)
{
    const hth_cells *cells = hth_pool_cells(batcher->pool);

    *out = (hth_batcher_status){
        .activity = HEARTH_IDLE,
        .n_waiting = batcher->n_waiting,
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
        out->n_done = slot->was_prefilled ? hth_reply_n_tokens(slot->reply) : n_evaluated(slot);
        out->n_total = slot->was_prefilled ? hth_reply_n_max(slot->reply) : slot->request->n_prompt;
    }
}
