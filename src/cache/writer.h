/*
 * writer.h - writes rows from the RAM tier to the file tiers in the background
 *
 * A request never waits for a device: it hands over a pinned row and goes on. A pool of threads publishes the row and
 * unpins it. The queue is bounded in rows and bytes. A row that does not fit is counted and not written; the only cost
 * is that it cannot be restored from a file later. Of the threads of a cache, only these write to an index on their
 * own.
 *
 * One thread does all jobs of one row id, in order. So a quarantine that was queued before a save moves the old file
 * and not the new one.
 */
#ifndef HTH_CACHE_WRITER_H
#define HTH_CACHE_WRITER_H

#include "cache/counters.h"
#include "cache/file_tier_set.h"
#include "cache/ram_tier.h"
#include "rows/signing_key.h"

enum { HTH_WRITER_TIERS_MAX = 2, HTH_WRITER_THREADS_MAX = 16 };

typedef struct hth_writer hth_writer;

typedef struct hth_writer_limits {
    size_t queue_rows_max;
    uint64_t queue_bytes_max;
    uint64_t bytes_per_s; /* for the last tier, the slowest; 0: no limit */
} hth_writer_limits;

typedef struct hth_writer_options {
    hth_ram_tier *ram;
    hth_file_tier_set *tiers[HTH_WRITER_TIERS_MAX]; /* fastest first */
    hearth_tier names[HTH_WRITER_TIERS_MAX];        /* of the tiers */
    size_t n_tiers;                                 /* at least 1 */
    unsigned n_threads;                             /* 1 .. HTH_WRITER_THREADS_MAX */
    hth_writer_limits limits;
    struct hth_rejected *rejected; /* forgets a row once it was set aside or removed */
    hth_counters *counters;
    const hth_signing_key
        *key; /* rows have room for a signature, and the writer signs them before writing; NULL: none */
    const hth_log *log;
} hth_writer_options;

/* Start the threads. The objects that options point to outlive the writer. */
hearth_status hth_writer_open(const hth_writer_options *options, hth_writer **out, hearth_error *err);
/*
 * Stop. Jobs still waiting after timeout_ms are dropped and counted; ongoing writes are finished. Accepts NULL. False,
 * with nothing freed, if a write takes 10 more seconds, for example because another process was stopped while it held
 * the lock of the index. The writing thread then still uses all objects of the options.
 */
bool hth_writer_close(hth_writer *writer, uint32_t timeout_ms);

/* ---- any thread; these never wait for a device ---- */

/* Queue an inserted row for a tier; adds a pin. False if the queue is full or closed, which is counted. */
bool hth_writer_publish(hth_writer *writer, size_t tier, hth_ram_row *row);
/* The same for the last tier. Once the row is there, the row that it supersedes is removed from all tiers. */
bool hth_writer_supersede(hth_writer *writer, hth_ram_row *row, const hth_row_id *superseded);
/* Queue a row of a tier for quarantine. reason is a static string. */
void hth_writer_quarantine(hth_writer *writer, size_t tier, const hth_row_id *id, const char *reason);
/* Queue a row of a tier for hth_file_tier_review. */
void hth_writer_review(hth_writer *writer, size_t tier, const hth_row_id *id);
/* Queue a row for removal from all tiers. successor (NULL: none) is the row that holds its content. */
void hth_writer_remove(hth_writer *writer, const hth_row_id *id, const hth_row_id *successor);

void hth_writer_limits_get(hth_writer *writer, hth_writer_limits *out);
/* Applies to rows queued from now on; waiting rows stay. */
void hth_writer_limits_set(hth_writer *writer, const hth_writer_limits *limits);

/* Rows and bytes that wait or are being written now. */
void hth_writer_backlog(hth_writer *writer, size_t *rows_out, uint64_t *bytes_out);

/* Wait until all jobs queued before the call are done; false after timeout_ms. */
bool hth_writer_flush(hth_writer *writer, uint32_t timeout_ms);

#endif
