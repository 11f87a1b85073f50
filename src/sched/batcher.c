/*
 * batcher.c - the steps of a tick: end, begin, admit or preempt, evaluate
 */
#include "sched/batcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    GAIN_MIN = 32,    /* minimum tokens of another request's prefix that are worth waiting for */
    BREAKS_MAX = 3,   /* failed evaluations after which a request does not begin again */
    RESTORE_PART = 4, /* a restore may take this fraction of a tick while a reply streams: a quarter */
    PARENT_POLL_MS = 5,
    QUIET_PART = 10,
    FETCH_MAX_MS = 60000, /* a wait for rows from elsewhere, while the time to compute them is unknown */
    TICKS_AS_BEFORE = 64, /* a refused preemption is tried again after this many ticks */
};

static inline uint64_t batcher_now(const hth_batcher *batcher)
{
    return hth_workplace_now(&batcher->place);
}

static inline uint64_t aging_ns(const hth_batcher *batcher)
{
    return hth_ms_to_ns(batcher->schedule.aging_ms);
}

/* The number of tokens in the sequence of a running slot. */
static uint32_t n_evaluated(const hth_slot *slot)
{
    return slot->entry ? hth_sequence_n_tokens(slot->entry->sequence) : 0;
}

/* ---- making ---- */

void hth_batcher_close(hth_batcher *batcher)
{
    if (!batcher)
        return;
    assert(batcher->n_running == 0);
    hth_waiting_line_deinit(&batcher->line);
    hth_pool_close(batcher->pool);
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
        batcher->batch = hth_batch_new(&batcher->place, pulse);
    }
    if (!batcher || !batcher->batch) {
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

/* ---- ending ---- */

/* The time until which a sequence that is released now is kept for its session. */
static uint64_t session_until(const hth_batcher *batcher)
{
    return batcher_now(batcher) + hth_ms_to_ns(batcher->schedule.session_idle_ms);
}

/* Conclude a slot that neither waits nor runs, report it, and free it. */
static void end(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_conclude(slot, batcher->pool, session_until(batcher));
    batcher->n_ended++;
    batcher->ended(slot, batcher->user_data);
    hth_slot_free(slot);
}

/* Slots that wait for this leader stop waiting and look for a prefix again. */
static void leave_followers(hth_batcher *batcher, const hth_slot *leader)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->leader == leader)
            batcher->running[i]->leader = NULL;
}

/* Remove running slot i, which the caller takes over. */
static void leave_running(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    slot->ran_ns += batcher_now(batcher) - slot->started_ns;
    slot->started_ns = 0;
    memmove(&batcher->running[i], &batcher->running[i + 1], (--batcher->n_running - i) * sizeof(*batcher->running));
    batcher->n_left++;
    leave_followers(batcher, slot);
}

/* Put running slot i back into the waiting line. */
static void send_back(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];

    leave_running(batcher, i);
    hth_waiting_line_return(&batcher->line, slot);
}

/* End the running slots that are in ENDING. */
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

/* Has the reader paused the request for too long? A newcomer that has delivered nothing may wait while paused. */
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

/* Must a lingering slot end, because its prompt is evaluated, its time is over, or another request waits? */
static bool has_lingered(const hth_batcher *batcher, const hth_slot *slot, uint64_t now)
{
    uint64_t until = atomic_load_explicit(&slot->request->linger_until_ns, memory_order_relaxed);

    return until > 0 && (slot->started_ns == 0 || slot->was_prefilled || batcher->somebody_waits || now >= until);
}

/* End a slot that was cancelled or whose time is over. True if it ended. */
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
    if (is_past(request->submitted_ns, request->options.deadline_ms, now))
        problem = "the request's deadline_ms has passed";
    else if (waits && !slot->has_begun && is_past(request->submitted_ns, request->options.queue_timeout_ms, now))
        problem = "the request has waited for its queue_timeout_ms";
    else if (!waits && request->options.run_timeout_ms > 0 &&
             slot->ran_ns + now - slot->started_ns >= hth_ms_to_ns(request->options.run_timeout_ms))
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
    end_complete(batcher);
}

/* ---- waiting for a common prefix ---- */

/* The number of leading tokens that slot can take from other, because both prompts begin with them. */
static uint32_t n_in_common(const hth_batcher *batcher, const hth_slot *slot, const hth_slot *other)
{
    hth_pool_query mine = hth_slot_pool_query(slot), theirs = hth_slot_pool_query(other);
    uint32_t end = mine.n_tokens < theirs.n_tokens ? mine.n_tokens : theirs.n_tokens;
    uint32_t n;

    if (memcmp(mine.keyspace->fingerprint, theirs.keyspace->fingerprint, sizeof(mine.keyspace->fingerprint)) != 0)
        return 0;
    if (end > mine.n_limit)
        end = mine.n_limit;
    n = hth_tokens_common(mine.tokens, theirs.tokens, end);
    /* Other kinds of models share only rows: whole blocks, and the row at the end of an equal prompt. */
    if (batcher->place.kind != HTH_MODEL_PLAIN && !(n == mine.n_tokens && n == theirs.n_tokens))
        n = n / HTH_BLOCK_TOKENS * HTH_BLOCK_TOKENS;
    return n;
}

