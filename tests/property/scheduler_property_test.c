/*
 * scheduler_property_test.c - whatever runs beside it, a request's reply is its reply alone
 *
 * A simulation: worlds with random limits, in which random requests come, wait, run, are paused, cancelled and
 * preempted, run out of cells and out of time, share prefixes, follow each other in sessions, and meet an engine that
 * fails now and then. Prompts come from a tree, so that much is shared and waited for. The stub engine's logits are a
 * hash of all that a sequence holds, so a wrong cell, or a row that went to the wrong request, changes the reply. So do
 * the adapters that half of the requests have.
 *
 * Requests may expect a reply: the right one, or one with mistakes. Some worlds with plain attention have a draft
 * model, which is the target itself or errs. So drafts are right to any length, and the oracle makes none.
 *
 * The oracle computes each reply on a fresh context of its own (support/solo.h), with no code of the scheduler. What
 * was cancelled or ran out of time has a beginning of it. After every tick the books are compared with an account of
 * the engine's cells that is kept apart (support/watch.h), and a cancel or a deadline must have taken effect.
 *
 * HEARTH_SIMULATION_TICKS: ticks in all, a quarter for each kind of model (default 60000). HTH_SEED replays a run,
 * HTH_WORLD=<number> one world of each kind.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/batcher.h"
#include "stub/backend.h"
#include "support/cmocka_all.h"
#include "support/solo.h"
#include "support/stage.h"
#include "support/support.h"

enum {
    TICKS_DEFAULT = 60000,
    WORLD_TICKS = 1500,
    PROMPTS = 24,
    SESSIONS = 3,
    JOBS_MAX = 40,
    SALTS = 3,
    ADAPTERS = 4, /* sets: none, one that changes nothing, one that changes all, and that with another scale */
    STOPS_MAX = 4,
    CTX_MAX = 1500,
    EXPECTED_EXACTLY = 512, /* tokens of a reply for which room is kept from the beginning */
};

typedef struct chain {
    struct chain *next;
    hearth_token *prompt;
    size_t n_prompt;
    hearth_sampling sampling;
    const hth_adapter_set *adapters;
    hearth_token *tokens;
    uint32_t n;
} chain;

typedef struct job {
    test_reply *reply;
    hearth_request request; /* its pointers are below */
    hearth_sampling sampling;
    hearth_token *prompt;
    char stops[STOPS_MAX][4];
    const char *stop_list[STOPS_MAX];
    hearth_token stop_tokens[2];
    hearth_token *draft;
    char session_id[16];
    int session; /* -1: none */
    hth_adapter_set *adapters;
    uint32_t n_max;
    uint64_t submitted_ns;
    bool cancelled;
    bool was_paused;
} job;

typedef struct session {
    hearth_token tokens[CTX_MAX];
    size_t n;
    bool busy;
} session;

typedef struct world {
    uint64_t seed;
    const char *kind;
    test_stage stage;
    uint32_t prompt_max;
    hearth_token prompts[PROMPTS][CTX_MAX];
    size_t n_prompts[PROMPTS];
    session sessions[SESSIONS];
    hth_adapter_set *adapters[ADAPTERS];
    job jobs[JOBS_MAX];
    chain *chains;
    unsigned n_faults_of; /* one in so many evaluations fails; 0: none */
    bool spares_room;     /* the engine never says that there is no room */
    bool cancels_inside;
    unsigned n_busy; /* how many jobs at once are aimed at */
    char *directory;
} world;

/* What the run has seen, so that it cannot be a test of nothing. */
static struct {
    uint64_t n_ticks, n_ended, n_ok, n_cancelled, n_timed_out, n_failed, n_preempted, n_shared, n_restored, n_sessions,
        n_adapted, n_drafted, n_accepted;
} seen;

static uint64_t pick(world *w, uint64_t bound)
{
    return hth_test_random(&w->seed, bound);
}

#define PICK(w, ...) \
    (((const uint32_t[]){ __VA_ARGS__ })[pick((w), sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))])

/* ---- the oracle ---- */

