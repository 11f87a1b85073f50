/*
 * front_events.c - the events of requests for operators (event_feed.h); docs/monitoring.md describes them
 */
#include <math.h>

#include "server/front_request.h"

void hth_front_tell_begin(hth_front_request *r)
{
    r->is_told = true;
    hth_event_feed_tell_take(r->front->feed, "request",
                             json_pack("{s:s, s:s, s:s, s:b}", "id", r->record.request_id, "model", r->model,
                                       "endpoint", r->record.endpoint, "stream", r->wants_events));
}

/* Of a request for which a model worked. The worker tells times and kinds: check them. */
static json_t *figures_json(const hth_frame_figures *figures)
{
    const bool has_hit = figures->hit != HTH_FRAME_NO_HIT, has_miss = figures->miss != HEARTH_MISS_NONE;

    return json_pack("{s:I, s:I, s:I, s:f, s:s*, s:s*, s:s*}", "prompt_tokens", (json_int_t)figures->n_prompt_tokens,
                     "cached_tokens", (json_int_t)figures->n_cached_tokens, "completion_tokens",
                     (json_int_t)figures->n_reply_tokens, "first_token_ms",
                     isfinite(figures->ttft_ms) ? (double)figures->ttft_ms : 0.0, "hit",
                     has_hit ? hearth_hit_name((hearth_hit)figures->hit) : NULL, "tier",
                     has_hit ? hearth_tier_name((hearth_tier)figures->tier) : NULL, "miss",
                     has_miss ? hearth_miss_name((hearth_miss)figures->miss) : NULL);
}

void hth_front_tell_end(const hth_front_request *r)
{
    const hth_record *record = &r->record;
    json_t *event;

    if (!r->is_told)
        return;
    event = json_pack("{s:s, s:s, s:s, s:i, s:f}", "id", record->request_id, "model", r->model, "endpoint",
                      record->endpoint, "status", record->status, "ms", record->duration_ms);
    if (record->has_summary)
        (void)json_object_update_new(event, figures_json(&record->summary.figures)); /* left out without memory */
    hth_event_feed_tell_take(r->front->feed, "request_end", event);
}
