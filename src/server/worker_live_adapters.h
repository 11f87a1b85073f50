/*
 * worker_live_adapters.h - makes the adapters of a worker equal to a state (adapter_state.h)
 *
 * Adapters of the configuration stay; others are loaded and unloaded, from files beneath the folder of adapters alone.
 */
#ifndef HTH_SERVER_WORKER_LIVE_ADAPTERS_H
#define HTH_SERVER_WORKER_LIVE_ADAPTERS_H

#include "base/log.h"
#include "server/worker_task.h"

/*
 * Load the adapters, and set the scales, that an earlier worker of the model had; text is a state, directory the folder
 * of adapters (NULL: none). An adapter that cannot be loaded any more is a warning.
 */
void hth_adapters_restore(hearth_model *model, const char *directory, const char *text, const hth_log *log);
/* Take the state of a HTH_TASK_ADAPTERS, and list the adapters: the answer. On a thread of a lane: it reads files. */
void hth_task_set_adapters(hth_task *task);

/* Append the adapters of the model as llama.cpp's GET /lora-adapters lists them. out->failed without memory. */
hearth_status hth_adapters_write(hearth_model *model, hth_buffer *out, hearth_error *err);

#endif
