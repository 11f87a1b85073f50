/*
 * keeper.h - keeps a worker of one model running
 *
 *   STOPPED   -> STARTING   keeper_start: with the server, at the first request, or by an operator's order
 *   STARTING  -> READY      the worker says so
 *   STARTING, READY -> STOPPING   told to end in order; or killed, because it hung
 *   STARTING, READY, STOPPING -> WAITING, BROKEN   it ended though nobody had asked for it, or was killed because it hung
 *   STOPPING  -> STOPPED    it ended as it was told to; and at once STARTING where it is to start again
 *   WAITING, BROKEN -> STARTING   the pause is over
 *
 * What lives longer than a process is here: the status page, the RAM tier's memory, those who wait, and the memory of
 * deaths. Event loop only. Callbacks of waiters may come from any function that is not marked const.
 */
#ifndef HTH_SERVER_KEEPER_H
#define HTH_SERVER_KEEPER_H

#include "server/supervisor.h"

typedef struct hth_keeper hth_keeper;

enum { HTH_STOPPING_RETRY_S = 5 }; /* a guess: how long until another server answers here */

/* What all keepers share; outlives them. */
typedef struct hth_keeper_world {
    struct event_base *base;
    const char *program;
    const hth_server_options *options; /* in force */
    const hth_log *log;
    const char *directory;      /* of the sockets */
    uint64_t watching_since_ns; /* the event loop has turned in time since then */
    bool is_stopping;           /* nothing is started any more */
    /* Its process ended in order and no other one follows. Must not free it. */
    void (*on_stopped)(hth_keeper *keeper, void *user_data);
    void *user_data;
} hth_keeper_world;

/* slot: a number that no other keeper has or had. The model's strings are copied. */
hearth_status hth_keeper_new(hth_keeper_world *world, const hth_server_model *model, unsigned slot, hth_keeper **out,
                             hearth_error *err);
/* Begin to kill what runs; nothing may follow but hth_keeper_free. */
void hth_keeper_kill(hth_keeper *keeper);
/* Kills what runs, and waits for it; forgets who waits. Accepts NULL. */
void hth_keeper_free(hth_keeper *keeper);

const char *hth_keeper_name(const hth_keeper *keeper);
hth_worker_state hth_keeper_state(const hth_keeper *keeper);
bool hth_keeper_starts_with_server(const hth_keeper *keeper);

/* Start it now, whatever pause there was; only from STOPPED, WAITING, BROKEN. */
void hth_keeper_start(hth_keeper *keeper);
/* Told to end, and killed timeout_ms later. again: a new process follows. Without a process it is STOPPED at once. */
void hth_keeper_stop(hth_keeper *keeper, uint32_t timeout_ms, bool again);
/*
 * The same, with the time that a worker gives itself: the front goes on meanwhile, so there is no hurry. drains: running
 * replies may end there, because what follows, if anything does, could not go on with them.
 */
void hth_keeper_retire(hth_keeper *keeper, bool drains, bool again);
/* Take new options for the model: where the worker's differ, it is started anew. False without memory: they stay. */
bool hth_keeper_update(hth_keeper *keeper, const hth_server_model *model);
/* Has the process ended? Then go on as the table above says. */
void hth_keeper_reap(hth_keeper *keeper);
/* Look for hangs, for time-outs of starting and stopping, and for those who waited too long. */
void hth_keeper_tick(hth_keeper *keeper, uint64_t now_ns);

void hth_keeper_want(hth_keeper *keeper, uint64_t after, hth_worker_waiter *waiter);
void hth_keeper_note_broken(hth_keeper *keeper, uint64_t generation);
/* Those who wait fail with this. */
void hth_keeper_fail_waiters(hth_keeper *keeper, const hearth_error *err);

void hth_keeper_view(const hth_keeper *keeper, hth_worker_view *out);
/* True, with the message that requests get, where the state is BROKEN. */
bool hth_keeper_is_broken(const hth_keeper *keeper, hearth_error *err);

#endif
