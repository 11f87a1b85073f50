/*
 * bench_decode.c - see bench_decode.h
 */
#include "bench/bench_decode.h"

#include <math.h>

#include "base/os.h"

enum { WARM_TOKENS = 4 };

/* Written by callbacks on the model's scheduler thread; read only after the last request has ended. */
typedef struct crowd {
    hth_bench_run *run;
    uint32_t n;
    uint32_t n_warm;    /* replies with WARM_TOKENS tokens */
    uint32_t n_counted; /* tokens in the window */
    double window_ms;   /* at most */
    uint64_t begin_ns;  /* of the window; 0: it has not begun */
    uint64_t end_ns;    /* 0: it has not ended */
    hearth_status status;
    hearth_error err;
} crowd;

static bool on_token(uint64_t id, const hearth_token_event *event, void *user_data)
{
    crowd *c = user_data;
    const uint64_t now = hth_os_monotonic_ns();

    (void)id;
    c->n_warm += event->index + 1 == WARM_TOKENS;
    if (c->end_ns > 0 || atomic_load(c->run->interrupted))
        return false;
    if (c->begin_ns == 0) {
        c->begin_ns = c->n_warm == c->n ? now : 0;
        return true;
    }
    c->n_counted++;
    if (event->index + 1 == HTH_BENCH_DECODE_TOKENS || (double)(now - c->begin_ns) / 1e6 >= c->window_ms)
        c->end_ns = now;
    return c->end_ns == 0;
}

static void on_done(uint64_t id, const hearth_result *result, void *user_data)
{
    crowd *c = user_data;

    (void)id;
    if (result->status != HEARTH_OK && result->status != HEARTH_CANCELLED && c->status == HEARTH_OK) {
        c->status = result->status;
        c->err = result->error;
    }
}

static hearth_status submit(crowd *c, uint64_t *id_out, hearth_error *err)
{
    hearth_request request = hearth_request_default();
    hearth_sampling sampling = hearth_sampling_default();
    hearth_token tokens[HTH_BENCH_DECODE_PROMPT];

    hth_bench_run_new_prompt(c->run, tokens, HTH_BENCH_DECODE_PROMPT);
    sampling.temperature = 0;
    request.tokens = tokens;
    request.n_tokens = HTH_BENCH_DECODE_PROMPT;
    request.n_predict = HTH_BENCH_DECODE_TOKENS;
    request.ignore_eos = true;
    request.sampling = &sampling;
    request.on_token = on_token;
    request.on_done = on_done;
    request.user_data = c;
    return hearth_submit(c->run->open.model, &request, id_out, err);
}

hearth_status hth_bench_decode(hth_bench_run *run, uint32_t n, double ms, double *rate_out, hearth_error *err)
{
    crowd c = { .run = run, .n = n, .window_ms = ms };
    uint64_t ids[HTH_MODEL_PARALLEL_MAX];
    hearth_status status = HEARTH_OK;
    uint32_t n_submitted = 0;

    while (status == HEARTH_OK && n_submitted < n) {
        status = submit(&c, &ids[n_submitted], err);
        n_submitted += status == HEARTH_OK;
    }
    for (uint32_t i = 0; i < n_submitted; i++)
        (void)hearth_wait(run->open.model, ids[i], UINT32_MAX, NULL); /* it was submitted */
    if (atomic_load(run->interrupted))
        return HEARTH_CANCELLED;
    if (status != HEARTH_OK)
        return status;
    if (c.status != HEARTH_OK && err)
        *err = c.err;
    *rate_out = c.end_ns > 0 ? c.n_counted * 1e9 / (double)(c.end_ns - c.begin_ns) : NAN;
    return c.status;
}
