/*
 * worker_job_inside.h - what the files of a worker's jobs share
 *
 *   worker_job.c        all jobs: their preparation, their beginning and their end
 *   worker_job_reply.c  one job: news into bytes, and bytes to its client
 */
#ifndef HTH_SERVER_WORKER_JOB_INSIDE_H
#define HTH_SERVER_WORKER_JOB_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/mailbox.h"
#include "server/frames.h"
#include "server/worker_job.h"

/* What is told of a step, until it is written. */
typedef struct hth_job_step {
    bool is_open;
    uint32_t reply;
    bool has_ended;
    hearth_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    uint32_t n_logprobs;      /* of each token */
    hearth_logprob *logprobs; /* [n_tokens * n_logprobs] */
    size_t tokens_capacity, logprobs_capacity;
} hth_job_step;

/* What was told of a reply. */
typedef struct hth_job_reply {
    uint32_t n_tokens;
    uint32_t n_cached;   /* tokens of its prompt, as far as they are known */
    bool has_cached;     /* n_cached was told in another worker: it stays */
    bool is_cached_told; /* to the front */
    uint64_t read_ns;    /* since when its prompt is read; 0: nothing was told of that */
} hth_job_reply;

struct hth_job {
    hth_jobs *jobs;
    hth_job *prev, *next;
    hth_job *prev_waiting, *next_waiting;
    hth_http_exchange *exchange; /* NULL: it has ended */
    hth_api_dialect dialect;
    bool is_framed;
    bool is_waiting;   /* for the model */
    bool is_preparing; /* in a lane, or on the way back */
    bool is_running;   /* its replies were submitted */
    uint64_t begun_ns;
    uint64_t said_ns; /* when something was written last, or it began */
    bool has_begun;   /* a stream, of frames or events, or a body that is longer than what leaves at once */
    bool has_head;    /* the frame */
    bool has_told_model;
    bool is_paused;
    bool is_writing;        /* all replies have ended, and the body is on its way */
    size_t backlog;         /* when that was last asked for */
    atomic_bool is_gone;    /* the client: what waits to be prepared need not be */
    uint32_t n_ended;       /* replies whose end was told */
    hth_job_reply *replies; /* [n_replies] */
    hth_frame_summary summary;
    hth_task task;
};

/* Requests that are prepared one after the other, on a thread of their own. */
typedef enum hth_lane_kind {
    HTH_LANE_LARGE,       /* takes milliseconds */
    HTH_LANE_COMPLICATED, /* grammars, tools: who knows */
    HTH_LANE_FILES,       /* reads or writes files, and waits for devices */
    HTH_LANES,
} hth_lane_kind;

typedef struct hth_lane {
    hth_jobs *jobs;
    hth_lane_kind kind;
    hth_mailbox *waiting;
    pthread_t thread;
    bool has_thread;
} hth_lane;

struct hth_jobs {
    hth_jobs_options options;
    hearth_model *model; /* NULL: not loaded yet */
    const char *name;
    bool has_digest; /* the model takes requests */
    uint8_t model_digest[HTH_FRAME_MODEL_BYTES];
    hth_job *list;
    size_t n;
    hth_job *waiting; /* of the list, those that are */
    bool ends_lingering;
    hth_memo *prompts;
    hth_slot_memory *slots;
    hth_lane lanes[HTH_LANES];
    hth_mailbox *prepared; /* with room for all */

    /* Of the job that is at work. */
    hth_buffer piece; /* what a step has released */
    hth_buffer wire;  /* what is to be written */
    hth_job_step step;
};

/* ---- worker_job_reply.c ---- */

/* Its replies run from now on: the front is told, where the client does not wait for them. */
void hth_job_tell_begun(hth_job *job);
/* Nothing has been written yet, and this is all there will be. The exchange ends. */
void hth_job_fail(hth_job *job, const hth_api_error *error);
/* The header that tells what of the request was passed over, where that is not the front's to add. */
void hth_job_add_notes(hth_job *job);
/* Make room for what is told of each reply, with what was told in another worker. False without memory. */
bool hth_job_begin_replies(hth_job *job);
/* Write what the box that was taken from the post tells. The exchange may end. */
void hth_job_take_box(hth_job *job);
/* There is room for more: of a body that is on its way. The exchange may end. */
void hth_job_write_on(hth_job *job);
/*
 * Nothing has come of a stream for a while, because its prompt is long or others are before it: its head leaves now, and
 * something that means nothing, so that neither its client nor anybody on the way takes the connection for dead.
 */
void hth_job_say_idle(hth_job *job);

#endif
