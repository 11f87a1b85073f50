/*
 * worker_job.h - one HTTP request in a worker that a model has to do with, from its first byte to the last of its reply
 *
 *   WAITING    for the model, which does not take requests yet
 *   PREPARING  its task (worker_task.h) is at work, here or on a thread for those that take long
 *   RUNNING    news come and become bytes
 *   ENDING     the client has everything, or is gone; replies that were submitted have not ended yet
 *
 * What leaves is HTTP as its client knows it, or frames for the front (frames.h). All on the event loop's thread.
 */
#ifndef HTH_SERVER_WORKER_JOB_H
#define HTH_SERVER_WORKER_JOB_H

#include "server/http.h"
#include "server/worker_task.h"

typedef struct hth_job hth_job;
typedef struct hth_jobs hth_jobs;

/* What a worker's jobs share. These outlive them. */
typedef struct hth_jobs_options {
    const hth_api_limits *limits;
    const hth_api_defaults *defaults; /* final when there is a model; NULL: none */
    hth_post *post;
    const char *slot_directory; /* where slots are saved; NULL: nowhere */
    uint32_t linger_ms;  /* the prompt of a request whose client left is read on for so long at most; 0: not at all */
    uint32_t silence_ms; /* a stream that was silent for so long shows that it is alive; 0: never */
} hth_jobs_options;

/* Starts threads for what takes long to prepare. HEARTH_NO_MEMORY, HEARTH_IO. */
hearth_status hth_jobs_new(const hth_jobs_options *options, hth_jobs **out, hearth_error *err);
/* From now on there is a model, which outlives the jobs; name is what replies call it. It may not take requests yet. */
void hth_jobs_set_model(hth_jobs *jobs, hearth_model *model, const char *name);
/* From now on it does; digest says which one it is (the MODEL frame). Jobs that waited for this go on. */
void hth_jobs_set_digest(hth_jobs *jobs, const uint8_t digest[HTH_FRAME_MODEL_BYTES]);
/* Every exchange has ended. Waits for what is being prepared, and for the end of what was submitted. Accepts NULL. */
void hth_jobs_free(hth_jobs *jobs);

/* Nobody who left comes back: what is read on for them ends. */
void hth_jobs_end_lingering(hth_jobs *jobs);

size_t hth_jobs_n(const hth_jobs *jobs);

/* Take over an exchange. */
void hth_jobs_begin(hth_jobs *jobs, hth_http_exchange *exchange, hth_task_kind kind, hth_api_kind api);
/* The post is readable. */
void hth_jobs_take_news(hth_jobs *jobs);
/* Once a second: slow readers that do read are not given up, and streams that are silent show that they are alive. */
void hth_jobs_look_after(hth_jobs *jobs);

/* A whole reply that is an error. */
void hth_job_reply_error(hth_http_exchange *exchange, hth_api_dialect dialect, const hth_api_error *error);

#endif
