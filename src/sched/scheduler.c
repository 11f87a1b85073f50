/*
 * scheduler.c - the thread around a batcher
 *
 *   loop: take messages (wait for one only when the batcher has nothing to do)
 *         one tick
 *
 * A request is in `known` from submit until just before its on_done, so that cancel finds it. Its session and its place
 * in the queue are freed before on_done, because the callback may submit the next request. Requests that wait or run
 * when the scheduler closes end as cancelled. Each request gets on_done exactly once.
 */
#include "sched/scheduler.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "base/deadline.h"
#include "base/message_queue.h"
#include "base/os.h"

/*
 * Messages besides requests: saves, ends of sessions, wake-ups. The message queue has room for two full queues of
 * requests: its own, and one that resumes from another process.
 */
enum { MESSAGES_SPARE = 256 };

typedef enum message_kind {
    MESSAGE_WAKE,
    MESSAGE_SLOTS,
    /* Orders: work to do between two ticks for a thread that waits for it. */
    MESSAGE_SAVE,
    MESSAGE_END_SESSION,
    MESSAGE_FORGET,
} message_kind;

/* Except for orders, the scheduler frees it. Pointers of orders are borrowed from the waiting thread. */
typedef struct message {
    message_kind kind;

    /* Of orders; guarded by the scheduler's lock. */
    bool is_done;     /* with error, whose status may be HEARTH_OK; the waiting thread frees the order */
    bool is_given_up; /* the thread has stopped waiting: the scheduler frees the order */
    hearth_error error;

    hearth_save_reason reason;  /* MESSAGE_SAVE */
    const hth_keyspace *tenant; /* MESSAGE_END_SESSION; likewise session */
    const char *session;
    const uint8_t *fingerprint; /* [32], MESSAGE_FORGET; likewise the next three */
    const hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_kept;

    size_t n_slots; /* MESSAGE_SLOTS */
    hth_slot *slots[];
} message;

/* The only message that is not freed, so that a wake-up needs no memory. */
static const message wake_up = { .kind = MESSAGE_WAKE };

/* True on the threads of schedulers; each sets its own. */
static _Thread_local bool is_scheduler;

struct hth_scheduler {
    hth_batcher *batcher;
    hth_counters *counters;
    hth_message_queue *messages;
    pthread_t thread;
    uint32_t queue_max;
    uint32_t n_parallel;
    bool stopping; /* scheduler thread only */

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request has ended, or an order is done */
    hth_request *known;     /* waiting and running */
    size_t n_known;
    uint64_t ending_id;  /* the request whose on_done runs; 0: none */
    uint64_t request_ms; /* recent mean time of a request, for retry_after_s */
    bool refusing;
    hth_batcher_status status;
};

/* ---- the end of a request ---- */

/*
 * Before on_done: the next turn of the conversation may follow at once. A reply that a client steered is not recorded,
 * because its tokens would get into the prompts of others.
 */
static void note_tokens(const hth_slot *slot)
{
    const hth_request *request = slot->request;
    const hearth_result *result = &slot->reply->result->shown;

    if (slot->place->true_tokens && request->text && !request->is_steered)
        hth_true_tokens_note(slot->place->true_tokens, request->text->fingerprint, request->text, request->prompt,
                             request->n_prompt, result->tokens, result->stats->completion_tokens);
}

/* An hth_ended_fn. */
static void request_ended(hth_slot *slot, void *user_data)
{
    hth_scheduler *scheduler = user_data;
    hth_request *request = slot->request;
    const hearth_result *result = &slot->reply->result->shown;
    uint64_t spent_ms = (hth_workplace_now(slot->place) - request->submitted_ns) / 1000000u;

    hth_batcher_count(scheduler->counters, slot);
    note_tokens(slot);
    pthread_mutex_lock(&scheduler->lock);
    DL_DELETE(scheduler->known, request);
    scheduler->n_known--;
    scheduler->ending_id = request->id;
    scheduler->request_ms = (7 * scheduler->request_ms + spent_ms) / 8;
    pthread_mutex_unlock(&scheduler->lock);
    if (request->options.on_done)
        request->options.on_done(request->id, result, request->options.user_data);
    pthread_mutex_lock(&scheduler->lock);
    scheduler->ending_id = 0;
    pthread_cond_broadcast(&scheduler->changed);
    pthread_mutex_unlock(&scheduler->lock);
}

/* ---- messages ---- */

