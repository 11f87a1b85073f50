/*
 * status_page.h - memory that a worker writes and the front reads, also after the worker's death
 *
 * One memfd a worker. The scheduler's thread says when an evaluation began, the event loop says that it turns, so that
 * the front tells a worker that works from one that hangs; the keys of rows that are being put into the context are
 * there, so that the next worker can set aside what the last one may have died of; and counters, for metrics. Writing
 * costs a few stores and no system call; the reader never waits. Another process writes it: what is read is checked.
 */
#ifndef HTH_SERVER_STATUS_PAGE_H
#define HTH_SERVER_STATUS_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

typedef struct hth_status_page hth_status_page;

/* A new page in a file in memory, of which *fd_out receives a descriptor (close-on-exec; the caller's). */
hearth_status hth_status_page_new(hth_status_page **out, int *fd_out, hearth_error *err);
/* The page in a descriptor that was inherited, which stays the caller's. HEARTH_CORRUPT: it is none of this version. */
hearth_status hth_status_page_open(int fd, hth_status_page **out, hearth_error *err);
void hth_status_page_free(hth_status_page *page); /* unmaps; accepts NULL */

/* ---- written by the worker ---- */

void hth_status_page_tick_begin(hth_status_page *page); /* the scheduler's thread begins something that has to end */
void hth_status_page_tick_end(hth_status_page *page);
void hth_status_page_loop_turns(hth_status_page *page); /* event loop, every HTH_STATUS_TURN_MS */
void hth_status_page_loop_ends(hth_status_page *page);  /* it will turn no more, and that is right */
enum { HTH_STATUS_TURN_MS = 250 };
/*
 * Rows are coming into the context: their keys, of which the first HTH_STATUS_KEYS_MAX are kept. n 0: they are in. One
 * thread calls this.
 */
void hth_status_page_restoring(hth_status_page *page, const uint8_t (*keys)[32], size_t n);
enum { HTH_STATUS_KEYS_MAX = 64 };
/* Event loop, now and then. */
void hth_status_page_numbers_set(hth_status_page *page, const hearth_counters *counters, const hearth_model_info *info);

/* ---- read by the front ---- */

typedef struct hth_status {
    uint64_t tick_ns; /* how long the evaluation in progress has taken; 0: none */
    uint64_t loop_ns; /* since the event loop turned; UINT64_MAX: it never has */
    bool has_numbers;
    hearth_counters counters;
    hearth_model_info info;
    size_t n_restoring; /* rows that were coming into the context */
    uint8_t restoring[HTH_STATUS_KEYS_MAX][32];
} hth_status;

void hth_status_page_read(const hth_status_page *page, hth_status *out);
/* The same without numbers and rows, in a few loads: for looking often. */
void hth_status_page_read_pulse(const hth_status_page *page, uint64_t *tick_ns, uint64_t *loop_ns);
/* A new worker begins with this page; nobody writes to it. Its memory of rows to set aside stays. */
void hth_status_page_reset(hth_status_page *page);

/*
 * Rows that workers died of, perhaps: added by the front while there is no worker, read by the next one, and cleared by it
 * once they are set aside. At most HTH_STATUS_SUSPECTS_MAX, each once; the oldest make room.
 */
enum { HTH_STATUS_SUSPECTS_MAX = 256 };
void hth_status_page_suspects_add(hth_status_page *page, const uint8_t (*keys)[32], size_t n);
size_t hth_status_page_suspects(const hth_status_page *page, uint8_t (*keys)[32], size_t capacity);
void hth_status_page_suspects_clear(hth_status_page *page);

#endif
