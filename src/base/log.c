/*
 * log.c - formatting of log lines
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool hth_log_wants(const hth_log *log, hearth_log_level level)
{
    return log && log->write && level <= log->level;
}

void hth_log_line(const hth_log *log, hearth_log_level level, const char *source, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int n;

    if (!hth_log_wants(log, level))
        return;
    va_start(arguments, format);
    n = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (n < 0)
        return;
    for (char *c = line; *c; c++) /* keep it one line, whatever the arguments contain */
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    for (size_t end = strlen(line); end > 0 && line[end - 1] == ' '; end--)
        line[end - 1] = '\0';
    log->write(level, source, line, log->user_data);
}
