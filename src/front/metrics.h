/*
 * metrics.h - the numbers that Prometheus reads
 *
 * Names and units follow Prometheus's guide (https://prometheus.io/docs/practices/naming/): base units, _total for
 * counters, one name for one thing. Labels are bounded: models are current and former configured models, and "other";
 * endpoints and reasons come from Hearth's code. docs/monitoring.md lists every metric.
 *
 * Counters of the front grow as long as the front lives. Counters of workers (hearth_cache_..., hearth_scheduler_...)
 * are shown unchanged, so they start at zero with each process; rate() and increase() handle that. Event loop only.
 */
#ifndef HTH_FRONT_METRICS_H
#define HTH_FRONT_METRICS_H

#include "api/buffer.h"
#include "front/access_log.h"
#include "http/http.h"
#include "supervisor/server_options.h"
#include "supervisor/supervisor.h"

typedef struct hth_metrics hth_metrics;

hth_metrics *hth_metrics_new(void);          /* NULL without memory */
void hth_metrics_free(hth_metrics *metrics); /* accepts NULL */
/*
 * Set the models that have their own label from now on. Earlier models keep theirs, because counts must not vanish.
 * Without memory, or beyond HTH_METRICS_MODELS_MAX, a model counts as "other".
 */
void hth_metrics_models_set(hth_metrics *metrics, const hth_server_options *options);
enum { HTH_METRICS_MODELS_MAX = 1024 };

/* A request is over. */
void hth_metrics_note(hth_metrics *metrics, const hth_access_record *record);
/* A piece of a stream with n_tokens tokens arrived ms after the previous one. */
void hth_metrics_note_tokens(hth_metrics *metrics, const char *model, double ms, uint32_t n_tokens);
/* A request was refused before it reached a model: "unauthorized", "rate_limited", "overloaded", ...; a fixed text */
void hth_metrics_note_refused(hth_metrics *metrics, const char *reason);

/* The page, in Prometheus' text format, version 0.0.4. supervisor and http may be NULL. */
#define HTH_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
void hth_metrics_write(const hth_metrics *metrics, const hth_supervisor *supervisor, const hth_http_numbers *http,
                       hth_buffer *out);

#endif
