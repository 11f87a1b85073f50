/*
 * A program that fails counts as no pressure. Its failure is logged once, until it succeeds again.
 */
#include "supervisor/pressure_watch.h"

#include <event2/event.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/status.h"
#include "supervisor/pressure_library.h"
#include "supervisor/short_program.h"
#include "wire/exposition.h"

enum { PROGRAM_TIMEOUT_MS = 5000, FIRST_WAIT_POLLS = 2 };

typedef enum kind { SYSTEM, DEVICES, COMMAND, LIBRARY, N_KINDS } kind;

static const char *const names[N_KINDS] = {
    [SYSTEM] = "system", [DEVICES] = "nvidia_smi", [COMMAND] = "command", [LIBRARY] = "library"
};

static const char nvidia_smi[] = "exec nvidia-smi --query-gpu=memory.used,memory.total --format=csv,noheader,nounits";

typedef struct source {
    hth_pressure_watch *watch;
    kind kind;
    hth_short_program *program; /* NULL: the source is the system */
    hth_memory_limits sample;
    bool is_pressed;
    bool was_logged; /* its failure was logged */
    bool was_waiting;
    hth_departures departures;
    uint64_t asked_bytes; /* since the start */
    uint64_t started_ns;  /* the time of the last program's start */
} source;

struct hth_pressure_watch {
    const char *program;
    const hth_server_options *options;
    hth_pressure_settings settings; /* in force */
    hth_pressure_orders orders;
    const hth_log *log;
    hth_event_feed *feed;
    struct event *tick;
    source sources[N_KINDS];
    uint64_t forced_bytes;
};

static bool is_used(const source *s)
{
    const hth_server_options *options = s->watch->options;

    if (s->watch->settings.is_off)
        return false;
    switch (s->kind) {
    case DEVICES: return options->pressure_nvidia_smi;
    case COMMAND: return options->pressure_command != NULL;
    case LIBRARY: return options->pressure_library != NULL;
    default: return true;
    }
}

/* ---- a sample ---- */

static void hold(hth_pressure_watch *watch)
{
    bool is_held = false;

    for (int i = 0; i < N_KINDS; i++)
        is_held |= watch->sources[i].is_pressed;
    watch->orders.hold(is_held, watch->orders.user_data);
}

static void tell(const source *s)
{
    const double use = hth_pressure_use(&s->sample);

    if (s->is_pressed)
        hth_warn(s->watch->log,
                 "memory is short: %s says %.1f %%; rows and idle models leave, and a model enters when the others "
                 "have left",
                 names[s->kind], 100 * use);
    else
        hth_info(s->watch->log, "memory is not short any more: %s says %.1f %%", names[s->kind], 100 * use);
    hth_event_feed_tell_take(
        s->watch->feed, "pressure",
        json_pack("{s:s, s:b, s:f}", "source", names[s->kind], "pressed", s->is_pressed, "use", use));
}

static void judge(source *s)
{
    const hth_pressure_settings *settings = &s->watch->settings;
    const bool was_pressed = s->is_pressed;
    const uint64_t n_bytes = hth_pressure_decide(&s->sample, &settings->marks, &s->is_pressed);

    if (s->is_pressed != was_pressed) {
        tell(s);
        hold(s->watch);
    }
    s->departures.first_ns = hth_ms_to_ns(FIRST_WAIT_POLLS * settings->poll_ms);
    if (n_bytes == 0) {
        hth_departures_judge(&s->departures, 0, 0);
        return;
    }
    s->asked_bytes += n_bytes;
    (void)s->watch->orders.relieve(n_bytes, s->kind == DEVICES, &s->departures,
                                   s->watch->orders.user_data); /* the next sample shows the effect */
    if (s->departures.wait_ns > 0 && !s->was_waiting)
        hth_warn(s->watch->log,
                 "memory stays short although models left (%s); another program takes it, so idle models stay longer "
                 "before they leave",
                 names[s->kind]);
    s->was_waiting = s->departures.wait_ns > 0;
}

