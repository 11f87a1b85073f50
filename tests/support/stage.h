/*
 * stage.h - a batcher without its thread: on a watched engine, with a clock that only the test moves
 *
 * Requests are submitted as the public structs that they are; each leaves a test_reply behind. Everything fails the
 * test where it goes wrong: a request that ends twice, text that was streamed and is not the result's.
 */
#ifndef HTH_TEST_STAGE_H
#define HTH_TEST_STAGE_H

#include "cache/cache.h"
#include "sched/batcher.h"
#include "support/watch.h"

typedef struct test_stage_options {
    const hth_backend *engine; /* NULL: the stub */
    const char *model;         /* "stub:...", or a path */
    uint32_t n_threads;        /* of a real engine */
    uint32_t n_ctx, n_batch, n_parallel;
    uint32_t n_sequences; /* 0: one more than n_parallel and four */
    const char *strategy; /* NULL: the default */
    bool is_deterministic;
    uint32_t prefill_chunk, max_tick_ms, session_idle_ms, stalled_ms, aging_ms, n_tell;
    uint64_t ram_bytes;    /* of a cache; 0: none */
    const char *directory; /* of that cache's files; NULL: none */
    uint32_t resume_wait_ms;
    const char *draft_model; /* of the stub; NULL: none */
    uint32_t draft_n_ctx;    /* 0: n_ctx */
    hth_idle_cost idle_cost; /* by default idle cells cost nothing */
} test_stage_options;

test_stage_options test_stage_options_default(void);

typedef struct test_reply {
    uint64_t id;
    hth_request *request; /* for cancel and pause; NULL once it has ended */
    unsigned n_done;
    uint64_t n_ticks;            /* ticks of the batcher when it ended */
    const hearth_result *result; /* a reference */
    char *streamed;              /* the text of both callbacks */
    size_t n_streamed;
    uint32_t n_events;     /* of on_token */
    uint32_t n_restored;   /* what on_progress said last of it; with the first token it is what statistics say */
    uint32_t n_before;     /* tokens that were replayed, and not told of */
    uint32_t refuse_after; /* tokens after which on_token says no; 0: never */
} test_reply;

typedef struct test_stage {
    test_stage_options options;
    hth_engine_model *engine_model;
    hth_engine_context *context;
    test_watch watch;
    hth_pulse pulse;
    hth_workplace place;
    hth_engine_model *draft_engine_model; /* NULL without a draft model; likewise the next ones */
    hth_engine_context *draft_context;
    test_watch draft_watch;
    hth_workplace draft_place;
    hth_schedule schedule;
    hth_cache *cache;
    hth_batcher *batcher;
    uint64_t now_ns;
    uint64_t n_ids;
    uint32_t n_open; /* submitted and not ended */
} test_stage;

/* options may be NULL. Not to be moved afterwards. */
void test_stage_open(test_stage *stage, const test_stage_options *options);
/* Everything must have ended; nothing may be left in the engine once the finished sequences are saved. */
void test_stage_close(test_stage *stage);

/* The set of an adapter of the stub with that number (tests/stub/adapter.c), made with this name in directory. */
hth_adapter_set *test_stage_adapter(test_stage *stage, const char *directory, uint64_t number, float scale);
/*
 * Prepare a slot that nobody has heard of, as on its way through the message queue, with these adapters; NULL: none.
 */
test_reply *test_stage_prepare_with(test_stage *stage, const hearth_request *request, hth_adapter_set *adapters,
                                    const char *salt, hth_slot **slot_out, hearth_error *err);
/* The public request with these tokens; salt may be NULL. Released with test_reply_free. NULL where it is refused. */
test_reply *test_stage_submit(test_stage *stage, const hearth_request *request, const char *salt, hearth_error *err);
/* The coming of a slot that was prepared. */
void test_stage_add(test_stage *stage, hth_slot *slot);
/* It has not ended. */
void test_stage_cancel(test_stage *stage, const test_reply *reply);
void test_reply_free(test_reply *reply); /* accepts NULL; it has ended */

/* What must be true after any tick: the books are the engine's. */
void test_stage_check(const test_stage *stage);
/* One tick, and the check. */
bool test_stage_tick(test_stage *stage);
/*
 * Tick, and where there is nothing to do move the clock, until everything has ended. Fails when that does not happen.
 */
void test_stage_run(test_stage *stage);
/* Tick until the reply has so many tokens, or has ended. */
void test_stage_run_until(test_stage *stage, const test_reply *reply, uint32_t n_tokens);
void test_stage_pass(test_stage *stage, uint64_t ms);

/* Greedy, n_predict tokens whatever they are. The tokens are borrowed. */
hearth_request test_request(const hearth_token *tokens, size_t n_tokens, int32_t n_predict);
/* n printable tokens. */
void test_tokens(uint64_t seed, hearth_token *tokens, size_t n);

#endif