static bool is_of_session(const hth_request *request, const char *session)
{
    return request->options.session_id && strcmp(request->options.session_id, session) == 0;
}

/*
 * This thread receives the order and the session's requests in the sequence they were sent, so a request that was
 * submitted before the order is known here.
 */
static bool session_has_request(hth_scheduler *scheduler, const hth_keyspace *tenant, const char *session)
{
    const hth_request *request;
    bool has = false;

    pthread_mutex_lock(&scheduler->lock);
    DL_FOREACH(scheduler->known, request)
    has |= is_of_session(request, session) && hth_keyspace_same_tenant(&request->keyspace, tenant);
    pthread_mutex_unlock(&scheduler->lock);
    return has;
}

static void end_session(hth_scheduler *scheduler, message *order)
{
    if (session_has_request(scheduler, order->tenant, order->session))
        (void)hth_fail(&order->error, HEARTH_BUSY, "session_id '%s' has a request that has not ended; cancel it first",
                       order->session);
    else if (!hth_batcher_end_session(scheduler->batcher, order->tenant, order->session))
        (void)hth_fail(&order->error, HEARTH_NOT_FOUND,
                       "no cells are kept for session_id '%s'; it has ended, expired, or never was", order->session);
}

static void carry_out(hth_scheduler *scheduler, message *order)
{
    hth_workplace_note(hth_scheduler_workplace(scheduler), HEARTH_WORK_BEGINS, NULL, 0);
    if (order->kind == MESSAGE_SAVE)
        hth_batcher_save(scheduler->batcher, order->reason);
    else if (order->kind == MESSAGE_FORGET)
        hth_batcher_forget(scheduler->batcher, order->fingerprint, order->tokens, order->n_tokens, order->n_kept);
    else
        end_session(scheduler, order);
    hth_workplace_note(hth_scheduler_workplace(scheduler), HEARTH_WORK_ENDS, NULL, 0);
    pthread_mutex_lock(&scheduler->lock);
    order->is_done = true;
    if (order->is_given_up)
        free(order);
    pthread_cond_broadcast(&scheduler->changed);
    pthread_mutex_unlock(&scheduler->lock);
}

static void handle(hth_scheduler *scheduler, message *received)
{
    if (received->kind == MESSAGE_WAKE)
        return;
    if (received->kind != MESSAGE_SLOTS) {
        carry_out(scheduler, received);
        return;
    }
    for (size_t i = 0; i < received->n_slots; i++)
        hth_batcher_add(scheduler->batcher, received->slots[i]);
    free(received);
}

/* Milliseconds until the next work of the batcher; UINT32_MAX: never. */
static uint32_t ms_to_sleep(const hth_scheduler *scheduler)
{
    uint64_t wake = hth_batcher_wake_ns(scheduler->batcher);
    uint64_t now = hth_workplace_now(&scheduler->batcher->place);
    uint64_t ms;

    if (wake == UINT64_MAX)
        return UINT32_MAX;
    ms = wake > now ? (wake - now + 999999u) / 1000000u : 0;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX - 1;
}

static void take_messages(hth_scheduler *scheduler, bool busy)
{
    message *received = hth_message_queue_take(scheduler->messages, busy ? 0 : ms_to_sleep(scheduler));

    while (received) {
        handle(scheduler, received);
        received = hth_message_queue_take(scheduler->messages, 0);
    }
    scheduler->stopping = hth_message_queue_is_closed(scheduler->messages);
}

/* ---- the thread ---- */

static void publish_status(hth_scheduler *scheduler)
{
    hth_batcher_status status;

    hth_batcher_status_get(scheduler->batcher, &status);
    pthread_mutex_lock(&scheduler->lock);
    status.n_waiting = (uint32_t)scheduler->n_known - status.n_running; /* including those in the message queue */
    scheduler->status = status;
    pthread_mutex_unlock(&scheduler->lock);
}

/* Wake the thread if it sleeps. */
static void wake(hth_scheduler *scheduler)
{
    /* A scheduler with messages, or with a closed queue, is awake anyway. */
    if (hth_message_queue_count(scheduler->messages) == 0)
        (void)hth_message_queue_put(scheduler->messages, (void *)&wake_up);
}

void hth_scheduler_cancel_all(hth_scheduler *scheduler)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    DL_FOREACH(scheduler->known, request)
    hth_batcher_cancel(scheduler->batcher, request);
    pthread_mutex_unlock(&scheduler->lock);
    wake(scheduler);
}

