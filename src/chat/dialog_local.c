/*
 * dialog_local.c - replies of a model in this process; see dialog_source.h
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/defaults.h"
#include "base/os.h"
#include "base/status.h"
#include "chat/dialog_signals.h"
#include "chat/dialog_source.h"
#include "options/open_model.h"

enum { EVENTS_MAX = 64 };

typedef struct local {
    hth_dialog_source source;
    hth_open_model open;
    hearth_events *events;
    uint32_t n_ctx;
} local;

/* One reply. */
typedef struct asking {
    local *from;
    const hth_dialog_hooks *hooks;
    hearth_chat_parser *parser;
    uint64_t id, begin_ns, first_ns;
} asking;

/* ---- the conversation as a request ---- */

/* Borrows the texts of messages. NULL if out of memory. */
static hearth_chat_turn *turns_of(const json_t *messages)
{
    hearth_chat_turn *turns = calloc(json_array_size(messages) + 1, sizeof(*turns));
    json_t *message;
    size_t i;

    if (!turns)
        return NULL;
    json_array_foreach(messages, i, message) turns[i] =
        (hearth_chat_turn){ .struct_size = sizeof(turns[i]),
                            .role = json_string_value(json_object_get(message, "role")),
                            .content = json_string_value(json_object_get(message, "content")),
                            .reasoning = json_string_value(json_object_get(message, "reasoning_content")) };
    return turns;
}

static hearth_status render(local *l, const json_t *messages, const hearth_chat_prompt **out, hearth_error *err)
{
    const hth_api_defaults *how = &l->open.setup->defaults;
    hearth_conversation conversation = hearth_conversation_default();
    hearth_chat_turn *turns = turns_of(messages);
    hearth_status status;

    if (!turns)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the conversation");
    conversation.turns = turns;
    conversation.n_turns = json_array_size(messages);
    conversation.no_thinking = how->reasoning == HTH_API_REASONING_OFF;
    conversation.template_values = how->template_values;
    status = hearth_conversation_render(l->open.model, &conversation, out, err);
    free(turns);
    return status;
}

static hearth_status submit(asking *a, const hth_talk *talk, hearth_error *err)
{
    local *l = a->from;
    hth_api_defaults values = l->open.setup->defaults;
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    const hearth_chat_prompt *prompt = NULL;
    json_t *messages = hth_talk_request(talk);
    hearth_status status = messages ? render(l, messages, &prompt, err)
                                    : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the conversation");

    json_decref(messages);
    if (!isnan(talk->temperature))
        values.sampling.temperature = talk->temperature;
    hth_api_defaults_fill(&values, &request, &sampling);
    hth_sampling_cut_windows(&sampling, l->n_ctx);
    request.sampling = &sampling;
    request.chat = prompt;
    request.session_id = "chat"; /* the next turn finds its cells in place */
    request.events = l->events;
    request.event_flags = HEARTH_EVENTS_PREFILL;
    if (status == HEARTH_OK)
        status = hearth_chat_parser_new(l->open.model, prompt, &a->parser, err);
    a->begin_ns = hth_os_monotonic_ns();
    if (status == HEARTH_OK)
        status = hearth_submit(l->open.model, &request, &a->id, err);
    hearth_chat_prompt_free(prompt);
    return status;
}

/* ---- events ---- */

static hearth_status feed(asking *a, const char *text, size_t n_bytes, bool is_last, hearth_error *err)
{
    const hearth_chat_delta *deltas;
    size_t n = 0;
    hearth_status status = hearth_chat_parser_feed(a->parser, text, n_bytes, is_last, &deltas, &n, err);

    for (size_t i = 0; status == HEARTH_OK && i < n; i++) {
        const hearth_chat_delta *delta = hearth_chat_delta_at(deltas, i);

        a->hooks->on_text(delta->kind == HEARTH_DELTA_REASONING, delta->text, delta->n_bytes, a->hooks->user_data);
    }
    return status;
}

static void take_figures(const asking *a, const hearth_stats *stats, hth_dialog_figures *out)
{
    /* The numbers of a reply that was stopped before its first token are incomplete. */
    const bool is_known = a->first_ns > 0 || stats->ttft_ms > 0;

    *out = (hth_dialog_figures){ .has_counts = is_known,
                                 .has_hit = is_known,
                                 .prompt_tokens = stats->prompt_tokens,
                                 .cached_tokens = stats->cached_tokens,
                                 .tokens_per_s = stats->decode_tps,
                                 .left_at = stats->left_at };
    out->ttft_ms = a->first_ns > 0 ? (double)(a->first_ns - a->begin_ns) / 1e6 : stats->ttft_ms;
    (void)snprintf(out->hit, sizeof(out->hit), "%s", hearth_hit_name(stats->hit));
    (void)snprintf(out->tier, sizeof(out->tier), "%s", hearth_tier_name(stats->tier));
    (void)snprintf(out->miss, sizeof(out->miss), "%s", hearth_miss_name(stats->miss));
    memcpy(out->left_text, stats->left_text, sizeof(out->left_text));
}

