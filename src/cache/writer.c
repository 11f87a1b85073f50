/*
 * writer.c - threads with one message queue each, and a count of the jobs in progress
 *
 * The first thread also does the tiers' maintenance, once a second while it is busy or whenever it is idle.
 */
#include "cache/writer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/deadline.h"
#include "base/message_queue.h"
#include "base/os.h"
#include "cache/cache_inside.h"
#include "rows/kvc_signature.h"

enum {
    QUEUED_ROWS_MAX = 65536, /* for each thread; queue_rows_max is the usual limit */
    MAINTAIN_EVERY_MS = 1000,
    LOOK_AGAIN_MS = 1000,
    STUCK_MS = 10000,  /* longest wait for one write at the close */
    WARN_EVERY = 1000, /* failed writes between two warnings: on a full disk every write fails */
};

typedef enum job_kind { JOB_PUBLISH, JOB_SUPERSEDE, JOB_QUARANTINE, JOB_REVIEW, JOB_REMOVE } job_kind;

typedef struct job {
    job_kind kind;
    hth_ram_row *row; /* to publish, pinned */
    size_t tier;
    hth_row_id id;      /* row that `row` supersedes, or to quarantine, or to remove from all tiers */
    bool has_successor; /* for a row to remove */
    hth_row_id successor;
    const char *reason;
} job;

typedef struct worker {
    hth_writer *writer;
    hth_message_queue *jobs;
    pthread_t thread;

    /* Guarded by the writer's lock. Jobs are done in order, so job i is done once n_done >= i. */
    uint64_t n_queued;
    uint64_t n_done;
} worker;

struct hth_writer {
    hth_writer_options options; /* fixed at opening, except the limits */
    _Atomic uint64_t n_failed;

    /* Guards the fields below and the workers'; the lock of a message queue may be taken inside. */
    pthread_mutex_t lock;
    pthread_cond_t progressed;
    hth_writer_limits limits;
    size_t queue_rows;
    uint64_t queue_bytes;
    size_t n_flushing;  /* threads that wait for the queue to empty: no rate limit applies while there are any */
    bool dropping;      /* closing ran out of time */
    uint64_t paused_ns; /* monotonic time until which the bytes written so far use up the limit of bytes per second */

    size_t n_ended; /* ended threads */
    size_t n_workers;
    worker workers[HTH_WRITER_THREADS_MAX];
};

/* ---- the queue ---- */

static worker *worker_of(hth_writer *writer, const hth_row_id *id)
{
    return &writer->workers[id->key.bytes[HTH_KEY_BYTES - 1] % writer->n_workers];
}

/* Queue a copy of a job on the thread of a row. False without room or memory. */
static bool put(hth_writer *writer, const hth_row_id *id, const job *wanted)
{
    size_t bytes = wanted->row ? hth_ram_row_bytes(wanted->row) : 0;
    worker *to = worker_of(writer, id);
    job *next = malloc(sizeof(*next));
    bool accepted;

    if (!next)
        return false;
    *next = *wanted;
    pthread_mutex_lock(&writer->lock);
    /* Jobs that write nothing are refused only if the message queue is full. */
    accepted = (!next->row || (writer->queue_rows < writer->limits.queue_rows_max &&
                               writer->queue_bytes + bytes <= writer->limits.queue_bytes_max)) &&
               hth_message_queue_put(to->jobs, next) == HTH_MESSAGE_QUEUE_OK;
    if (accepted) {
        writer->queue_rows++;
        writer->queue_bytes += bytes;
        to->n_queued++;
    }
    pthread_mutex_unlock(&writer->lock);
    if (!accepted)
        free(next);
    return accepted;
}

/* Queue a removal on the thread that writes the row, in case the row still waits to be written. */
void hth_writer_remove(hth_writer *writer, const hth_row_id *id, const hth_row_id *successor)
{
    job next = { .kind = JOB_REMOVE, .id = *id, .has_successor = successor != NULL };

    if (successor)
        next.successor = *successor;
    (void)put(writer, id, &next); /* otherwise eviction will remove it */
}

/* ---- one job ---- */

