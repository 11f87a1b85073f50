/*
 * access_log.c - lines for people and lines for programs
 *
 * A line for programs is a JSON object that begins with time, level and msg. Empty texts are omitted, and texts are
 * bounded so that a line always fits. A line for people has columns. The lock is held while a line is written, so that
 * lines of several threads do not mix. Writing never blocks, so no thread waits long for the lock.
 */
#include "front/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/notes.h"
#include "base/hash.h"
#include "base/status.h"
#include "wire/log_line.h"

/* Bounds of texts, in bytes as written. All of a line together are below HTH_SERVER_LOG_LINE_BYTES_MAX. */
enum { ID_MAX = 64, NAME_MAX_BYTES = 256, PATH_MAX_BYTES = 1024, WHY_MAX = 640, MESSAGE_MAX = 3000 };

typedef struct log_sink {
    int fd;       /* -1: closed */
    bool is_ours; /* not standard error */
    bool is_torn; /* the last write ended within a line */
} log_sink;

struct hth_server_log {
    /* Fixed at creation. */
    char *path; /* NULL: standard error */
    bool is_json;
    bool is_short; /* on a terminal */
    atomic_int level;

    /* Guards the fields below; no other lock is taken while it is held. */
    pthread_mutex_t lock;
    log_sink sink;
    uint64_t n_lost; /* lost lines since the last report */
};

/*
 * ---- the sink: writes lines without ever waiting ----
 *
 * A line is written in one call, and only if the system can accept it now; otherwise it is lost. The server shares
 * standard error with its parent, so it is not made non-blocking: poll() says whether a write would wait. A ready pipe
 * takes a page, and no line is longer. A file is always ready, and returns ENOSPC when it is full.
 */

/* path NULL: standard error. HEARTH_PERMISSION, HEARTH_NOT_FOUND, HEARTH_IO. */
static hearth_status sink_open(const char *path, log_sink *out, hearth_error *err)
{
    /* Non-blocking, and not the controlling terminal, in case it is a pipe or a device. */
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int fd;

    if (!path) {
        *out = (log_sink){ .fd = STDERR_FILENO };
        return HEARTH_OK;
    }
    fd = open(path, flags, 0640);
    if (fd < 0)
        return hth_fail_errno(err, errno, "cannot open the log file '%s' for appending", path);
    *out = (log_sink){ .fd = fd, .is_ours = true };
    return HEARTH_OK;
}

static void sink_close(log_sink *sink)
{
    if (sink->is_ours && sink->fd >= 0)
        (void)close(sink->fd); /* bytes that were not written by now are lost */
    sink->fd = -1;
}

/* Would a line be accepted now? */
static bool is_ready(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLOUT };

    return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) && !(ready.revents & (POLLERR | POLLNVAL));
}

static size_t write_once(int fd, const char *text, size_t n)
{
    ssize_t n_written = is_ready(fd) ? write(fd, text, n) : -1;

    return n_written < 0 ? 0 : (size_t)n_written;
}

/* Write a whole line with its newline. False: it is lost. */
static bool sink_write(log_sink *sink, const char *line, size_t n)
{
    size_t n_written;

    /* A disk that became full may have cut a line: end it before the next begins. */
    if (sink->is_torn && write_once(sink->fd, "\n", 1) != 1)
        return false;
    n_written = write_once(sink->fd, line, n);
    sink->is_torn = n_written > 0 && n_written < n;
    return n_written == n;
}

/* ---- the log ---- */

hearth_status hth_server_log_new(const char *file, hth_log_format format, hearth_log_level level, hth_server_log **out,
                                 hearth_error *err)
{
    hth_server_log *log = calloc(1, sizeof(*log));
    hearth_status status;

    if (!log)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the log");
    log->sink.fd = -1;
    if (pthread_mutex_init(&log->lock, NULL) != 0) {
        free(log);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the log's lock");
    }
    log->path = file ? strdup(file) : NULL;
    status = file && !log->path ? hth_fail(err, HEARTH_NO_MEMORY, "no memory for the log")
                                : sink_open(file, &log->sink, err);
    if (status != HEARTH_OK) {
        hth_server_log_free(log);
        return status;
    }
    log->is_short = isatty(log->sink.fd) == 1;
    log->is_json = format == HTH_LOG_JSON || (format == HTH_LOG_AUTO && !log->is_short);
    atomic_init(&log->level, level);
    *out = log;
    return HEARTH_OK;
}

