/*
 * events.h - the producers of the events that hearth_events_take returns
 *
 * A source produces events: the replies of one hearth_submit, or the loading of one model. It lives until the end of
 * the scheduler's round with its last event, and if it was held, until it is released; the source of a load lives until
 * its last event. It holds a reference to the queue, which the caller may close earlier.
 *
 * A held source keeps its events until it is released. A caller uses that to prepare something between submitting and
 * the first event.
 */
#ifndef HTH_MODELS_EVENTS_H
#define HTH_MODELS_EVENTS_H

#include "base/status.h"
#include "sched/request.h"

typedef struct hth_event_source hth_event_source;

/*
 * Make a source for a request, and give the request callbacks that put events. The source keeps the request's user_data
 * for its events and takes its place. HEARTH_MISUSE, HEARTH_NO_MEMORY.
 */
hearth_status hth_events_connect(hearth_model *model, hearth_request *request, bool is_held, hth_event_source **out,
                                 hearth_error *err);
/* Set the ids of its replies: first_id, first_id + 1, ... Call before the scheduler gets them. */
void hth_events_begin(hth_event_source *source, uint64_t first_id);
/* Free a source that was not submitted. Accepts NULL. */
void hth_events_drop(hth_event_source *source);

/*
 * hearth_submit, with its statuses. If request has a queue and source_out is not NULL, the source is held: release
 * *source_out once. *source_out is NULL for a request without a queue.
 *
 * text  the text of the prompt, if all of request->tokens came from hth_model_prompt_of_text; NULL otherwise. Borrowed.
 */
hearth_status hth_submit_held(hearth_model *model, const hearth_request *request, hth_prompt_text *text,
                              uint64_t *id_out, hth_event_source **source_out, hearth_error *err);
/* Pass the kept events and all later ones to the queue. Any thread. */
void hth_events_release(hth_event_source *source);

/* Wake the threads that take events, at the end of a round of the scheduler or before long work. Scheduler thread. */
void hth_events_round(hearth_model *model);

/* ---- loading ---- */

/* Make a source for the load id. Its events carry id and user_data. HEARTH_NO_MEMORY. */
hearth_status hth_events_load_new(hearth_events *queue, hearth_runtime *runtime, uint64_t id, void *user_data,
                                  hth_event_source **out, hearth_error *err);
/* Report progress. If out of memory, the report is lost; the next one supersedes it. */
void hth_events_load_progress(hth_event_source *source, float fraction);
/* Add the last event and free source. model_take is taken over; NULL unless status is HEARTH_OK. */
void hth_events_load_end(hth_event_source *source, hearth_model *model_take, hearth_status status,
                         const hearth_error *error);

#endif