/*
 * Can slot wait for leader? A leader that is itself waiting must have arrived before slot, so that no two slots wait
 * for each other. A leader that waits for rows from elsewhere will have them, or compute them: others need not fetch
 * the same rows. One that waits for a parent's rows leads nobody, because its key may be of rows that never come.
 */
static bool can_lead(const hth_slot *leader, const hth_slot *slot)
{
    if (leader == slot || leader->was_prefilled || leader->is_going || hth_slot_is_paused(leader))
        return false;
    return leader->state == HTH_SLOT_RESTORE || leader->state == HTH_SLOT_EVALUATE ||
           ((leader->state == HTH_SLOT_PREFIX || (leader->state == HTH_SLOT_ROWS && leader->awaits_others)) &&
            leader->number < slot->number);
}

/*
 * The running slot that computes the longest part of this slot's prefix, and the number of tokens of that part. NULL if
 * no part is much longer than n_have, the tokens that are already there.
 */
static hth_slot *find_leader(const hth_batcher *batcher, const hth_slot *slot, uint32_t n_have, uint32_t *n_out)
{
    uint32_t gain_min = batcher->place.kind == HTH_MODEL_PLAIN ? GAIN_MIN : HTH_BLOCK_TOKENS;
    hth_slot *found = NULL;

    *n_out = 0;
    if (!hth_slot_may_read(slot) || batcher->place.kind == HTH_MODEL_UNCACHED ||
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

/* ---- cells ---- */

static uint32_t n_outstanding(const hth_slot *slot)
{
    uint32_t n = n_evaluated(slot);

    if (!slot->entry)
        return slot->n_needed;
    return slot->n_room > n ? slot->n_room - n : 0;
}

/* Cells that are neither held by nor promised to a running slot. */
static uint32_t n_available(const hth_batcher *batcher)
{
    uint64_t promised = 0;
    uint32_t n = hth_cells_n_unheld(hth_pool_cells(batcher->pool));

    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (!batcher->running[i]->is_going)
            promised += n_outstanding(batcher->running[i]);
    return promised < n ? n - (uint32_t)promised : 0;
}

/*
 * The number of cells that a slot would take: those of its tokens, except tokens that it shares with running slots now
 * or soon.
 */
static uint32_t batcher_n_needed(const hth_batcher *batcher, const hth_slot *slot)
{
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held = 0, n_led = 0;
    uint32_t n_have = hth_pool_n_shared(batcher->pool, &query, &n_held);

    if (batcher->place.kind == HTH_MODEL_PLAIN && find_leader(batcher, slot, n_have, &n_led) && n_led > n_held)
        n_held = n_led;
    if (n_held == query.n_tokens)
        n_held--; /* the last one may be evaluated once more, for its logits */
    return hth_slot_n_expected(slot) - n_held;
}

/*
 * ---- waiting for rows ----
 *
 * Rows of the prompt may be on their way into the cache: of a parent key, written by another process of this machine;
 * or from elsewhere, by order of on_missing. The slot waits for them in HTH_SLOT_ROWS, first for its parent's. It keeps
 * its place, but no cells are promised to it: how many it needs shows when the wait is over. Then it looks up as if it
 * had just been admitted. It waits in the line if there are too few cells.
 */

static void wait_for_rows(hth_batcher *batcher, hth_slot *slot)
{
    batcher->n_yielded += slot->n_needed > 0;
    slot->n_needed = 0;
    slot->state = HTH_SLOT_ROWS;
}

/* Are the parent's tokens in the context or in rows? Also true after a failure: the real lookup will decide. */
static bool parent_is_known(const hth_batcher *batcher, const hth_slot *slot)
{
    const hth_request *request = slot->request;
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held;
    hth_lookup lookup;
    bool known;

    if (hth_pool_n_shared(batcher->pool, &query, &n_held) >= request->n_parent)
        return true;
    if (hth_prompt_lookup(&batcher->place, &request->keyspace, request->prompt, request->n_prompt, true, &lookup,
                          NULL) != HEARTH_OK)
        return true;
    known = lookup.n_cached >= request->n_parent;
    hth_lookup_deinit(&lookup);
    return known;
}

/*
 * An unknown parent key may name rows that another process is still writing. The slot waits while rows are being
 * published, at most resume_wait_ms; if none is published for a tenth of that time, the wait ends. Only this request's
 * own lookup decides, so that the wait reveals nothing about rows under other salts. True while it waits.
 */
static bool waits_for_parent(const hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    const hth_workplace *place = &batcher->place;
    const hth_request *request = slot->request;
    uint64_t wait_ns = hth_ms_to_ns(place->resume_wait_ms);
    uint32_t changes;

    if (!request->options.parent_key || slot->waited_for_parent || !place->cache ||
        !hth_cache_is_shared(place->cache) || request->options.no_cache_read || place->kind == HTH_MODEL_UNCACHED)
        return false;
    changes = hth_cache_changes(place->cache);
    if (slot->rows_until_ns > 0 && slot->cache_changes == changes) {
        slot->waited_for_parent = now >= slot->rows_until_ns || now >= slot->quiet_ns;
    } else {
        if (slot->rows_until_ns == 0)
            slot->rows_until_ns = now + wait_ns;
        slot->cache_changes = changes;
        slot->quiet_ns = now + wait_ns / QUIET_PART;
        slot->waited_for_parent = parent_is_known(batcher, slot) || now >= slot->rows_until_ns;
    }
    return !slot->waited_for_parent;
}

/*
 * Tell on_missing which blocks of the prompt are neither in the context nor in rows. True if it fetches them; *until_ns
 * is then the time at which they could as well have been computed.
 */
static bool ask_others(const hth_batcher *batcher, const hth_slot *slot, uint64_t now, uint64_t *until_ns)
{
    const hth_workplace *place = &batcher->place;
    const hth_request *request = slot->request;
    hth_pool_query query = hth_slot_pool_query(slot);
    hearth_missing missing = { .struct_size = sizeof(missing), .request_id = request->id };
    uint32_t n_held, n_blocks = request->n_prompt / HTH_BLOCK_TOKENS, n_known;
    hth_lookup lookup;
    bool fetches = false;

    if (n_blocks == 0 || hth_prompt_lookup(place, &request->keyspace, request->prompt, request->n_prompt, true, &lookup,
                                           NULL) != HEARTH_OK)
        return false;
    n_known = hth_pool_n_shared(batcher->pool, &query, &n_held);
    if (n_known < lookup.n_cached)
        n_known = lookup.n_cached;
    n_known = n_known / HTH_BLOCK_TOKENS;
    if (n_known < n_blocks) {
        static_assert(sizeof(lookup.boundary_keys[0]) == HTH_KEY_BYTES, "keys follow each other without a gap");
        missing.n_prompt = request->n_prompt;
        missing.n_known = n_known * HTH_BLOCK_TOKENS;
        missing.keys = (const uint8_t *)&lookup.boundary_keys[n_known + 1];
        missing.n_keys = n_blocks - n_known;
        missing.compute_ns = (request->n_prompt - missing.n_known) * batcher->batch->costs.row_ns;
        *until_ns = now + (missing.compute_ns > 0 ? missing.compute_ns : hth_ms_to_ns(FETCH_MAX_MS));
        fetches = request->options.on_missing(&missing, request->options.user_data);
    }
    hth_lookup_deinit(&lookup);
    return fetches;
}

/* True while the slot waits for rows from elsewhere. It asks for them once, before its first evaluation. */
static bool waits_for_others(const hth_batcher *batcher, hth_slot *slot, uint64_t now)
{
    const hth_workplace *place = &batcher->place;

    if (!slot->has_asked) {
        slot->has_asked = true;
        slot->awaits_others = slot->request->options.on_missing && !slot->has_begun && hth_slot_may_read(slot) &&
                              place->kind != HTH_MODEL_UNCACHED && place->cache && hth_cache_is_shared(place->cache) &&
                              ask_others(batcher, slot, now, &slot->rows_until_ns);
    }
    if (slot->awaits_others)
        slot->awaits_others =
            now < slot->rows_until_ns && !atomic_load_explicit(&slot->request->rows_came, memory_order_acquire);
    return slot->awaits_others;
}

/* ---- beginning ---- */

/* Begin an admitted slot, which waits for another slot or occupies a sequence. */
static void start(hth_batcher *batcher, hth_slot *slot)
{
    hth_pool_query query = hth_slot_pool_query(slot);
    uint32_t n_held;

    if (!hth_slot_tell(slot, &batcher->n_to_tell))
        return;
    if (waits_for_parent(batcher, slot, batcher_now(batcher))) {
        wait_for_rows(batcher, slot);
        return;
    }
    slot->leader = find_leader(batcher, slot, hth_pool_n_shared(batcher->pool, &query, &n_held), &slot->n_awaited);
    if (slot->leader) {
        slot->n_awaited_before = batcher->place.kind == HTH_MODEL_PLAIN ? 0 : slot->n_awaited;
        slot->leader->has_followers = true;
        slot->state = HTH_SLOT_PREFIX;
        return;
    }
    if (waits_for_others(batcher, slot, batcher_now(batcher))) {
        wait_for_rows(batcher, slot);
        return;
    }
    slot->n_spare = n_available(batcher);
    batcher->n_begun++;
    hth_slot_begin(slot, batcher->pool);
}

/* The prefix that slot i can share has changed since its admission, so it may need more cells now. */
static void start_again(hth_batcher *batcher, uint32_t i)
{
    hth_slot *slot = batcher->running[i];
    uint32_t n_cells = batcher_n_needed(batcher, slot);

    slot->n_needed = 0;
    if (n_available(batcher) >= n_cells) {
        slot->n_needed = n_cells;
        start(batcher, slot);
    } else {
        slot->state = HTH_SLOT_WAITING;
        send_back(batcher, i);
    }
}

/* Is a slot in ROWS to stay there? A cheap test, unless the cache has changed. */
static bool still_waits_for_rows(const hth_batcher *batcher, hth_slot *slot)
{
    uint64_t now = batcher_now(batcher);

    return slot->awaits_others ? waits_for_others(batcher, slot, now) : waits_for_parent(batcher, slot, now);
}

static bool anybody_streams(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (batcher->running[i]->was_prefilled && batcher->running[i]->state == HTH_SLOT_EVALUATE)
            return true;
    return false;
}

/* Deliver echoed prompts and replayed replies, at most schedule.n_tell tokens, longest running slot first. */
static void batcher_tell(hth_batcher *batcher)
{
    batcher->n_to_tell = batcher->schedule.n_tell;
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        uint32_t n_running = batcher->n_running;

        if (batcher->running[i]->state == HTH_SLOT_DELIVER && hth_slot_tell(batcher->running[i], &batcher->n_to_tell))
            start_again(batcher, i);
        if (batcher->n_running < n_running)
            i--;
    }
}

/* Advance the slots that are beginning as far as possible without an evaluation. */
static void advance(hth_batcher *batcher)
{
    uint64_t slice_ns = hth_ms_to_ns(batcher->schedule.max_tick_ms) / RESTORE_PART;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];
        uint32_t n_running = batcher->n_running;

        if ((slot->state == HTH_SLOT_ROWS && !still_waits_for_rows(batcher, slot)) ||
            (slot->state == HTH_SLOT_PREFIX && (!slot->leader || n_evaluated(slot->leader) >= slot->n_awaited)))
            start_again(batcher, i);
        slot->n_spare = n_available(batcher);
        if (slot->state == HTH_SLOT_RESTORE)
            hth_slot_restore(slot, batcher->pool,
                             anybody_streams(batcher) ? batcher_now(batcher) + slice_ns : UINT64_MAX);
        if (batcher->n_running < n_running)
            i--;
    }
    end_complete(batcher); /* slots that need no evaluation; they can no longer be preempted */
}

