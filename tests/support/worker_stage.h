/*
 * worker_stage.h - a worker on a thread, and clients of its socket that wait for their replies
 */
#ifndef HTH_TESTS_WORKER_STAGE_H
#define HTH_TESTS_WORKER_STAGE_H

#include <pthread.h>

#include "wire/frames.h"
#include "worker/worker.h"

typedef struct hth_test_worker {
    char *directory; /* of cache and socket */
    char socket_path[100];
    int control; /* the front's end */
    pthread_t thread;
    bool is_running;
    hearth_runtime_options runtime;
    hearth_model_options model;
    hth_worker_options options; /* may be changed before the start */
    hearth_status status;
    hearth_error err;
} hth_test_worker;

void hth_test_worker_init(hth_test_worker *worker, const char *model_path);
/* Start it and wait until it is ready. */
void hth_test_worker_start(hth_test_worker *worker);
/* Let go of its control socket and wait for its end, which has to be a good one. */
void hth_test_worker_stop(hth_test_worker *worker);
void hth_test_worker_deinit(hth_test_worker *worker);

/* What came of a request. */
typedef struct hth_test_heard {
    int status;
    char head[4096];
    hth_buffer body;  /* without chunks */
    bool has_length;  /* it came in one piece */
    bool is_complete; /* as far as HTTP tells */
} hth_test_heard;
void hth_test_heard_deinit(hth_test_heard *heard);

/* Connect. Blocking, with a time limit that fails the test. */
int hth_test_worker_connect(const hth_test_worker *worker);
/* Send a request; headers are lines, each with its line end, or "". */
void hth_test_worker_send(int fd, const char *method, const char *target, const char *headers, const void *body,
                          size_t n_body);
/* Read one reply to its end. */
hth_test_heard hth_test_worker_hear(int fd);
/* All of it, on a connection of its own. */
hth_test_heard hth_test_worker_ask(const hth_test_worker *worker, const char *method, const char *target,
                                   const char *headers, const void *body, size_t n_body);
hth_test_heard hth_test_worker_post(const hth_test_worker *worker, const char *target, const char *body);

/* How many of its slots work on something, by GET /slots. */
unsigned hth_test_worker_n_busy(const hth_test_worker *worker);

#endif