static void *run(void *context)
{
    hth_scheduler *scheduler = context;
    const hth_workplace *place = hth_scheduler_workplace(scheduler);
    bool busy = false;

    hth_os_thread_name("hearth-sched");
    is_scheduler = true;
    while (!scheduler->stopping || !hth_batcher_is_idle(scheduler->batcher)) {
        take_messages(scheduler, busy);
        if (scheduler->stopping)
            hth_scheduler_cancel_all(scheduler);
        hth_workplace_note(place, HEARTH_WORK_BEGINS, NULL, 0);
        busy = hth_batcher_tick(scheduler->batcher) || scheduler->stopping;
        publish_status(scheduler);
        hth_workplace_note(place, HEARTH_WORK_ENDS, NULL, 0);
    }
    hth_workplace_note(place, HEARTH_WORK_BEGINS, NULL, 0);
    hth_batcher_save(scheduler->batcher, HEARTH_SAVE_SHUTDOWN);
    hth_workplace_note(place, HEARTH_WORK_ENDS, NULL, 0);
    return NULL;
}

/* ---- from other threads ---- */

static void deinit(hth_scheduler *scheduler)
{
    hth_batcher_close(scheduler->batcher);
    hth_message_queue_free(scheduler->messages);
    pthread_cond_destroy(&scheduler->changed);
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}

hearth_status hth_scheduler_open(const hth_workplace *workplace, const hth_schedule *schedule, uint32_t queue_max,
                                 hth_pulse *pulse, hth_counters *counters, hth_scheduler **out, hearth_error *err)
{
    hth_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    hearth_status status;
    int failed;

    if (!scheduler)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler");
    scheduler->counters = counters;
    scheduler->queue_max = queue_max;
    scheduler->n_parallel = schedule->n_parallel;
    pthread_mutex_init(&scheduler->lock, NULL);
    hth_condition_init(&scheduler->changed);
    scheduler->messages = hth_message_queue_new(2 * ((size_t)queue_max + schedule->n_parallel) + MESSAGES_SPARE);
    status = scheduler->messages
               ? hth_batcher_open(workplace, schedule, pulse, request_ended, scheduler, &scheduler->batcher, err)
               : hth_fail(err, HEARTH_NO_MEMORY, "no memory for a scheduler's message queue");
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

void hth_scheduler_close(hth_scheduler *scheduler)
{
    if (!scheduler)
        return;
    hth_scheduler_refuse(scheduler);
    hth_scheduler_cancel_all(scheduler); /* first, so that a long evaluation is aborted */
    hth_message_queue_close(scheduler->messages);
    pthread_join(scheduler->thread, NULL);
    deinit(scheduler);
}

const hth_workplace *hth_scheduler_workplace(const hth_scheduler *scheduler)
{
    return &scheduler->batcher->place;
}

bool hth_scheduler_is_this_thread(void)
{
    return is_scheduler;
}

/* Does the session (NULL: none) have a request that has not ended? */
static bool session_is_busy_locked(const hth_scheduler *scheduler, const uint8_t fingerprint[32], const char *session)
{
    const hth_request *request;

    if (!session)
        return false;
    DL_FOREACH(scheduler->known, request)
    if (is_of_session(request, session) && memcmp(request->keyspace.fingerprint, fingerprint, 32) == 0)
        return true;
    return false;
}

static hearth_status refuse_busy(const hth_scheduler *scheduler, hearth_error *err)
{
    uint64_t ms = (scheduler->request_ms + 1) / scheduler->n_parallel; /* mean time until a place is free */
    uint32_t seconds = ms < 3600000u ? (uint32_t)(ms / 1000) + 1 : 3600;
    hearth_status status = hth_fail(err, HEARTH_BUSY, "the queue is full with %u requests; try again in %u s",
                                    scheduler->queue_max, seconds);

    if (err)
        err->retry_after_s = seconds;
    return status;
}

static hearth_status check_submit_locked(hth_scheduler *scheduler, hth_slot *const *slots, size_t n, hearth_error *err)
{
    size_t n_max = (size_t)scheduler->queue_max + scheduler->n_parallel;
    const hth_request *first = slots[0]->request;

    if (scheduler->refusing)
        return hth_fail(err, HEARTH_CANCELLED, "the model is being unloaded and takes no new requests");
    if (n > n_max)
        return hth_fail(err, HEARTH_MISUSE,
                        "n is %zu; this model takes at most %zu requests at once, its n_parallel and its queue_max", n,
                        n_max);
    /*
     * A resumed reply had its place before its interruption. At most n_max replies had one, so the limit is doubled for
     * them.
     */
    if (scheduler->n_known + n > (first->options.is_resumed ? 2 * n_max : n_max))
        return refuse_busy(scheduler, err);
    if (session_is_busy_locked(scheduler, first->keyspace.fingerprint, first->options.session_id))
        return hth_fail(err, HEARTH_BUSY,
                        "session_id '%s' has a request that has not ended; wait for it, or use another session_id",
                        first->options.session_id);
    return HEARTH_OK;
}

hearth_status hth_scheduler_submit(hth_scheduler *scheduler, hth_slot *const *slots, size_t n, hearth_error *err)
{
    message *sent = malloc(sizeof(*sent) + n * sizeof(sent->slots[0])); /* one message: all slots or none */
    hearth_status status;

    if (!sent)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to submit a request");
    *sent = (message){ .kind = MESSAGE_SLOTS, .n_slots = n };
    memcpy(sent->slots, slots, n * sizeof(sent->slots[0]));
    pthread_mutex_lock(&scheduler->lock);
    status = check_submit_locked(scheduler, slots, n, err);
    if (status == HEARTH_OK && hth_message_queue_put(scheduler->messages, sent) != HTH_MESSAGE_QUEUE_OK)
        status = refuse_busy(scheduler, err);
    for (size_t i = 0; status == HEARTH_OK && i < n; i++) {
        DL_APPEND(scheduler->known, slots[i]->request);
        scheduler->n_known++;
    }
    pthread_mutex_unlock(&scheduler->lock);
    if (status != HEARTH_OK)
        free(sent);
    return status;
}

static hth_request *find_locked(hth_scheduler *scheduler, uint64_t id)
{
    hth_request *request;

    DL_FOREACH(scheduler->known, request)
    if (request->id == id)
        return request;
    return NULL;
}

/* Release the lock under which a request (NULL: none) was found and changed, and wake the thread. Was there one? */
static bool unlock_changed(hth_scheduler *scheduler, const hth_request *request)
{
    pthread_mutex_unlock(&scheduler->lock);
    if (request)
        wake(scheduler);
    return request != NULL;
}

bool hth_scheduler_cancel(hth_scheduler *scheduler, uint64_t id)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    request = find_locked(scheduler, id);
    if (request)
        hth_batcher_cancel(scheduler->batcher, request);
    return unlock_changed(scheduler, request);
}

