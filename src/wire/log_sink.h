/*
 * log_sink.h - writes lines of the log without ever waiting
 *
 * A line is written in one call, and only when the system can take it now; otherwise it is lost. The caller counts lost
 * lines and holds the lock of the log: nothing here is safe for several threads.
 */
#ifndef HTH_WIRE_LOG_SINK_H
#define HTH_WIRE_LOG_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Transparent: a value in the log. */
typedef struct hth_log_sink {
    int fd;       /* -1: closed */
    bool is_ours; /* not standard error */
    bool is_torn; /* the last write ended within a line */
} hth_log_sink;

/* path NULL: standard error. HEARTH_PERMISSION, HEARTH_NOT_FOUND, HEARTH_IO. */
hearth_status hth_log_sink_open(const char *path, hth_log_sink *out, hearth_error *err);
void hth_log_sink_close(hth_log_sink *sink); /* accepts a closed one */
bool hth_log_sink_is_terminal(const hth_log_sink *sink);
/* A whole line with its newline, at most what a pipe takes at once. False: it is lost. */
bool hth_log_sink_write(hth_log_sink *sink, const char *line, size_t n);

#endif
