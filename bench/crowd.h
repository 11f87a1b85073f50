/*
 * crowd.h - many requests at once, with the time of each of their tokens
 *
 * The callback of each token takes the time on the scheduler thread, so it is the library's, without a waiting thread's
 * delay.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <pthread.h>

#include "hearth.h"

enum { HTH_CROWD_MAX = 128 };

/*
 * One request of the crowd. Its token times may be read while it runs, up to n_tokens. The rest may be read once it is
 * done.
 */
typedef struct hth_member {
    struct hth_crowd *crowd;
    uint64_t id;
    uint64_t submitted_ns;
    uint64_t *token_ns; /* [n_tokens_max] */
    size_t n_tokens_max;
    size_t n_tokens; /* guarded by the crowd's lock */
    bool is_done;    /* likewise */
    hearth_status status;
    hearth_stats stats;
} hth_member;

typedef struct hth_crowd {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hth_member members[HTH_CROWD_MAX];
    size_t n;
} hth_crowd;

void hth_crowd_init(hth_crowd *crowd);
/* Waits for all members. */
void hth_crowd_deinit(hth_crowd *crowd);

/*
 * Submit a request as a member, which lives as long as the crowd. Its on_token, on_done and user_data are ours. Ends
 * the program if the library refuses it.
 */
hth_member *hth_crowd_submit(hth_crowd *crowd, hearth_model *model, const hearth_request *request);

/* Block until a member has n tokens, or is done. */
void hth_crowd_wait_tokens(hth_member *member, size_t n);
/* Block until all are done. Ends the program if a request failed. A cancelled one has not failed. */
void hth_crowd_wait(hth_crowd *crowd);

#endif