void hth_server_log_free(hth_server_log *log)
{
    if (!log)
        return;
    sink_close(&log->sink);
    (void)pthread_mutex_destroy(&log->lock); /* no thread holds it */
    free(log->path);
    free(log);
}

/* Locking a default mutex that this thread does not hold cannot fail. */
static void lock(hth_server_log *log)
{
    (void)pthread_mutex_lock(&log->lock);
}

static void unlock(hth_server_log *log)
{
    (void)pthread_mutex_unlock(&log->lock);
}

hearth_status hth_server_log_reopen(hth_server_log *log, hearth_error *err)
{
    log_sink sink;
    hearth_status status;

    if (!log->path)
        return HEARTH_OK;
    status = sink_open(log->path, &sink, err);
    if (status != HEARTH_OK)
        return status;
    lock(log);
    sink_close(&log->sink);
    log->sink = sink;
    unlock(log);
    return HEARTH_OK;
}

void hth_server_log_level_set(hth_server_log *log, hearth_log_level level)
{
    atomic_store_explicit(&log->level, level, memory_order_relaxed);
}

/* ---- events ---- */

static const char *level_name(hearth_log_level level)
{
    switch (level) {
    case HEARTH_LOG_ERROR: return "error";
    case HEARTH_LOG_WARNING: return "warning";
    case HEARTH_LOG_INFO: return "info";
    default: return "debug";
    }
}

/* The members that every JSON line begins with. */
static void begin_json(hth_line *line, hearth_log_level level, const char *message)
{
    hth_line_add(line, "{\"time\":\"");
    hth_line_add_time(line, false);
    hth_line_addf(line, "\",\"level\":\"%s\"", level_name(level));
    hth_line_json_text(line, "msg", message, MESSAGE_MAX);
}

static void end_json(hth_line *line)
{
    hth_line_add(line, "}");
    hth_line_end(line);
}

static void format_event(const hth_server_log *log, hearth_log_level level, const char *source, const char *message,
                         hth_line *line)
{
    static const char worker[] = "worker ";
    const char *model = strncmp(source, worker, sizeof(worker) - 1) == 0 ? source + sizeof(worker) - 1 : NULL;

    line->n = 0;
    line->is_full = false;
    if (log->is_json) {
        begin_json(line, level, message);
        hth_line_json_text(line, "source", model ? "worker" : source, ID_MAX);
        hth_line_json_text(line, "model", model, NAME_MAX_BYTES);
        end_json(line);
        return;
    }
    hth_line_add_time(line, log->is_short);
    hth_line_addf(line, " %-7s ", level_name(level));
    if (strcmp(source, "hearth") != 0) {
        hth_line_add_escaped(line, source, NAME_MAX_BYTES, false);
        hth_line_add(line, ": ");
    }
    hth_line_add_escaped(line, message, MESSAGE_MAX, false);
    hth_line_end(line);
}

/* ---- writing ---- */

/* Report the number of lost lines before the next line. False: the report cannot be written either. */
static bool tell_lost_locked(hth_server_log *log)
{
    hth_line line, message = { .n = 0 };

    hth_line_addf(&message, "%" PRIu64 " lines of this log were lost: its reader was too slow or its disk full",
                  log->n_lost);
    message.text[message.n] = '\0';
    format_event(log, HEARTH_LOG_WARNING, "hearth", message.text, &line);
    if (!sink_write(&log->sink, line.text, line.n))
        return false;
    log->n_lost = 0;
    return true;
}

static void write_line(hth_server_log *log, const hth_line *line)
{
    lock(log);
    if ((log->n_lost > 0 && !tell_lost_locked(log)) || !sink_write(&log->sink, line->text, line->n))
        log->n_lost++;
    unlock(log);
}

