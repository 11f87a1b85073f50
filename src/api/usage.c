/*
 * usage.c - token counts and timings in the form of each API
 */
#include "api/writer.h"
#include "models/model.h"

/* Each prompt counts once, however many replies it has. */
static json_t *usage(const hth_api_reply *reply, const char *prompt, const char *completion, const char *prompt_details,
                     const char *completion_details)
{
    uint32_t n = reply->request->options.n;
    json_int_t n_prompt = 0, n_cached = 0, n_completion = 0, n_reasoning = 0, n_accepted = 0, n_rejected = 0;
    json_t *object, *details;

    for (size_t i = 0; i < reply->n_choices; i++) {
        const hth_api_choice *choice = &reply->choices[i];

        n_completion += choice->stats.completion_tokens;
        if (choice->reasoning.n > 0)
            n_reasoning += choice->n_reasoning_tokens;
        n_accepted += choice->stats.draft_accepted_tokens;
        n_rejected += choice->stats.draft_tokens - choice->stats.draft_accepted_tokens;
        if (i % n == 0) { /* the other replies share the prompt */
            n_prompt += choice->stats.prompt_tokens;
            n_cached += choice->stats.cached_tokens;
        }
    }
    object = json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", prompt, n_prompt, completion, n_completion, "total_tokens",
                       n_prompt + n_completion, prompt_details, "cached_tokens", n_cached, completion_details,
                       "reasoning_tokens", n_reasoning);
    details = json_object_get(object, completion_details);
    if (reply->request->n_prediction > 0) {
        json_object_set_new(details, "accepted_prediction_tokens", json_integer(n_accepted));
        json_object_set_new(details, "rejected_prediction_tokens", json_integer(n_rejected));
    }
    return object;
}

json_t *hth_api_usage_openai(const hth_api_reply *reply)
{
    return usage(reply, "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details");
}

json_t *hth_api_usage_responses(const hth_api_reply *reply)
{
    return usage(reply, "input_tokens", "output_tokens", "input_tokens_details", "output_tokens_details");
}

json_t *hth_api_usage_anthropic(const hth_api_reply *reply, uint32_t n_prompt, uint32_t n_cached, uint32_t n_output)
{
    json_int_t n_new = n_cached < n_prompt ? n_prompt - n_cached : 0;
    bool creates = reply->request->has_cache_control && hth_model_keeps_prompt(reply->hearth, n_prompt);

    return json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", creates ? 0 : n_new, "cache_creation_input_tokens",
                     creates ? n_new : 0, "cache_read_input_tokens", (json_int_t)n_cached, "output_tokens",
                     (json_int_t)n_output);
}

static json_t *ms(double value)
{
    return json_real((double)(long long)(value * 1000 + 0.5) / 1000);
}

static json_t *ratio(double a, double b)
{
    return b > 0 ? ms(a / b) : json_real(0);
}

/* The first token ends the prefill, so decoding takes one step fewer than the reply has tokens. */
json_t *hth_api_timings(const hearth_stats *stats)
{
    json_int_t n_new = (json_int_t)stats->prompt_tokens - stats->cached_tokens;
    double n_steps = stats->completion_tokens > 0 ? stats->completion_tokens - 1 : 0;
    json_t *timings;

    timings =
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "cache_n",
                  (json_int_t)stats->cached_tokens, "prompt_n", n_new, "prompt_ms", ms(stats->prefill_ms),
                  "prompt_per_token_ms", ratio(stats->prefill_ms, (double)n_new), "prompt_per_second",
                  ratio(1000 * (double)n_new, stats->prefill_ms), "predicted_n", (json_int_t)stats->completion_tokens,
                  "predicted_ms", ms(stats->decode_ms), "predicted_per_token_ms", ratio(stats->decode_ms, n_steps),
                  "predicted_per_second", ratio(1000 * n_steps, stats->decode_ms), "queue_ms", ms(stats->queue_ms),
                  "restore_ms", ms(stats->restore_ms), "ttft_ms", ms(stats->ttft_ms));
    if (timings && stats->draft_tokens > 0) { /* as in llama-server, left out without drafts */
        json_object_set_new(timings, "draft_n", json_integer(stats->draft_tokens));
        json_object_set_new(timings, "draft_n_accepted", json_integer(stats->draft_accepted_tokens));
    }
    return timings;
}

json_t *hth_api_cache(const hearth_stats *stats)
{
    json_t *cache = json_pack("{s:s, s:s, s:s}", "hit", hearth_hit_name(stats->hit), "tier",
                              hearth_tier_name(stats->tier), "miss", hearth_miss_name(stats->miss));

    if (cache && stats->left_at > 0 && stats->left_at < stats->prompt_tokens) {
        json_object_set_new(cache, "left_at", json_integer(stats->left_at));
        json_object_set_new(cache, "left_text", json_string(stats->left_text));
    }
    return cache;
}

void hth_api_put_timings(json_t *to, const hearth_stats *stats)
{
    json_object_set_new(to, "timings", hth_api_timings(stats));
    json_object_set_new(to, "cache", hth_api_cache(stats));
}

void hth_api_put_timings_so_far(json_t *to, const hth_api_choice *choice)
{
    hearth_stats stats = choice->stats;

    if (stats.prompt_tokens == 0) { /* the tokens came without statistics */
        stats.prompt_tokens = choice->n_prompt;
        stats.cached_tokens = choice->n_restored;
    }
    stats.completion_tokens = choice->n_tokens;
    hth_api_put_timings(to, &stats);
}