static bool is_same_sampling(const hearth_sampling *a, const hearth_sampling *b)
{
    return a->temperature == b->temperature && a->seed == b->seed && a->repeat_penalty == b->repeat_penalty;
}

/* At least n tokens of the reply to a prompt; computed once, and again where more of them are asked for. */
static const chain *chain_of(world *w, const hth_adapter_set *adapters, const hearth_token *prompt, size_t n_prompt,
                             const hearth_sampling *sampling, uint32_t n)
{
    chain *found = w->chains;

    while (found && !(found->adapters == adapters && found->n_prompt == n_prompt &&
                      is_same_sampling(&found->sampling, sampling) &&
                      memcmp(found->prompt, prompt, n_prompt * sizeof(*prompt)) == 0))
        found = found->next;
    if (!found) {
        found = calloc(1, sizeof(*found));
        assert_non_null(found);
        found->prompt = malloc(n_prompt * sizeof(*prompt));
        assert_non_null(found->prompt);
        memcpy(found->prompt, prompt, n_prompt * sizeof(*prompt));
        found->n_prompt = n_prompt;
        found->sampling = *sampling;
        found->adapters = adapters;
        found->next = w->chains;
        w->chains = found;
    }
    if (found->n < n) {
        uint32_t wanted = n < 40 ? 40 : 2 * n;

        free(found->tokens);
        found->tokens = malloc(wanted * sizeof(*found->tokens));
        assert_non_null(found->tokens);
        found->n = wanted;
        test_solo_chain_with(hth_backend_stub(), w->stage.engine_model, adapters, prompt, n_prompt, sampling, wanted,
                             64, found->tokens);
    }
    return found;
}

static void free_chains(world *w)
{
    while (w->chains) {
        chain *next = w->chains->next;

        free(w->chains->prompt);
        free(w->chains->tokens);
        free(w->chains);
        w->chains = next;
    }
}

/*
 * May a reply end before it has all its tokens? Where it was not known how long it gets, and it cannot be put aside;
 * and where the engine says that there is no room.
 */
static bool may_end_early(const world *w, const job *j)
{
    return w->n_faults_of > 0 || (j->n_max > EXPECTED_EXACTLY && w->stage.options.ram_bytes < (32u << 20));
}

static void check_status(const world *w, const job *j, const hearth_result *result)
{
    switch (result->status) {
    case HEARTH_OK: seen.n_ok++; break;
    case HEARTH_CANCELLED:
        assert_true(j->cancelled || j->reply->refuse_after > 0);
        assert_int_equal(result->finish_reason, HEARTH_FINISH_CANCELLED);
        seen.n_cancelled++;
        break;
    case HEARTH_TIMED_OUT:
        assert_true(j->request.deadline_ms || j->request.queue_timeout_ms || j->request.run_timeout_ms ||
                    j->was_paused);
        assert_int_equal(result->finish_reason, HEARTH_FINISH_TIMED_OUT);
        seen.n_timed_out++;
        break;
    case HEARTH_ENGINE:
        if (w->n_faults_of == 0)
            fail_msg("request %llu: %s", (unsigned long long)j->reply->id, result->error.message);
        seen.n_failed++;
        break;
    default: fail_msg("a request ended with status %d: %s", result->status, result->error.message);
    }
    if (result->status != HEARTH_OK)
        assert_true(result->error.message[0] != '\0');
}

