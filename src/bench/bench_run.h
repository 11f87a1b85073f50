/*
 * bench_run.h - a loaded model that `hearth bench` measures: prompts, requests, remaining time
 */
#ifndef HTH_BENCH_BENCH_RUN_H
#define HTH_BENCH_BENCH_RUN_H

#include <signal.h>

#include "options/bench_options.h"
#include "options/open_model.h"

typedef struct hth_bench_run {
    /* set by the caller */
    hth_bench_options *options;
    const volatile sig_atomic_t *interrupted;
    uint64_t begin_ns;

    hth_open_model open;
    hearth_model_info info;
    uint64_t n_prompts;   /* made so far; each is different */
    hearth_token *tokens; /* of the last prompt, [the longest length] */
    char doing[64];       /* for the progress display */
} hth_bench_run;

/* Load the model, with or without a cache, into a run whose given fields are set, and warm it up. */
hearth_status hth_bench_run_load(hth_bench_run *run, bool with_cache, hearth_error *err);
/* Close it; also if it was not loaded. */
void hth_bench_run_close(hth_bench_run *run);

bool hth_bench_run_is_interrupted(const hth_bench_run *run);

/* Fill tokens with a prompt that shares no prefix with others: random ordinary tokens of the vocabulary. */
void hth_bench_run_new_prompt(hth_bench_run *run, hearth_token *tokens, size_t n);

/* Read n tokens of run->tokens and draw one more. HEARTH_CANCELLED: interrupted. */
hearth_status hth_bench_run_ask(hth_bench_run *run, size_t n, hearth_stats *out, hearth_error *err);

/* Show the current measure in the progress display; without a terminal as a line, for the first repetition. */
void hth_bench_run_say(hth_bench_run *run, bool is_first, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
