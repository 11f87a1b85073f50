/*
 * backend_engine.c - the engine as a whole, one per process: its start, its log, its devices
 */
#include "llama/backend_inside.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/os.h"
#include "engine/module_lock.h"
#include "kernels/attention.h"

enum { PATH_BYTES = 4096 };

/*
 * The engine has one log callback and one initialisation per process, so this state is also process-wide. A line goes
 * to the log of the model for which the calling thread is in the engine. Lines from the engine's own threads go to the
 * log of the model that was loaded last.
 */
static struct {
    pthread_mutex_t start_lock; /* held while the engine starts, so that only one thread starts it */
    bool started;
    bool has_numa; /* threads are placed on nodes, as `numa` says */
    hearth_numa numa;
    char features[512];    /* of CPU and devices; fixed once started */
    char start_error[256]; /* the first error at the start, such as from a driver; "": none. Fixed once started */

    pthread_mutex_t log_lock; /* held while a line goes to `latest`, so that model_free waits */
    const hth_log *latest;
} engine = { .start_lock = PTHREAD_MUTEX_INITIALIZER, .log_lock = PTHREAD_MUTEX_INITIALIZER };

/* The engine call of this thread. */
static _Thread_local struct {
    const hth_log *log;
    char line[1024]; /* being assembled from continuations */
    size_t n_line;
    hearth_log_level level;
    char first_error[256]; /* since the call began; the engine's statuses carry no reason, but its log does */
} here;

/* To the log of this thread's call, otherwise to the latest one. */
static void log_line(hearth_log_level level, const char *source, const char *begin, const char *text)
{
    if (here.log) {
        hth_log_line(here.log, level, source, "%s%s", begin, text);
        return;
    }
    hth_module_lock(&engine.log_lock);
    hth_log_line(engine.latest, level, source, "%s%s", begin, text);
    hth_module_unlock(&engine.log_lock);
}

static void deliver_line(void)
{
    const char *text = here.line;

    here.line[here.n_line] = '\0';
    here.n_line = 0;
    if (text[strspn(text, ". ")] == '\0') /* a progress bar */
        return;
    if (here.level == HEARTH_LOG_ERROR && !here.first_error[0])
        (void)snprintf(here.first_error, sizeof(here.first_error), "%.255s", text);
    log_line(here.level, "llama.cpp", "", text);
}

/* Called by the engine, on any thread, with pieces of lines. */
static void receive_log(enum ggml_log_level level, const char *text, void *user_data)
{
    (void)user_data;
    if (level != GGML_LOG_LEVEL_CONT) {
        if (here.n_line > 0)
            deliver_line();
        here.level = level == GGML_LOG_LEVEL_ERROR ? HEARTH_LOG_ERROR
                   : level == GGML_LOG_LEVEL_WARN  ? HEARTH_LOG_WARNING
                   : level == GGML_LOG_LEVEL_INFO  ? HEARTH_LOG_INFO
                                                   : HEARTH_LOG_DEBUG;
    }
    for (; *text; text++) {
        if (*text == '\n')
            deliver_line();
        else if (here.n_line < sizeof(here.line) - 1)
            here.line[here.n_line++] = *text;
    }
}

/*
 * The engine calls this just before it ends the process. The line is logged as ours, because lines of the engine may be
 * hidden.
 */
static void receive_last_words(const char *message)
{
    log_line(HEARTH_LOG_ERROR, "hearth", "the engine ends this process: ", message);
}

void hth_backend_llama_enter(const hth_log *log)
{
    here.log = log;
    here.n_line = 0;
    here.first_error[0] = '\0';
}

void hth_backend_llama_leave(void)
{
    if (here.n_line > 0)
        deliver_line();
    here.log = NULL;
}

