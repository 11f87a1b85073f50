/*
 * access_log.h - the server's log: one line a request and one an event, text for people or JSON for programs
 *
 * Never a prompt, never a key. A line is one write of at most HTH_SERVER_LOG_LINE_MAX bytes, with control characters
 * escaped. Nobody waits for a reader: a line that a full pipe or disk does not take is lost, and how many were is said
 * with the next that is taken. The process ignores SIGPIPE. Any thread may call everything but new and free.
 */
#ifndef HTH_SERVER_ACCESS_LOG_H
#define HTH_SERVER_ACCESS_LOG_H

#include "base/log.h"
#include "server/options.h"
#include "server/record.h"

typedef struct hth_server_log hth_server_log;

/* What Linux' pipes take whole or not at all, so that lines of several processes on one pipe do not mix. */
enum { HTH_SERVER_LOG_LINE_MAX = 4096 };

/* file NULL: standard error. HEARTH_IO, HEARTH_PERMISSION where it cannot be opened for appending. */
hearth_status hth_server_log_new(const char *file, hth_log_format format, hearth_log_level level, hth_server_log **out,
                                 hearth_error *err);
void hth_server_log_free(hth_server_log *log); /* accepts NULL */
/* Open the file anew, after it was moved away; a file that cannot be opened leaves the old one in use. */
hearth_status hth_server_log_reopen(hth_server_log *log, hearth_error *err);
void hth_server_log_level_set(hth_server_log *log, hearth_log_level level);

/*
 * A hearth_log_fn; user_data is the log. A source "worker NAME" is shown as the source "worker" and the model NAME.
 */
void hth_server_log_fn(hearth_log_level level, const char *source, const char *message, void *user_data);
/* One line of the access log, whatever the level. */
void hth_server_log_request(hth_server_log *log, const hth_record *record);

#endif