static void check_reply(world *w, const job *j)
{
    const hearth_result *result = j->reply->result;
    uint32_t n = result->stats->completion_tokens;
    const chain *c = chain_of(w, j->adapters, j->prompt, j->request.n_tokens, &j->sampling, n);
    test_solo_reply alone =
        test_solo_finish(hth_backend_stub(), w->stage.engine_model, &j->request, n, c->tokens, c->n);

    check_status(w, j, result);
    assert_true(n <= j->n_max);
    for (uint32_t i = 0; i < n; i++)
        if (result->tokens[i] != c->tokens[i])
            fail_msg("request %llu: token %u of %u is %d instead of %d (%u of %u prompt tokens cached, %u shared, "
                     "preempted %u times)",
                     (unsigned long long)j->reply->id, i, n, result->tokens[i], c->tokens[i],
                     result->stats->cached_tokens, result->stats->prompt_tokens, result->stats->shared_tokens,
                     result->stats->n_preempted);
    assert_int_equal(alone.n_tokens, n);
    if (result->status == HEARTH_OK) {
        assert_int_equal(result->finish_reason, alone.reason);
        if (alone.reason == HEARTH_FINISH_LENGTH && n < j->n_max && !may_end_early(w, j))
            fail_msg("request %llu ended after %u of %u tokens", (unsigned long long)j->reply->id, n, j->n_max);
    }
    if (result->stats->prompt_tokens > 0 && j->reply->refuse_after > 0 && result->status == HEARTH_CANCELLED) {
        assert_true(result->n_bytes <= alone.n_bytes);
        assert_memory_equal(result->text, alone.text, result->n_bytes);
    } else if (result->status == HEARTH_OK || n > 0) {
        if (strcmp(result->text, alone.text) != 0)
            fail_msg("request %llu says '%s' instead of '%s'", (unsigned long long)j->reply->id, result->text,
                     alone.text);
    } else {
        assert_true(result->n_bytes <= alone.n_bytes); /* it may have told a part of its prompt */
        assert_memory_equal(result->text, alone.text, result->n_bytes);
    }
    free(alone.text);
    for (uint32_t i = 0; result->logprobs && i < n; i++)
        assert_int_equal(result->logprobs[i * (1 + result->n_top_logprobs)].token, result->tokens[i]);
    assert_int_equal(!result->logprobs, !(j->request.logprobs && (n > 0 || result->logprobs)));
    assert_true(result->stats->cached_tokens <= result->stats->prompt_tokens);
    assert_true(result->stats->shared_tokens <= result->stats->cached_tokens);
    seen.n_preempted += result->stats->n_preempted;
    seen.n_shared += result->stats->shared_tokens > 0;
    seen.n_restored += result->stats->rows_restored > 0;
    seen.n_adapted += j->adapters != NULL;
    assert_true(result->stats->draft_accepted_tokens <= result->stats->draft_tokens);
    if (j->request.draft_max == 0 || strcmp(w->kind, "plain") != 0)
        assert_int_equal(result->stats->draft_tokens, 0);
    seen.n_drafted += result->stats->draft_tokens;
    seen.n_accepted += result->stats->draft_accepted_tokens;
}

/* ---- requests ---- */

static void choose_ends(world *w, job *j)
{
    hearth_request *request = &j->request;

    request->ignore_eos = pick(w, 3) == 0;
    if (pick(w, 4) == 0) {
        request->n_stop = 1 + pick(w, STOPS_MAX);
        for (size_t i = 0; i < request->n_stop; i++) { /* none is the end of another */
            if (i % 2)
                (void)snprintf(j->stops[i], sizeof(j->stops[i]), "%c", (char)('a' + pick(w, 26)));
            else
                (void)snprintf(j->stops[i], sizeof(j->stops[i]), "%c%c", (char)('A' + pick(w, 26)),
                               (char)('A' + pick(w, 26)));
            j->stop_list[i] = j->stops[i];
        }
        request->stop = j->stop_list;
    }
    if (pick(w, 6) == 0) {
        j->stop_tokens[0] = (hearth_token)('0' + pick(w, 10));
        j->stop_tokens[1] = (hearth_token)('0' + pick(w, 10));
        request->stop_tokens = j->stop_tokens;
        request->n_stop_tokens = 2;
    }
}

static void choose_limits(world *w, hearth_request *request)
{
    switch (pick(w, 16)) {
    case 0: request->deadline_ms = (uint32_t)pick(w, 200) + 1; break;
    case 1: request->queue_timeout_ms = (uint32_t)pick(w, 200) + 1; break;
    case 2: request->run_timeout_ms = (uint32_t)pick(w, 200) + 1; break;
    default: break;
    }
}