const char *hth_backend_llama_reason(const char *fallback)
{
    const char *text = here.first_error;
    const char *colon = strchr(text, ':');

    if (!text[0])
        return fallback;
    for (const char *c = text; colon && c < colon; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            colon = NULL;
    if (colon) {
        text = colon + 1;
        text += strspn(text, " ");
    }
    if (strncmp(text, "error loading model: ", 21) == 0)
        text += 21;
    return text;
}

/* "CPU : SSE3 = 1 | AVX = 1 | " as "CPU:SSE3=1,AVX=1", without spaces since it becomes one word of the parameters. */
static void compact_features(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        if (*from == ' ')
            continue;
        if (*from == '|') {
            if (from[1] == ' ' && from[2])
                *to++ = ',';
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

/* The folder of this module, which contains the engine libraries if they are separate. */
static void own_folder(char *folder, size_t capacity)
{
    static const char marker;
    Dl_info info;
    char *slash;

    folder[0] = '\0';
    if (!dladdr(&marker, &info) || !info.dli_fname || strlen(info.dli_fname) >= capacity)
        return;
    memcpy(folder, info.dli_fname, strlen(info.dli_fname) + 1);
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    else
        folder[0] = '\0';
}

hearth_status hth_backend_llama_start(hearth_error *err)
{
    char folder[PATH_BYTES];
    hearth_status status = HEARTH_OK;

    hth_module_lock(&engine.start_lock);
    if (!engine.started) {
        own_folder(folder, sizeof(folder));
        status = hth_shim_init(receive_log, receive_last_words, folder[0] ? folder : NULL, engine.features,
                               sizeof(engine.features), err);
        (void)snprintf(engine.start_error, sizeof(engine.start_error), "%.255s", hth_backend_llama_reason(""));
        compact_features(engine.features);
        hth_attention_start();
        engine.started = status == HEARTH_OK;
    }
    hth_module_unlock(&engine.start_lock);
    return status;
}

hearth_status hth_backend_llama_devices(hth_engine_device *out, size_t capacity, size_t *n_out, hearth_error *err)
{
    hearth_status status;

    if ((!out && capacity > 0) || !n_out)
        return hth_fail(err, HEARTH_MISUSE, "devices need room");
    hth_backend_llama_enter(NULL);
    status = hth_backend_llama_start(err);
    if (status == HEARTH_OK)
        status = hth_llama_devices_list(out, capacity, n_out, err);
    hth_backend_llama_leave();
    return status;
}

const char *hth_backend_llama_start_error(void)
{
    return engine.start_error;
}

const char *hth_backend_llama_features(void)
{
    return engine.features;
}

void hth_backend_llama_log_latest(const hth_log *log)
{
    hth_module_lock(&engine.log_lock);
    engine.latest = log;
    hth_module_unlock(&engine.log_lock);
}

void hth_backend_llama_log_forget(const hth_log *log)
{
    hth_module_lock(&engine.log_lock);
    if (engine.latest == log)
        engine.latest = NULL;
    hth_module_unlock(&engine.log_lock);
}

void hth_backend_llama_use_numa(hearth_numa wanted, const hth_log *log)
{
    static const enum ggml_numa_strategy strategies[] = {
        [HEARTH_NUMA_OFF] = GGML_NUMA_STRATEGY_DISABLED,
        [HEARTH_NUMA_DISTRIBUTE] = GGML_NUMA_STRATEGY_DISTRIBUTE,
        [HEARTH_NUMA_ISOLATE] = GGML_NUMA_STRATEGY_ISOLATE,
        [HEARTH_NUMA_NUMACTL] = GGML_NUMA_STRATEGY_NUMACTL,
    };
    bool has_nodes = true, is_other;

    if (wanted == HEARTH_NUMA_OFF)
        return;
    hth_module_lock(&engine.start_lock);
    is_other = engine.has_numa && engine.numa != wanted;
    if (!engine.has_numa)
        has_nodes = hth_shim_numa_init(strategies[wanted]);
    engine.numa = engine.has_numa ? engine.numa : wanted;
    engine.has_numa = true;
    hth_module_unlock(&engine.start_lock);
    if (is_other)
        hth_warn(log, "numa has no effect: another model of this process has chosen another way before");
    if (!has_nodes)
        hth_warn(log, "numa has no effect: this machine has one node");
}

hearth_status hth_backend_llama_check_memory(uint64_t needed_bytes, const char *what, hearth_error *err)
{
    uint64_t available_bytes = hth_os_memory_available_bytes();

    if (available_bytes == 0 || needed_bytes <= available_bytes)
        return HEARTH_OK;
    return hth_fail(err, HEARTH_NO_MEMORY, "%s needs %llu MiB of memory, %llu MiB are available", what,
                    (unsigned long long)(needed_bytes >> 20), (unsigned long long)(available_bytes >> 20));
}