/* Wait until a write of n_bytes is within the limit of bytes per second, or a thread waits for the queue to empty. */
static void keep_pace(hth_writer *writer, size_t n_bytes)
{
    pthread_mutex_lock(&writer->lock);
    for (;;) {
        uint64_t now = hth_os_monotonic_ns();
        struct timespec deadline;
        uint64_t wait_ms;

        if (writer->limits.bytes_per_s == 0 || writer->n_flushing > 0 || writer->dropping || writer->paused_ns <= now)
            break;
        wait_ms = (writer->paused_ns - now) / 1000000 + 1;
        deadline = hth_deadline_after(wait_ms < LOOK_AGAIN_MS ? (uint32_t)wait_ms : LOOK_AGAIN_MS);
        (void)pthread_cond_timedwait(&writer->progressed, &writer->lock, &deadline); /* the loop looks again */
    }
    if (writer->limits.bytes_per_s > 0) {
        uint64_t now = hth_os_monotonic_ns();
        uint64_t from = writer->paused_ns > now ? writer->paused_ns : now;

        writer->paused_ns = from + (uint64_t)((double)n_bytes / (double)writer->limits.bytes_per_s * 1e9);
    }
    pthread_mutex_unlock(&writer->lock);
}

static bool is_last_tier(const hth_writer *writer, size_t tier)
{
    return tier + 1 == writer->options.n_tiers;
}

/*
 * Sign the file of a row in place. Other threads look at signatures only in files, and one thread does all jobs of a
 * row, so no other thread signs it now. False without memory, and for a row of another process that has no room for a
 * signature where our encoder puts it: a reader would refuse such an unsigned row.
 */
static bool sign(hth_writer *writer, hth_ram_row *row)
{
    hth_kvc_info info;
    hth_kvc_fault fault;
    size_t n_bytes = hth_ram_row_bytes(row);

    return !writer->options.key ||
           (hth_kvc_parse_meta(hth_ram_row_slab(row), n_bytes, n_bytes, &info, &fault, NULL) && info.hmac.n > 0 &&
            hth_kvc_sign(hth_ram_row_slab(row), n_bytes, writer->options.key));
}

static void publish(hth_writer *writer, const job *next)
{
    hth_ram_row *row = next->row;
    hth_counters *counters = writer->options.counters;
    hearth_error err = { .message = "" };
    bool published = false;
    uint64_t begun_ns;
    hearth_status status;

    if (is_last_tier(writer, next->tier))
        keep_pace(writer, hth_ram_row_bytes(row));
    begun_ns = hth_os_monotonic_ns();
    if (sign(writer, row))
        status = hth_file_tier_set_publish(writer->options.tiers[next->tier], hth_ram_row_meta(row),
                                           hth_ram_row_slab(row), hth_ram_row_bytes(row), &published, &err);
    else
        status = hth_fail(&err, HEARTH_NO_MEMORY, "it cannot be signed");
    if (status != HEARTH_OK) {
        if (is_last_tier(writer, next->tier))
            hth_ram_row_set_stored(row, false);
        hth_count(counters, HTH_COUNT_WRITES_FAILED, 1);
        if (atomic_fetch_add(&writer->n_failed, 1) % WARN_EVERY == 0)
            hth_warn(writer->options.log, "cache row not written, replies are not affected: %s", err.message);
        return;
    }
    if (!published && !hth_file_tier_set_has(writer->options.tiers[next->tier], &hth_ram_row_meta(row)->id, NULL)) {
        /* Another process is writing it, and may never finish. So it does not count as stored. */
        if (is_last_tier(writer, next->tier))
            hth_ram_row_set_stored(row, false);
        return;
    }
    if (published) {
        hth_histogram_add(counters, HTH_PATH_WRITE, hth_os_monotonic_ns() - begun_ns);
        hth_count(counters, HTH_COUNT_ROWS_WRITTEN, 1);
        hth_count(counters, HTH_COUNT_BYTES_WRITTEN, hth_ram_row_bytes(row));
    }
    if (next->kind == JOB_SUPERSEDE)
        hth_writer_remove(writer, &next->id, &hth_ram_row_meta(row)->id);
}

/* The tier no longer has the row, and knows it. */
static void forget_rejected(const hth_writer *writer, const hth_row_id *id, size_t tier)
{
    hth_rejected_forget_in(writer->options.rejected, id, writer->options.names[tier]);
}

static void remove_row(hth_writer *writer, const job *next)
{
    bool removed = false;

    for (size_t i = 0; i < writer->options.n_tiers; i++) {
        hearth_status status = hth_file_tier_set_remove_unwanted(writer->options.tiers[i], &next->id,
                                                                 next->has_successor ? &next->successor : NULL, NULL);

        removed = status == HEARTH_OK || removed;
        if (status == HEARTH_OK || status == HEARTH_NOT_FOUND) /* usually some tiers do not have it */
            forget_rejected(writer, &next->id, i);
    }
    if (removed)
        hth_count(writer->options.counters, HTH_COUNT_ROWS_REMOVED, 1);
}

