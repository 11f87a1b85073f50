/*
 * scheduler.c - mailbox in, steps of one slot out
 *
 *   loop: take messages (wait for one only when idle)
 *         start the oldest waiting request if none runs
 *         one step of the running one
 *
 * A request is in `known` from submit until its on_done returned, which is how cancel finds it. Requests that still
 * wait when the scheduler closes are answered as cancelled; on_done is called for each exactly once.
 */
#include "sched/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <utlist.h>

#include "base/deadline.h"
#include "base/mailbox.h"
#include "base/os.h"
#include "sched/slot.h"

typedef enum message_kind { MESSAGE_REQUEST, MESSAGE_SAVE } message_kind;

/* Shared by the asking thread and the scheduler; the last of the two frees it, since the asker may time out first. */
typedef struct save_order {
    pthread_mutex_t lock;
    pthread_cond_t done_changed;
    bool done;
    unsigned holders;
    hearth_save_reason reason;
} save_order;

typedef struct message {
    message_kind kind;
    hth_request *request;
    save_order *save;
} message;

struct hth_scheduler {
    hth_workplace place;
    hth_counters *counters;
    hth_pulse *pulse;
    hth_mailbox *mailbox;
    pthread_t thread;

    /* Scheduler thread only. */
    hth_sequence *sequence;
    hth_slot *slot; /* NULL: no request runs */
    hth_request *waiting[HTH_QUEUE_MAX];
    size_t n_waiting;
    hth_request *running; /* the slot's; NULL without one */
    bool stopping;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    pthread_cond_t known_changed; /* a request has ended */
    hth_request *known;           /* waiting and running */
    size_t n_known;
    bool refusing;
    hth_scheduler_status status;
};

bool hth_pulse_wants_abort(void *user_data)
{
    const hth_pulse *pulse = user_data;
    const atomic_bool *cancelled = atomic_load_explicit(&pulse->cancelled, memory_order_acquire);

    return cancelled && atomic_load_explicit(cancelled, memory_order_relaxed);
}

/* ---- the end of a request ---- */

static void count_result(hth_scheduler *scheduler, const hearth_result *result)
{
    const hearth_stats *stats = &result->stats;

    hth_count(scheduler->counters, HTH_COUNT_REQUESTS, 1);
    hth_count_hit(scheduler->counters, stats->hit, stats->tier);
    hth_count(scheduler->counters, HTH_COUNT_TOKENS_PROMPT, stats->prompt_tokens);
    hth_count(scheduler->counters, HTH_COUNT_TOKENS_CACHED, stats->cached_tokens);
    hth_count(scheduler->counters, HTH_COUNT_TOKENS_GENERATED, stats->completion_tokens);
    if (stats->lookup_ms > 0)
        hth_histogram_add(scheduler->counters, HTH_PATH_LOOKUP, (uint64_t)(stats->lookup_ms * 1e6));
}

static void end_request(hth_scheduler *scheduler, hth_request *request, const hearth_result *result)
{
    count_result(scheduler, result);
    if (request->on_done)
        request->on_done(request->id, result, request->user_data);
    pthread_mutex_lock(&scheduler->lock);
    DL_DELETE(scheduler->known, request);
    scheduler->n_known--;
    pthread_cond_broadcast(&scheduler->known_changed);
    pthread_mutex_unlock(&scheduler->lock);
    hth_request_free(request);
}

/* A request that never ran. */
static void end_unstarted(hth_scheduler *scheduler, hth_request *request, hearth_status status, const char *reason)
{
    hearth_result result = { .status = status };
    char empty_text[1] = "";

    result.text = empty_text;
    result.stats.prompt_tokens = request->n_prompt;
    result.finish_reason = status == HEARTH_CANCELLED ? HEARTH_FINISH_CANCELLED : HEARTH_FINISH_NONE;
    (void)hth_fail(&result.error, status, "%s", reason);
    end_request(scheduler, request, &result);
}

/* ---- messages ---- */

