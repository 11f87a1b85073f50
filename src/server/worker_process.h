/*
 * worker_process.h - one process of a worker, from its start to what it died of
 *
 * It writes log lines, "hearth: warning: text", to a pipe, which are passed on to the front's log and of which the last ones are kept; and lines to
 * a control socket: "loading 0.42", "ready", "stopping", "failed TEXT". It is told "drain MS" there, before SIGTERM, where running replies are to end in it. The other end of that socket closes with the front. Event
 * loop only; nothing blocks but hth_worker_process_free.
 */
#ifndef HTH_SERVER_WORKER_PROCESS_H
#define HTH_SERVER_WORKER_PROCESS_H

#include "base/log.h"
#include "hearth.h"

struct event_base;

typedef struct hth_worker_process hth_worker_process;

typedef struct hth_worker_process_options {
    struct event_base *base;
    const char *program;       /* the executable */
    const char *name;          /* the model's, for the log; outlives the process */
    const char *const *worker; /* options of the command line, ending with NULL */
    const char *socket_path;
    int status_fd;
    int ram_fd; /* -1: none */
    bool no_sandbox;
    const hth_log *log; /* outlives the process; may be NULL */
    /* Not called from within the functions below. */
    void (*on_progress)(float fraction, void *user_data); /* 0 .. 1 */
    void (*on_ready)(void *user_data);
    void (*on_stopping)(void *user_data); /* somebody told it to end, the front or anybody else */
    void *user_data;
} hth_worker_process_options;

/* Start it. Its strings and descriptors are needed for the call only, but for name and log. */
hearth_status hth_worker_process_start(const hth_worker_process_options *options, hth_worker_process **out,
                                       hearth_error *err);
/* Kill its group and wait for it, at most a few seconds, where it has not ended. Accepts NULL. */
void hth_worker_process_free(hth_worker_process *process);

int hth_worker_process_pid(const hth_worker_process *process);
/* Ask it to end in order. drain_ms: running replies may end for so long; 0: they go on elsewhere. */
void hth_worker_process_terminate(hth_worker_process *process, uint32_t drain_ms);
/* Kill it and what it started. */
void hth_worker_process_kill(hth_worker_process *process);
/* Now and then: tell how many of its log lines were too many to be passed on. */
void hth_worker_process_tick(hth_worker_process *process);
/* Has it ended? Then its group is killed, and all it had written has been read. No callbacks come any more. */
bool hth_worker_process_has_ended(hth_worker_process *process);

/* ---- once it has ended ---- */

/* Did it say that it was told to end? on_stopping may not have been called of it. */
bool hth_worker_process_said_stopping(const hth_worker_process *process);
/* Did it end as one that was asked to: with status 0, or by SIGTERM? */
bool hth_worker_process_ended_in_order(const hth_worker_process *process);
/*
 * Why it ended, as a clause: "killed by signal 11 (segmentation fault)", "ended with exit status 3", or what it said had
 * failed.
 */
void hth_worker_process_cause(const hth_worker_process *process, char *out, size_t capacity);
/* As many of its last lines as fit. */
void hth_worker_process_last_lines(const hth_worker_process *process, char *out, size_t capacity);

#endif
