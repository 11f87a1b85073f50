/*
 * bench_load.c - see bench_load.h
 */
#include "cli/bench_load.h"

#include <math.h>

#include "base/draw.h"

enum {
    CONVERSATIONS = 4,
    ROUNDS = 4,
    SYSTEM_PROMPTS = 2,
    BRANCHES = HTH_BENCH_BEFORE_MAX,
    STEPS = 3,
    SUMMARY = 1 + BRANCHES * STEPS, /* the place of the summary in its group */
    STEPS_AFTER = 2,
    DOCUMENTS = 3,
    QUESTIONS = 4,
    GROUP_MAX = 16
};

/* The group that is being made of one kind. */
typedef struct group {
    uint64_t seed;
    int32_t places[GROUP_MAX]; /* of its requests in the plan */
    int n;                     /* made so far */
} group;

static const int group_sizes[HTH_BENCH_KINDS] = { CONVERSATIONS * ROUNDS, SUMMARY + 1 + STEPS_AFTER,
                                                  DOCUMENTS *QUESTIONS };

static const hth_bench_request begins = { .before = { -1, -1, -1 } };

static hth_bench_request chat_request(const group *g, uint64_t load_seed)
{
    hth_bench_request r = begins;

    if (g->n >= CONVERSATIONS)
        r.before[0] = g->places[g->n - CONVERSATIONS];
    r.system = load_seed + (uint64_t)(g->n % SYSTEM_PROMPTS);
    r.n_system_words = 300;
    r.n_words = 40;
    return r;
}

static hth_bench_request agents_request(const group *g, uint64_t load_seed)
{
    hth_bench_request r = begins;

    r.system = load_seed + SYSTEM_PROMPTS; /* the tools, the same for all agents */
    r.n_system_words = 400;
    r.n_words = 60;
    if (g->n == SUMMARY) /* compaction: a new conversation of what the branches found */
        for (int i = 0; i < BRANCHES; i++)
            r.before[i] = g->places[SUMMARY - BRANCHES + i];
    else if (g->n > 0)
        r.before[0] = g->places[g->n <= BRANCHES ? 0 : g->n > SUMMARY ? g->n - 1 : g->n - BRANCHES];
    return r;
}

static hth_bench_request prefix_request(const group *g)
{
    hth_bench_request r = begins;

    r.system = g->seed + (uint64_t)(g->n % DOCUMENTS);
    r.n_system_words = 600;
    r.n_words = 15;
    return r;
}

void hth_bench_load_plan(uint64_t seed, double rate, hth_bench_request *out, size_t n)
{
    group groups[HTH_BENCH_KINDS] = { { .n = 0 } };
    double at_s = 0;

    for (size_t i = 0; i < n; i++) {
        const hth_bench_kind kind = (hth_bench_kind)(i % HTH_BENCH_KINDS);
        group *g = &groups[kind];

        if (g->n == 0)
            g->seed = (seed << 32) + (i << 8) + 256;
        out[i] = kind == HTH_BENCH_CHAT   ? chat_request(g, seed << 32)
               : kind == HTH_BENCH_AGENTS ? agents_request(g, seed << 32)
                                          : prefix_request(g);
        out[i].kind = kind;
        out[i].text = g->seed + 16 + (uint64_t)g->n;
        at_s -= log(1 - hth_draw_uniform(seed, i)) / rate;
        out[i].at_ns = (uint64_t)(at_s * 1e9);
        g->places[g->n++] = (int32_t)i;
        g->n %= group_sizes[kind];
    }
}

void hth_bench_words_add(hth_buffer *out, uint64_t seed, uint32_t n)
{
    static const char *const words[] = { "the",  "fox",   "river", "stone", "ran",  "over", "a",     "hill",
                                         "and",  "saw",   "three", "birds", "that", "sang", "about", "rain",
                                         "old",  "light", "bread", "wind",  "who",  "went", "home",  "again",
                                         "with", "her",   "bell",  "under", "tree", "told", "one",   "story" };
    const size_t n_words = sizeof(words) / sizeof(words[0]);

    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            hth_buffer_add_text(out, " ");
        hth_buffer_add_text(out, words[(size_t)(hth_draw_uniform(seed, i) * (double)n_words)]);
    }
}