static void save_sequence(hth_scheduler *scheduler, hearth_save_reason reason)
{
    if (hth_policy_should_save_finish(hth_sequence_n_tokens(scheduler->sequence), &scheduler->place.policy)) {
        hth_sequence_save_block(scheduler->sequence, reason);
        (void)hth_sequence_save_end(scheduler->sequence, reason); /* what was lost is counted */
    }
    if (reason == HEARTH_SAVE_EVICT && !scheduler->slot)
        (void)hth_sequence_shorten(scheduler->sequence, 0); /* its result is how many are left: none */
}

static void save_order_release(save_order *order)
{
    bool last;

    pthread_mutex_lock(&order->lock);
    last = --order->holders == 0;
    pthread_mutex_unlock(&order->lock);
    if (!last)
        return;
    pthread_cond_destroy(&order->done_changed);
    pthread_mutex_destroy(&order->lock);
    free(order);
}

static void obey_save(hth_scheduler *scheduler, save_order *order)
{
    save_sequence(scheduler, order->reason);
    pthread_mutex_lock(&order->lock);
    order->done = true;
    pthread_cond_signal(&order->done_changed);
    pthread_mutex_unlock(&order->lock);
    save_order_release(order);
}

static void handle(hth_scheduler *scheduler, message *received)
{
    switch (received->kind) {
    case MESSAGE_REQUEST:
        assert(scheduler->n_waiting < HTH_QUEUE_MAX); /* submit bounds it */
        scheduler->waiting[scheduler->n_waiting++] = received->request;
        break;
    case MESSAGE_SAVE: obey_save(scheduler, received->save); break;
    }
    free(received);
}

static void take_messages(hth_scheduler *scheduler)
{
    bool idle = !scheduler->slot && scheduler->n_waiting == 0;
    message *received = idle ? hth_mailbox_wait(scheduler->mailbox) : hth_mailbox_take(scheduler->mailbox, 0);

    while (received) {
        handle(scheduler, received);
        received = hth_mailbox_take(scheduler->mailbox, 0);
    }
    scheduler->stopping = hth_mailbox_is_closed(scheduler->mailbox);
}

/* ---- the tick ---- */

static void publish_status(hth_scheduler *scheduler)
{
    hth_scheduler_status status = { .activity = HEARTH_IDLE };

    if (scheduler->slot) {
        status.activity =
            hth_slot_state_of(scheduler->slot) == HTH_SLOT_PREFILL ? HEARTH_PREFILLING : HEARTH_GENERATING;
        status.request_id = scheduler->running->id;
        hth_slot_progress(scheduler->slot, &status.n_done, &status.n_total);
    }
    pthread_mutex_lock(&scheduler->lock);
    status.n_waiting = (uint32_t)(scheduler->n_known - (scheduler->running ? 1 : 0)); /* those in the mailbox too */
    scheduler->status = status;
    pthread_mutex_unlock(&scheduler->lock);
}

static void set_running(hth_scheduler *scheduler, hth_request *request)
{
    scheduler->running = request;
    atomic_store_explicit(&scheduler->pulse->cancelled, request ? &request->cancelled : NULL, memory_order_release);
}

/* Answer the waiting requests that were cancelled, so that a cancel does not wait for the running one. */
static void end_cancelled(hth_scheduler *scheduler)
{
    size_t kept = 0;

    for (size_t i = 0; i < scheduler->n_waiting; i++) {
        hth_request *request = scheduler->waiting[i];

        if (atomic_load_explicit(&request->cancelled, memory_order_relaxed))
            end_unstarted(scheduler, request, HEARTH_CANCELLED, "the request was cancelled while it waited");
        else
            scheduler->waiting[kept++] = request;
    }
    scheduler->n_waiting = kept;
}