static void choose_prompt(world *w, job *j)
{
    size_t which = pick(w, PROMPTS);
    size_t n = w->n_prompts[which];

    j->session = pick(w, 6) == 0 ? (int)pick(w, SESSIONS) : -1;
    if (j->session >= 0 && w->sessions[j->session].busy)
        j->session = -1;
    if (j->session >= 0) {
        session *s = &w->sessions[j->session];

        if (s->n == 0 || s->n + 30 > w->prompt_max) { /* begins anew */
            if (pick(w, 2))
                (void)hth_batcher_end_session(w->stage.batcher, &w->stage.place.keyspace, j->session_id);
            s->n = n;
            memcpy(s->tokens, w->prompts[which], n * sizeof(*s->tokens));
        }
        for (size_t more = 1 + pick(w, 20); more > 0 && s->n < w->prompt_max; more--)
            s->tokens[s->n++] = (hearth_token)('a' + pick(w, 26));
        j->prompt = malloc(s->n * sizeof(*j->prompt));
        assert_non_null(j->prompt);
        memcpy(j->prompt, s->tokens, s->n * sizeof(*j->prompt));
        j->request.n_tokens = s->n;
        (void)snprintf(j->session_id, sizeof(j->session_id), "talk %d", j->session);
        j->request.session_id = j->session_id;
        return;
    }
    if (pick(w, 8) == 0)
        n = 1 + pick(w, n);
    j->prompt = malloc(n * sizeof(*j->prompt));
    assert_non_null(j->prompt);
    memcpy(j->prompt, w->prompts[which], n * sizeof(*j->prompt));
    j->request.n_tokens = n;
}

static void choose_reply(world *w, job *j)
{
    hearth_request *request = &j->request;
    uint32_t room = w->stage.options.n_ctx - (uint32_t)request->n_tokens + 1;

    request->n_predict = (int32_t)PICK(w, 1, 2, 5, 20, 20, 60, 0, 200);
    if (pick(w, 12) == 0)
        request->n_predict = -1;
    request->prefill_only = pick(w, 25) == 0;
    j->n_max = request->prefill_only                                         ? 0
             : request->n_predict < 0 || (uint32_t)request->n_predict > room ? room
                                                                             : (uint32_t)request->n_predict;
    j->sampling = hearth_sampling_default();
    request->sampling = &j->sampling;
    j->sampling.temperature = pick(w, 2) ? 0.0f : 0.9f;
    j->sampling.seed = pick(w, 3);
    if (pick(w, 8) == 0)
        j->sampling.repeat_penalty = 1.2f;
    choose_ends(w, j);
}

/* Sometimes the first part of the reply is known: it was broken off. */
static void choose_replayed(world *w, job *j)
{
    uint32_t n = j->n_max < 12 ? j->n_max : 12;
    const chain *c;
    test_solo_reply alone;

    if (n < 2 || pick(w, 8) != 0)
        return;
    c = chain_of(w, j->adapters, j->prompt, j->request.n_tokens, &j->sampling, n);
    alone = test_solo_finish(hth_backend_stub(), w->stage.engine_model, &j->request, n, c->tokens, c->n);
    free(alone.text);
    if (alone.n_tokens < 2)
        return;
    j->request.replayed = c->tokens; /* copied when it is submitted */
    j->request.n_replayed = 1 + pick(w, alone.n_tokens - 1);
    j->request.n_replayed_elsewhere = pick(w, (uint32_t)j->request.n_replayed + 1);
}

/* Drafts of the text itself, or of an expected reply with a mistake now and then. */
static void choose_draft(world *w, job *j)
{
    uint32_t n = j->n_max < 100 ? j->n_max : 100, mistakes = PICK(w, 0, 3, 30);
    const chain *c;

    j->request.draft_max = (int32_t)PICK(w, 0, 0, 1, 3, HEARTH_DRAFT_MAX, HEARTH_DRAFT_MAX);
    j->request.draft_min = (int32_t)PICK(w, 0, 0, 2);
    if (j->request.draft_max == 0 || n == 0 || pick(w, 4) == 0)
        return;
    c = chain_of(w, j->adapters, j->prompt, j->request.n_tokens, &j->sampling, n);
    j->draft = malloc(n * sizeof(*j->draft));
    assert_non_null(j->draft);
    for (uint32_t i = 0; i < n; i++)
        j->draft[i] = mistakes > 0 && pick(w, mistakes) == 0 ? (hearth_token)('a' + pick(w, 26)) : c->tokens[i];
    j->request.draft_tokens = j->draft;
    j->request.n_draft_tokens = n;
}

