/*
 * log_sink.h - writes log lines without ever waiting
 *
 * A line is written in one call, and only if the system can accept it now; otherwise it is lost. The caller counts lost
 * lines and holds the lock of the log: nothing here is thread-safe.
 */
#ifndef HTH_WIRE_LOG_SINK_H
#define HTH_WIRE_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* A transparent struct: a member of the log. */
typedef struct hth_log_sink {
    int fd;       /* -1: closed */
    bool is_ours; /* not standard error */
    bool is_torn; /* the last write ended within a line */
} hth_log_sink;

/* path NULL: standard error. HEARTH_PERMISSION, HEARTH_NOT_FOUND, HEARTH_IO. */
hearth_status hth_log_sink_open(const char *path, hth_log_sink *out, hearth_error *err);
void hth_log_sink_close(hth_log_sink *sink); /* accepts a closed sink */
bool hth_log_sink_is_terminal(const hth_log_sink *sink);
/* Write a whole line with its newline, at most HTH_SERVER_LOG_LINE_MAX bytes. False: it is lost. */
bool hth_log_sink_write(hth_log_sink *sink, const char *line, size_t n);

#endif