static void start_next(hth_scheduler *scheduler)
{
    hth_request *request = scheduler->waiting[0];
    hearth_error err = { .message = "" };

    memmove(&scheduler->waiting[0], &scheduler->waiting[1], --scheduler->n_waiting * sizeof(scheduler->waiting[0]));
    set_running(scheduler, request);
    if (hth_slot_start(&scheduler->place, scheduler->sequence, request, &scheduler->slot, &err) != HEARTH_OK) {
        set_running(scheduler, NULL);
        end_unstarted(scheduler, request, err.status, err.message);
    }
}

static void finish_running(hth_scheduler *scheduler)
{
    hth_request *request = scheduler->running;

    set_running(scheduler, NULL);
    end_request(scheduler, request, hth_slot_result(scheduler->slot));
    hth_slot_free(scheduler->slot);
    scheduler->slot = NULL;
}

void hth_scheduler_cancel_all(hth_scheduler *scheduler)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    DL_FOREACH(scheduler->known, request)
    atomic_store_explicit(&request->cancelled, true, memory_order_relaxed);
    pthread_mutex_unlock(&scheduler->lock);
}

static void *run(void *context)
{
    hth_scheduler *scheduler = context;

    hth_os_thread_name("hearth-sched");
    while (!scheduler->stopping || scheduler->slot || scheduler->n_waiting > 0) {
        take_messages(scheduler);
        if (scheduler->stopping)
            hth_scheduler_cancel_all(scheduler);
        end_cancelled(scheduler);
        if (!scheduler->slot && scheduler->n_waiting > 0) {
            start_next(scheduler);
            publish_status(scheduler); /* the first evaluation may take long */
        }
        if (scheduler->slot) {
            hth_slot_step(scheduler->slot);
            if (hth_slot_state_of(scheduler->slot) == HTH_SLOT_DONE)
                finish_running(scheduler);
        }
        publish_status(scheduler);
    }
    save_sequence(scheduler, HEARTH_SAVE_SHUTDOWN);
    return NULL;
}

/* ---- from other threads ---- */

static void deinit(hth_scheduler *scheduler)
{
    hth_sequence_close(scheduler->sequence);
    hth_mailbox_free(scheduler->mailbox);
    pthread_cond_destroy(&scheduler->known_changed);
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}

hearth_status hth_scheduler_open(const hth_workplace *workplace, hth_pulse *pulse, hth_counters *counters,
                                 hth_scheduler **out, hearth_error *err)
{
    hth_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    hearth_status status;
    int failed;

    if (!scheduler)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler");
    scheduler->place = *workplace;
    scheduler->pulse = pulse;
    scheduler->counters = counters;
    pthread_mutex_init(&scheduler->lock, NULL);
    pthread_cond_init(&scheduler->known_changed, NULL);
    scheduler->mailbox = hth_mailbox_new(HTH_QUEUE_MAX + 64); /* besides requests, a few saves and the stop */
    status = scheduler->mailbox ? hth_sequence_open(&scheduler->place, 0, 1, &scheduler->sequence, err)
                                : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler's mailbox");
    if (status != HEARTH_OK) {
        deinit(scheduler);
        return status;
    }
    failed = pthread_create(&scheduler->thread, NULL, run, scheduler);
    if (failed) {
        deinit(scheduler);
        return hth_fail_errno(err, failed, "cannot start a scheduler thread");
    }
    *out = scheduler;
    return HEARTH_OK;
}

static hth_mailbox_result post(hth_scheduler *scheduler, message_kind kind, hth_request *request, save_order *save)
{
    message *sent = calloc(1, sizeof(*sent));
    hth_mailbox_result result;

    if (!sent)
        return HTH_MAILBOX_FULL;
    *sent = (message){ .kind = kind, .request = request, .save = save };
    result = hth_mailbox_put(scheduler->mailbox, sent);
    if (result != HTH_MAILBOX_OK)
        free(sent);
    return result;
}

void hth_scheduler_close(hth_scheduler *scheduler)
{
    if (!scheduler)
        return;
    hth_scheduler_refuse(scheduler);
    hth_scheduler_cancel_all(scheduler); /* at once, so that a long evaluation is broken off */
    hth_mailbox_close(scheduler->mailbox);
    pthread_join(scheduler->thread, NULL);
    deinit(scheduler);
}

