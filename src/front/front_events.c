/*
 * front_events.c - the events of requests for operators (event_feed.h); docs/monitoring.md describes them
 */
#include <math.h>

#include "front/front_request.h"

void hth_front_tell_begin(hth_front_request *r)
{
    r->is_told = true;
    hth_event_feed_tell_take(r->front->feed, "request",
                             json_pack("{s:s, s:s, s:s, s:b}", "id", r->record.request_id, "model", r->model,
                                       "endpoint", r->record.endpoint, "stream", r->wants_events));
}

/* The worker tells the times: check them. */
static json_t *ms_json(double ms)
{
    return json_real(isfinite(ms) ? ms : 0);
}

/* Of a request for which a model worked. The names check the kinds that the worker tells. */
static json_t *figures_json(const hth_frame_figures *figures)
{
    const bool has_hit = figures->hit != HTH_FRAME_NO_HIT, has_miss = figures->miss != HEARTH_MISS_NONE;
    const bool has_left = has_miss && figures->left_at > 0 && figures->left_at < figures->n_prompt_tokens;

    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:s*, s:s*, s:s*, s:o*, s:o*}", "prompt_tokens",
                     (json_int_t)figures->n_prompt_tokens, "cached_tokens", (json_int_t)figures->n_cached_tokens,
                     "completion_tokens", (json_int_t)figures->n_reply_tokens, "first_token_ms",
                     ms_json(figures->ttft_ms), "prepare_ms", ms_json(figures->prepare_ms), "queue_ms",
                     ms_json(figures->queue_ms), "restore_ms", ms_json(figures->restore_ms), "prefill_ms",
                     ms_json(figures->prefill_ms), "decode_ms", ms_json(figures->decode_ms), "hit",
                     has_hit ? hearth_hit_name((hearth_hit)figures->hit) : NULL, "tier",
                     has_hit ? hearth_tier_name((hearth_tier)figures->tier) : NULL, "miss",
                     has_miss ? hearth_miss_name((hearth_miss)figures->miss) : NULL, "left_at",
                     has_left ? json_integer(figures->left_at) : NULL, "slot",
                     figures->slot != HTH_FRAME_NO_SLOT ? json_integer(figures->slot) : NULL);
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
