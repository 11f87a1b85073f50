/*
 * model_events.h - the events of a model's worker for operators (event_feed.h), which docs/monitoring.md describes
 *
 * There is one function for each event. model is the model's name. The functions run on the event loop and fail
 * silently, like hth_event_feed_tell_take.
 */
#ifndef HTH_SUPERVISOR_MODEL_EVENTS_H
#define HTH_SUPERVISOR_MODEL_EVENTS_H

#include <stdint.h>
#include <sys/types.h>

#include "supervisor/event_feed.h"
#include "wire/worker_view.h"

enum { HTH_MODEL_EVENT_STEPS = 20 }; /* of progress, in one process */

/* The cause of the end of a process, or of kept weights, that no operator ordered. */
typedef enum hth_departure {
    HTH_DEPARTURE_NONE,
    HTH_DEPARTURE_ROOM,
    HTH_DEPARTURE_REST,
    HTH_DEPARTURE_PRESSURE
} hth_departure;

void hth_model_event_load(hth_event_feed *feed, const char *model, pid_t pid, uint64_t generation);
/* step of HTH_MODEL_EVENT_STEPS of loading, or of hashing the file. */
void hth_model_event_progress(hth_event_feed *feed, const char *model, bool is_hashing, unsigned step);
void hth_model_event_ready(hth_event_feed *feed, const char *model, pid_t pid, uint64_t load_ms);
/* Its process was asked to end. why NULL: departure is the reason. again: it starts again at once. */
void hth_model_event_unload(hth_event_feed *feed, const char *model, const char *why, hth_departure departure,
                            bool again);
/* Its process ended as it was asked to. */
void hth_model_event_unloaded(hth_event_feed *feed, const char *model);
/* Its process died, and the pause before the next start has begun. cause need not be valid UTF-8. */
void hth_model_event_death(hth_event_feed *feed, const char *model, const char *cause, const char *state,
                           uint64_t n_deaths, uint32_t pause_ms);
/* Rows with this number of bytes have left this tier. */
void hth_model_event_eviction(hth_event_feed *feed, const char *model, const char *tier, uint64_t bytes,
                              hth_departure why);
/* An order should have loaded it into memory, but there is no room. */
void hth_model_event_no_room(hth_event_feed *feed, const char *model);
void hth_model_event_residency(hth_event_feed *feed, const char *model, hth_residency now, hth_residency before);

#endif