static void on_ended(const char *output, bool is_good, void *user_data)
{
    source *s = user_data;

    s->sample.n = 0;
    if (!is_used(s))
        return;
    is_good = is_good && (s->kind == DEVICES ? hth_pressure_read_devices(output, &s->sample)
                                             : hth_pressure_read_command(output, hth_os_memory_bytes(), &s->sample));
    if (!is_good) {
        s->sample.n = 0;
        if (!s->was_logged)
            hth_warn(s->watch->log,
                     "the source of memory pressure '%s' fails, or prints something else than numbers: "
                     "'%.500s'",
                     names[s->kind], output);
    }
    s->was_logged = !is_good;
    judge(s);
}

/* Systems without such files report their free memory. If nothing can be read, the last sample stays. */
static void read_system(hth_memory_limits *out)
{
    const uint64_t total = hth_os_memory_bytes(), available = hth_os_memory_available_bytes();
    hth_memory_limits sample;

    hth_memory_limits_read("", &sample);
    if (sample.n == 0 && available > 0 && available <= total)
        hth_memory_limits_add(&sample, total - available, total, 0);
    if (sample.n > 0)
        *out = sample;
}

static hearth_status run_program(source *s, hearth_error *err)
{
    const hth_server_options *options = s->watch->options;
    const char *const argv[] = { s->watch->program, "worker", HTH_PRESSURE_LIBRARY_FLAG, options->pressure_library,
                                 NULL };

    if (s->kind == LIBRARY)
        return hth_short_program_start(s->program, argv, PROGRAM_TIMEOUT_MS, err);
    return hth_short_program_start_shell(s->program, s->kind == DEVICES ? nvidia_smi : options->pressure_command,
                                         PROGRAM_TIMEOUT_MS, err);
}

static void start_program(source *s)
{
    const uint64_t now_ns = hth_os_monotonic_ns();
    hearth_error err;
    const hearth_status status = run_program(s, &err);

    if (status == HEARTH_OK)
        s->started_ns = now_ns;
    if (status == HEARTH_OK || (status == HEARTH_BUSY && now_ns < s->started_ns + hth_ms_to_ns(2 * PROGRAM_TIMEOUT_MS)))
        return;
    if (!s->was_logged)
        hth_warn(s->watch->log, "the source of memory pressure '%s' fails: %s", names[s->kind], err.message);
    s->was_logged = true;
    s->sample.n = 0; /* the last one is old */
    judge(s);
}

