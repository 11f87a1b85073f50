/*
 * model_events.c - see model_events.h
 */
#include "supervisor/model_events.h"

#include "api/json_values.h"

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

void hth_model_event_load(hth_event_feed *feed, const char *model, pid_t pid, uint64_t generation)
{
    hth_event_feed_tell_take(
        feed, "load",
        json_pack("{s:s, s:i, s:I}", "model", model, "pid", (int)pid, "generation", (json_int_t)generation));
}

void hth_model_event_progress(hth_event_feed *feed, const char *model, bool is_hashing, unsigned step)
{
    hth_event_feed_tell_take(feed, is_hashing ? "hashing" : "progress",
                             json_pack("{s:s, s:f}", "model", model, "progress", (double)step / HTH_MODEL_EVENT_STEPS));
}

void hth_model_event_ready(hth_event_feed *feed, const char *model, pid_t pid, uint64_t load_ms)
{
    hth_event_feed_tell_take(
        feed, "ready", json_pack("{s:s, s:i, s:I}", "model", model, "pid", (int)pid, "load_ms", (json_int_t)load_ms));
}

void hth_model_event_unload(hth_event_feed *feed, const char *model, const char *why, hth_departure departure,
                            bool again)
{
    hth_event_feed_tell_take(
        feed, "unload",
        json_pack("{s:s, s:s, s:b}", "model", model, "reason", why ? why : reason_of(departure), "again", again));
}

void hth_model_event_unloaded(hth_event_feed *feed, const char *model)
{
    hth_event_feed_tell_take(feed, "unloaded", json_pack("{s:s}", "model", model));
}

void hth_model_event_death(hth_event_feed *feed, const char *model, const char *cause, const char *state,
                           uint64_t n_deaths, uint32_t pause_ms)
{
    hth_event_feed_tell_take(feed, "death",
                             json_pack("{s:s, s:o, s:s, s:I, s:I}", "model", model, "cause", hth_json_string(cause),
                                       "state", state, "deaths", (json_int_t)n_deaths, "restart_in_ms",
                                       (json_int_t)pause_ms));
}

void hth_model_event_eviction(hth_event_feed *feed, const char *model, const char *tier, uint64_t bytes,
                              hth_departure why)
{
    hth_event_feed_tell_take(feed, "eviction",
                             json_pack("{s:s, s:s, s:I, s:s}", "model", model, "tier", tier, "bytes", (json_int_t)bytes,
                                       "reason", reason_of(why)));
}

void hth_model_event_no_room(hth_event_feed *feed, const char *model)
{
    hth_event_feed_tell_take(feed, "no_room", json_pack("{s:s}", "model", model));
}

void hth_model_event_residency(hth_event_feed *feed, const char *model, hth_residency now, hth_residency before)
{
    hth_event_feed_tell_take(feed, "residency",
                             json_pack("{s:s, s:s, s:s}", "model", model, "residency", hth_residency_name(now),
                                       "before", hth_residency_name(before)));
}
