/*
 * events_inside.h - shared by the files of a queue of events
 *
 *   events.c         the queue: memory, taking, waking
 *   event_source.c   the producers: callbacks of requests, loads
 */
#ifndef HTH_MODELS_EVENTS_INSIDE_H
#define HTH_MODELS_EVENTS_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>

#include "models/events.h"

/* Events lie in blocks, one after the other, and never move. */
struct hth_event_block {
    hth_event_block *next;
    size_t capacity;
    size_t n;      /* bytes written */
    size_t n_read; /* of them, bytes taken */
    char bytes[];  /* [capacity], of records */
};

typedef struct hth_event_chain {
    hth_event_block *first;
    hth_event_block *last;
    size_t n_events; /* not taken yet */
} hth_event_chain;

/* A reply of a source. A load has one. */
typedef struct hth_event_reply hth_event_reply;
struct hth_event_reply {
    hth_event_source *source;
    hth_event_block *reserve; /* memory for its last event, if there is no other */
    bool lost_events;         /* for want of memory; scheduler thread */

    /* Guarded by the queue's lock. */
    bool has_ended;
    bool is_paused;
    hth_event_reply *prev_paused, *next_paused;
};

struct hth_event_source {
    /* Fixed once it has begun. */
    hearth_events *queue;     /* a reference */
    hth_event_teller *teller; /* borrowed; its model lives until each reply has ended; NULL: a load */
    hearth_runtime *runtime;  /* of a load; borrowed until the load has ended */
    void *user_data;
    uint64_t first_id;
    unsigned flags;
    uint32_t n_replies;

    /* Scheduler thread. */
    bool is_told; /* in its teller's list */
    hth_event_source *next_told;

    /* Guarded by the queue's lock. */
    bool is_held;
    bool has_ended_round; /* with events of it */
    bool is_over;         /* only its release still uses it */
    uint32_t n_ended;
    hth_event_chain kept; /* while it is held */
    hth_event_source *prev, *next;

    hth_event_reply replies[]; /* [n_replies] */
};

struct hearth_events {
    /* Fixed. */
    size_t n_events_max;
    size_t n_bytes_max;

    atomic_bool needs_wake; /* since the takers were woken last */

    /* Guards the fields below. Held around the locks of models, schedulers and loads. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned holders; /* the caller and the sources */
    bool is_closed;
    bool is_woken;                  /* by hearth_events_wake */
    bool has_descriptors;           /* the pipe exists */
    bool is_readable;               /* the pipe has a byte */
    int read_fd, write_fd;          /* a pipe; neither end blocks */
    hth_event_chain waiting;        /* to be taken */
    size_t n_events;                /* not taken yet, with the events of held sources */
    size_t n_bytes;                 /* their memory */
    hth_event_block *taken;         /* blocks of taken events, valid until the next take */
    struct hth_event_record *given; /* taken events that own a result */
    hth_event_block *spare;
    size_t n_spare;
    hth_event_source *sources;
    hth_event_reply *paused;
};

/*
 * Put an event, with copies of all that it points to. The event takes over its result. If there is no other memory,
 * *reserve is used and becomes NULL. False without memory.
 */
bool hth_events_put_locked(hth_event_source *source, const hearth_event *event, hth_event_block **reserve);
/* Does the queue have more events or bytes than its bounds? */
bool hth_events_are_many_locked(const hearth_events *queue);
/* A block for one event without text. NULL without memory. */
hth_event_block *hth_event_block_small(void);
/* Move the blocks of from to the end of to. */
void hth_event_chain_move(hth_event_chain *to, hth_event_chain *from);

/* Wake the takers, and make the descriptor readable, if events wait. */
void hth_events_tell_locked(hearth_events *queue);
void hth_events_ref_locked(hearth_events *queue);
void hth_events_unref(hearth_events *queue);

#endif