/* ---- making room for a waiting slot ---- */

/*
 * May a waiting slot preempt a running one? It needs a higher priority and an earlier position in the queue: a slot
 * that rose by waiting is not sent back to wait.
 */
static bool may_push_out(const hth_batcher *batcher, const hth_slot *waiting, const hth_slot *running)
{
    hth_queue_place first = hth_place_of(waiting, batcher->looked_ns);
    hth_queue_place second = hth_place_of(running, batcher->looked_ns);

    return running->request->options.priority < waiting->request->options.priority && !running->cannot_suspend &&
           hth_queue_is_before(&first, &second, batcher->looked_ns, aging_ns(batcher));
}

/* Of two running slots, is a the one to preempt first: of lower priority, or younger? */
static bool goes_before(const hth_slot *a, const hth_slot *b)
{
    int32_t first = a->request->options.priority, second = b->request->options.priority;

    if (first != second)
        return first < second;
    return a->came_ns != b->came_ns ? a->came_ns > b->came_ns : a->number > b->number;
}

/* The running slot to preempt first for a waiting one: the youngest of the lowest priority. NULL: none is left. */
static hth_slot *next_victim(const hth_batcher *batcher, const hth_slot *waiting)
{
    hth_slot *found = NULL;

    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->is_going || !may_push_out(batcher, waiting, slot))
            continue;
        if (!found || goes_before(slot, found))
            found = slot;
    }
    return found;
}

