#include "bench/bench_load.h"

#include <assert.h>
#include <math.h>

#include "base/draw.h"

enum {
    CONVERSATIONS = 4,
    ROUNDS = 4,
    SYSTEM_PROMPTS = 2,
    BRANCHES = HTH_BENCH_BEFORE_MAX,
    STEPS = 3,
    SUMMARY = 1 + BRANCHES * STEPS, /* the index of the summary in its group */
    STEPS_AFTER = 2,
    DOCUMENTS = 3,
    QUESTIONS = 4,
    GROUP_MAX = 16,
    /* Seeds of texts, from that of their group: documents first, then user messages. Groups are GROUP_SEEDS apart. */
    MESSAGE_SEEDS = 16,
    GROUP_SEEDS = 256
};

static_assert(MESSAGE_SEEDS >= DOCUMENTS && MESSAGE_SEEDS + GROUP_MAX <= GROUP_SEEDS, "no two texts have one seed");

/* The unfinished group of one kind. */
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
    r.system_seed = load_seed + (uint64_t)(g->n % SYSTEM_PROMPTS);
    r.n_system_words = 300;
    r.n_words = 40;
    return r;
}

static hth_bench_request agents_request(const group *g, uint64_t load_seed)
{
    hth_bench_request r = begins;

    r.system_seed = load_seed + SYSTEM_PROMPTS; /* for the tools, the same for all agents */
    r.n_system_words = 400;
    r.n_words = 60;
    if (g->n == SUMMARY) /* compaction: a new conversation with the results of the branches */
        for (int i = 0; i < BRANCHES; i++)
            r.before[i] = g->places[SUMMARY - BRANCHES + i];
    else if (g->n > SUMMARY) /* a step on the summary */
        r.before[0] = g->places[g->n - 1];
    else if (g->n > BRANCHES) /* the next step of a branch */
        r.before[0] = g->places[g->n - BRANCHES];
    else if (g->n > 0) /* the first step of a branch, on the plan */
        r.before[0] = g->places[0];
    return r;
}

static hth_bench_request prefix_request(const group *g)
{
    hth_bench_request r = begins;

    r.system_seed = g->seed + (uint64_t)(g->n % DOCUMENTS);
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
            g->seed = (seed << 32) + (i + 1) * GROUP_SEEDS;
        out[i] = kind == HTH_BENCH_CHAT   ? chat_request(g, seed << 32)
               : kind == HTH_BENCH_AGENTS ? agents_request(g, seed << 32)
                                          : prefix_request(g);
        out[i].kind = kind;
        out[i].text_seed = g->seed + MESSAGE_SEEDS + (uint64_t)g->n;
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
