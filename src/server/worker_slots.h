/*
 * worker_slots.h - llama-server's POST /slots/N?action=save|restore|erase
 *
 * There are no places here that hold a prompt, so a slot is a number under which a worker remembers what ran last
 * (slot_memory.h), and what is saved, restored or erased are the rows of that prompt (models/prefix.h):
 *
 *   save      what is cached of it becomes a file
 *   restore   a file becomes rows, and the slot remembers its tokens
 *   erase     its rows go, but for those that other slots begin with; the slot is empty
 *
 * A client sees the slots of its own salt. Files of clients without one lie in the folder itself, those of each salt in
 * a folder of their own in it, ".tenant-<32 hex digits>", so that nobody replaces another's.
 */
#ifndef HTH_SERVER_WORKER_SLOTS_H
#define HTH_SERVER_WORKER_SLOTS_H

#include "server/http.h"
#include "server/worker_task.h"

/* What the path and the query say, into the task. */
void hth_slot_order_read(hth_http_exchange *exchange, hth_task *task);
/* Do it: fills the task's answer or its error. Blocks on files; on a thread of its own. */
void hth_slot_order_run(hth_task *task);

#endif