void hth_server_log_fn(hearth_log_level level, const char *source, const char *message, void *user_data)
{
    hth_server_log *log = user_data;
    hth_line line;

    if ((int)level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    format_event(log, level, source, message, &line);
    write_line(log, &line);
}

/* ---- requests ---- */

static const char *outcome_of(int status)
{
    return status == HTH_STATUS_CLIENT_GONE ? "client_gone"
         : status >= 500                    ? "server_error"
         : status >= 400                    ? "client_error"
                                            : "ok";
}

/* Times come first. */
static void json_summary(const hth_access_record *record, hth_line *line)
{
    const hth_frame_figures *figures = &record->summary.figures;

    for (size_t i = HTH_FIGURES_COUNTS; i < HTH_FIGURES; i++)
        if (hth_figures[i].in_log)
            hth_line_json_ms(line, hth_figures[i].in_log, hth_figure_ms(&hth_figures[i], figures));
    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++) {
        const char *name = hth_figure_name(hth_figures[i].kind, figures);

        if (hth_figures[i].in_log && name)
            hth_line_json_text(line, hth_figures[i].in_log, name, ID_MAX);
        else if (hth_figures[i].in_log)
            hth_line_json_count(line, hth_figures[i].in_log, hth_figure_count(&hth_figures[i], figures));
    }
    if (record->summary.finish != HEARTH_FINISH_NONE)
        hth_line_json_text(line, "finish", hearth_finish_reason_name((hearth_finish_reason)record->summary.finish),
                           ID_MAX);
}

/* The path without its query, which may hold secrets. */
static void path_only(const char *path, char *out, size_t capacity)
{
    size_t n = strcspn(path, "?");

    if (n >= capacity)
        n = capacity - 1;
    memcpy(out, path, n);
    out[n] = '\0';
}

static void format_json(const hth_access_record *record, const char *path, hth_line *line)
{
    begin_json(line, record->status >= 500 ? HEARTH_LOG_ERROR : HEARTH_LOG_INFO, "request");
    hth_line_json_text(line, "request_id", record->request_id, ID_MAX);
    hth_line_json_text(line, "trace_id", record->trace_id, ID_MAX);
    hth_line_json_text(line, "key", record->key, NAME_MAX_BYTES);
    hth_line_json_text(line, "peer", record->peer, ID_MAX);
    hth_line_json_text(line, "method", record->method, ID_MAX);
    hth_line_json_text(line, "path", path, PATH_MAX_BYTES);
    hth_line_json_text(line, "endpoint", record->endpoint, ID_MAX);
    hth_line_json_text(line, "model", record->model, NAME_MAX_BYTES);
    hth_line_json_text(line, "node", record->node, NAME_MAX_BYTES);
    hth_line_json_count(line, "status", record->status > 0 ? (uint64_t)record->status : 0);
    hth_line_json_text(line, "outcome", outcome_of(record->status), ID_MAX);
    hth_line_json_text(line, "reason", record->reason, ID_MAX);
    hth_line_json_text(line, "why", record->why, WHY_MAX);
    hth_line_json_bool(line, "stream", record->is_stream);
    hth_line_json_count(line, "bytes_in", record->bytes_in);
    hth_line_json_count(line, "bytes_out", record->bytes_out);
    hth_line_json_ms(line, "duration_ms", record->duration_ms);
    if (record->first_byte_ms > 0)
        hth_line_json_ms(line, "first_byte_ms", record->first_byte_ms);
    if (record->has_summary)
        json_summary(record, line);
    if (record->n_resumed > 0)
        hth_line_json_count(line, "resumed", record->n_resumed);
    end_json(line);
}

/* A column: the text, padded with spaces to its width, and one more space. */
static void add_column(hth_line *line, const char *text, size_t width, size_t n_max)
{
    size_t begin = line->n;

    hth_line_add_escaped(line, text && *text ? text : "-", n_max, true);
    do
        hth_line_add(line, " ");
    while (line->n - begin <= width && !line->is_full);
}

static void add_note(hth_line *line, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    hth_line_addf(line, "  %s ", name);
    hth_line_add_escaped(line, value, NAME_MAX_BYTES, true);
}

static double or_zero(double ms)
{
    return isfinite(ms) ? ms : 0;
}