static void submit(world *w, job *j)
{
    static const char *const salts[SALTS] = { NULL, "one", "two" };
    const char *salt;
    hth_slot *slot;
    hearth_error err = { .message = "" };

    *j = (job){ .request = hearth_request_default(), .session = -1 };
    j->adapters = w->adapters[pick(w, 2) ? 0 : pick(w, ADAPTERS)];
    choose_prompt(w, j);
    choose_reply(w, j);
    choose_limits(w, &j->request);
    choose_draft(w, j);
    choose_replayed(w, j);
    j->request.tokens = j->prompt;
    j->request.priority = pick(w, 3) ? 0 : (int32_t)pick(w, 7) - 3;
    j->request.no_cache_read = pick(w, 16) == 0;
    j->request.echo = pick(w, 16) == 0;
    j->request.logprobs = pick(w, 16) == 0;
    j->request.n_top_logprobs = j->request.logprobs ? (uint32_t)pick(w, 3) : 0;
    j->submitted_ns = w->stage.now_ns;
    salt = j->session < 0 && pick(w, 4) == 0 ? salts[pick(w, SALTS)] : NULL;
    j->reply = test_stage_prepare_with(&w->stage, &j->request, j->adapters, salt, &slot, &err);
    if (!j->reply)
        fail_msg("refused: %s", err.message);
    test_stage_add(&w->stage, slot);
    if (j->reply->n_done == 0 && pick(w, 16) == 0)
        j->reply->refuse_after = 1 + (uint32_t)pick(w, 10);
    if (j->reply->request && pick(w, 10) == 0) { /* a parent that nobody knows may be written by somebody else */
        j->reply->request->options.parent_key = calloc(1, HTH_KEY_BYTES);
        j->reply->request->n_parent = 1 + (uint32_t)pick(w, j->request.n_tokens);
    }
    j->request.replayed = NULL;
    if (j->session >= 0)
        w->sessions[j->session].busy = true;
}

static void finish(world *w, job *j)
{
    const hearth_result *result = j->reply->result;

    check_reply(w, j);
    seen.n_ended++;
    if (j->session >= 0) {
        session *s = &w->sessions[j->session];
        uint32_t n = result->stats->completion_tokens;

        s->busy = false;
        seen.n_sessions += result->stats->shared_tokens > 0;
        if (result->status == HEARTH_OK && s->n + n < w->prompt_max) {
            memcpy(s->tokens + s->n, result->tokens, n * sizeof(*s->tokens));
            s->n += n;
        }
    }
    test_reply_free(j->reply);
    free(j->draft);
    free(j->prompt);
    *j = (job){ .reply = NULL };
}

static void finish_all(world *w)
{
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (w->jobs[i].reply && w->jobs[i].reply->n_done > 0)
            finish(w, &w->jobs[i]);
}

/* ---- what happens ---- */

static void cancel(world *w, job *j)
{
    test_stage_cancel(&w->stage, j->reply);
    j->cancelled = true;
}

static test_decode_answer before_decode(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    static const test_decode_answer faults[] = { TEST_DECODE_FAILS, TEST_DECODE_FAILS_INSIDE, TEST_DECODE_NO_ROOM };
    world *w = user_data;

    (void)watch, (void)rows, (void)n_rows;
    if (w->cancels_inside && pick(w, 200) == 0) /* everybody at once: the engine breaks off */
        for (size_t i = 0; i < JOBS_MAX; i++)
            if (w->jobs[i].reply && w->jobs[i].reply->request)
                cancel(w, &w->jobs[i]);
    if (w->n_faults_of == 0 || pick(w, w->n_faults_of) > 0)
        return TEST_DECODE_GOES;
    return faults[pick(w, 3)];
}

