/*
 * measure.h - the work of a short-lived process that reports the needs of a model
 *
 * The front starts such a process before it starts a worker, because the front does not load the engine, and the engine
 * may end the process.
 */
#ifndef HTH_WORKER_MEASURE_H
#define HTH_WORKER_MEASURE_H

#include "worker/worker.h"

/*
 * Write the needs of the model to fd as lines "needs ..." (needs_text.h). Uses the model's path and options, adapters,
 * memory found on devices, log and sandbox of the options. Must run on the process' first thread, before any other
 * thread exists. Statuses as hth_model_needs_ask.
 */
hearth_status hth_measure_run(const hth_worker_options *options, int fd, hearth_error *err);

#endif
