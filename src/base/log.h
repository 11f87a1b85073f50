/*
 * log.h - the destination of log lines
 *
 * A log is a callback with a level. The runtime makes it once and passes it down by pointer; there is no global log.
 * Library code logs facts that no status reports: a degraded cache, a quarantined row, a message of the engine.
 */
#ifndef HTH_BASE_LOG_H
#define HTH_BASE_LOG_H

#include "hearth.h"

typedef struct hth_log {
    hearth_log_level level; /* more detailed lines are dropped */
    hearth_log_fn write;    /* NULL: lines are dropped */
    void *user_data;
} hth_log;

/* Would a line of that level be delivered? log may be NULL. Thread-safe. */
bool hth_log_wants(const hth_log *log, hearth_log_level level);

/* One line, cut at 1 KiB. log may be NULL. Thread-safe. */
void hth_log_line(const hth_log *log, hearth_log_level level, const char *source, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define hth_warn(log, ...) hth_log_line((log), HEARTH_LOG_WARNING, "hearth", __VA_ARGS__)
#define hth_info(log, ...) hth_log_line((log), HEARTH_LOG_INFO, "hearth", __VA_ARGS__)
#define hth_debug(log, ...) hth_log_line((log), HEARTH_LOG_DEBUG, "hearth", __VA_ARGS__)

#endif
