/*
 * figures.h - the numbers of a request: its tokens, its cache hits, its times
 *
 * A worker measures them, frames carry them to the front, and logs and events show them. figures.c has a table row for
 * each, and all users iterate over the rows. Metrics and API replies each show a selection.
 */
#ifndef HTH_WIRE_FIGURES_H
#define HTH_WIRE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

#define HTH_FRAME_NO_HIT UINT32_MAX
#define HTH_FRAME_NO_SLOT UINT32_MAX

/* Counts and times of a reply, or of a request's replies together. Numbers as in hearth_stats. */
typedef struct hth_frame_figures {
    uint32_t n_prompt_tokens;
    uint32_t n_cached_tokens;
    uint32_t n_reply_tokens;
    uint32_t hit; /* hearth_hit, hearth_tier, hearth_miss; HTH_FRAME_NO_HIT: the cache was not used */
    uint32_t tier;
    uint32_t miss;
    uint32_t n_draft_tokens;
    uint32_t n_draft_accepted_tokens;
    uint32_t left_at;
    uint32_t slot;     /* of the request; HTH_FRAME_NO_SLOT: it had none */
    double prepare_ms; /* parsing the request, rendering and tokenizing its prompts, including the wait for a thread */
    double queue_ms;
    double restore_ms;
    double prefill_ms;
    double ttft_ms;
    double decode_ms;
} hth_frame_figures;

typedef enum hth_figure_kind {
    HTH_FIGURE_COUNT, /* uint32_t */
    HTH_FIGURE_MS,    /* double */
    HTH_FIGURE_HIT,   /* uint32_t: the name of a hearth_hit, if the cache was used */
    HTH_FIGURE_TIER,  /* uint32_t: the name of a hearth_tier, likewise */
    HTH_FIGURE_MISS,  /* uint32_t: the name of a hearth_miss, if there is one */
    HTH_FIGURE_PLACE, /* uint32_t: a position within the prompt, if there is a miss */
    HTH_FIGURE_SLOT,  /* uint32_t, if there is one */
} hth_figure_kind;

/* How the numbers of several replies are combined. Only counts are summed. */
typedef enum hth_figure_sum {
    HTH_OF_FIRST_REPLY,
    HTH_OF_ALL_REPLIES, /* the sum */
    HTH_OF_ALL_PROMPTS, /* the sum, each prompt once */
} hth_figure_sum;

typedef struct hth_figure {
    size_t at;       /* its offset in hth_frame_figures */
    size_t in_stats; /* its offset in hearth_stats; HTH_NO_STATS: not there */
    hth_figure_kind kind;
    hth_figure_sum sum;
    const char *in_log; /* its names; NULL: not shown there */
    const char *in_event;
} hth_figure;

#define HTH_NO_STATS SIZE_MAX

/* In the order of frames: all counts, then all times. */
extern const hth_figure hth_figures[];
enum { HTH_FIGURES_COUNTS = 10, HTH_FIGURES_TIMES = 6, HTH_FIGURES = HTH_FIGURES_COUNTS + HTH_FIGURES_TIMES };
enum { HTH_FIGURES_BYTES = 4 * HTH_FIGURES_COUNTS + 8 * HTH_FIGURES_TIMES };

/* Write the bytes of frames: little-endian, 32 bits for a count and 64 bits for a time. */
void hth_figures_put(const hth_frame_figures *figures, uint8_t bytes[HTH_FIGURES_BYTES]);
hth_frame_figures hth_figures_get(const uint8_t bytes[HTH_FIGURES_BYTES]);

/* The numbers of a reply, except slot and prepare_ms, which are not in its statistics. */
hth_frame_figures hth_figures_of(const hearth_stats *stats);
/* Set the fields of *stats that figures contains. */
void hth_figures_to_stats(const hth_frame_figures *figures, hearth_stats *stats);
/*
 * Add the numbers of a reply to those of its request. is_first: it is the first reply; begins_prompt: it is the first
 * of its prompt.
 */
void hth_figures_add(hth_frame_figures *sum, const hth_frame_figures *reply, bool is_first, bool begins_prompt);

uint32_t hth_figure_count(const hth_figure *figure, const hth_frame_figures *figures);
double hth_figure_ms(const hth_figure *figure, const hth_frame_figures *figures); /* 0 if it is not finite */
/* The name of the HIT, the TIER ("none" if the cache was not used) or the MISS; "": none. NULL for another kind. */
const char *hth_figure_name(hth_figure_kind kind, const hth_frame_figures *figures);
/* Does the request have this number? */
bool hth_figure_is_there(const hth_figure *figure, const hth_frame_figures *figures);

#endif
