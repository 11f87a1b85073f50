/*
 * worker_adapters.h - the adapters of a request to a worker, and llama.cpp's /lora-adapters
 */
#ifndef HTH_WORKER_WORKER_ADAPTERS_H
#define HTH_WORKER_WORKER_ADAPTERS_H

#include "worker/worker_job.h"

/*
 * Choose the adapters of a task whose body was read: those that the body names, the one that it names as its model, or
 * those of the model at this moment. They stay the same whatever becomes of the model's scales. False with task->error.
 */
bool hth_task_choose_adapters(hth_task *task);

/* GET /lora-adapters lists the adapters (worker_live_adapters.h). Ends the exchange. */
void hth_worker_show_adapters(const struct hth_live_adapters *live, hearth_model *model, hth_http_exchange *exchange);

#endif
