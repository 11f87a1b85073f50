#include "cli/result_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/json_values.h"

json_t *hth_milliseconds_json(double ms)
{
    return json_real((double)(long long)(ms * 1000 + 0.5) / 1000);
}

static json_t *logprob_json(const hearth_logprob *logprob, hearth_model *model)
{
    json_t *object = json_object();
    char *text = NULL;
    size_t n = 0;

    json_object_set_new(object, "token", json_integer(logprob->token));
    if (hearth_detokenize(model, &logprob->token, 1, true, &text, &n, NULL) == HEARTH_OK)
        json_object_set_new(object, "text", json_stringn(text, n));
    hearth_free(text);
    /* JSON has no infinity, which is the logarithm of zero. */
    json_object_set_new(object, "logprob",
                        isfinite(logprob->logprob) ? json_real((double)logprob->logprob) : json_null());
    return object;
}

/* The array [{"token", "text", "logprob", "top": [...]}, ...] with an object for each token of the reply. */
static json_t *logprobs_json(const hearth_result *result, hearth_model *model)
{
    const hearth_logprob *logprob = result->logprobs;
    json_t *list = json_array();

    for (uint32_t i = 0; i < result->stats->completion_tokens; i++) {
        json_t *object = logprob_json(logprob++, model);
        json_t *top = json_array();

        for (uint32_t j = 0; j < result->n_top_logprobs; j++)
            json_array_append_new(top, logprob_json(logprob++, model));
        json_object_set_new(object, "top", top);
        json_array_append_new(list, object);
    }
    return list;
}

json_t *hth_result_json(const hearth_result *result, hearth_model *model)
{
    const hearth_stats *stats = result->stats;
    json_t *object = json_object();

    json_object_set_new(object, "text", json_stringn(result->text ? result->text : "", result->n_bytes));
    json_object_set_new(object, "prompt_tokens", json_integer(stats->prompt_tokens));
    json_object_set_new(object, "cached_tokens", json_integer(stats->cached_tokens));
    json_object_set_new(object, "shared_tokens", json_integer(stats->shared_tokens));
    json_object_set_new(object, "history_tokens", json_integer(stats->history_tokens));
    json_object_set_new(object, "hit", json_string(hearth_hit_name(stats->hit)));
    json_object_set_new(object, "tier", json_string(hearth_tier_name(stats->tier)));
    json_object_set_new(object, "miss", json_string(hearth_miss_name(stats->miss)));
    json_object_set_new(object, "left_at", json_integer(stats->left_at));
    json_object_set_new(object, "left_text", json_string(stats->left_text));
    json_object_set_new(object, "queue_ms", hth_milliseconds_json(stats->queue_ms));
    json_object_set_new(object, "lookup_ms", hth_milliseconds_json(stats->lookup_ms));
    json_object_set_new(object, "restore_ms", hth_milliseconds_json(stats->restore_ms));
    json_object_set_new(object, "prefill_ms", hth_milliseconds_json(stats->prefill_ms));
    json_object_set_new(object, "ttft_ms", hth_milliseconds_json(stats->ttft_ms));
    json_object_set_new(object, "second_token_ms", hth_milliseconds_json(stats->second_token_ms));
    json_object_set_new(object, "completion_tokens", json_integer(stats->completion_tokens));
    json_object_set_new(object, "decode_tps", hth_milliseconds_json(stats->decode_tps));
    json_object_set_new(object, "finish_reason", json_string(hearth_finish_reason_name(result->finish_reason)));
    json_object_set_new(object, "finish_key",
                        stats->finish_tokens ? hth_json_hex(stats->finish_key, sizeof(stats->finish_key))
                                             : json_null());
    json_object_set_new(object, "finish_tokens", json_integer(stats->finish_tokens));
    json_object_set_new(object, "prompt_key", hth_json_hex(stats->prompt_key, sizeof(stats->prompt_key)));
    json_object_set_new(object, "restored_bytes", json_integer((json_int_t)stats->restored_bytes));
    json_object_set_new(object, "rows_restored", json_integer(stats->rows_restored));
    json_object_set_new(object, "prefill_evaluations", json_integer(stats->n_prefill_evaluations));
    json_object_set_new(object, "decode_evaluations", json_integer(stats->n_decode_evaluations));
    json_object_set_new(object, "draft_tokens", json_integer(stats->draft_tokens));
    json_object_set_new(object, "draft_accepted_tokens", json_integer(stats->draft_accepted_tokens));
    json_object_set_new(object, "n_preempted", json_integer(stats->n_preempted));
    json_object_set_new(object, "seed", json_integer((json_int_t)result->seed));
    if (result->logprobs)
        json_object_set_new(object, "logprobs", logprobs_json(result, model));
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED) {
        json_object_set_new(object, "status", json_string(hearth_status_name(result->status)));
        json_object_set_new(object, "error", json_string(result->error.message));
    }
    return object;
}

bool hth_json_print(json_t *object, bool as_line)
{
    char *text =
        object ? json_dumps(object, (as_line ? JSON_COMPACT : JSON_INDENT(2)) | JSON_REAL_PRECISION(12)) : NULL;
    bool written = text && puts(text) >= 0 && fflush(stdout) == 0;

    free(text);
    json_decref(object);
    return written;
}
