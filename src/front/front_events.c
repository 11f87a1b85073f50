/*
 * front_events.c - the events of requests for operators (event_feed.h), which docs/monitoring.md describes
 */
#include "front/front_request.h"

void hth_front_tell_begin(hth_front_request *r)
{
    r->is_told = true;
    hth_event_feed_tell_take(r->front->feed, "request",
                             json_pack("{s:s, s:s, s:s, s:b}", "id", r->record.request_id, "model", r->model,
                                       "endpoint", r->record.endpoint, "stream", r->wants_events));
}

static void add_figure(json_t *object, const hth_figure *figure, const hth_frame_figures *figures)
{
    const char *name = hth_figure_name(figure->kind, figures);

    if (figure->in_event && hth_figure_is_there(figure, figures))
        (void)json_object_set_new(object, figure->in_event, /* left out without memory */
                                  name                            ? json_string(name)
                                  : figure->kind == HTH_FIGURE_MS ? json_real(hth_figure_ms(figure, figures))
                                                                  : json_integer(hth_figure_count(figure, figures)));
}

/* Of a request for which a model worked: the tokens, the times, and the rest. NULL without memory. */
static json_t *figures_json(const hth_frame_figures *figures)
{
    json_t *object = json_object();

    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++)
        if (hth_figures[i].kind == HTH_FIGURE_COUNT)
            add_figure(object, &hth_figures[i], figures);
    for (size_t i = HTH_FIGURES_COUNTS; i < HTH_FIGURES; i++)
        add_figure(object, &hth_figures[i], figures);
    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++)
        if (hth_figures[i].kind != HTH_FIGURE_COUNT)
            add_figure(object, &hth_figures[i], figures);
    return object;
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
