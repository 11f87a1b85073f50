/*
 * metrics.h - what Prometheus reads
 *
 * Names and units follow Prometheus's guide (https://prometheus.io/docs/practices/naming/): base units, _total for what
 * only grows, one name for one thing. Labels are bounded: models are those that are configured, endpoints a fixed list.
 * Event loop only.
 */
#ifndef HTH_SERVER_METRICS_H
#define HTH_SERVER_METRICS_H

#include "api/buffer.h"
#include "server/http.h"
#include "server/record.h"
#include "server/supervisor.h"

typedef struct hth_metrics hth_metrics;

hth_metrics *hth_metrics_new(void);          /* NULL without memory */
void hth_metrics_free(hth_metrics *metrics); /* accepts NULL */

/* A request is over. */
void hth_metrics_note(hth_metrics *metrics, const hth_record *record);
/* A piece of a stream arrived ms after the one before it, with n_tokens tokens. */
void hth_metrics_note_tokens(hth_metrics *metrics, const char *model, double ms, uint32_t n_tokens);
/* A request was refused before it reached a model: "unauthorized", "rate_limited", "overloaded", ... */
void hth_metrics_note_refused(hth_metrics *metrics, const char *reason);

/* The page, in Prometheus' text format, version 0.0.4. supervisor may be NULL. */
void hth_metrics_write(hth_metrics *metrics, const hth_supervisor *supervisor, const hth_http_numbers *http,
                       hth_buffer *out);

#endif