static void look(source *s)
{
    if (!is_used(s)) {
        s->sample.n = 0;
        if (s->is_pressed)
            judge(s);
    } else if (s->kind == SYSTEM) {
        read_system(&s->sample);
        judge(s);
    } else {
        start_program(s);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *user_data)
{
    hth_pressure_watch *watch = user_data;

    (void)fd;
    (void)what;
    for (int i = 0; i < N_KINDS; i++)
        look(&watch->sources[i]);
}

/* ---- pages ---- */

uint64_t hth_pressure_watch_force(hth_pressure_watch *watch, uint64_t n_bytes)
{
    hth_info(watch->log, "an operator wants %.1f MiB of memory free", (double)n_bytes / (1 << 20));
    watch->forced_bytes += n_bytes;
    return watch->orders.relieve(n_bytes, false, NULL, watch->orders.user_data);
}

static json_t *limits_json(const source *s)
{
    json_t *array = json_array();

    for (size_t i = 0; i < s->sample.n; i++) {
        const hth_memory_limit *limit = &s->sample.at[i];

        (void)json_array_append_new(array, json_pack("{s:I, s:I, s:f}", "used_bytes", (json_int_t)limit->used_bytes,
                                                     "total_bytes", (json_int_t)limit->total_bytes, "stall_percent",
                                                     limit->stall)); /* omitted without memory, here and below */
    }
    return array;
}

json_t *hth_pressure_watch_json(const hth_pressure_watch *watch)
{
    json_t *page = json_object();

    for (int i = 0; i < N_KINDS; i++) {
        const source *s = &watch->sources[i];

        if (is_used(s))
            (void)json_object_set_new(page, names[i],
                                      json_pack("{s:b, s:f, s:I, s:I, s:o}", "pressed", s->is_pressed, "use",
                                                hth_pressure_use(&s->sample), "asked_bytes", (json_int_t)s->asked_bytes,
                                                "idle_ms", (json_int_t)(s->departures.wait_ns / 1000000), "limits",
                                                limits_json(s)));
    }
    return page;
}

void hth_pressure_watch_write_metrics(const hth_pressure_watch *watch, hth_buffer *out)
{
    static const char state[] = "hearth_memory_pressure", use[] = "hearth_memory_use_ratio",
                      asked[] = "hearth_memory_asked_bytes_total";

    hth_exposition_family(out, state, "gauge", "1 while a source says that memory is short.");
    for (int i = 0; i < N_KINDS; i++)
        if (is_used(&watch->sources[i]))
            hth_exposition_count(out, state, (hth_labels){ &(hth_label){ "source", names[i] }, 1 },
                                 watch->sources[i].is_pressed);
    hth_exposition_family(out, use, "gauge", "Use of the fullest limit of a source.");
    for (int i = 0; i < N_KINDS; i++)
        if (is_used(&watch->sources[i]))
            hth_exposition_number(out, use, (hth_labels){ &(hth_label){ "source", names[i] }, 1 },
                                  hth_pressure_use(&watch->sources[i].sample));
    hth_exposition_family(out, asked, "counter", "Bytes that a source, or an operator, wanted free.");
    for (int i = 0; i < N_KINDS; i++)
        if (is_used(&watch->sources[i]))
            hth_exposition_count(out, asked, (hth_labels){ &(hth_label){ "source", names[i] }, 1 },
                                 watch->sources[i].asked_bytes);
    hth_exposition_count(out, asked, (hth_labels){ &(hth_label){ "source", "operator" }, 1 }, watch->forced_bytes);
}

/* ---- new, free ---- */

void hth_pressure_watch_set_options(hth_pressure_watch *watch, const hth_server_options *options)
{
    watch->options = options;
}

const hth_pressure_settings *hth_pressure_watch_settings(const hth_pressure_watch *watch)
{
    return &watch->settings;
}

void hth_pressure_watch_set_settings(hth_pressure_watch *watch, const hth_pressure_settings *settings)
{
    const uint32_t ms = settings->poll_ms;
    const struct timeval interval = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

    /* Orders that come more often than poll_ms must not delay the next sample. */
    if (ms != watch->settings.poll_ms)
        (void)event_add(watch->tick, &interval); /* cannot fail: it has its memory */
    watch->settings = *settings;
    if (settings->is_off)
        on_tick(-1, 0, watch); /* models need not wait for the next sample */
}

hearth_status hth_pressure_watch_new(struct event_base *base, const char *program, const hth_server_options *options,
                                     const hth_pressure_orders *orders, const hth_log *log, hth_event_feed *feed,
                                     hth_pressure_watch **out, hearth_error *err)
{
    hth_pressure_watch *watch = calloc(1, sizeof(*watch));
    hearth_status status = HEARTH_OK;

    if (!watch)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory to look at memory");
    watch->program = program;
    watch->options = options;
    watch->orders = *orders;
    watch->log = log;
    watch->feed = feed;
    watch->tick = event_new(base, -1, EV_PERSIST, on_tick, watch);
    if (!watch->tick)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory to look at memory");
    for (int i = 0; i < N_KINDS && status == HEARTH_OK; i++) {
        source *s = &watch->sources[i];

        *s = (source){ .watch = watch, .kind = (kind)i };
        if (i != SYSTEM)
            status = hth_short_program_new(base, on_ended, s, &s->program, err);
    }
    if (status != HEARTH_OK) {
        hth_pressure_watch_free(watch);
        return status;
    }
    hth_pressure_watch_set_settings(watch, &options->pressure); /* its poll_ms is above 0, so sampling begins */
    *out = watch;
    return HEARTH_OK;
}

void hth_pressure_watch_free(hth_pressure_watch *watch)
{
    if (!watch)
        return;
    for (int i = 0; i < N_KINDS; i++)
        hth_short_program_free(watch->sources[i].program);
    if (watch->tick)
        event_free(watch->tick);
    free(watch);
}
