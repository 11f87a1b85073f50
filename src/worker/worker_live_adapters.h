/*
 * worker_live_adapters.h - makes the adapters of a worker equal to a state (adapter_state.h)
 *
 * Adapters of the configuration stay; others are loaded and unloaded, from files beneath the folder of adapters alone.
 */
#ifndef HTH_WORKER_WORKER_LIVE_ADAPTERS_H
#define HTH_WORKER_WORKER_LIVE_ADAPTERS_H

#include "base/log.h"
#include "worker/worker_task.h"

/* An adapter that an earlier worker had, and that this one could not load. */
typedef struct hth_lost_adapter {
    uint32_t id;
    char why[sizeof(((hearth_error *)NULL)->message)];
} hth_lost_adapter;

typedef struct hth_live_adapters {
    const char *directory;                   /* their folder; NULL: none */
    hth_lost_adapter lost[HTH_ADAPTERS_MAX]; /* [n_lost]; final before the first request */
    size_t n_lost;
} hth_live_adapters;

/*
 * Load the adapters, and set the scales, that an earlier worker of the model had; text is a state. An adapter that
 * cannot be loaded any more is a warning, and lost until the next worker tries again.
 */
void hth_adapters_restore(hth_live_adapters *live, hearth_model *model, const char *text, const hth_log *log);
/* Take the state of a HTH_TASK_ADAPTERS, and list the adapters: the answer. On a thread of a lane: it reads files. */
void hth_task_set_adapters(hth_task *task);

/*
 * Append the adapters of the model as llama.cpp's GET /lora-adapters lists them. Lost ones follow, each with its id and
 * "error"; live may be NULL: none do. out->failed without memory.
 */
hearth_status hth_adapters_write(const hth_live_adapters *live, hearth_model *model, hth_buffer *out,
                                 hearth_error *err);

#endif
