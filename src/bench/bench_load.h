/*
 * bench_load.h - the requests that `hearth bench --url` sends, and their times
 *
 * Three kinds of load run side by side, in groups that repeat with different texts:
 *
 *   chat     four conversations of four rounds; two system prompts, which all groups share
 *   agents   a plan, three branches of it with three steps each, a summary of all, two steps on the summary alone
 *   prefix   three long documents, each with four independent questions
 *
 * The planned arrivals are a Poisson process, regardless of the server (an open loop). If the replies that a request
 * depends on are late, it is sent late. The same seed gives the same load. Pure functions; any thread.
 */
#ifndef HTH_BENCH_BENCH_LOAD_H
#define HTH_BENCH_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "api/buffer.h"

typedef enum hth_bench_kind { HTH_BENCH_CHAT, HTH_BENCH_AGENTS, HTH_BENCH_PREFIX } hth_bench_kind;
enum { HTH_BENCH_KINDS = 3, HTH_BENCH_BEFORE_MAX = 3 };

typedef struct hth_bench_request {
    hth_bench_kind kind;
    uint64_t at_ns; /* planned arrival, from the beginning */
    /*
     * The requests whose replies it needs, then -1. None: it begins a conversation. One: it continues that
     * conversation. Several: it is a summary, which begins a conversation with these replies in its message.
     */
    int32_t before[HTH_BENCH_BEFORE_MAX];
    uint64_t system_seed; /* of the words of the system prompt, or of the document, if it begins a conversation */
    uint32_t n_system_words;
    uint64_t text_seed; /* of the user's message */
    uint32_t n_words;
} hth_bench_request;

/*
 * Plan n < 2^24 requests, arriving on average at rate > 0 per second; seed < 2^32. A request comes after those that it
 * needs.
 */
void hth_bench_load_plan(uint64_t seed, double rate, hth_bench_request *out, size_t n);

/* Append n words that depend on the seed. */
void hth_bench_words_add(hth_buffer *out, uint64_t seed, uint32_t n);

#endif