/* A draft model fails seldom, because it is not asked any more after that. */
static test_decode_answer before_draft(test_watch *watch, const hth_batch_row *rows, size_t n_rows, void *user_data)
{
    world *w = user_data;

    (void)watch, (void)rows, (void)n_rows;
    if (w->n_faults_of == 0 || pick(w, w->n_faults_of) > 0)
        return TEST_DECODE_GOES;
    return pick(w, 20) == 0 ? TEST_DECODE_FAILS_INSIDE : TEST_DECODE_NO_ROOM;
}

static bool refuses(test_watch *watch, void *user_data)
{
    world *w = user_data;

    (void)watch;
    return w->n_faults_of > 0 && pick(w, w->n_faults_of) == 0;
}

static job *any_open(world *w)
{
    job *j = &w->jobs[pick(w, JOBS_MAX)];

    return j->reply && j->reply->request ? j : NULL;
}

static void disturb(world *w)
{
    job *j = any_open(w);

    switch (pick(w, 120)) {
    case 0: hth_batcher_save(w->stage.batcher, HEARTH_SAVE_EVICT); break;
    case 1: hth_batcher_save(w->stage.batcher, HEARTH_SAVE_SHUTDOWN); break;
    case 2:
    case 3:
        if (j)
            cancel(w, j);
        break;
    case 4:
    case 5:
        if (j) {
            atomic_store(&j->reply->request->paused, true);
            j->was_paused = true;
        }
        break;
    case 6:
    case 7:
    case 8:
        for (size_t i = 0; i < JOBS_MAX; i++)
            if (w->jobs[i].reply && w->jobs[i].reply->request)
                atomic_store(&w->jobs[i].reply->request->paused, false);
        break;
    case 9: test_stage_pass(&w->stage, pick(w, 50)); break;
    default: break;
    }
}

static void come(world *w)
{
    unsigned n = w->stage.n_open < w->n_busy && pick(w, 3) == 0 ? 1 + (unsigned)pick(w, 3) : 0;

    for (size_t i = 0; i < JOBS_MAX && n > 0; i++)
        if (!w->jobs[i].reply) {
            submit(w, &w->jobs[i]);
            n--;
        }
}

/* What was cancelled before a tick has ended with it; so has what is past its deadline. */
static void expect_due_ended(const world *w, const bool *cancelled, uint64_t now_ns)
{
    for (size_t i = 0; i < JOBS_MAX; i++) {
        const job *j = &w->jobs[i];

        if (!j->reply || j->reply->n_done > 0)
            continue;
        assert_false(cancelled[i]);
        if (j->request.deadline_ms > 0)
            assert_true(now_ns - j->submitted_ns < (uint64_t)j->request.deadline_ms * 1000000u);
    }
}

static void take_tick(world *w)
{
    bool cancelled[JOBS_MAX];
    uint64_t now_ns = w->stage.now_ns;
    uint64_t n_ticks = w->stage.batcher->n_ticks, n_ended = w->stage.batcher->n_ended;
    bool busy;

    for (size_t i = 0; i < JOBS_MAX; i++)
        cancelled[i] = w->jobs[i].reply && w->jobs[i].cancelled;
    busy = test_stage_tick(&w->stage);
    expect_due_ended(w, cancelled, now_ns);
    if (w->spares_room)
        assert_int_equal(w->stage.watch.n_no_room, 0);
    finish_all(w);
    /* Nothing to do means: nothing happens. But where there are files, others may write rows that are waited for. */
    if (!busy && !w->directory && hth_batcher_wake_ns(w->stage.batcher) > w->stage.now_ns) {
        n_ticks = w->stage.batcher->n_ticks;
        n_ended = w->stage.batcher->n_ended;
        (void)test_stage_tick(&w->stage);
        assert_int_equal(w->stage.batcher->n_ticks, n_ticks);
        assert_int_equal(w->stage.batcher->n_ended, n_ended);
        finish_all(w);
    }
    seen.n_ticks++;
}

/* ---- worlds ---- */

