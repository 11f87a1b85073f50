/*
 * access_log.h - the server's log: one line a request and one an event, text for people or JSON for programs
 *
 * Never a prompt, never a key. Event loop, but for hth_server_log_fn, which any thread may call.
 */
#ifndef HTH_SERVER_ACCESS_LOG_H
#define HTH_SERVER_ACCESS_LOG_H

#include "base/log.h"
#include "server/options.h"
#include "server/record.h"

typedef struct hth_server_log hth_server_log;

/* file NULL: standard error. HEARTH_IO, HEARTH_PERMISSION where it cannot be opened for appending. */
hearth_status hth_server_log_new(const char *file, hth_log_format format, hearth_log_level level, hth_server_log **out,
                                 hearth_error *err);
void hth_server_log_free(hth_server_log *log); /* accepts NULL */
/* Open the file anew, after it was moved away; a file that cannot be opened leaves the old one in use. */
hearth_status hth_server_log_reopen(hth_server_log *log, hearth_error *err);

/* A hearth_log_fn; user_data is the log. */
void hth_server_log_fn(hearth_log_level level, const char *source, const char *message, void *user_data);
/* One line of the access log. */
void hth_server_log_request(hth_server_log *log, const hth_record *record);

#endif
