/*
 * worker_prefixes.h - the page of the most used prefixes
 */
#ifndef HTH_WORKER_WORKER_PREFIXES_H
#define HTH_WORKER_WORKER_PREFIXES_H

#include "worker/worker_task.h"

/*
 * Write the page into task->answer, or set task->error. Blocks while indexes are read, so it must not run on the event
 * loop.
 */
void hth_worker_prefixes_run(hth_task *task);

#endif