/* True if the reply has ended, with *status_out. */
static bool take_event(asking *a, const hearth_event *event, hth_dialog_figures *out, hearth_status *status_out,
                       hearth_error *err)
{
    if (event->id != a->id) /* from a reply that failed here before its end */
        return false;
    if (event->kind == HEARTH_EVENT_PROGRESS)
        a->hooks->on_progress(event->n_done, event->n_total, a->hooks->user_data);
    if (event->kind == HEARTH_EVENT_TOKEN && a->first_ns == 0)
        a->first_ns = hth_os_monotonic_ns();
    if (event->kind == HEARTH_EVENT_TEXT || event->kind == HEARTH_EVENT_TOKEN)
        *status_out = feed(a, event->text, event->n_bytes, false, err);
    if (event->kind != HEARTH_EVENT_DONE)
        return *status_out != HEARTH_OK;
    *status_out = feed(a, "", 0, true, err);
    if (event->result)
        take_figures(a, event->result->stats, out);
    if (event->status != HEARTH_OK && event->status != HEARTH_CANCELLED)
        *status_out = hth_fail(err, event->status, "%s", event->error ? event->error->message : "the reply failed");
    else if (event->status == HEARTH_CANCELLED)
        *status_out = HEARTH_CANCELLED;
    return true;
}

/* Take the available events, or wait timeout_ms for one. True if the reply has ended, with *status_out. */
static bool take_events(asking *a, uint32_t timeout_ms, hth_dialog_figures *out, hearth_status *status_out,
                        hearth_error *err)
{
    const hearth_event *events[EVENTS_MAX];
    size_t n = 0;

    *status_out = hearth_events_take(a->from->events, events, EVENTS_MAX, timeout_ms, &n, err);
    for (size_t i = 0; *status_out == HEARTH_OK && i < n; i++)
        if (take_event(a, events[i], out, status_out, err))
            return true;
    return *status_out != HEARTH_OK;
}

static hearth_status take_reply(asking *a, hth_dialog_figures *out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    while (hth_dialog_wait(hearth_events_fd(a->from->events)) || !hth_dialog_stop)
        if (take_events(a, 0, out, &status, err))
            return status;
    (void)hearth_cancel(a->from->open.model, a->id, NULL); /* not found: it has just ended */
    hth_dialog_signals_end_at_once(true);
    while (!take_events(a, UINT32_MAX, out, &status, err))
        continue;
    hth_dialog_signals_end_at_once(false);
    return status;
}

static hearth_status reply(hth_dialog_source *source, const hth_talk *talk, const hth_dialog_hooks *hooks,
                           hth_dialog_figures *out, hearth_error *err)
{
    asking a = { .from = (local *)source, .hooks = hooks };
    hearth_status status = submit(&a, talk, err);

    if (status == HEARTH_OK)
        status = take_reply(&a, out, err);
    if (status != HEARTH_OK && status != HEARTH_CANCELLED && a.id != 0)
        (void)hearth_cancel(a.from->open.model, a.id, NULL); /* not found: it has ended */
    hearth_chat_parser_free(a.parser);
    return status;
}

/* ---- open and close ---- */

static bool is_interrupted(void *user_data)
{
    (void)user_data; /* the same for all */
    return hth_dialog_signals_pending();
}

static void close_local(hth_dialog_source *source)
{
    local *l = (local *)source;

    hearth_events_close(l->events);
    hth_dialog_signals_end_at_once(true); /* unsaved state is then lost */
    hth_open_model_close(&l->open);
    free(l);
}

hearth_status hth_dialog_local_open(hth_dialog_settings *settings, hth_dialog_source **out, hearth_error *err)
{
    local *l = calloc(1, sizeof(*l));
    hearth_status status;

    if (!l)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model");
    l->source = (hth_dialog_source){ .model = settings->name, .reply = reply, .close = close_local };
    l->open = (hth_open_model){ .setup = &settings->setup,
                                .is_quiet = settings->is_quiet,
                                .is_verbose = settings->is_verbose,
                                .is_ended = is_interrupted };
    hth_progress_init(&l->open.progress, !settings->is_quiet);
    status = hth_open_model_load(&l->open, err);
    if (status == HEARTH_OK)
        status = hearth_events_open(NULL, &l->events, err);
    if (status == HEARTH_OK && hearth_events_fd(l->events) < 0)
        status = hth_fail(err, HEARTH_IO, "the system has no descriptor left; end other programs or raise 'ulimit -n'");
    if (status != HEARTH_OK) {
        close_local(&l->source);
        return status;
    }
    l->n_ctx = hth_open_model_recommend(&l->open);
    *out = &l->source;
    return HEARTH_OK;
}
