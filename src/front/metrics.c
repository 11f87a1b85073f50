/*
 * metrics.c - counting
 *
 * Every metric is a number in a struct, found by a short search: a token of a stream costs a comparison of names and
 * two additions. Labels are bounded whatever the callers pass: models by the configuration; endpoints, reasons and
 * statuses by the size of their tables, with "other" for the rest. Without memory, something is not counted, with no
 * other effect.
 */
#include "base/grow.h"
#include "front/metrics_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/os.h"

#define OTHER "other"

const hth_scale hth_metrics_duration_scale = {
    16, { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600 }
};
/* From a few milliseconds of a restored prompt to the prefill of a long one. */
const hth_scale hth_metrics_first_token_scale = {
    16, { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120 }
};
const hth_scale hth_metrics_token_scale = {
    15, { 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1, 2.5 }
};
const hth_scale hth_metrics_queue_scale = {
    14, { 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 }
};

/* ---- labels ---- */

/* The index of a text; 0, "other", if its table is full. */
static size_t text_number(hth_metrics_texts *texts, size_t capacity, const char *text)
{
    for (size_t i = 0; i < texts->n; i++)
        if (strncmp(texts->texts[i], text, HTH_METRICS_TEXT_BYTES - 1) == 0)
            return i;
    if (texts->n == capacity)
        return 0;
    memcpy(texts->texts[texts->n], text, strnlen(text, HTH_METRICS_TEXT_BYTES - 1)); /* zeros follow */
    return texts->n++;
}

/* The index of the model of this name, or the index to insert it at. */
static size_t model_place(const hth_metrics *metrics, const char *name, bool *is_there)
{
    size_t low = 0, high = metrics->n_models;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(metrics->models[middle]->name, name);

        if (order == 0) {
            *is_there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *is_there = false;
    return low;
}

static void model_free(hth_metrics_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < HTH_METRICS_ENDPOINTS_MAX; i++)
        free(model->series[i]);
    free(model->name);
    free(model);
}

/* NULL without memory. */
static hth_metrics_model *model_add(hth_metrics *metrics, const char *name)
{
    bool is_there;
    size_t place = model_place(metrics, name, &is_there);
    hth_metrics_model *model, **grown;

    if (is_there)
        return metrics->models[place];
    grown = hth_grown(metrics->models, metrics->n_models, &metrics->models_capacity, sizeof(hth_metrics_model *));
    if (!grown)
        return NULL;
    metrics->models = grown;
    model = calloc(1, sizeof(*model));
    if (model)
        model->name = strdup(name);
    if (!model || !model->name) {
        model_free(model);
        return NULL;
    }
    memmove(metrics->models + place + 1, metrics->models + place,
            (metrics->n_models - place) * sizeof(hth_metrics_model *));
    metrics->models[place] = model;
    metrics->n_models++;
    return model;
}

void hth_metrics_models_set(hth_metrics *metrics, const hth_server_options *options)
{
    for (size_t i = 0; i < options->n_models && metrics->n_models < HTH_METRICS_MODELS_MAX; i++) {
        hth_metrics_model *model = model_add(metrics, options->models[i].name);

        if (model)
            model->is_shown = true;
    }
}

/* The model to count for. */
static hth_metrics_model *model_of(hth_metrics *metrics, const char *name)
{
    bool is_there;
    size_t place = model_place(metrics, name, &is_there);

    if (!is_there)
        place = model_place(metrics, OTHER, &is_there);
    assert(is_there);
    metrics->models[place]->is_shown = true;
    return metrics->models[place];
}

/* ---- all metrics ---- */

hth_metrics *hth_metrics_new(void)
{
    hth_metrics *metrics = calloc(1, sizeof(*metrics));

    if (!metrics)
        return NULL;
    metrics->started_s = hth_os_unix_seconds();
    (void)text_number(&metrics->endpoints, HTH_METRICS_ENDPOINTS_MAX, OTHER); /* the first of each */
    (void)text_number(&metrics->reasons, HTH_METRICS_REASONS_MAX, OTHER);
    if (!model_add(metrics, "") || !model_add(metrics, OTHER)) {
        hth_metrics_free(metrics);
        return NULL;
    }
    return metrics;
}