/* Count the slot as preempted, or undo that. */
static void set_going(hth_slot *slot, bool is_going)
{
    slot->is_going = is_going;
    if (slot->entry)
        hth_pool_pretend_released(slot->entry, is_going);
}

/* Would there be a place and cells for a waiting slot if the slots counted as preempted were gone? */
static bool fits(const hth_batcher *batcher, const hth_slot *waiting)
{
    uint32_t n_staying = 0;

    for (uint32_t i = 0; i < batcher->n_running; i++)
        n_staying += !batcher->running[i]->is_going;
    return n_staying < batcher->schedule.n_parallel && n_available(batcher) >= batcher_n_needed(batcher, waiting);
}

/*
 * Choose the slots to preempt for a waiting slot: the first candidates that together free enough, minus those that turn
 * out not to be needed. Cells that other slots keep, or that the waiting slot shares, do not count as freed. Returns
 * the number of slots; 0: all candidates together are not enough.
 */
static uint32_t choose_victims(const hth_batcher *batcher, const hth_slot *waiting, hth_slot **victims)
{
    uint32_t n_all = 0, n = 0, n_chosen = 0;
    bool enough;

    for (hth_slot *slot = next_victim(batcher, waiting); slot; slot = next_victim(batcher, waiting)) {
        set_going(slot, true);
        victims[n_all++] = slot;
    }
    enough = fits(batcher, waiting);
    for (uint32_t i = 0; i < n_all; i++)
        set_going(victims[i], false);
    if (!enough)
        return 0;
    while (n < n_all && !fits(batcher, waiting))
        set_going(victims[n++], true);
    for (uint32_t i = n; i-- > 0;) { /* the last candidate is spared first */
        set_going(victims[i], false);
        if (!fits(batcher, waiting))
            set_going(victims[i], true);
    }
    for (uint32_t i = 0; i < n; i++)
        if (victims[i]->is_going) {
            set_going(victims[i], false);
            victims[n_chosen++] = victims[i];
        }
    return n_chosen;
}

