/*
 * worker_job.h - one HTTP request to a worker that needs the model, from its first byte to the last byte of the reply
 *
 *   WAITING    the model does not accept requests yet
 *   PREPARING  the task (worker_task.h) is prepared, on the event loop or, if this takes long, on another thread
 *   RUNNING    events arrive and become bytes
 *   ENDING     the client has the whole reply, or disconnected; submitted replies have not ended yet
 *
 * The bytes are HTTP for a client, or frames (frames.h) for the front. All functions run on the event loop's thread.
 */
#ifndef HTH_WORKER_WORKER_JOB_H
#define HTH_WORKER_WORKER_JOB_H

#include "http/http.h"
#include "worker/worker_task.h"

typedef struct hth_job hth_job;
typedef struct hth_jobs hth_jobs;

/*
 * Starts the threads of the lanes. shared: with the queue, the settings, the defaults and the adapters. silence_ms:
 * after this time of silence a stream sends a keep-alive; 0: never. HEARTH_NO_MEMORY, HEARTH_IO.
 */
hearth_status hth_jobs_new(const hth_task_shared *shared, uint32_t silence_ms, hth_jobs **out, hearth_error *err);
/* The model is loaded. It must outlive the jobs, and may not accept requests yet. shown: its name in replies. */
void hth_jobs_set_model(hth_jobs *jobs, hearth_model *model, const char *name, const char *shown);
/* The model accepts requests: waiting jobs go on. digest identifies the model (the MODEL frame). */
void hth_jobs_set_digest(hth_jobs *jobs, const uint8_t digest[HTH_FRAME_MODEL_BYTES]);
/*
 * Call after the end of every exchange. Blocks until all preparations and submitted replies have ended. Accepts NULL.
 */
void hth_jobs_free(hth_jobs *jobs);

/* Cancel the prefills that go on for disconnected clients, and start no more of them. */
void hth_jobs_end_lingering(hth_jobs *jobs);

size_t hth_jobs_n(const hth_jobs *jobs);

/* Takes over the exchange: the job ends it. */
void hth_jobs_begin(hth_jobs *jobs, hth_http_exchange *exchange, hth_task_kind kind, hth_api_kind api);
/* Call when the descriptor of the event queue is readable. */
void hth_jobs_take_events(hth_jobs *jobs);
/* Call once a second: renews the pause for slow clients that still read, and sends keep-alives in silent streams. */
void hth_jobs_look_after(hth_jobs *jobs);

/*
 * Write the reply to GET /slots for a client whose key has this salt (NULL: none). info: of the model; zeros: not
 * loaded yet.
 */
void hth_jobs_slots_write(const hth_jobs *jobs, const hearth_model_info *info, const char *salt, hth_buffer *out);

/* Reply with an error; the exchange ends. */
void hth_job_reply_error(hth_http_exchange *exchange, hth_api_dialect dialect, const hth_api_error *error);

#endif
