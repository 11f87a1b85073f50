/*
 * writer.c - one thread, a mailbox of jobs, and a count of what is under way
 */
#include "cache/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/deadline.h"
#include "base/mailbox.h"
#include "base/os.h"

enum {
    JOBS_MAX = 65536,
    MAINTAIN_EVERY_MS = 1000,
    WARN_EVERY = 1000, /* failed writes between two warnings: a full disk fails every one of them */
};

typedef struct job {
    hth_ram_row *row; /* publish this; NULL: quarantine or remove id */
    hth_row_id id;
    const char *reason; /* of the quarantine; NULL: remove it */
} job;

struct hth_writer {
    hth_ram_tier *ram;
    hth_file_tier *files;
    hth_counters *counters;
    const hth_log *log;
    uint64_t queue_bytes_max;
    hth_mailbox *jobs;
    pthread_t thread;
    uint64_t n_failed; /* writer thread only */

    /* Guards the fields below; the mailbox's lock may be taken inside. */
    pthread_mutex_t lock;
    pthread_cond_t progressed;
    uint64_t queue_bytes;
    uint64_t n_queued; /* jobs ever put in */
    uint64_t n_done;   /* jobs ever finished; the queue is in order, so job i is done once n_done >= i */
    bool dropping;     /* closing ran out of time */
};

static void publish(hth_writer *writer, hth_ram_row *row)
{
    hearth_error err = { .message = "" };
    bool published = false;
    hearth_status status = hth_file_tier_publish(writer->files, hth_ram_row_meta(row), hth_ram_row_image(row),
                                                 hth_ram_row_bytes(row), &published, &err);

    if (status != HEARTH_OK) {
        hth_ram_row_set_stored(row, false);
        hth_count(writer->counters, HTH_COUNT_WRITES_FAILED, 1);
        if (writer->n_failed++ % WARN_EVERY == 0)
            hth_warn(writer->log, "cache row not written, replies are not affected: %s", err.message);
    } else if (published) {
        hth_count(writer->counters, HTH_COUNT_ROWS_WRITTEN, 1);
        hth_count(writer->counters, HTH_COUNT_BYTES_WRITTEN, hth_ram_row_bytes(row));
    }
}

static void run_job(hth_writer *writer, job *next)
{
    bool dropping;
    size_t bytes = 0;

    pthread_mutex_lock(&writer->lock);
    dropping = writer->dropping;
    pthread_mutex_unlock(&writer->lock);

    if (next->row) {
        bytes = hth_ram_row_bytes(next->row);
        if (dropping)
            hth_count(writer->counters, HTH_COUNT_SAVES_DROPPED, 1);
        else
            publish(writer, next->row);
        hth_ram_tier_unpin(writer->ram, next->row);
    } else if (next->reason) {
        hth_file_tier_quarantine(writer->files, &next->id, next->reason);
    } else {
        (void)hth_file_tier_remove(writer->files, &next->id, NULL); /* else the row stays until it is evicted */
    }
    free(next);

    pthread_mutex_lock(&writer->lock);
    writer->queue_bytes -= bytes;
    writer->n_done++;
    pthread_cond_broadcast(&writer->progressed);
    pthread_mutex_unlock(&writer->lock);
}

static void *write_rows(void *context)
{
    hth_writer *writer = context;

    hth_os_thread_name("hearth-writer");
    for (;;) {
        job *next = hth_mailbox_take(writer->jobs, MAINTAIN_EVERY_MS);

        if (next) {
            run_job(writer, next);
            continue;
        }
        hth_file_tier_maintain(writer->files);
        if (hth_mailbox_is_closed(writer->jobs))
            break;
    }
    return NULL;
}

hearth_status hth_writer_open(hth_ram_tier *ram, hth_file_tier *files, uint64_t queue_bytes_max, hth_counters *counters,
                              const hth_log *log, hth_writer **out, hearth_error *err)
{
    hth_writer *writer = calloc(1, sizeof(*writer));
    int failed;

    if (!writer)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache's writer");
    writer->ram = ram;
    writer->files = files;
    writer->counters = counters;
    writer->log = log;
    writer->queue_bytes_max = queue_bytes_max;
    writer->jobs = hth_mailbox_new(JOBS_MAX);
    if (!writer->jobs) {
        free(writer);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the cache's write queue");
    }
    pthread_mutex_init(&writer->lock, NULL);
    hth_condition_init(&writer->progressed);
    failed = pthread_create(&writer->thread, NULL, write_rows, writer);
    if (failed) {
        pthread_cond_destroy(&writer->progressed);
        pthread_mutex_destroy(&writer->lock);
        hth_mailbox_free(writer->jobs);
        free(writer);
        return hth_fail_errno(err, failed, "cannot start the cache's writer thread");
    }
    *out = writer;
    return HEARTH_OK;
}

static bool put(hth_writer *writer, job *next, size_t bytes)
{
    bool accepted;

    pthread_mutex_lock(&writer->lock);
    accepted =
        writer->queue_bytes + bytes <= writer->queue_bytes_max && hth_mailbox_put(writer->jobs, next) == HTH_MAILBOX_OK;
    if (accepted) {
        writer->queue_bytes += bytes;
        writer->n_queued++;
    }
    pthread_mutex_unlock(&writer->lock);
    return accepted;
}

bool hth_writer_publish(hth_writer *writer, hth_ram_row *row)
{
    job *next = calloc(1, sizeof(*next));

    if (next) {
        next->row = row;
        hth_ram_tier_pin_again(writer->ram, row); /* before it is queued: the writer may be done with it at once */
        hth_ram_row_set_stored(row, true);
        if (put(writer, next, hth_ram_row_bytes(row)))
            return true;
        hth_ram_row_set_stored(row, false);
        hth_ram_tier_unpin(writer->ram, row);
        free(next);
    }
    hth_count(writer->counters, HTH_COUNT_SAVES_DROPPED, 1);
    return false;
}

static void put_id(hth_writer *writer, const hth_row_id *id, const char *reason)
{
    job *next = calloc(1, sizeof(*next));

    if (!next)
        return;
    next->id = *id;
    next->reason = reason;
    if (!put(writer, next, 0))
        free(next);
}

void hth_writer_quarantine(hth_writer *writer, const hth_row_id *id, const char *reason)
{
    put_id(writer, id, reason); /* else the row stays and fails its check again the next time */
}

void hth_writer_remove(hth_writer *writer, const hth_row_id *id)
{
    put_id(writer, id, NULL);
}

bool hth_writer_flush(hth_writer *writer, uint32_t timeout_ms)
{
    struct timespec deadline = hth_deadline_after(timeout_ms);
    uint64_t target;
    int waited = 0;
    bool done;

    pthread_mutex_lock(&writer->lock);
    target = writer->n_queued;
    while (writer->n_done < target && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&writer->progressed, &writer->lock, &deadline);
    done = writer->n_done >= target;
    pthread_mutex_unlock(&writer->lock);
    return done;
}

void hth_writer_close(hth_writer *writer, uint32_t timeout_ms)
{
    if (!writer)
        return;
    if (!hth_writer_flush(writer, timeout_ms)) {
        pthread_mutex_lock(&writer->lock);
        writer->dropping = true;
        pthread_mutex_unlock(&writer->lock);
    }
    hth_mailbox_close(writer->jobs);
    pthread_join(writer->thread, NULL);
    pthread_cond_destroy(&writer->progressed);
    pthread_mutex_destroy(&writer->lock);
    hth_mailbox_free(writer->jobs);
    free(writer);
}
