/*
 * writer.h - brings rows from the RAM tier to the file tiers, behind the requests
 *
 * A request never waits for a device: it hands a pinned row over and goes on. A pool of threads publishes it and gives
 * the pin back. The queue is bounded in rows and bytes; what does not fit is not written (and counted), which costs a
 * later restore from a file and nothing else. These are the only threads of a cache that write to an index unasked.
 *
 * Jobs of one row id go through one thread in order, so that a quarantine that was queued before a save takes the old
 * file and not the new one.
 */
#ifndef HTH_CACHE_WRITER_H
#define HTH_CACHE_WRITER_H

#include "cache/counters.h"
#include "cache/file_tier_set.h"
#include "cache/ram_tier.h"
#include "cache/signing_key.h"

enum { HTH_WRITER_TIERS_MAX = 2, HTH_WRITER_THREADS_MAX = 16 };

typedef struct hth_writer hth_writer;

typedef struct hth_writer_limits {
    size_t queue_rows_max;
    uint64_t queue_bytes_max;
    uint64_t bytes_per_s; /* of the last tier, the slowest; 0: as fast as it goes */
} hth_writer_limits;

typedef struct hth_writer_options {
    hth_ram_tier *ram;
    hth_file_tier_set *tiers[HTH_WRITER_TIERS_MAX]; /* fastest first */
    size_t n_tiers;                                 /* at least 1 */
    unsigned n_threads;                             /* 1 .. HTH_WRITER_THREADS_MAX */
    hth_writer_limits limits;
    /*
     * Told on a writer's thread that a tier has the row no more that was to be set aside or removed. Not told where
     * that failed. May be NULL.
     */
    void (*on_taken_away)(const hth_row_id *id, size_t tier, void *user_data);
    void *user_data;
    hth_counters *counters;
    const hth_signing_key *key; /* rows have room for a signature and get it before they are written; NULL: none */
    const hth_log *log;
} hth_writer_options;

/* Start the threads. What options point to outlives the writer. */
hearth_status hth_writer_open(const hth_writer_options *options, hth_writer **out, hearth_error *err);
/*
 * Stop: what waits after timeout_ms is dropped and counted, ongoing writes are finished. Accepts NULL. False, and
 * nothing is freed, when a write does not end for 10 more seconds: another process was stopped while it held the
 * index's lock. Its thread then still uses everything that the options named.
 */
bool hth_writer_close(hth_writer *writer, uint32_t timeout_ms);

/* ---- any thread, never waiting for a device ---- */

/* Queue an inserted row for a tier; takes a pin of its own. False when the queue is full or closed (counted). */
bool hth_writer_publish(hth_writer *writer, size_t tier, hth_ram_row *row);
/*
 * The same for the last tier, and when the row is there, another one that it makes superfluous is removed from all
 * tiers.
 */
bool hth_writer_supersede(hth_writer *writer, hth_ram_row *row, const hth_row_id *superseded);
/* Queue a row of a tier for quarantine. reason is a static string. */
void hth_writer_quarantine(hth_writer *writer, size_t tier, const hth_row_id *id, const char *reason);
/* Queue a row for removal from all tiers. successor (NULL: none) is the row that holds what it held. */
void hth_writer_remove(hth_writer *writer, const hth_row_id *id, const hth_row_id *successor);

void hth_writer_limits_get(hth_writer *writer, hth_writer_limits *out);
/* In force for rows queued from now on; those that wait stay. */
void hth_writer_limits_set(hth_writer *writer, const hth_writer_limits *limits);

/* Rows and bytes that wait or are being written. */
void hth_writer_backlog(hth_writer *writer, size_t *rows_out, uint64_t *bytes_out);

/* Wait until everything queued before the call is done; false after timeout_ms. */
bool hth_writer_flush(hth_writer *writer, uint32_t timeout_ms);

#endif
