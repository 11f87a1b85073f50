/*
 * worker_facts.h - the numbers of a worker on pages: one table for /metrics and /admin/models
 *
 * docs/monitoring.md lists them; unit/metrics and unit/admin compare that list with the pages.
 */
#ifndef HTH_WIRE_WORKER_FACTS_H
#define HTH_WIRE_WORKER_FACTS_H

#include <stddef.h>

#include "wire/worker_view.h"

typedef struct hth_worker_fact {
    const char *group; /* object of /admin/models within the worker's, "cache.ram"; "": the worker's; NULL: not there */
    const char *name;  /* in that object */
    const char *metric; /* in /metrics; NULL: not there. Facts of one metric are adjacent. */
    const char *type;   /* "counter" or "gauge"; like help, only in the first fact of a metric, else NULL */
    const char *help;
    const char *label; /* NULL: only the model */
    const char *label_value;
    size_t offset; /* in hth_worker_view */
    size_t bytes;
    bool is_of_process; /* known only while the process reports its numbers (hth_status.has_numbers) */
} hth_worker_fact;

enum { HTH_WORKER_FACTS = 63 };
extern const hth_worker_fact hth_worker_facts[HTH_WORKER_FACTS];

/* The number of the fact in view. Any thread. */
uint64_t hth_worker_fact_value(const hth_worker_fact *fact, const hth_worker_view *view);

#endif
