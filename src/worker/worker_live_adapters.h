/*
 * worker_live_adapters.h - makes the adapters of a worker match a state (adapter_state.h)
 *
 * Adapters of the configuration stay. Others are loaded and unloaded, only from files in the folder of adapters or
 * below it.
 */
#ifndef HTH_WORKER_WORKER_LIVE_ADAPTERS_H
#define HTH_WORKER_WORKER_LIVE_ADAPTERS_H

#include "base/log.h"
#include "worker/worker_task.h"

/* An adapter that an earlier worker had but this one could not load. */
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
 * Load the adapters and set the scales that an earlier worker of the model had; text is a state. An adapter that can no
 * longer be loaded causes a warning, and is lost until the next worker tries again.
 */
void hth_adapters_restore(hth_live_adapters *live, hearth_model *model, const char *text, const hth_log *log);
/*
 * Apply the state of an HTH_TASK_ADAPTERS, and answer with the list of adapters. Runs on a thread of a lane, because it
 * reads files.
 */
void hth_task_set_adapters(hth_task *task);

/*
 * Append the adapters of the model in the format of llama.cpp's GET /lora-adapters. Lost ones follow, each with its id
 * and "error"; live NULL: none. out->failed without memory.
 */
hearth_status hth_adapters_write(const hth_live_adapters *live, hearth_model *model, hth_buffer *out,
                                 hearth_error *err);

#endif
