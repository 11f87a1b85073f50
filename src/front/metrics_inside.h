/*
 * metrics_inside.h - the numbers that metrics.c counts and metrics_page.c shows
 */
#ifndef HTH_FRONT_METRICS_INSIDE_H
#define HTH_FRONT_METRICS_INSIDE_H

#include <assert.h>

#include "front/metrics.h"
#include "wire/exposition.h"

enum {
    HTH_METRICS_ENDPOINTS_MAX = 64,
    HTH_METRICS_REASONS_MAX = 32,
    HTH_METRICS_STATUSES_MAX = 24,
    HTH_METRICS_TEXT_BYTES = 64, /* of an endpoint or a reason */
    HTH_METRICS_HITS = HEARTH_HIT_PREFIX + 1,
    HTH_METRICS_TIERS = HEARTH_TIER_REMOTE + 1,
    HTH_METRICS_MISSES = HEARTH_MISS_NO_LOGITS + 1,
};

/* Buckets, in seconds. */
extern const hth_scale hth_metrics_duration_scale;
extern const hth_scale hth_metrics_first_token_scale;
extern const hth_scale hth_metrics_token_scale;
extern const hth_scale hth_metrics_queue_scale;

/* A bounded set of texts. The first one is "other", for all that found no room. */
typedef struct hth_metrics_texts {
    char texts[HTH_METRICS_ENDPOINTS_MAX][HTH_METRICS_TEXT_BYTES];
    size_t n;
} hth_metrics_texts;
static_assert(HTH_METRICS_REASONS_MAX <= (int)HTH_METRICS_ENDPOINTS_MAX, "both are texts");

/* Requests to one endpoint for one model. */
typedef struct hth_metrics_series {
    struct {
        int status; /* the first entry is 0, for statuses that found no room */
        uint64_t n;
    } statuses[HTH_METRICS_STATUSES_MAX];
    size_t n_statuses;
    hth_observations duration;
} hth_metrics_series;

/* The counters of a model: a row is its field and its family on the page. */
/* clang-format off */
#define HTH_METRICS_COUNTERS_EACH(ROW)                                                                                 \
    ROW(n_prompt_tokens, "hearth_prompt_tokens_total", "Tokens of prompts, those from the cache included.")            \
    ROW(n_cached_tokens, "hearth_cached_prompt_tokens_total", "Tokens of prompts that needed no prefill.")             \
    ROW(n_reply_tokens, "hearth_generated_tokens_total", "Tokens of replies.")                                         \
    ROW(n_draft_tokens, "hearth_draft_tokens_total", "Guessed tokens that were evaluated.")                            \
    ROW(n_draft_accepted_tokens, "hearth_draft_accepted_tokens_total", "Guessed tokens that are in replies.")          \
    ROW(n_resumed, "hearth_resumed_requests_total",                                                                    \
        "Requests that went on in a new worker after theirs had died.")                                                \
    ROW(n_passed_over, "hearth_passed_over_requests_total",                                                            \
        "Requests with fields or parts that had no effect here.")
/* clang-format on */
#define HTH_METRICS_COUNTER_FIELD(field, name, help) uint64_t field;

typedef struct hth_metrics_model {
    char *name;
    bool is_shown;                                         /* it is or was configured, or it has a count */
    hth_metrics_series *series[HTH_METRICS_ENDPOINTS_MAX]; /* NULL: no request yet */
    HTH_METRICS_COUNTERS_EACH(HTH_METRICS_COUNTER_FIELD)
    uint64_t hits[HTH_METRICS_HITS][HTH_METRICS_TIERS];
    uint64_t misses[HTH_METRICS_MISSES];
    hth_observations first_token;
    hth_observations token;
    hth_observations queue;
} hth_metrics_model;

struct hth_metrics {
    hth_metrics_model **models; /* [n_models], by name; "" and "other" are always there */
    size_t n_models;
    size_t models_capacity;
    hth_metrics_texts endpoints;
    hth_metrics_texts reasons;
    uint64_t refused[HTH_METRICS_REASONS_MAX];
    uint64_t started_s;
};

#endif