/* Send a slot whose cells are saved back into the waiting line. */
static void suspend(hth_batcher *batcher, hth_slot *slot)
{
    uint32_t i = 0;

    while (batcher->running[i] != slot)
        i++;
    hth_slot_suspend(slot, batcher->pool, session_until(batcher));
    slot->is_short = false;
    slot->leader = NULL;
    send_back(batcher, i);
    batcher->n_preempted++;
}

static bool save_all(hth_slot *slot)
{
    slot->cannot_suspend = !hth_slot_save_all(slot); /* if it fails, it is not tried again */
    return !slot->cannot_suspend;
}

/* Preempt running slot i, which keeps its position in the order. False if it cannot be saved; it then stays. */
static bool suspend_at(hth_batcher *batcher, uint32_t i)
{
    if (!save_all(batcher->running[i]))
        return false;
    suspend(batcher, batcher->running[i]);
    return true;
}

/*
 * A count of changes that can affect choose_victims, which is expensive because it visits each cell. Its result is the
 * same while no slot leaves, yields, begins or rises in priority. A slot that pauses or resumes may change it, too, but
 * that is noticed a little later.
 */
static uint64_t n_changes(const hth_batcher *batcher)
{
    return batcher->n_left + batcher->n_yielded + batcher->n_begun + batcher->n_ticks / TICKS_AS_BEFORE;
}

static bool was_refused(const hth_batcher *batcher, const hth_slot *waiting)
{
    return batcher->refused_number == waiting->number && batcher->refused_after == n_changes(batcher) &&
           batcher->looked_ns < batcher->refused_until_ns;
}

static void note_refused(hth_batcher *batcher, const hth_slot *waiting)
{
    batcher->refused_number = waiting->number;
    batcher->refused_after = n_changes(batcher);
    batcher->refused_until_ns = hth_waiting_line_next_rise(&batcher->line, batcher->looked_ns, aging_ns(batcher));
}

