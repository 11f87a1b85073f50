/*
 * access_log.h - the server's log: one line for each request and each event, as text for people or JSON for programs
 *
 * The log never has a prompt or a key. A line is one write of at most HTH_SERVER_LOG_LINE_MAX bytes, with control
 * characters escaped. Logging never waits for a reader: a line that a full pipe or disk refuses is lost, and the next
 * written line is preceded by the number of lost ones. The process must ignore SIGPIPE. All functions except new and
 * free may be called on any thread.
 */
#ifndef HTH_FRONT_ACCESS_LOG_H
#define HTH_FRONT_ACCESS_LOG_H

#include "base/log.h"
#include "supervisor/options.h"
#include "wire/record.h"

typedef struct hth_server_log hth_server_log;

/* file NULL: standard error. HEARTH_IO, HEARTH_PERMISSION: the file cannot be opened for appending. */
hearth_status hth_server_log_new(const char *file, hth_log_format format, hearth_log_level level, hth_server_log **out,
                                 hearth_error *err);
void hth_server_log_free(hth_server_log *log); /* accepts NULL */
/* Reopen the file after it was moved away. On failure the old file stays in use. */
hearth_status hth_server_log_reopen(hth_server_log *log, hearth_error *err);
void hth_server_log_level_set(hth_server_log *log, hearth_log_level level);

/* A hearth_log_fn; user_data is the log. A source "worker NAME" becomes the source "worker" and the model NAME. */
void hth_server_log_fn(hearth_log_level level, const char *source, const char *message, void *user_data);
/* One line of the access log, at any level. */
void hth_server_log_request(hth_server_log *log, const hth_record *record);

#endif
