/*
 * model_worker_events.c - the events of a worker for operators (event_feed.h); docs/monitoring.md describes them
 */
#include <inttypes.h>

#include "supervisor/model_worker_inside.h"

enum { STEPS = 20 };

/* why may be NULL: the worker knows. */
static const char *reason_of(hth_departure departure)
{
    switch (departure) {
    case HTH_DEPARTURE_ROOM: return "room";
    case HTH_DEPARTURE_REST: return "rest";
    case HTH_DEPARTURE_PRESSURE: return "pressure";
    case HTH_DEPARTURE_NONE: break;
    }
    return "order";
}

/* A text of another process may be no UTF-8. */
static json_t *text_json(const char *text)
{
    json_t *value = json_string(text);

    return value ? value : json_null();
}

void hth_model_worker_tell_load(const hth_model_worker *worker)
{
    hth_event_feed_tell_take(worker->shared->feed, "load",
                             json_pack("{s:s, s:i, s:I}", "model", worker->name, "pid",
                                       hth_worker_process_pid(worker->process), "generation",
                                       (json_int_t)worker->generation));
}

void hth_model_worker_tell_progress(hth_model_worker *worker)
{
    const unsigned step = (unsigned)(worker->progress * STEPS);

    if (step <= worker->told_progress)
        return;
    worker->told_progress = step;
    hth_event_feed_tell_take(worker->shared->feed, worker->state == HTH_WORKER_READY ? "hashing" : "progress",
                             json_pack("{s:s, s:f}", "model", worker->name, "progress", (double)step / STEPS));
}

void hth_model_worker_tell_ready(const hth_model_worker *worker)
{
    hth_event_feed_tell_take(worker->shared->feed, "ready",
                             json_pack("{s:s, s:i, s:I}", "model", worker->name, "pid",
                                       hth_worker_process_pid(worker->process), "load_ms",
                                       (json_int_t)((worker->ready_ns - worker->started_ns) / 1000000)));
}

void hth_model_worker_tell_unload(const hth_model_worker *worker, const char *why)
{
    hth_event_feed_tell_take(worker->shared->feed, "unload",
                             json_pack("{s:s, s:s, s:b}", "model", worker->name, "reason",
                                       why ? why : reason_of(worker->departs), "again", worker->start_again));
}

void hth_model_worker_tell_unloaded(const hth_model_worker *worker)
{
    hth_event_feed_tell_take(worker->shared->feed, "unloaded", json_pack("{s:s}", "model", worker->name));
}

void hth_model_worker_tell_death(const hth_model_worker *worker, uint32_t pause_ms)
{
    hth_event_feed_tell_take(worker->shared->feed, "death",
                             json_pack("{s:s, s:o, s:s, s:I, s:I}", "model", worker->name, "cause",
                                       text_json(worker->last_death), "state", hth_worker_state_name(worker->state),
                                       "deaths", (json_int_t)worker->n_deaths, "restart_in_ms", (json_int_t)pause_ms));
}

void hth_model_worker_tell_eviction(const hth_model_worker *worker, const char *tier, uint64_t bytes, hth_departure why)
{
    hth_event_feed_tell_take(worker->shared->feed, "eviction",
                             json_pack("{s:s, s:s, s:I, s:s}", "model", worker->name, "tier", tier, "bytes",
                                       (json_int_t)bytes, "reason", reason_of(why)));
}

void hth_model_worker_evict_rows(hth_model_worker *worker, hth_departure why)
{
    const uint64_t bytes = hth_model_worker_row_bytes(worker);

    hth_model_worker_drop_rows(worker);
    if (bytes > 0)
        hth_model_worker_tell_eviction(worker, "ram", bytes, why);
}

void hth_model_worker_tell_no_room(const hth_model_worker *worker)
{
    hth_event_feed_tell_take(worker->shared->feed, "no_room", json_pack("{s:s}", "model", worker->name));
}

void hth_model_worker_tell_residency(hth_model_worker *worker)
{
    const hth_residency residency = hth_model_worker_residency(worker);

    if (residency == worker->told_residency)
        return;
    hth_event_feed_tell_take(worker->shared->feed, "residency",
                             json_pack("{s:s, s:s, s:s}", "model", worker->name, "residency",
                                       hth_residency_name(residency), "before",
                                       hth_residency_name(worker->told_residency)));
    worker->told_residency = residency;
}