static void run_job(worker *self, job *next)
{
    hth_writer *writer = self->writer;
    size_t bytes = next->row ? hth_ram_row_bytes(next->row) : 0;
    bool dropping;

    pthread_mutex_lock(&writer->lock);
    dropping = writer->dropping;
    pthread_mutex_unlock(&writer->lock);

    switch (next->kind) {
    case JOB_PUBLISH:
    case JOB_SUPERSEDE:
        if (dropping)
            hth_count(writer->options.counters, HTH_COUNT_SAVES_DROPPED, 1);
        else
            publish(writer, next);
        hth_ram_tier_unpin(writer->options.ram, next->row);
        break;
    case JOB_QUARANTINE:
        if (hth_file_tier_set_quarantine(writer->options.tiers[next->tier], &next->id, next->reason))
            forget_rejected(writer, &next->id, next->tier);
        break;
    case JOB_REVIEW:
        if (hth_file_tier_set_review(writer->options.tiers[next->tier], &next->id))
            forget_rejected(writer, &next->id, next->tier);
        break;
    case JOB_REMOVE: remove_row(writer, next); break;
    }
    free(next);

    pthread_mutex_lock(&writer->lock);
    writer->queue_rows--;
    writer->queue_bytes -= bytes;
    self->n_done++;
    pthread_cond_broadcast(&writer->progressed);
    pthread_mutex_unlock(&writer->lock);
}

static void maintain(hth_writer *writer)
{
    for (size_t i = 0; i < writer->options.n_tiers; i++)
        hth_file_tier_set_maintain(writer->options.tiers[i]);
}

static void *write_rows(void *context)
{
    worker *self = context;
    hth_writer *writer = self->writer;
    bool maintains = self == &writer->workers[0];
    uint64_t maintained_ns = hth_os_monotonic_ns();

    hth_os_thread_name("hearth-writer");
    hth_os_thread_nice(HTH_OS_NICE_HELPER); /* decoding keeps its speed while rows are written */
    for (;;) {
        job *next = hth_message_queue_take(self->jobs, MAINTAIN_EVERY_MS);
        uint64_t now = hth_os_monotonic_ns();

        if (maintains && (!next || now - maintained_ns > MAINTAIN_EVERY_MS * UINT64_C(1000000))) {
            maintain(writer);
            maintained_ns = now;
        }
        if (next)
            run_job(self, next);
        else if (hth_message_queue_is_closed(self->jobs))
            break;
    }
    pthread_mutex_lock(&writer->lock);
    writer->n_ended++;
    pthread_cond_broadcast(&writer->progressed);
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* ---- opening and closing ---- */

/* Ask the threads to end, and wait. False if a thread does not end within timeout_ms. */
static bool end_workers(hth_writer *writer, uint32_t timeout_ms)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    int waited = 0;
    bool ended;

    for (size_t i = 0; i < writer->n_workers; i++)
        hth_message_queue_close(writer->workers[i].jobs);
    pthread_mutex_lock(&writer->lock);
    while (writer->n_ended < writer->n_workers && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&writer->progressed, &writer->lock, &deadline);
    ended = writer->n_ended == writer->n_workers;
    pthread_mutex_unlock(&writer->lock);
    return ended;
}

/* Free the writer. Its threads have ended, or are just about to return. */
static void writer_free(hth_writer *writer)
{
    for (size_t i = 0; i < writer->n_workers; i++)
        (void)pthread_join(writer->workers[i].thread, NULL); /* started, and joined nowhere else */
    /* Only now: until it ends, each thread may queue a removal for another one. */
    for (size_t i = 0; i < writer->n_workers; i++)
        hth_message_queue_free(writer->workers[i].jobs);
    pthread_cond_destroy(&writer->progressed);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}

/* Start one more thread. 0 or an errno. */
static int start_worker(hth_writer *writer)
{
    worker *self = &writer->workers[writer->n_workers];
    int failed;

    *self = (worker){ .writer = writer, .jobs = hth_message_queue_new(QUEUED_ROWS_MAX) };
    if (!self->jobs)
        return ENOMEM;
    failed = pthread_create(&self->thread, NULL, write_rows, self);
    if (failed)
        hth_message_queue_free(self->jobs);
    else
        writer->n_workers++;
    return failed;
}

hearth_status hth_writer_open(const hth_writer_options *options, hth_writer **out, hearth_error *err)
{
    hth_writer *writer = calloc(1, sizeof(*writer));
    int failed = 0;

    assert(options->n_tiers >= 1);
    assert(options->n_tiers <= HTH_WRITER_TIERS_MAX);
    assert(options->n_threads >= 1);
    assert(options->n_threads <= HTH_WRITER_THREADS_MAX);
    if (!writer)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache's writer");
    writer->options = *options;
    writer->limits = options->limits;
    pthread_mutex_init(&writer->lock, NULL);
    hth_condition_init(&writer->progressed);
    for (unsigned i = 0; i < options->n_threads && !failed; i++)
        failed = start_worker(writer);
    if (failed && writer->n_workers == 0) { /* fewer threads are only slower */
        writer_free(writer);
        return hth_fail_errno(err, failed, "cannot start the cache's writer threads");
    }
    *out = writer;
    return HEARTH_OK;
}

