/*
 * status_page.h - memory that a worker writes and the front reads, even after the worker's death
 *
 * Each worker has one memfd. The scheduler's thread writes the time when an evaluation began, and the event loop writes
 * the time of its last turn. So the front can distinguish a busy worker from one that hangs. The page has the keys of
 * rows that are being restored, so that the next worker can quarantine rows that may have killed the last one. It has
 * counters for metrics. Writing costs a few stores and no system call; the reader never waits. Another process writes
 * the page, so the reader checks all values.
 */
#ifndef HTH_WIRE_STATUS_PAGE_H
#define HTH_WIRE_STATUS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

typedef struct hth_status_page hth_status_page;

/* Make a page in a memory file. The caller owns its descriptor *fd_out (close-on-exec). */
hearth_status hth_status_page_new(hth_status_page **out, int *fd_out, hearth_error *err);
/* Map the page of an inherited descriptor, which the caller still owns. HEARTH_CORRUPT: not a page of this version. */
hearth_status hth_status_page_open(int fd, hth_status_page **out, hearth_error *err);
void hth_status_page_free(hth_status_page *page); /* unmaps; accepts NULL */

/* ---- written by the worker ---- */

void hth_status_page_tick_begin(hth_status_page *page); /* scheduler's thread: an evaluation begins */
void hth_status_page_tick_end(hth_status_page *page);
void hth_status_page_loop_turns(hth_status_page *page); /* event loop, every HTH_STATUS_TURN_MS */
void hth_status_page_loop_ends(hth_status_page *page);  /* the loop stops, as intended */
enum { HTH_STATUS_TURN_MS = 250 };
/*
 * Rows are being restored: store the first HTH_STATUS_KEYS_MAX of their keys in the page. n 0: the restore is over.
 * Must always be called by the same thread.
 */
void hth_status_page_restoring(hth_status_page *page, const uint8_t (*keys)[32], size_t n);
enum { HTH_STATUS_KEYS_MAX = 64 };
/* Event loop, periodically. */
void hth_status_page_numbers_set(hth_status_page *page, const hearth_counters *counters, const hearth_model_info *info,
                                 const hth_tier_quotas *quotas);

/*
 * Event loop, once its model is ready: the digest of the MODEL frame (frames.h) without adapters of a request. It stays
 * on the page when the worker has ended, so that its replies can be continued by workers with an equal one. keyspace:
 * the beginning of hearth_model_info.keyspace, which stays likewise, as the rows do.
 */
enum { HTH_STATUS_MODEL_BYTES = 16, HTH_STATUS_KEYSPACE_BYTES = 16 };
void hth_status_page_model_set(hth_status_page *page, const uint8_t digest[HTH_STATUS_MODEL_BYTES],
                               const uint8_t keyspace[HTH_STATUS_KEYSPACE_BYTES]);

/* ---- read by the front ---- */

typedef struct hth_status {
    uint64_t tick_ns; /* age of the evaluation in progress; 0: none */
    uint64_t loop_ns; /* since the last turn of the event loop; UINT64_MAX: there was none */
    bool has_numbers;
    hearth_counters counters;
    hearth_model_info info;
    hth_tier_quotas quotas;
    size_t n_restoring; /* rows that were being restored */
    uint8_t restoring[HTH_STATUS_KEYS_MAX][32];
} hth_status;

void hth_status_page_read(const hth_status_page *page, hth_status *out);
/* Read only the two times, which costs a few loads. */
void hth_status_page_read_pulse(const hth_status_page *page, uint64_t *tick_ns, uint64_t *loop_ns);
/* The digest of the model, and its keyspace; false: no worker was ready yet. */
bool hth_status_page_model(const hth_status_page *page, uint8_t digest[HTH_STATUS_MODEL_BYTES],
                           uint8_t keyspace[HTH_STATUS_KEYSPACE_BYTES]);
/*
 * Clear the page for a new worker, except the suspects, the digest of the model and its keyspace. No process may
 * write to it meanwhile.
 */
void hth_status_page_reset(hth_status_page *page);

/*
 * Suspects: rows that may have killed workers. The front adds them while no worker runs; the next worker reads them,
 * quarantines the rows, and clears the list. There are at most HTH_STATUS_SUSPECTS_MAX, each once; new ones replace the
 * oldest.
 */
enum { HTH_STATUS_SUSPECTS_MAX = 256 };
void hth_status_page_suspects_add(hth_status_page *page, const uint8_t (*keys)[32], size_t n);
size_t hth_status_page_suspects(const hth_status_page *page, uint8_t (*keys)[32], size_t capacity);
void hth_status_page_suspects_clear(hth_status_page *page);

#endif
