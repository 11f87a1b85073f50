/*
 * worker_job_inside.h - shared by the files of a worker's jobs
 *
 *   worker_job.c        all jobs: their preparation, their beginning and their end
 *   worker_job_reply.c  one job: events into bytes, and bytes to its client
 *   worker_job_slots.c  what runs under the number of each slot
 */
#ifndef HTH_WORKER_WORKER_JOB_INSIDE_H
#define HTH_WORKER_WORKER_JOB_INSIDE_H

#include <stdatomic.h>

#include "api/model_pages.h"
#include "base/message_queue.h"
#include "wire/frames.h"
#include "worker/lane.h"
#include "worker/worker_job.h"

/* Tokens and text of one reply that leave together: a step frame, or bytes of a stream. */
typedef struct hth_job_step {
    bool is_open;
    uint32_t reply;
    bool has_begun; /* it has the beginning of the stream, which no token brought */
    bool has_ended;
    hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_logprobs;      /* of each token */
    hearth_logprob *logprobs; /* [n_tokens * n_logprobs] */
    size_t tokens_capacity, logprobs_capacity;
    float state; /* of the sampler, after the last token; NaN: none */
} hth_job_step;

/* The facts about a reply that the client has received. */
typedef struct hth_job_reply {
    uint32_t n_tokens;
    uint32_t n_cached;   /* tokens of its prompt; final with the first token */
    bool has_cached;     /* n_cached is from the worker before: it stays */
    bool is_cached_told; /* the front has the CACHED frame */
    uint64_t read_ns;    /* when its first PREFILL event came; 0: none came */
    uint32_t n_read;     /* tokens of its prompt in the context, as of the last PREFILL event */
    bool has_new_line;
} hth_job_reply;

struct hth_job {
    hth_jobs *jobs;
    hth_job *prev, *next;
    hth_job *prev_waiting, *next_waiting;
    hth_http_exchange *exchange; /* NULL: the exchange has ended */
    hth_api_dialect dialect;
    bool is_framed;
    bool is_waiting;   /* WAITING */
    bool is_preparing; /* PREPARING on another thread */
    bool is_running;   /* RUNNING */
    uint64_t number;   /* of those that ran; 0: it never ran */
    uint64_t begun_ns;
    uint64_t started_ns; /* the model takes requests */
    double prepare_ms;
    uint64_t said_ns; /* time of the last write, or of the beginning */
    bool has_begun;   /* the chunked reply has begun */
    bool has_head;    /* the HEAD frame was written */
    bool has_told_model;
    bool is_paused;
    bool is_writing;        /* all replies have ended, or vectors are there; the body leaves piece by piece */
    size_t backlog;         /* bytes, at the last look */
    atomic_bool is_gone;    /* the client left: the preparation can be skipped */
    atomic_uint n_worked;   /* tokens of inputs of embeddings that are done; threads of the model set it */
    unsigned n_worked_told; /* in WORK frames */
    uint32_t n_ended;       /* replies whose DONE was read */
    hth_job_reply *replies; /* [n_replies] */
    hth_frame_summary summary;
    hth_task task;
};

/* Requests are prepared by the threads of lanes. No kind of work waits for the next one, which takes longer. */
typedef enum hth_job_lane_kind {
    HTH_JOB_LANE_LARGE,       /* long bodies: milliseconds */
    HTH_JOB_LANE_HUGE,        /* as long as they may be: seconds */
    HTH_JOB_LANE_COMPLICATED, /* grammars, tools: no bound is known */
    HTH_JOB_LANE_FILES,       /* reads or writes files, so it waits for devices; one after the other */
    HTH_JOB_LANES,
} hth_job_lane_kind;

typedef struct hth_job_lane {
    hth_jobs *jobs;
    hth_job_lane_kind kind;
    hth_lane *lane;
} hth_job_lane;

/* What ran under a slot's number. */
typedef struct hth_seen_slot {
    hth_api_slot slot;
    char *salt; /* owned; of the key whose clients see it, "" for none; NULL: nobody does */
} hth_seen_slot;

struct hth_jobs {
    hth_jobs_options options;
    hearth_model *model; /* NULL: not loaded yet */
    const char *name, *shown;
    bool has_digest; /* the model takes requests */
    uint8_t model_digest[HTH_FRAME_MODEL_BYTES];
    hth_job *list;
    size_t n;
    hth_job *waiting; /* the WAITING ones */
    bool ends_lingering;
    hth_memo *prompts;
    hth_slot_memory *slots;
    uint64_t n_numbered;                            /* jobs that ran */
    hth_seen_slot seen_slots[HTH_SLOT_NUMBERS_MAX]; /* the last job that ended, of each number */
    hth_job_lane lanes[HTH_JOB_LANES];
    hth_message_queue *prepared; /* has room for all */
    atomic_bool has_worked;      /* n_worked of a job has changed */

    /* Scratch memory of the job that is at work. */
    hth_buffer piece; /* text of the open step */
    hth_buffer wire;  /* bytes to write */
    hth_job_step step;
};

/* ---- worker_job_reply.c ---- */

/* The replies were submitted. Where the reply has a record that the front keeps, send it the record's beginning. */
void hth_job_tell_begun(hth_job *job);
/* Inputs of the job's embeddings are done: tell the front how much they count. */
void hth_job_tell_work(hth_job *job);
/* Reply with an error; at most frames without bytes were written before. The exchange ends. */
void hth_job_fail(hth_job *job, const hth_api_error *error);
/* Reply with task->answer. The exchange ends. */
void hth_job_reply_answer(hth_job *job);
/* Begin to write the answer of task->vectors, of which the first piece may be all. The exchange may end. */
void hth_job_begin_body(hth_job *job);
/* Add the header that names ignored fields of the request. In framed jobs the front adds it. */
void hth_job_add_notes(hth_job *job);
/* Allocate job->replies, with the facts of the worker before. False without memory. */
bool hth_job_begin_replies(hth_job *job);
/* Read the events of the request that was taken from the queue, and write their bytes. The exchange may end. */
void hth_job_take_events(hth_job *job);
/* The client took bytes: write more of the body, if one is on its way. The exchange may end. */
void hth_job_write_on(hth_job *job);
/*
 * A stream was silent for a while, because its prompt is long or it waits for others. Send its head and a sign of life,
 * so that neither the client nor a proxy takes the connection for dead. The exchange may end.
 */
void hth_job_say_idle(hth_job *job);

/* ---- worker_job_slots.c ---- */

/* A job with a slot is at its end: keep the facts about it. */
void hth_job_keep_slot(const hth_job *job);
void hth_seen_slot_deinit(hth_seen_slot *seen);

#endif