/* Prompts begin like earlier ones, for any number of tokens. */
static void plant(world *w)
{
    for (size_t i = 0; i < PROMPTS; i++) {
        size_t n = 1 + pick(w, w->prompt_max);
        size_t shared = 0;

        if (i > 0 && pick(w, 4) > 0) {
            size_t other = pick(w, i);

            shared = 1 + pick(w, w->n_prompts[other]);
            if (pick(w, 2) && shared < n)
                n = shared + pick(w, n - shared) % 40 + 1;
            if (shared > n)
                shared = n;
            memcpy(w->prompts[i], w->prompts[other], shared * sizeof(hearth_token));
        }
        for (size_t k = shared; k < n; k++)
            w->prompts[i][k] = (hearth_token)('a' + pick(w, 26));
        w->n_prompts[i] = n;
    }
}

/* Numbers with which the stub's adapters change nothing, and everything. */
static void make_adapters(world *w)
{
    char *directory = hth_test_directory_new();

    w->adapters[1] = test_stage_adapter(&w->stage, directory, 0, 1);
    w->adapters[2] = test_stage_adapter(&w->stage, directory, 7, 1);
    w->adapters[3] = test_stage_adapter(&w->stage, directory, 7, 0.5f);
    hth_test_directory_remove(directory);
}

static void make_world(world *w)
{
    static const char *const strategies[] = { "decode_maximal", "prefill_priority", "balanced" };
    static const char *const drafts[] = { NULL, "stub:", "stub:errs=3", "stub:errs=2" };
    test_stage_options options = test_stage_options_default();
    char model[64];

    (void)snprintf(model, sizeof(model), "stub:kind=%s%s", w->kind,
                   strcmp(w->kind, "window") == 0   ? pick(w, 2) ? ",window=300" : ",window=40"
                   : strcmp(w->kind, "hybrid") == 0 ? pick(w, 2) ? ",window=30" : ""
                                                    : "");
    options.model = model;
    options.n_ctx = PICK(w, 48, 130, 300, 600, 1100, 1400);
    options.n_batch = PICK(w, 1, 3, 17, 64, 100, 256, 512);
    options.n_parallel = 1 + (uint32_t)pick(w, 9);
    options.n_sequences = options.n_parallel + 1 + (uint32_t)pick(w, 5);
    options.strategy = strategies[pick(w, 3)];
    options.is_deterministic = pick(w, 2);
    options.prefill_chunk = PICK(w, 64, 128, 256);
    options.max_tick_ms = PICK(w, 1, 10, 250);
    options.session_idle_ms = PICK(w, 1, 50, 300000);
    options.stalled_ms = PICK(w, 5, 200, 30000);
    options.aging_ms = PICK(w, 1, 100, 10000);
    options.n_tell = PICK(w, 1, 20, 100, 2048);
    options.idle_cost.cells_max = PICK(w, 0, 100, 400, UINT32_MAX, UINT32_MAX);
    if (pick(w, 4) == 0)
        options.idle_cost.row_ps = options.idle_cost.sequence_ps = PICK(w, 1, 1000, 100000000);
    options.ram_bytes = PICK(w, 0, 200 << 10, 2 << 20, 64 << 20);
    options.resume_wait_ms = PICK(w, 0, 20, 100);
    if (options.ram_bytes > 0 && pick(w, 8) == 0)
        options.directory = w->directory = hth_test_directory_new();
    w->prompt_max = 1 + options.n_ctx * PICK(w, 30, 60, 99) / 100;
    w->n_faults_of = pick(w, 4) ? 0 : 10 + (unsigned)pick(w, 100);
    w->cancels_inside = pick(w, 6) == 0;
    w->spares_room = w->n_faults_of == 0 && !w->cancels_inside;
    w->n_busy = 1 + (unsigned)pick(w, 2 * options.n_parallel + 4);
    if (strcmp(w->kind, "plain") == 0)
        options.draft_model = drafts[pick(w, 4)];
    test_stage_open(&w->stage, &options);
    w->stage.options.model = NULL; /* it was copied */
    w->stage.watch.row_ns = PICK(w, 0, 10000, 1000000);
    w->stage.watch.decode_ns = PICK(w, 0, 0, 2000000);
    w->stage.watch.hooks = (test_watch_hooks){
        .before_decode = before_decode,
        .refuses_set = refuses,
        .user_data = w,
    };
    if (options.draft_model) {
        w->stage.draft_watch.row_ns = PICK(w, 0, 0, 10000);
        w->stage.draft_watch.decode_ns = PICK(w, 0, 0, 20000, 1000000);
        w->stage.draft_watch.hooks = (test_watch_hooks){
            .before_decode = before_draft,
            .refuses_set = refuses,
            .refuses_copy = refuses,
            .user_data = w,
        };
    }
    make_adapters(w);
    plant(w);
    printf("%s: n_ctx %u n_batch %u parallel %u/%u %s ram %llu%s faults 1/%u drafts %s\n", w->kind, options.n_ctx,
           options.n_batch, options.n_parallel, options.n_sequences, options.strategy,
           (unsigned long long)options.ram_bytes, w->directory ? " and disk" : "", w->n_faults_of,
           options.draft_model ? options.draft_model : "of the text");
}

