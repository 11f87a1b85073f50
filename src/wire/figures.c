#include "wire/figures.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/bytes.h"

#define AT(field) offsetof(hth_frame_figures, field)
#define IN(field) offsetof(hearth_stats, field)

const hth_figure hth_figures[] = {
    { AT(n_prompt_tokens), IN(prompt_tokens), HTH_FIGURE_COUNT, HTH_OF_ALL_PROMPTS, "prompt_tokens", "prompt_tokens" },
    { AT(n_cached_tokens), IN(cached_tokens), HTH_FIGURE_COUNT, HTH_OF_ALL_PROMPTS, "cached_tokens", "cached_tokens" },
    { AT(n_reply_tokens), IN(completion_tokens), HTH_FIGURE_COUNT, HTH_OF_ALL_REPLIES, "completion_tokens",
      "completion_tokens" },
    { AT(hit), IN(hit), HTH_FIGURE_HIT, HTH_OF_FIRST_REPLY, "hit", "hit" },
    { AT(tier), IN(tier), HTH_FIGURE_TIER, HTH_OF_FIRST_REPLY, "tier", "tier" },
    { AT(miss), IN(miss), HTH_FIGURE_MISS, HTH_OF_FIRST_REPLY, "miss", "miss" },
    { AT(n_draft_tokens), IN(draft_tokens), HTH_FIGURE_COUNT, HTH_OF_ALL_REPLIES, NULL, NULL },
    { AT(n_draft_accepted_tokens), IN(draft_accepted_tokens), HTH_FIGURE_COUNT, HTH_OF_ALL_REPLIES, NULL, NULL },
    { AT(left_at), IN(left_at), HTH_FIGURE_PLACE, HTH_OF_FIRST_REPLY, NULL, "left_at" },
    { AT(slot), HTH_NO_STATS, HTH_FIGURE_SLOT, HTH_OF_FIRST_REPLY, NULL, "slot" },
    { AT(prepare_ms), HTH_NO_STATS, HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "prepare_ms", "prepare_ms" },
    { AT(queue_ms), IN(queue_ms), HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "queue_ms", "queue_ms" },
    { AT(restore_ms), IN(restore_ms), HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "restore_ms", "restore_ms" },
    { AT(prefill_ms), IN(prefill_ms), HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "prefill_ms", "prefill_ms" },
    { AT(ttft_ms), IN(ttft_ms), HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "ttft_ms", "first_token_ms" },
    { AT(decode_ms), IN(decode_ms), HTH_FIGURE_MS, HTH_OF_FIRST_REPLY, "decode_ms", "decode_ms" },
};

static_assert(sizeof(hth_figures) / sizeof(hth_figures[0]) == HTH_FIGURES, "each figure has a row");
static_assert(sizeof(hth_frame_figures) == (HTH_FIGURES_BYTES + sizeof(double) - 1) / sizeof(double) * sizeof(double),
              "and each row a figure"); /* an odd number of counts is padded */

static size_t bytes_of(const hth_figure *figure)
{
    return figure->kind == HTH_FIGURE_MS ? sizeof(double) : sizeof(uint32_t);
}

static uint32_t *count_at(const hth_figure *figure, hth_frame_figures *figures)
{
    return (uint32_t *)(void *)((char *)figures + figure->at);
}

uint32_t hth_figure_count(const hth_figure *figure, const hth_frame_figures *figures)
{
    uint32_t count;

    memcpy(&count, (const char *)figures + figure->at, sizeof(count));
    return count;
}

/* The unchecked value: a worker's frame may hold any bits. */
static double time_of(const hth_figure *figure, const hth_frame_figures *figures)
{
    double ms;

    memcpy(&ms, (const char *)figures + figure->at, sizeof(ms));
    return ms;
}

double hth_figure_ms(const hth_figure *figure, const hth_frame_figures *figures)
{
    const double ms = time_of(figure, figures);

    return isfinite(ms) ? ms : 0;
}