/* Preempt slots of lower priority for a waiting slot, after all of them are saved: as many as needed, or none. */
static bool preempt_for(hth_batcher *batcher, const hth_slot *waiting)
{
    hth_slot *victims[HTH_PARALLEL_MAX];
    uint32_t n, n_saved = 0;

    if (was_refused(batcher, waiting))
        return false;
    n = choose_victims(batcher, waiting, victims);
    while (n_saved < n) {
        if (save_all(victims[n_saved++]))
            continue;
        n = choose_victims(batcher, waiting, victims); /* excludes the slot that could not be saved */
        n_saved = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        suspend(batcher, victims[i]);
    if (n == 0)
        note_refused(batcher, waiting);
    return n > 0;
}

/* True if the slot cannot be admitted whatever it shares. A cheap test that compares no prompts. */
static bool is_hopeless(const hth_batcher *batcher, const hth_slot *slot)
{
    uint32_t n_alone = hth_slot_n_expected(slot);
    uint32_t n_least = n_alone - (hth_slot_n_limit(slot) < n_alone ? hth_slot_n_limit(slot) : n_alone);
    uint64_t n_most = n_available(batcher);

    if (batcher->n_running < batcher->schedule.n_parallel && n_most >= n_least)
        return false;
    if (!next_victim(batcher, slot))
        return true;
    for (uint32_t i = 0; i < batcher->n_running; i++)
        if (may_push_out(batcher, slot, batcher->running[i]))
            n_most += n_evaluated(batcher->running[i]) + n_outstanding(batcher->running[i]);
    return n_most < n_least;
}

/* ---- admission ---- */

/* Admit the first slot of the line. False if it has to wait; then all others wait, too. */
static bool admit_one(hth_batcher *batcher, uint64_t now)
{
    hth_slot *slot = hth_waiting_line_first(&batcher->line, now, aging_ns(batcher));

    if (!slot || is_hopeless(batcher, slot))
        return false;
    if (!fits(batcher, slot) && !(preempt_for(batcher, slot) && fits(batcher, slot)))
        return false;
    hth_waiting_line_remove(&batcher->line, slot);
    slot->n_needed = batcher_n_needed(batcher, slot);
    slot->started_ns = now ? now : 1;
    if (!slot->has_begun)
        slot->reply->result->stats.queue_ms = hth_ms_between(slot->request->submitted_ns, now);
    batcher->running[batcher->n_running++] = slot;
    start(batcher, slot);
    return true;
}

/* Admit waiting slots in their order, until one has to wait. */
static void batcher_admit(hth_batcher *batcher)
{
    do
        batcher->looked_ns = batcher_now(batcher);
    while (admit_one(batcher, batcher->looked_ns));
}

/* ---- one evaluation: gather the ready slots, and use its results ---- */

/* A reply has outgrown the cells that it was admitted for: reserve more, or let it wait in place. */
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

/*
 * All running slots have outgrown the context, or are paused. Paused slots are preempted first, so that no request
 * waits for a slow reader; then the youngest, which continues when there is room. A slot that cannot be saved ends
 * here, as with a full context.
 */
static void relieve(hth_batcher *batcher)
{
    bool any_paused = false;

    for (uint32_t i = batcher->n_running; i-- > 0;) {
        const hth_slot *slot = batcher->running[i];

        /* A slot in DELIVER has few cells or none, but cells are promised to it. */
        if ((slot->state != HTH_SLOT_EVALUATE && slot->state != HTH_SLOT_DELIVER) || !hth_slot_waits_for_reader(slot))
            continue;
        if (!slot->cannot_suspend && suspend_at(batcher, i))
            return;
        any_paused = true;
    }
    if (any_paused)
        return; /* a paused slot that cannot be saved soon continues or ends as stalled */
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
    return slot->state == HTH_SLOT_EVALUATE && !slot->is_short && !hth_slot_waits_for_reader(slot);
}

/* Put the ready slots whose turn it is into the batch. */
static void gather_ready(hth_batcher *batcher)
{
    bool any_short = false, any_other = false;
    uint32_t n_ready = 0;

    hth_batch_clear(batcher->batch);
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        hth_slot *slot = batcher->running[i];

        if (slot->state == HTH_SLOT_EVALUATE)
            grow_room(batcher, slot);
        any_short |= slot->is_short;
        any_other |= !slot->is_short && slot->state != HTH_SLOT_PREFIX && slot->state != HTH_SLOT_ROWS &&
                     !hth_slot_waits_for_reader(slot);
        if (is_ready(slot))
            batcher->ready[n_ready++] = slot;
    }
    if (n_ready > 0)
        hth_turns_next(&batcher->turns, batcher->ready, n_ready, batcher_now(batcher), batcher->one_by_one > 0);
    for (uint32_t i = 0; i < n_ready; i++) {
        hth_slot *slot = batcher->ready[i];

        if (slot->turn_wait == 0)
            hth_batch_add(batcher->batch, slot); /* sorted: the longest unserved first */
        else if (slot->was_prefilled)
            batcher->batch->has_short_chunks = true;
    }
    if (any_short && !any_other)
        relieve(batcher);
}

/* Draw and save after an evaluation that succeeded. */
static void use_logits(hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->batch->n_slots; i++) { /* first, because a reader waits for it */
        hth_slot *slot = batcher->batch->slots[i];

        /* Draw after the last token, and after each draft token as long as the drawn tokens match the draft. */
        hth_slot_draw(slot);
        for (uint32_t k = 0; hth_slot_has_drawn_draft(slot, k); k++) {
            slot->logits = hth_batch_draft_logits(batcher->batch, slot, k);
            hth_slot_draw(slot);
        }
        hth_slot_end_draft(slot);
    }
    hth_workplace_note(&batcher->place, HEARTH_WORK_DELIVERED, NULL, 0);
    for (uint32_t i = 0; i < batcher->batch->n_slots; i++) {
        hth_slot *slot = batcher->batch->slots[i];

        if (slot->n_in_batch == 0)
            continue;
        hth_slot_save(slot, hth_batch_logits(batcher->batch, slot), slot->has_followers || !batcher->place.cache);
        slot->last_ticked = batcher->n_ticks;
    }
}

/* The slot's sequence was emptied: restore or compute it again. */
static void begin_again(hth_batcher *batcher, hth_slot *slot)
{
    hth_slot_note_broken(slot);
    if (slot->n_breaks++ >= BREAKS_MAX)
        return; /* evaluate the rest; the next failure is counted for this slot */
    if (hth_sequence_n_tokens(slot->entry->sequence) == 0) {
        hth_slot_release(slot, batcher->pool, session_until(batcher));
        slot->n_needed = slot->n_room; /* its reply may need more cells; the next tick checks */
        slot->leader = NULL;
        slot->state = HTH_SLOT_PREFIX;
        leave_followers(batcher, slot); /* otherwise they could wait for each other */
    }
}