bool hth_scheduler_linger(hth_scheduler *scheduler, uint64_t id, uint32_t ms)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    request = find_locked(scheduler, id);
    if (request)
        hth_batcher_linger(scheduler->batcher, request, ms);
    return unlock_changed(scheduler, request);
}

bool hth_scheduler_rows_came(hth_scheduler *scheduler, uint64_t id)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    request = find_locked(scheduler, id);
    if (request)
        hth_batcher_rows_came(request);
    return unlock_changed(scheduler, request);
}

bool hth_scheduler_pause(hth_scheduler *scheduler, uint64_t id, hth_pause by, bool paused)
{
    hth_request *request;

    pthread_mutex_lock(&scheduler->lock);
    request = find_locked(scheduler, id);
    if (request && paused) /* a repeated pause shows that the reader is alive */
        atomic_fetch_add_explicit(&request->n_pauses, 1, memory_order_relaxed);
    if (request && paused)
        atomic_fetch_or_explicit(&request->paused, (unsigned)by, memory_order_relaxed);
    else if (request)
        atomic_fetch_and_explicit(&request->paused, ~(unsigned)by, memory_order_relaxed);
    return unlock_changed(scheduler, request);
}

bool hth_scheduler_wait(hth_scheduler *scheduler, uint64_t id, uint32_t timeout_ms)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    int waited = 0;
    bool is_known;

    pthread_mutex_lock(&scheduler->lock);
    while ((is_known = find_locked(scheduler, id) || scheduler->ending_id == id) && waited != ETIMEDOUT)
        waited = timeout_ms == UINT32_MAX ? pthread_cond_wait(&scheduler->changed, &scheduler->lock)
                                          : pthread_cond_timedwait(&scheduler->changed, &scheduler->lock, &deadline);
    pthread_mutex_unlock(&scheduler->lock);
    return !is_known;
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
    while (scheduler->n_known > 0 || scheduler->ending_id != 0)
        pthread_cond_wait(&scheduler->changed, &scheduler->lock);
    pthread_mutex_unlock(&scheduler->lock);
}

