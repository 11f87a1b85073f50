/*
 * pressure_watch.h - samples memory periodically, and makes models and rows leave when it is short
 *
 * Sources are the system, nvidia-smi, an operator's command (pressure.h), and a function of an operator's
 * library (pressure_library.h). Each has its own state (pressure.h). While one of them is under pressure, a model
 * enters only when the others have left. Event loop only.
 */
#ifndef HTH_SUPERVISOR_PRESSURE_WATCH_H
#define HTH_SUPERVISOR_PRESSURE_WATCH_H

#include "api/buffer.h"
#include "base/log.h"
#include "supervisor/event_feed.h"
#include "supervisor/pressure.h"
#include "supervisor/server_options.h"

struct event_base;

typedef struct hth_pressure_watch hth_pressure_watch;

/* The orders that it gives. */
typedef struct hth_pressure_orders {
    /* Free n_bytes of devices or of the host. Returns the bytes that will be free. departures: of a source, or NULL. */
    uint64_t (*relieve)(uint64_t n_bytes, bool is_device, hth_departures *departures, void *user_data);
    void (*hold)(bool is_held, void *user_data);
    void *user_data;
} hth_pressure_orders;

/*
 * program: the executable that calls a library's function as `worker --pressure-library`. options must be valid until
 * the next hth_pressure_watch_set_options; program, feed and log must outlive the watch.
 */
hearth_status hth_pressure_watch_new(struct event_base *base, const char *program, const hth_server_options *options,
                                     const hth_pressure_orders *orders, const hth_log *log, hth_event_feed *feed,
                                     hth_pressure_watch **out, hearth_error *err);
void hth_pressure_watch_free(hth_pressure_watch *watch); /* accepts NULL */
/* Use the sources in these options from now on. Their settings are not applied. */
void hth_pressure_watch_set_options(hth_pressure_watch *watch, const hth_server_options *options);
/* The settings in force: initially those of the first options. */
const hth_pressure_settings *hth_pressure_watch_settings(const hth_pressure_watch *watch);
void hth_pressure_watch_set_settings(hth_pressure_watch *watch, const hth_pressure_settings *settings);

/* An operator's order: free n_bytes of the host now. Returns the bytes that will be free. */
uint64_t hth_pressure_watch_force(hth_pressure_watch *watch, uint64_t n_bytes);

/* The page for operators, a new object; NULL without memory. */
json_t *hth_pressure_watch_json(const hth_pressure_watch *watch);
/* Append the metrics. */
void hth_pressure_watch_write_metrics(const hth_pressure_watch *watch, hth_buffer *out);

#endif