static void batcher_evaluate(hth_batcher *batcher)
{
    hearth_error err = { .message = "" };
    uint32_t n_slots;
    hth_decode_result result = HTH_DECODE_OK;
    hearth_status status;
    bool is_alone; /* a failure is due to its only slot */

    n_slots = hth_batch_plan(batcher->batch, &batcher->schedule, batcher->one_by_one > 0);
    if (n_slots == 0)
        return;
    is_alone = n_slots == 1 && batcher->batch->n_draft == 0;
    batcher->n_ticks++;
    if (batcher->one_by_one > 0)
        batcher->one_by_one--;
    hth_pool_limit_idle(batcher->pool, hth_batch_n_idle_max(batcher->batch));
    (void)hth_pool_make_room(batcher->pool, batcher->batch->n_rows); /* the promised cells are there */
    hth_batch_fill(batcher->batch, batcher->schedule.n_sequences, hth_cells_n_unused(hth_pool_cells(batcher->pool)));
    status = hth_batch_evaluate(batcher->batch, &result, &err);
    if (status == HEARTH_OK && result == HTH_DECODE_NO_ROOM &&
        hth_pool_make_room(batcher->pool, hth_cells_n_unheld(hth_pool_cells(batcher->pool))))
        status = hth_batch_evaluate(batcher->batch, &result, &err); /* after emptying all finished sequences */
    if (status == HEARTH_OK && result == HTH_DECODE_OK) {
        use_logits(batcher);
        return;
    }
    for (uint32_t i = 0; i < batcher->batch->n_slots; i++) {
        hth_slot *slot = batcher->batch->slots[i];

        if (slot->n_in_batch == 0)
            continue;
        if (result == HTH_DECODE_ABORTED)
            hth_slot_note_broken(slot); /* all are cancelled and end with the next tick */
        else if (status != HEARTH_OK)
            begin_again(batcher, slot);
        if (!is_alone || result == HTH_DECODE_ABORTED)
            continue;
        if (status != HEARTH_OK)
            hth_slot_stop(slot, status, HEARTH_FINISH_NONE, err.message);
        else if (slot->was_prefilled)
            hth_slot_stop(slot, HEARTH_OK, HEARTH_FINISH_LENGTH, NULL);
        else
            hth_slot_stop(slot, HEARTH_ENGINE, HEARTH_FINISH_NONE, "the engine has no room for the prompt");
    }
    if (!is_alone) /* evaluate each alone and without a draft, to find the one that fails */
        batcher->one_by_one = n_slots;
}

/* ---- coming ---- */

void hth_batcher_add(hth_batcher *batcher, hth_slot *slot)
{
    slot->number = ++batcher->n_arrived;
    if (!hth_waiting_line_add(&batcher->line, slot)) {
        hth_slot_stop(slot, HEARTH_NO_MEMORY, HEARTH_FINISH_NONE, "no memory to queue the request");
        end(batcher, slot);
    } else if (hth_slot_is_cancelled(slot) ||
               hth_slot_lingers(slot)) { /* an earlier tick may have checked before this slot arrived */
        atomic_store_explicit(&batcher->any_cancelled, true, memory_order_relaxed);
    }
}

bool hth_batcher_admit_now(hth_batcher *batcher)
{
    batcher_admit(batcher);
    return batcher->line.n == 0;
}

void hth_batcher_cancel(hth_batcher *batcher, hth_request *request)
{
    atomic_store_explicit(&request->cancelled, true, memory_order_relaxed);
    atomic_store_explicit(&batcher->any_cancelled, true, memory_order_release); /* publishes the store above */
}

void hth_batcher_linger(hth_batcher *batcher, hth_request *request, uint32_t ms)
{
    uint64_t until = batcher_now(batcher) + hth_ms_to_ns(ms);

    atomic_store_explicit(&request->paused, 0, memory_order_relaxed);
    atomic_store_explicit(&request->linger_until_ns, until > 0 ? until : 1, memory_order_relaxed);
    atomic_store_explicit(&batcher->any_cancelled, true, memory_order_release); /* ends it if it waits */
}

void hth_batcher_rows_came(hth_request *request)
{
    atomic_store_explicit(&request->rows_came, true, memory_order_release);
}

/* ---- the tick ---- */

static bool is_busy(const hth_batcher *batcher)
{
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        if (is_ready(slot) || (slot->state == HTH_SLOT_DELIVER && !hth_slot_is_paused(slot)) ||
            slot->state == HTH_SLOT_RESTORE || slot->state == HTH_SLOT_ENDING ||
            (slot->is_short && n_available(batcher) > 0) ||
            (slot->state == HTH_SLOT_PREFIX && (!slot->leader || n_evaluated(slot->leader) >= slot->n_awaited)))
            return true;
    }
    return false;
}

/* A count of events that can free room, or complete prefixes: slots leave, yield, begin or are evaluated. */
static uint64_t n_events(const hth_batcher *batcher)
{
    return batcher->n_left + batcher->n_yielded + batcher->n_begun + batcher->n_ticks;
}