/* ---- orders ---- */

/*
 * Send an order and wait for it, until deadline (NULL: no limit). Returns its status; HEARTH_BUSY if the queue is full;
 * HEARTH_TIMED_OUT, without a message; HEARTH_NO_MEMORY.
 */
static hearth_status give_order(hth_scheduler *scheduler, const message *order, const struct timespec *deadline,
                                hearth_error *err)
{
    message *sent = malloc(sizeof(*sent));
    hearth_status status = HEARTH_TIMED_OUT;
    int waited = 0;

    if (!sent)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to give the scheduler an order");
    *sent = *order;
    if (hth_message_queue_put(scheduler->messages, sent) != HTH_MESSAGE_QUEUE_OK) {
        free(sent);
        return hth_fail(err, HEARTH_BUSY, "the model's message queue is full; try again later");
    }
    pthread_mutex_lock(&scheduler->lock);
    while (!sent->is_done && waited != ETIMEDOUT)
        waited = deadline ? pthread_cond_timedwait(&scheduler->changed, &scheduler->lock, deadline)
                          : pthread_cond_wait(&scheduler->changed, &scheduler->lock);
    if (sent->is_done) {
        status = sent->error.status;
        if (status != HEARTH_OK && err)
            *err = sent->error;
        free(sent);
    } else {
        sent->is_given_up = true;
    }
    pthread_mutex_unlock(&scheduler->lock);
    return status;
}

/* Wait until saved rows are durable, or until the deadline. */
static bool flush(hth_cache *cache, uint64_t deadline_ns)
{
    uint64_t now = hth_os_monotonic_ns();

    return hth_cache_flush(cache, now < deadline_ns ? (uint32_t)((deadline_ns - now) / 1000000) : 0);
}

hearth_status hth_scheduler_save(hth_scheduler *scheduler, hearth_save_reason reason, uint32_t timeout_ms,
                                 hearth_error *err)
{
    hth_cache *cache = hth_scheduler_workplace(scheduler)->cache;
    struct timespec deadline = hth_deadline_after(timeout_ms);
    uint64_t deadline_ns = hth_os_monotonic_ns() + timeout_ms * UINT64_C(1000000);
    const message order = { .kind = MESSAGE_SAVE, .reason = reason };
    uint64_t n_lost = 0;
    hearth_status status;

    if (cache) {
        (void)flush(cache, deadline_ns); /* rows that wait for the writer would take the room of new ones */
        n_lost = hth_cache_n_lost(cache);
    }
    status = give_order(scheduler, &order, &deadline, err);
    if (status != HEARTH_OK && status != HEARTH_TIMED_OUT)
        return status;
    if (status == HEARTH_TIMED_OUT || (cache && !flush(cache, deadline_ns)))
        return hth_fail(err, HEARTH_TIMED_OUT, "not everything was saved within %u ms", timeout_ms);
    if (cache && hth_cache_n_lost(cache) != n_lost)
        return hth_fail(err, HEARTH_FULL, "not everything was saved: the device or a queue is full; the log says more");
    return HEARTH_OK;
}

hearth_status hth_scheduler_end_session(hth_scheduler *scheduler, const hth_keyspace *tenant, const char *session,
                                        hearth_error *err)
{
    const message order = { .kind = MESSAGE_END_SESSION, .tenant = tenant, .session = session };

    return give_order(scheduler, &order, NULL, err);
}

hearth_status hth_scheduler_forget(hth_scheduler *scheduler, const uint8_t fingerprint[32], const hearth_token *tokens,
                                   uint32_t n_tokens, uint32_t n_kept, hearth_error *err)
{
    const message order = {
        .kind = MESSAGE_FORGET,
        .fingerprint = fingerprint,
        .tokens = tokens,
        .n_tokens = n_tokens,
        .n_kept = n_kept,
    };

    return give_order(scheduler, &order, NULL, err);
}

void hth_scheduler_status_get(hth_scheduler *scheduler, hth_batcher_status *out)
{
    pthread_mutex_lock(&scheduler->lock);
    *out = scheduler->status;
    pthread_mutex_unlock(&scheduler->lock);
}
