/*
 * worker_process.h - one process of a worker, from its start to its end
 *
 * The process writes log lines ("hearth: warning: text") to a pipe. They go to the front's log, and the last ones are
 * kept. It writes these lines to a control socket: "loading 0.42", "ready", "stopping", "evicted RAM RAM_FILE" (bytes),
 * "ram QUOTA USED DISPLACED" (of its RAM tier: the quota in force, its bytes in use, and the number of rows that found
 * no free room), "failed TEXT", "needs LINE". The front writes there: "drain MS" before SIGTERM, if running replies may
 * end in the process; "evict RAM RAM_FILE", the bytes of rows that must leave these tiers; and "ram QUOTA", a new quota
 * of the RAM tier. The socket closes when the front ends. Event loop only. Only hth_worker_process_free and
 * hth_worker_process_free_all block.
 */
#ifndef HTH_SUPERVISOR_WORKER_PROCESS_H
#define HTH_SUPERVISOR_WORKER_PROCESS_H

#include "base/log.h"
#include "hearth.h"
#include "supervisor/device_pools.h"

struct event_base;

typedef struct hth_worker_process hth_worker_process;

typedef struct hth_worker_process_options {
    struct event_base *base;
    const char *program;       /* the executable */
    const char *command;       /* of the program; NULL: "worker". With others: only worker, carrier_fd and no_sandbox */
    const char *name;          /* the model's, for the log; outlives the process */
    const char *const *worker; /* options of the command line, ending with NULL */
    const char *socket_path;
    int status_fd;
    int ram_fd;         /* -1: none */
    int carrier_fd;     /* a socket to the carrier, or of the carrier to the front; 0: none */
    bool has_ram_quota; /* ram_quota is the first quota of its RAM tier */
    uint64_t ram_quota;
    const char *adapter_state; /* adapter_state.h; NULL: none */
    bool no_sandbox;
    bool measures;                /* it reports the needs of the model and ends: no socket, no status page */
    const hth_device_pools *seen; /* used with measures: memory of devices; NULL: none */
    const hth_log *log;           /* outlives the process; may be NULL */
    /* A line of needs_text.h. Also called within hth_worker_process_has_ended. */
    void (*on_needs)(const char *line, void *user_data);
    /* The next callbacks are not called within the functions below. */
    void (*on_progress)(float fraction, void *user_data); /* 0 .. 1 */
    void (*on_ready)(void *user_data);
    /*
     * After on_ready, until fraction is 1: requests wait while the model's file is hashed. Not called if it was hashed
     * before.
     */
    void (*on_hashing)(float fraction, void *user_data);
    void (*on_stopping)(void *user_data); /* the front or another process ordered it to end */
    void (*on_evicted)(uint64_t ram_bytes, uint64_t ram_file_bytes, void *user_data); /* rows were evicted as ordered */
    /* Its RAM tier changed, or applied a new quota. */
    void (*on_ram)(uint64_t quota, uint64_t used_bytes, uint64_t n_displaced, void *user_data);
    void *user_data;
} hth_worker_process_options;

/*
 * Start a process. The strings and descriptors, except name and log, are only needed during the call. HEARTH_NO_MEMORY;
 * other statuses as hth_fail_errno.
 */
hearth_status hth_worker_process_start(const hth_worker_process_options *options, hth_worker_process **out,
                                       hearth_error *err);
/* Kill it. No callback is called any more, and it is freed once it has ended. */
void hth_worker_process_abandon(hth_worker_process *process);
/* If it has not ended, kill its group and wait for it, for a few seconds at most. Accepts NULL. */
void hth_worker_process_free(hth_worker_process *process);
/* Likewise for n processes, within the same time for all. */
void hth_worker_process_free_all(hth_worker_process *const *processes, size_t n);

/* 0: it has ended. */
int hth_worker_process_pid(const hth_worker_process *process);
/* Tell it to end. drain_ms: running replies may end in it for this long; 0: other workers continue them. */
void hth_worker_process_terminate(hth_worker_process *process, uint32_t drain_ms);
/* Order it to evict these bytes of rows from each tier; on_evicted follows. False: the order cannot be sent now. */
bool hth_worker_process_evict(hth_worker_process *process, uint64_t ram_bytes, uint64_t ram_file_bytes);
/* Send it a new quota of its RAM tier; on_ram follows, with this quota. False: the order cannot be sent now. */
bool hth_worker_process_set_ram(hth_worker_process *process, uint64_t quota);
/* Kill its process group. */
void hth_worker_process_kill(hth_worker_process *process);
/* Call periodically: logs the number of its lines that were dropped because there were too many. */
void hth_worker_process_tick(hth_worker_process *process);
/* Has it ended? Then its group is killed, all of its output is read, and no more callbacks are called. */
bool hth_worker_process_has_ended(hth_worker_process *process);

/* ---- once it has ended ---- */

/* Did it report "stopping"? on_stopping may not have been called. */
bool hth_worker_process_said_stopping(const hth_worker_process *process);
/* Did it end by a signal? */
bool hth_worker_process_was_killed(const hth_worker_process *process);
/* Did it end with status 0, or by SIGTERM? */
bool hth_worker_process_ended_in_order(const hth_worker_process *process);
/*
 * The cause of its end: "killed by signal 11 (segmentation fault)", "ended with exit status 3", or the text of
 * "failed".
 */
void hth_worker_process_cause(const hth_worker_process *process, char *out, size_t capacity);
/* Write as many of its last lines as fit. */
void hth_worker_process_last_lines(const hth_worker_process *process, char *out, size_t capacity);

#endif