bool hth_batcher_tick(hth_batcher *batcher)
{
    uint64_t now = batcher_now(batcher), n_before;

    end_due(batcher, now);
    n_before = n_events(batcher);
    hth_pool_expire_sessions(batcher->pool, now);
    batcher_tell(batcher);
    advance(batcher);
    batcher_admit(batcher);
    batcher->somebody_waits = hth_waiting_line_next(&batcher->line, NULL) != NULL;
    advance(batcher); /* the admitted slots */
    for (uint32_t i = 0; i < batcher->n_running; i++)
        hth_slot_draw(batcher->running[i]); /* from saved logits */
    end_complete(batcher);
    hth_workplace_note(&batcher->place, HEARTH_WORK_DELIVERED, NULL, 0);
    gather_ready(batcher);
    batcher_evaluate(batcher);
    end_complete(batcher);
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
    uint64_t rises_ns = hth_waiting_line_next_rise(line, batcher->looked_ns, aging_ns(batcher));
    const hth_slot *slot = hth_waiting_line_next(line, NULL);

    for (; slot && slot->has_returned; slot = hth_waiting_line_next(line, slot)) {
        wake_before(wake, slot->request->submitted_ns, slot->request->options.deadline_ms);
        if (!slot->has_begun)
            wake_before(wake, slot->request->submitted_ns, slot->request->options.queue_timeout_ms);
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

        wake_before(&wake, slot->request->submitted_ns, slot->request->options.deadline_ms);
        wake_before(&wake, slot->started_ns - slot->ran_ns, slot->request->options.run_timeout_ms);
        if (slot->paused_ns > 0)
            wake_before(&wake, slot->paused_ns, batcher->schedule.stalled_ms);
        if (hth_slot_lingers(slot) && atomic_load(&slot->request->linger_until_ns) < wake)
            wake = atomic_load(&slot->request->linger_until_ns);
        if (slot->state == HTH_SLOT_ROWS && !slot->awaits_others)
            wake_before(&wake, batcher_now(batcher), PARENT_POLL_MS);
        if (slot->state == HTH_SLOT_ROWS && slot->awaits_others && slot->rows_until_ns < wake)
            wake = slot->rows_until_ns;
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
    if (batcher->place.draft_model) /* the fingerprint belongs to one of the two */
        hth_draft_model_forget(batcher->place.draft_model, fingerprint, tokens, n_tokens, n_kept);
}

void hth_batcher_count(hth_counters *counters, const hth_slot *slot)
{
    const hearth_stats *stats = &slot->reply->result->stats;

    hth_count(counters, HTH_COUNT_REQUESTS, 1);
    hth_count_hit(counters, stats->hit, stats->tier);
    hth_count(counters, HTH_COUNT_TOKENS_PROMPT, stats->prompt_tokens);
    hth_count(counters, HTH_COUNT_TOKENS_CACHED, stats->cached_tokens);
    hth_count(counters, HTH_COUNT_TOKENS_GENERATED, stats->completion_tokens - slot->request->options.n_replayed);
    if (stats->lookup_ms > 0)
        hth_histogram_add(counters, HTH_PATH_LOOKUP, (uint64_t)(stats->lookup_ms * 1e6));
}

void hth_batcher_status_get(const hth_batcher *batcher, hth_batcher_status *out)
{
    const hth_cells *cells = hth_pool_cells(batcher->pool);
    uint32_t n_replies = 0;

    *out = (hth_batcher_status){
        .activity = HEARTH_IDLE,
        .n_waiting = batcher->line.n,
        .n_running = batcher->n_running,
        .n_idle_sequences = hth_pool_n_idle(batcher->pool),
        .n_cells_used = hth_cells_n_total(cells) - hth_cells_n_unused(cells),
        .n_ticks = batcher->n_ticks,
        .n_preempted = batcher->n_preempted,
        .prompt_token_ns = batcher->batch->costs.row_ns,
    };
    for (uint32_t i = 0; i < batcher->n_running; i++) {
        const hth_slot *slot = batcher->running[i];

        if (slot->was_prefilled)
            n_replies++;
        else if (slot->request->n_prompt > n_evaluated(slot))
            out->n_prompt_left += slot->request->n_prompt - n_evaluated(slot);
    }
    n_replies = n_replies == 0 ? 1 : n_replies < HTH_CHUNK_MIN ? n_replies : HTH_CHUNK_MIN - 1;
    out->reply_token_ns = hth_batch_costs_of(&batcher->batch->costs, n_replies);
    if (batcher->n_running > 0) {
        const hth_slot *slot = batcher->running[0];

        out->activity = slot->was_prefilled ? HEARTH_GENERATING : HEARTH_PREFILLING;
        out->request_id = slot->request->id;
        out->n_done = slot->was_prefilled ? hth_reply_n_tokens(slot->reply) : n_evaluated(slot);
        out->n_total = slot->was_prefilled ? slot->reply->n_max : slot->request->n_prompt;
    }
}
