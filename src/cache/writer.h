/*
 * writer.h - brings rows from the RAM tier to the file tier, behind the requests
 *
 * A request never waits for a device: it hands a pinned row over and goes on. The writer publishes it and gives the pin
 * back. Its queue is bounded in bytes; what does not fit is not written (and counted), which costs a later restore from
 * disk and nothing else. It is the only thread of the process that writes to the index.
 */
#ifndef HTH_CACHE_WRITER_H
#define HTH_CACHE_WRITER_H

#include "cache/counters.h"
#include "cache/file_tier.h"
#include "cache/ram_tier.h"

typedef struct hth_writer hth_writer;

/* Start the writer thread. ram, files and counters outlive it. */
hearth_status hth_writer_open(hth_ram_tier *ram, hth_file_tier *files, uint64_t queue_bytes_max, hth_counters *counters,
                              const hth_log *log, hth_writer **out, hearth_error *err);
/* Stop: what waits after timeout_ms is dropped and counted, an ongoing write is finished. Accepts NULL. */
void hth_writer_close(hth_writer *writer, uint32_t timeout_ms);

/* Queue an inserted row; takes a pin of its own. False when the queue is full or closed (counted). Never waits. */
bool hth_writer_publish(hth_writer *writer, hth_ram_row *row);
/* Queue a row of the file tier for quarantine. reason is a static string. Never waits. */
void hth_writer_quarantine(hth_writer *writer, const hth_row_id *id, const char *reason);

/* Queue a row of the file tier for removal, after what was queued before. Never waits. */
void hth_writer_remove(hth_writer *writer, const hth_row_id *id);

/* Wait until everything queued before the call is done; false after timeout_ms. */
bool hth_writer_flush(hth_writer *writer, uint32_t timeout_ms);

#endif
