/*
 * worker_task.h - turns the bytes of a request into submitted requests of the library
 *
 * The task parses JSON, renders the template, tokenizes and compiles grammars, which may take long. Short tasks run on
 * the event loop, others on a thread of a lane, so the task uses nothing but itself and the model.
 *
 *   read   parse the body; afterwards the kind of work is known
 *   run    tokenize and submit, or answer
 *
 * If a request is resumed after a worker died (worker_known.h), each of its replies is submitted as a separate request,
 * with the seed that it had before.
 */
#ifndef HTH_WORKER_WORKER_TASK_H
#define HTH_WORKER_WORKER_TASK_H

#include <stdatomic.h>

#include "api/reply.h"
#include "dialects/answers.h"
#include "models/model.h"
#include "wire/worker_settings.h"
#include "worker/event_queue.h"
#include "worker/slot_memory.h"
#include "worker/worker_known.h"

typedef enum hth_task_kind {
    HTH_TASK_GENERATE,
    HTH_TASK_ANSWER,   /* tokens, templates: one body, at once */
    HTH_TASK_EXPLAIN,  /* explains the lookup of the prompt */
    HTH_TASK_HISTORY,  /* the true tokens of the prompt, for another node */
    HTH_TASK_PREFIXES, /* the page of the most used prefixes */
    HTH_TASK_SLOT,     /* save, restore or erase a slot */
    HTH_TASK_ADAPTERS, /* makes the model's adapters match a state */
    HTH_TASK_EMBED,    /* embeddings: on_embedded is called, then hth_task_begin_vectors */
} hth_task_kind;

enum { HTH_TASK_ID_BYTES = 41, HTH_TASK_WORD_BYTES = 16 };

/* Shared by all tasks of a worker. It and all that it points to outlive the tasks. */
typedef struct hth_task_shared {
    hearth_model *model; /* NULL: not loaded yet */
    hth_event_queue *queue;
    hth_memo *prompts; /* recent conversations, rendered and tokenized */
    hth_slot_memory *slots;
    const struct hth_live_adapters *live_adapters; /* worker_live_adapters.h */
    struct hth_worker_rows *rows;                  /* worker_rows.h; NULL: there is no carrier */
    const hth_worker_settings *settings;
    const hth_api_defaults *defaults; /* final before the model is set; NULL: none */
    const char *model_name, *shown_name;
    uint8_t model_digest[HTH_FRAME_MODEL_BYTES]; /* without adapters */
} hth_task_shared;

typedef struct hth_task {
    /* Inputs. */
    const hth_task_shared *shared;
    hth_task_kind kind;
    hth_api_kind api;
    char slot_number[HTH_TASK_WORD_BYTES]; /* SLOT: as the client sent them */
    char slot_action[HTH_TASK_WORD_BYTES];
    const char *bytes; /* [n_bytes], the first n_known are frames; used until hth_task_read */
    size_t n_bytes;
    size_t n_known;
    size_t n_elsewhere; /* the first of these: of tokens that other nodes drew */
    size_t n_past;      /* after the frames: records of earlier responses */
    size_t n_history;   /* after the records: what another node knows of the prompt */
    uint64_t age_us;    /* with goes_on: since the front got it */
    bool goes_on;       /* another worker had it: it keeps its place in the queue */
    bool names_adapter; /* the front says that the body's model is an adapter */
    char *bytes_copy;   /* owned: a copy of bytes that outlives the exchange; NULL: none */
    char id[HTH_TASK_ID_BYTES];
    json_int_t created_s;
    uint64_t seed;                  /* used if the client sends none */
    char *rows_from;                /* owned; the node that probably has more of the prompt; NULL: none */
    char *front_salt;               /* owned; of the client's key; NULL: none */
    void *owner;                    /* of the events: the job */
    const atomic_bool *is_gone;     /* NULL: never */
    hearth_embedded_fn on_embedded; /* EMBED: on a thread of the model, with owner as user_data; so is the next one */
    hth_embed_worked_fn on_worked;

    /* Results. With an error, only the error and the submitted requests are valid. */
    hth_api_error error;
    hth_buffer answer;                               /* of ANSWER, EXPLAIN, HISTORY, PREFIXES and SLOT */
    hearth_adapter_scale adapters[HTH_ADAPTERS_MAX]; /* of the request, unless its body has them */
    uint8_t digest[HTH_FRAME_MODEL_BYTES];           /* of the MODEL frame */
    const hearth_embeddings *embeddings;             /* EMBED: owned, from on_embedded on */
    hth_api_embed_answer *vectors;                   /* EMBED: its answer, from hth_task_begin_vectors on */
    hth_known known;
    hth_known_text history;                  /* until it was learned */
    struct hth_adapter_state *adapter_state; /* ADAPTERS: owned, from hth_task_read on */
    hth_api_request *request;
    hth_api_prepared prepared;
    hth_api_reply *reply;
    hth_request_events *events;
    hth_request_part *parts; /* [n_parts], each a submitted request */
    uint32_t n_parts;
    uint32_t n_replies;   /* in total */
    uint32_t n_submitted; /* part of them: replies whose DONE will come */
    uint32_t slot;        /* the request's slot while it runs */
    bool has_slot;
    bool has_own_salt; /* the request has a salt, besides that of the key */
    char *salt;        /* owned; from front_salt and the request's salt */
} hth_task;

/* Every submitted reply must have ended. Event loop only. */
void hth_task_deinit(hth_task *task);

/* Parse the body. False with task->error. */
bool hth_task_read(hth_task *task);
/* May the rest take long although the body is short (grammars, tools, many replies)? Call after hth_task_read. */
bool hth_task_is_complicated(const hth_task *task);
/*
 * Do the rest. Afterwards there is an error, an answer, or a reply with submitted requests. With an
 * error, some requests may have been submitted, too. The parts are not open yet. False: on_embedded will be or was
 * called, and the task may be gone.
 */
bool hth_task_run(hth_task *task);
/* Make the answer of task->embeddings, or the error. */
void hth_task_begin_vectors(hth_task *task);

/* For replies that have not ended: cancel them, or pause or continue them. Event loop only, after hth_task_run. */
void hth_task_cancel(const hth_task *task);
void hth_task_pause(const hth_task *task, bool pause);
/* The client disconnected: continue its prefill for at most ms (hearth_linger) if that is worthwhile; else cancel. */
void hth_task_linger(const hth_task *task, uint32_t ms);

#endif