static void run_world(const char *kind, uint64_t seed)
{
    world *w = calloc(1, sizeof(*w));

    assert_non_null(w);
    printf("HTH_WORLD=%llu ", (unsigned long long)seed);
    w->seed = seed;
    w->kind = kind;
    make_world(w);
    (void)fflush(stdout);
    for (unsigned i = 0; i < WORLD_TICKS; i++) {
        come(w);
        disturb(w);
        take_tick(w);
        if (w->stage.n_open == 0)
            test_stage_pass(&w->stage, pick(w, 20));
    }
    for (size_t i = 0; i < JOBS_MAX; i++)
        if (w->jobs[i].reply && w->jobs[i].reply->request)
            atomic_store(&w->jobs[i].reply->request->paused, false);
    test_stage_run(&w->stage);
    finish_all(w);
    for (size_t i = 0; i < ADAPTERS; i++)
        hth_adapter_set_unref(w->adapters[i]);
    test_stage_close(&w->stage);
    free_chains(w);
    hth_test_directory_remove(w->directory);
    free(w);
}

static void run_kind(const char *kind)
{
    uint64_t world_seed = hth_test_number("HTH_WORLD", 0);
    uint64_t n_ticks = hth_test_number("HEARTH_SIMULATION_TICKS", TICKS_DEFAULT) / 4;
    uint64_t seed;

    memset(&seen, 0, sizeof(seen));
    if (world_seed) {
        run_world(kind, world_seed);
        return;
    }
    seed = hth_test_seed();
    while (seen.n_ticks < n_ticks)
        run_world(kind, 1 + hth_test_random(&seed, UINT64_C(1) << 62));
    printf(
        "%s: %llu ticks, %llu requests ended: %llu well, %llu cancelled, %llu out of time, %llu failed with the "
        "engine; %llu preemptions, %llu shared cells, %llu restored rows, %llu sessions went on, %llu with adapters, "
        "%llu of %llu tokens of drafts accepted\n",
        kind, (unsigned long long)seen.n_ticks, (unsigned long long)seen.n_ended, (unsigned long long)seen.n_ok,
        (unsigned long long)seen.n_cancelled, (unsigned long long)seen.n_timed_out, (unsigned long long)seen.n_failed,
        (unsigned long long)seen.n_preempted, (unsigned long long)seen.n_shared, (unsigned long long)seen.n_restored,
        (unsigned long long)seen.n_sessions, (unsigned long long)seen.n_adapted, (unsigned long long)seen.n_accepted,
        (unsigned long long)seen.n_drafted);
    assert_true(seen.n_ok > 0); /* otherwise nothing was tested */
    assert_true(seen.n_shared + seen.n_restored > 0);
    assert_true(seen.n_adapted > 0);
}

TEST(a_reply_is_what_it_is_alone_with_plain_attention)
{
    run_kind("plain");
    if (hth_test_number("HTH_WORLD", 0) == 0)
        assert_true(seen.n_accepted > 0 && seen.n_accepted < seen.n_drafted);
}

TEST(a_reply_is_what_it_is_alone_with_windows)
{
    run_kind("window");
}

TEST(a_reply_is_what_it_is_alone_with_recurrent_state)
{
    run_kind("recurrent");
}

TEST(a_reply_is_what_it_is_alone_with_attention_and_recurrent_state)
{
    run_kind("hybrid");
}
