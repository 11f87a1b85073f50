/*
 * explanation.c - see explanation.h
 */
#include "api/explanation.h"

json_t *hth_api_explanation_json(const hearth_explanation *about, size_t n_plain)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:b, s:s, s:s, s:I, s:s, s:s}", "prompt_tokens",
                     (json_int_t)about->prompt_tokens, "known_tokens", (json_int_t)about->known_tokens,
                     "history_tokens", (json_int_t)about->history_tokens, "plain_names", (json_int_t)n_plain,
                     "knows_logits", (int)about->knows_logits, "tier", hearth_tier_name(about->tier), "miss",
                     hearth_miss_name(about->miss), "left_at", (json_int_t)about->left_at, "left_text",
                     about->left_text, "left_kind", about->left_kind);
}