static void text_summary(const hth_access_record *record, hth_line *line)
{
    const hth_frame_figures *figures = &record->summary.figures;

    hth_line_addf(line, " %6" PRIu32 " prompt %6" PRIu32 " cached %5" PRIu32 " reply  ", figures->n_prompt_tokens,
                  figures->n_cached_tokens, figures->n_reply_tokens);
    add_column(line, hth_figure_name(HTH_FIGURE_HIT, figures), 6, ID_MAX);
    add_column(line, hth_figure_name(HTH_FIGURE_TIER, figures), 8, ID_MAX);
    hth_line_addf(line, " first %7.1f ms", or_zero(figures->ttft_ms));
}

static void format_text(const hth_server_log *log, const hth_access_record *record, const char *path, hth_line *line)
{
    char resumed[16] = "";

    hth_line_add_time(line, log->is_short);
    hth_line_addf(line, " %3d ", record->status);
    add_column(line, record->method, 4, ID_MAX);
    add_column(line, path, 20, PATH_MAX_BYTES);
    add_column(line, record->model, 12, NAME_MAX_BYTES);
    if (record->has_summary)
        text_summary(record, line);
    hth_line_addf(line, " total %8.1f ms", or_zero(record->duration_ms));
    if (record->has_summary)
        add_note(line, "computed:", hth_figure_name(HTH_FIGURE_MISS, &record->summary.figures));
    if (record->status == HTH_STATUS_CLIENT_GONE)
        hth_line_add(line, "  the client left");
    if (record->n_resumed > 0) {
        (void)snprintf(resumed, sizeof(resumed), "%" PRIu32, record->n_resumed); /* fits */
        add_note(line, "resumed", resumed);
    }
    add_note(line, "key", record->key);
    add_note(line, "id", record->request_id);
    if (record->why && *record->why) {
        hth_line_add(line, "  why: ");
        hth_line_add_escaped(line, record->why, WHY_MAX, false);
    }
    hth_line_end(line);
}

void hth_server_log_request(hth_server_log *log, const hth_access_record *record)
{
    char path[PATH_MAX_BYTES + 1];
    hth_line line = { .n = 0 };

    path_only(record->path ? record->path : "", path, sizeof(path));
    if (log->is_json)
        format_json(record, path, &line);
    else
        format_text(log, record, path, &line);
    write_line(log, &line);
}

/* ---- which lines are written ---- */

#define LINE_NS (UINT64_C(1000000000) / HTH_REFUSALS_PER_SECOND)

bool hth_refusals_take(hth_refusals *refusals, uint64_t now_ns, uint64_t *n_unlogged_out)
{
    const uint64_t passed_ns = now_ns > refusals->at_ns ? now_ns - refusals->at_ns : 0;

    refusals->used_ns -= passed_ns < refusals->used_ns ? passed_ns : refusals->used_ns;
    if (passed_ns > 0)
        refusals->at_ns = now_ns;
    if (refusals->used_ns > (HTH_REFUSALS_AT_ONCE - 1) * LINE_NS) {
        refusals->n_unlogged++;
        return false;
    }
    refusals->used_ns += LINE_NS;
    *n_unlogged_out = refusals->n_unlogged;
    refusals->n_unlogged = 0;
    return true;
}

static bool is_new(hth_passed_over *seen, const char *key, const char *note)
{
    uint32_t crc = hth_crc32c(hth_crc32c(0, key, strlen(key) + 1), note, strlen(note));

    for (size_t i = 0; i < seen->n; i++)
        if (seen->logged[i] == crc)
            return false;
    if (seen->n == HTH_PASSED_OVER_MAX)
        return false;
    seen->logged[seen->n++] = crc;
    return true;
}

void hth_passed_over_log(hth_passed_over *seen, const hth_log *log, const char *key, const char *endpoint,
                         const char *notes)
{
    char note[HTH_API_NOTE_BYTES + 1];

    if (!hth_log_wants(log, HEARTH_LOG_DEBUG))
        return; /* nothing is logged or remembered: it is logged once the level changes */
    while (hth_api_notes_next(&notes, note))
        if (is_new(seen, key, note))
            hth_debug(log, "%s%s%s: '%s' has no effect here; said once", endpoint, *key ? " from key " : "", key, note);
}