bool hth_figure_is_there(const hth_figure *figure, const hth_frame_figures *figures)
{
    const uint32_t place = figures->left_at;

    switch (figure->kind) {
    case HTH_FIGURE_HIT:
    case HTH_FIGURE_TIER: return figures->hit != HTH_FRAME_NO_HIT;
    case HTH_FIGURE_MISS: return figures->miss != HEARTH_MISS_NONE;
    case HTH_FIGURE_PLACE: return figures->miss != HEARTH_MISS_NONE && place > 0 && place < figures->n_prompt_tokens;
    case HTH_FIGURE_SLOT: return figures->slot != HTH_FRAME_NO_SLOT;
    default: return true;
    }
}

const char *hth_figure_name(hth_figure_kind kind, const hth_frame_figures *figures)
{
    switch (kind) {
    case HTH_FIGURE_HIT: return figures->hit == HTH_FRAME_NO_HIT ? "" : hearth_hit_name((hearth_hit)figures->hit);
    case HTH_FIGURE_TIER: return hearth_tier_name((hearth_tier)figures->tier);
    case HTH_FIGURE_MISS: return figures->miss == HEARTH_MISS_NONE ? "" : hearth_miss_name((hearth_miss)figures->miss);
    default: return NULL;
    }
}

void hth_figures_put(const hth_frame_figures *figures, uint8_t bytes[HTH_FIGURES_BYTES])
{
    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++, bytes += 4)
        hth_put_u32(bytes, hth_figure_count(&hth_figures[i], figures));
    for (size_t i = HTH_FIGURES_COUNTS; i < HTH_FIGURES; i++, bytes += 8)
        hth_put_f64(bytes, time_of(&hth_figures[i], figures));
}

hth_frame_figures hth_figures_get(const uint8_t bytes[HTH_FIGURES_BYTES])
{
    hth_frame_figures figures;

    for (size_t i = 0; i < HTH_FIGURES_COUNTS; i++, bytes += 4)
        *count_at(&hth_figures[i], &figures) = hth_get_u32(bytes);
    for (size_t i = HTH_FIGURES_COUNTS; i < HTH_FIGURES; i++, bytes += 8) {
        const double ms = hth_get_f64(bytes);

        memcpy((char *)&figures + hth_figures[i].at, &ms, sizeof(ms));
    }
    return figures;
}

/* Enumerations of hearth_stats have the size of counts, so both are copied in the same way. */
static_assert(sizeof(hearth_hit) == sizeof(uint32_t) && sizeof(hearth_tier) == sizeof(uint32_t) &&
                  sizeof(hearth_miss) == sizeof(uint32_t),
              "an enumeration is a number of 32 bits");

hth_frame_figures hth_figures_of(const hearth_stats *stats)
{
    hth_frame_figures figures = { .slot = HTH_FRAME_NO_SLOT };

    for (size_t i = 0; i < HTH_FIGURES; i++)
        if (hth_figures[i].in_stats != HTH_NO_STATS)
            memcpy((char *)&figures + hth_figures[i].at, (const char *)stats + hth_figures[i].in_stats,
                   bytes_of(&hth_figures[i]));
    return figures;
}

void hth_figures_to_stats(const hth_frame_figures *figures, hearth_stats *stats)
{
    for (size_t i = 0; i < HTH_FIGURES; i++)
        if (hth_figures[i].in_stats != HTH_NO_STATS)
            memcpy((char *)stats + hth_figures[i].in_stats, (const char *)figures + hth_figures[i].at,
                   bytes_of(&hth_figures[i]));
}

void hth_figures_add(hth_frame_figures *sum, const hth_frame_figures *reply, bool is_first, bool begins_prompt)
{
    for (size_t i = 0; i < HTH_FIGURES; i++) {
        const hth_figure *figure = &hth_figures[i];

        if (figure->sum == HTH_OF_ALL_REPLIES || (figure->sum == HTH_OF_ALL_PROMPTS && begins_prompt))
            *count_at(figure, sum) += hth_figure_count(figure, reply);
        else if (figure->sum == HTH_OF_FIRST_REPLY && is_first)
            memcpy((char *)sum + figure->at, (const char *)reply + figure->at, bytes_of(figure));
    }
}
