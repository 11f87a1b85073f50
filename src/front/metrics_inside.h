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
    HTH_METRICS_TEXT_BYTES = 64, /* of an endpoint, a reason */
    HTH_METRICS_HITS = HEARTH_HIT_PREFIX + 1,
    HTH_METRICS_TIERS = HEARTH_TIER_REMOTE + 1,
    HTH_METRICS_MISSES = HEARTH_MISS_NO_LOGITS + 1,
};

/* Buckets, in seconds. */
extern const hth_scale hth_metrics_duration_scale;
extern const hth_scale hth_metrics_first_token_scale;
extern const hth_scale hth_metrics_token_scale;
extern const hth_scale hth_metrics_queue_scale;

/* A few texts. The first one is "other", for all that found no room. */
typedef struct hth_metrics_texts {
    char texts[HTH_METRICS_ENDPOINTS_MAX][HTH_METRICS_TEXT_BYTES];
    size_t n;
} hth_metrics_texts;
static_assert(HTH_METRICS_REASONS_MAX <= (int)HTH_METRICS_ENDPOINTS_MAX, "both are texts");

/* Requests to one endpoint for one model. */
typedef struct hth_metrics_series {
    struct {
        int status; /* the first is 0, for statuses that found no room */
        uint64_t n;
    } statuses[HTH_METRICS_STATUSES_MAX];
    size_t n_statuses;
    hth_observations duration;
} hth_metrics_series;

typedef struct hth_metrics_model {
    char *name;
    bool is_shown;                                         /* it is or was configured, or it has a count */
    hth_metrics_series *series[HTH_METRICS_ENDPOINTS_MAX]; /* NULL: no request yet */
    uint64_t n_prompt_tokens;
    uint64_t n_cached_tokens;
    uint64_t n_reply_tokens;
    uint64_t n_draft_tokens;
    uint64_t n_draft_accepted_tokens;
    uint64_t n_resumed;
    uint64_t n_passed_over;
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