hearth_status hth_scheduler_submit(hth_scheduler *scheduler, hth_request *request, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    pthread_mutex_lock(&scheduler->lock);
    if (scheduler->refusing)
        status = hth_fail(err, HEARTH_CANCELLED, "the model is being unloaded and takes no new requests");
    else if (scheduler->n_known >= HTH_QUEUE_MAX)
        status =
            hth_fail(err, HEARTH_BUSY, "%d requests are waiting; try again when some have finished", HTH_QUEUE_MAX);
    else if (post(scheduler, MESSAGE_REQUEST, request, NULL) != HTH_MAILBOX_OK)
        status = hth_fail(err, HEARTH_BUSY, "the model's mailbox is full; try again later");
    if (status == HEARTH_OK) {
        DL_APPEND(scheduler->known, request);
        scheduler->n_known++;
    }
    pthread_mutex_unlock(&scheduler->lock);
    return status;
}

bool hth_scheduler_cancel(hth_scheduler *scheduler, uint64_t id)
{
    hth_request *request;
    bool found = false;

    pthread_mutex_lock(&scheduler->lock);
    DL_FOREACH(scheduler->known, request)
    {
        if (request->id != id)
            continue;
        atomic_store_explicit(&request->cancelled, true, memory_order_relaxed);
        found = true;
        break;
    }
    pthread_mutex_unlock(&scheduler->lock);
    return found;
}

void hth_scheduler_refuse(hth_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    scheduler->refusing = true;
    pthread_mutex_unlock(&scheduler->lock);
}

void hth_scheduler_wait_idle(hth_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    while (scheduler->n_known > 0)
        pthread_cond_wait(&scheduler->known_changed, &scheduler->lock);
    pthread_mutex_unlock(&scheduler->lock);
}

hearth_status hth_scheduler_save(hth_scheduler *scheduler, hearth_save_reason reason, uint32_t timeout_ms,
                                 hearth_error *err)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    uint64_t begin_ns = hth_os_monotonic_ns();
    uint64_t n_lost = scheduler->place.cache ? hth_cache_n_lost(scheduler->place.cache) : 0;
    save_order *order = calloc(1, sizeof(*order));
    uint64_t spent_ms;
    bool done;
    int waited = 0;

    if (!order)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to ask for a save");
    order->reason = reason;
    order->holders = 2;
    pthread_mutex_init(&order->lock, NULL);
    hth_condition_init(&order->done_changed);
    if (post(scheduler, MESSAGE_SAVE, NULL, order) != HTH_MAILBOX_OK) {
        order->holders = 1; /* nobody else will see it */
        save_order_release(order);
        return hth_fail(err, HEARTH_BUSY, "the model's mailbox is full; try again later");
    }
    pthread_mutex_lock(&order->lock);
    while (!order->done && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&order->done_changed, &order->lock, &deadline);
    done = order->done;
    pthread_mutex_unlock(&order->lock);
    save_order_release(order);

    spent_ms = (hth_os_monotonic_ns() - begin_ns) / 1000000;
    if (done && scheduler->place.cache)
        done = hth_cache_flush(scheduler->place.cache, spent_ms < timeout_ms ? timeout_ms - (uint32_t)spent_ms : 0);
    if (!done)
        return hth_fail(err, HEARTH_TIMED_OUT, "not everything was saved within %u ms", timeout_ms);
    if (scheduler->place.cache && hth_cache_n_lost(scheduler->place.cache) != n_lost)
        return hth_fail(err, HEARTH_FULL, "not everything was saved: the device or a queue is full; the log says more");
    return HEARTH_OK;
}

void hth_scheduler_status_get(hth_scheduler *scheduler, hth_scheduler_status *out)
{
    pthread_mutex_lock(&scheduler->lock);
    *out = scheduler->status;
    pthread_mutex_unlock(&scheduler->lock);
}
