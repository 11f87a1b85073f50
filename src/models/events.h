/*
 * events.h - the inside of a queue of events: how the library puts in what hearth_events_take hands out
 *
 * A source is whoever tells: the replies of one hearth_submit, or a model that is being loaded. It lives until it has told
 * its last, and holds the queue for so long, which may be closed before.
 *
 * A source that is held keeps its events to itself until it is released. That is for who has to prepare something
 * after submitting, and before hearing of it.
 */
#ifndef HTH_MODELS_EVENTS_H
#define HTH_MODELS_EVENTS_H

#include "models/model.h"

typedef struct hth_event_source hth_event_source;
typedef struct hth_event_block hth_event_block;

/* The events of a request: its callbacks become those that put them in. HEARTH_MISUSE, HEARTH_NO_MEMORY. */
hearth_status hth_events_connect(hearth_model *model, hearth_request *request, bool is_held, hth_event_source **out,
                                 hearth_error *err);
/* Its replies have the ids first_id, first_id + 1, ... from now on. Before the scheduler knows them. */
void hth_events_begin(hth_event_source *source, uint64_t first_id);
/* It was not submitted after all. Accepts NULL. */
void hth_events_drop(hth_event_source *source);

/* hearth_submit, of a request with a queue, whose events are held. *source_out: to be released, once. */
hearth_status hth_submit_held(hearth_model *model, const hearth_request *request, uint64_t *id_out,
                              hth_event_source **source_out, hearth_error *err);
/* The queue gets what has come, and what comes. Any thread. */
void hth_events_release(hth_event_source *source);

/*
 * A round of the scheduler is over, or what follows takes long: wake who waits for the events that it brought.
 * told is the model's list of sources that have told something. Scheduler thread.
 */
void hth_events_round(hth_event_source **told);

/* ---- of loading ---- */

/* A source of one load, numbered id, which is given back with user_data. HEARTH_NO_MEMORY. */
hearth_status hth_events_load_new(hearth_events *queue, hearth_runtime *runtime, uint64_t id, void *user_data,
                                  hth_event_source **out, hearth_error *err);
/* How far it is. Lost without memory: the next one says more. */
void hth_events_load_progress(hth_event_source *source, float fraction);
/* The last that it tells; model is taken over, NULL where status is not HEARTH_OK. Frees source. */
void hth_events_load_end(hth_event_source *source, hearth_model *model_take, hearth_status status,
                         const hearth_error *error);

#endif