bool hth_writer_close(hth_writer *writer, uint32_t timeout_ms)
{
    if (!writer)
        return true;
    if (!hth_writer_flush(writer, timeout_ms)) {
        pthread_mutex_lock(&writer->lock);
        writer->dropping = true;
        pthread_cond_broadcast(&writer->progressed);
        pthread_mutex_unlock(&writer->lock);
    }
    if (!end_workers(writer, STUCK_MS))
        return false;
    writer_free(writer);
    return true;
}

/* ---- requests from other threads ---- */

static bool queue_row(hth_writer *writer, size_t tier, hth_ram_row *row, const hth_row_id *superseded)
{
    job next = { .kind = superseded ? JOB_SUPERSEDE : JOB_PUBLISH, .row = row, .tier = tier };
    bool is_last = is_last_tier(writer, tier);

    assert(tier < writer->options.n_tiers);
    if (superseded)
        next.id = *superseded;
    /* Before the job is queued, because the worker may finish at once. */
    hth_ram_tier_pin_again(writer->options.ram, row);
    if (is_last)
        hth_ram_row_set_stored(row, true);
    if (put(writer, &hth_ram_row_meta(row)->id, &next))
        return true;
    if (is_last)
        hth_ram_row_set_stored(row, false);
    hth_ram_tier_unpin(writer->options.ram, row);
    hth_count(writer->options.counters, HTH_COUNT_SAVES_DROPPED, 1);
    return false;
}

bool hth_writer_publish(hth_writer *writer, size_t tier, hth_ram_row *row)
{
    return queue_row(writer, tier, row, NULL);
}

bool hth_writer_supersede(hth_writer *writer, hth_ram_row *row, const hth_row_id *superseded)
{
    return queue_row(writer, writer->options.n_tiers - 1, row, superseded);
}

void hth_writer_quarantine(hth_writer *writer, size_t tier, const hth_row_id *id, const char *reason)
{
    job next = { .kind = JOB_QUARANTINE, .tier = tier, .id = *id, .reason = reason };

    assert(tier < writer->options.n_tiers);
    (void)put(writer, id, &next); /* otherwise the row stays and fails its check again */
}

void hth_writer_review(hth_writer *writer, size_t tier, const hth_row_id *id)
{
    job next = { .kind = JOB_REVIEW, .tier = tier, .id = *id };

    assert(tier < writer->options.n_tiers);
    (void)put(writer, id, &next); /* likewise */
}

void hth_writer_limits_get(hth_writer *writer, hth_writer_limits *out)
{
    pthread_mutex_lock(&writer->lock);
    *out = writer->limits;
    pthread_mutex_unlock(&writer->lock);
}

void hth_writer_limits_set(hth_writer *writer, const hth_writer_limits *limits)
{
    pthread_mutex_lock(&writer->lock);
    writer->limits = *limits;
    pthread_cond_broadcast(&writer->progressed); /* waiting writes apply the new limit */
    pthread_mutex_unlock(&writer->lock);
}

void hth_writer_backlog(hth_writer *writer, size_t *rows_out, uint64_t *bytes_out)
{
    pthread_mutex_lock(&writer->lock);
    *rows_out = writer->queue_rows;
    *bytes_out = writer->queue_bytes;
    pthread_mutex_unlock(&writer->lock);
}

static bool reached_locked(const hth_writer *writer, const uint64_t *targets)
{
    for (size_t i = 0; i < writer->n_workers; i++)
        if (writer->workers[i].n_done < targets[i])
            return false;
    return true;
}

bool hth_writer_flush(hth_writer *writer, uint32_t timeout_ms)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    uint64_t targets[HTH_WRITER_THREADS_MAX] = { 0 };
    int waited = 0;
    bool done;

    pthread_mutex_lock(&writer->lock);
    for (size_t i = 0; i < writer->n_workers; i++)
        targets[i] = writer->workers[i].n_queued;
    writer->n_flushing++;
    pthread_cond_broadcast(&writer->progressed); /* paced writes stop waiting */
    while (!reached_locked(writer, targets) && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&writer->progressed, &writer->lock, &deadline);
    done = reached_locked(writer, targets);
    writer->n_flushing--;
    pthread_mutex_unlock(&writer->lock);
    return done;
}