void hth_metrics_free(hth_metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < metrics->n_models; i++)
        model_free(metrics->models[i]);
    free((void *)metrics->models);
    free(metrics);
}

/* ---- counting ---- */

static void count_status(hth_metrics_series *series, int status)
{
    if (status < 100 || status > 599)
        status = 0;
    for (size_t i = 0; i < series->n_statuses; i++) {
        if (series->statuses[i].status == status) {
            series->statuses[i].n++;
            return;
        }
    }
    if (series->n_statuses == HTH_METRICS_STATUSES_MAX) {
        series->statuses[0].n++;
        return;
    }
    series->statuses[series->n_statuses].status = status;
    series->statuses[series->n_statuses++].n = 1;
}

static void note_summary(hth_metrics_model *model, const hth_record *record)
{
    const hth_frame_figures *figures = &record->summary.figures;
    uint32_t hit = figures->hit < HTH_METRICS_HITS ? figures->hit : HEARTH_HIT_NONE;
    uint32_t tier = figures->tier < HTH_METRICS_TIERS ? figures->tier : HEARTH_TIER_NONE;
    double first_token_ms = figures->ttft_ms;

    model->n_prompt_tokens += figures->n_prompt_tokens;
    model->n_cached_tokens += figures->n_cached_tokens;
    model->n_reply_tokens += figures->n_reply_tokens;
    model->n_draft_tokens += figures->n_draft_tokens;
    model->n_draft_accepted_tokens += figures->n_draft_accepted_tokens;
    if (figures->hit != HTH_FRAME_NO_HIT)
        model->hits[hit][tier]++;
    if (figures->miss > HEARTH_MISS_NONE && figures->miss < HTH_METRICS_MISSES)
        model->misses[figures->miss]++;
    hth_observations_add(&model->queue, &hth_metrics_queue_scale, figures->queue_ms / 1000, 1);
    /* A worker does not know the wait for its start. After a take-over, it does not know that the reply had begun. */
    if (record->is_stream && (record->n_resumed > 0 || record->first_byte_ms > first_token_ms))
        first_token_ms = record->first_byte_ms;
    if (first_token_ms > 0)
        hth_observations_add(&model->first_token, &hth_metrics_first_token_scale, first_token_ms / 1000, 1);
}

void hth_metrics_note(hth_metrics *metrics, const hth_record *record)
{
    hth_metrics_model *model = model_of(metrics, record->model);
    size_t endpoint = text_number(&metrics->endpoints, HTH_METRICS_ENDPOINTS_MAX, record->endpoint);
    hth_metrics_series *series = model->series[endpoint];

    if (!series) {
        series = model->series[endpoint] = calloc(1, sizeof(*series));
        if (series)
            series->n_statuses = 1; /* 0, for all others */
    }
    if (series) {
        count_status(series, record->status);
        hth_observations_add(&series->duration, &hth_metrics_duration_scale, record->duration_ms / 1000, 1);
    }
    model->n_resumed += record->n_resumed > 0;
    model->n_passed_over += record->notes && record->notes[0];
    if (record->has_summary)
        note_summary(model, record);
}

void hth_metrics_note_tokens(hth_metrics *metrics, const char *model, double ms, uint32_t n_tokens)
{
    if (n_tokens > 0)
        hth_observations_add(&model_of(metrics, model)->token, &hth_metrics_token_scale, ms / n_tokens / 1000,
                             n_tokens);
}

void hth_metrics_note_refused(hth_metrics *metrics, const char *reason)
{
    metrics->refused[text_number(&metrics->reasons, HTH_METRICS_REASONS_MAX, reason)]++;
}
