/*
 * worker_slots.h - llama-server's POST /slots/N?action=save|restore|erase
 *
 * Hearth has no fixed slots for prompts. A slot is a number for which a worker remembers the tokens that ran last
 * (slot_memory.h). The orders use the rows of these tokens (models/prefix.h):
 *
 *   save      write the cached rows to a file
 *   restore   put the rows of a file into the cache; the slot remembers their tokens
 *   erase     remove the rows, except those that other slots share or a pin holds; the slot is empty
 *
 * A client sees the slots of its own salt. Files of clients without a salt are in the folder itself. Each salt has its
 * own folder below it, ".tenant-<32 hex digits>", so that no client can replace the file of another one.
 */
#ifndef HTH_WORKER_WORKER_SLOTS_H
#define HTH_WORKER_WORKER_SLOTS_H

#include "http/http.h"
#include "worker/worker_task.h"

/* Read the path and the query into the task. */
void hth_slot_order_read(hth_http_exchange *exchange, hth_task *task);
/*
 * Carry out the order, with the salt in the request's options: set the task's answer or its error. Blocks on files, so
 * it runs on a lane's thread.
 */
void hth_slot_order_run(hth_task *task);

#endif
