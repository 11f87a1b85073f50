/*
 * worker_task.h - from a request's bytes to submitted requests of the library
 *
 * The part of a request's life that may take long: its JSON, its template, tokens and grammars. It runs on the event loop
 * where it is short, and on threads beside it otherwise, so it touches nothing but the task and the model.
 *
 *   read     the body is parsed; what kind of work it is, is known then
 *   run      tokenized and submitted, or answered
 *
 * A reply that goes on from what another worker told (worker_known.h) is submitted as one request for each of its replies,
 * with the seeds that they would have had together.
 */
#ifndef HTH_SERVER_WORKER_TASK_H
#define HTH_SERVER_WORKER_TASK_H

#include <stdatomic.h>

#include "api/reply.h"
#include "server/slot_memory.h"
#include "server/worker_known.h"
#include "server/worker_post.h"

/* What is asked for. */
typedef enum hth_task_kind {
    HTH_TASK_GENERATE,
    HTH_TASK_ANSWER,  /* tokens, templates: one body, at once */
    HTH_TASK_EXPLAIN, /* what the cache knows of the prompt */
    HTH_TASK_SLOT,    /* to save, restore or erase what a slot holds (worker_slots.h) */
} hth_task_kind;

enum { HTH_TASK_ID_BYTES = 41, HTH_TASK_WORD_BYTES = 16 };

typedef struct hth_task {
    /* Given. */
    hearth_model *model;
    hth_post *post;
    hth_memo *prompts; /* that were made lately */
    hth_slot_memory *slots;
    const char *slot_directory; /* for their files; NULL: none */
    const hth_api_limits *limits;
    const hth_api_defaults *defaults; /* NULL: none */
    const char *model_name;
    const uint8_t *model_digest; /* [HTH_FRAME_MODEL_BYTES] of the MODEL frame */
    hth_task_kind kind;
    hth_api_kind api;
    char slot_number[HTH_TASK_WORD_BYTES]; /* of HTH_TASK_SLOT, as the client wrote them */
    char slot_action[HTH_TASK_WORD_BYTES];
    const char *bytes; /* [n_bytes], of which the first n_known are frames; needed until it was read */
    size_t n_bytes;
    size_t n_known;
    size_t n_past;    /* of those behind them, records of earlier responses */
    bool goes_on;     /* another worker had it: it has its place in the queue */
    char *bytes_copy; /* owned: bytes, where they have to outlive the exchange */
    char id[HTH_TASK_ID_BYTES];
    json_int_t created_s;
    uint64_t seed;              /* where the client gives none */
    char *front_salt;           /* owned; NULL: none */
    void *owner;                /* of the box */
    const atomic_bool *is_gone; /* NULL: never */

    /* What came of it; with an error nothing else counts but what was submitted. */
    hth_api_error error;
    hth_buffer answer; /* of what does not generate */
    hth_known known;
    hth_api_request *request;
    hth_api_prepared prepared;
    hth_api_reply *reply;
    hth_box *box;
    hth_box_part *parts; /* [n_parts], each a request that was submitted */
    uint32_t n_parts;
    uint32_t n_replies;   /* in all */
    uint32_t n_submitted; /* of them, those whose end will be told */
    bool has_slot;
    uint32_t slot; /* the number that it has as long as it runs */
    char *salt;    /* owned: of key and request together */
} hth_task;

/* Nothing is submitted that has not ended. Event loop. */
void hth_task_deinit(hth_task *task);

/* Parse. False with task->error. */
bool hth_task_read(hth_task *task);
/* May the rest take longer than its length tells: grammars, tools, many replies? After hth_task_read. */
bool hth_task_is_complicated(const hth_task *task);
/*
 * Do the rest. Afterwards there is an error, an answer, or a reply and requests that were submitted; with an error some of those
 * may have been, too. The box is not open yet.
 */
void hth_task_run(hth_task *task);

/* Make the request's salt that of the client's key and its own together. False with task->error. */
bool hth_task_join_salts(hth_task *task);

/* End what was submitted and has not ended, or have it wait. Event loop, after hth_task_run. */
void hth_task_cancel(const hth_task *task);
/* The client has gone: read its prompts on for ms at most (hearth_linger), where that is worth it; cancel otherwise. */
void hth_task_linger(const hth_task *task, uint32_t ms);
void hth_task_pause(const hth_task *task, bool pause);

#endif
