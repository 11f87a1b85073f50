/*
 * events_inside.h - what the files of a queue of events share
 *
 *   events.c         the queue: memory, taking, waking
 *   event_source.c   who puts events in: callbacks of requests, loads
 */
#ifndef HTH_MODELS_EVENTS_INSIDE_H
#define HTH_MODELS_EVENTS_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "models/events.h"

/* Events lie in blocks one behind the other, and never move. */
struct hth_event_block {
    hth_event_block *next;
    size_t capacity;
    size_t n;      /* bytes that were put in */
    size_t n_read; /* of them, bytes that were taken out */
    char bytes[];  /* [capacity], of records */
};

typedef struct hth_event_chain {
    hth_event_block *first;
    hth_event_block *last;
    size_t n_events; /* that nobody has taken */
} hth_event_chain;

/* A reply of a source; of a load there is one. */
typedef struct hth_event_reply hth_event_reply;
struct hth_event_reply {
    hth_event_source *source;
    hth_event_block *reserve; /* memory for its last event, where there is no other */
    size_t n_due;             /* bytes of text of the last token, which on_text is about to repeat; scheduler thread */
    bool lost_events;         /* there was no memory for them; scheduler thread */

    /* Guarded by the queue's lock. */
    bool has_ended;
    bool is_paused;
    hth_event_reply *prev_paused, *next_paused;
};

struct hth_event_source {
    /* Fixed once it has begun. */
    hearth_events *queue;    /* a hold */
    hearth_model *model;     /* borrowed: it is there until each reply has ended; NULL: a load */
    hearth_runtime *runtime; /* of a load; borrowed, likewise */
    void *user_data;
    uint64_t first_id;
    unsigned flags;
    uint32_t n_replies;

    /* The scheduler's. */
    bool is_told; /* in its model's list */
    hth_event_source *next_told;

    /* Guarded by the queue's lock. */
    bool is_held;
    bool has_ended_round; /* with events of it */
    bool is_over;         /* nothing touches it any more, but for its release */
    uint32_t n_ended;
    hth_event_chain kept; /* while it is held */
    hth_event_source *prev, *next;

    hth_event_reply replies[]; /* [n_replies] */
};

struct hearth_events {
    /* Fixed. */
    size_t n_events_max;
    size_t n_bytes_max;

    atomic_bool has_news; /* since takers were woken last */

    /* Guards the fields below. Held around the locks of models, schedulers and loads. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders; /* the caller, and each source */
    bool is_closed;
    bool is_woken;                  /* by hearth_events_wake */
    bool has_descriptors;           /* those below are there */
    bool is_readable;               /* there is a byte in the pipe */
    int read_fd, write_fd;          /* a pipe, neither end of which blocks */
    hth_event_chain waiting;        /* for takers */
    size_t n_events;                /* that nobody has taken, with those that are held */
    size_t n_bytes;                 /* their memory */
    hth_event_block *taken;         /* all of what is in them is valid until the next take */
    struct hth_event_record *given; /* those of them that have a result, which is theirs */
    hth_event_block *spare;
    size_t n_spare;
    hth_event_source *sources;
    hth_event_reply *paused;
};

/*
 * Put an event in, with copies of all that it points to; of event->prompt n_prompt tokens. A result becomes the event's.
 * reserve is used, and set to NULL, where there is no other memory. False without memory.
 */
bool hth_events_put_locked(hth_event_source *source, const hearth_event *event, uint32_t n_prompt,
                           hth_event_block **reserve);
/* Is there more than a bound? */
bool hth_events_are_many_locked(const hearth_events *queue);
/* Memory for one event without text; NULL: none. */
hth_event_block *hth_event_block_small(void);
/* Append the blocks of one chain to another one, and empty it. */
void hth_event_chain_move(hth_event_chain *to, hth_event_chain *from);

/* Let those who take know of what waits. */
void hth_events_tell_locked(hearth_events *queue);
void hth_events_ref_locked(hearth_events *queue);
void hth_events_unref(hearth_events *queue);

#endif
