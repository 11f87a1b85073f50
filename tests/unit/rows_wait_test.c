/*
 * rows_wait_test.c - requests whose missing rows are fetched from elsewhere: who asks, who waits, and for how long
 *
 * The stub engine has a clock of the test's own. "Elsewhere" is another scheduler with a cache in the same directory.
 */
#include <string.h>

#include "hearth.h"
#include "support/api.h"
#include "support/scene.h"

enum { N_BLOCKS = 3, N_PROMPT = N_BLOCKS * HTH_BLOCK_TOKENS + 20, MINUTE_MS = 60000 };

/* What on_missing heard, and what it answers. */
static struct {
    bool answer;
    unsigned n;
    hearth_missing last;
    uint8_t keys[8 * HTH_KEY_BYTES];
} asked;

static bool on_missing(const hearth_missing *missing, void *user_data)
{
    assert_non_null(user_data);
    assert_int_equal(missing->struct_size, sizeof(*missing));
    assert_in_range(missing->n_keys, 1, sizeof(asked.keys) / HTH_KEY_BYTES);
    memcpy(asked.keys, missing->keys, (size_t)missing->n_keys * HTH_KEY_BYTES);
    asked.last = *missing;
    asked.n++;
    return asked.answer;
}

static hearth_request asking(const hearth_token *tokens, size_t n_tokens)
{
    hearth_request request = test_request(tokens, n_tokens, 3);

    request.on_missing = on_missing;
    return request;
}

typedef struct scene {
    char *directory;
    test_stage_options options;
    test_stage stage;
} scene;

static void open_stage(scene *s)
{
    test_stage_open(&s->stage, &s->options);
}

static void set_up(scene *s)
{
    memset(&asked, 0, sizeof(asked));
    asked.answer = true;
    *s = (scene){ .directory = hth_test_directory_new(), .options = with_cache() };
    s->options.directory = s->directory;
}

static void tear_down(scene *s)
{
    hth_test_directory_remove(s->directory);
}

#define SCENE_TEST(name) TEST_WITH(scene, s, name, set_up, tear_down)

/* Another scheduler computes these tokens, and its rows come into the directory. */
static void come_from_elsewhere(const scene *s, const hearth_token *tokens, size_t n_tokens)
{
    hearth_request request = test_request(tokens, n_tokens, 1);
    test_stage elsewhere;

    test_stage_open(&elsewhere, &s->options);
    test_reply_free(run_as_alone(&elsewhere, &request));
    hth_batcher_save(elsewhere.batcher, HEARTH_SAVE_EVICT);
    assert_true(hth_cache_flush(elsewhere.cache, 60000));
    test_stage_close(&elsewhere);
}

/* Ticks until nothing is left to do now. */
static void settle(scene *s)
{
    for (unsigned i = 0; test_stage_tick(&s->stage); i++)
        assert_in_range(i, 0, 1000);
}

static void expect_keys(const scene *s, const hearth_token *tokens, uint32_t n_known, uint32_t n_keys)
{
    assert_int_equal(asked.last.n_known, n_known);
    assert_int_equal(asked.last.n_keys, n_keys);
    for (uint32_t i = 0; i < n_keys; i++) {
        hth_key key;

        assert_true(hth_key_of(&s->stage.place.keyspace, tokens, n_known + (size_t)(i + 1) * HTH_BLOCK_TOKENS, &key));
        assert_memory_equal(asked.keys + (size_t)i * HTH_KEY_BYTES, key.bytes, HTH_KEY_BYTES);
    }
}

/* ---- who asks, and for what ---- */

SCENE_TEST(missing_blocks_are_told_with_their_keys)
{
    hearth_request first = test_request(text, 300, 1), request = asking(text, N_PROMPT);

    asked.answer = false;
    for (unsigned from_rows = 0; from_rows < 2; from_rows++) { /* what is known is in the context, or in rows */
        open_stage(s);
        s->stage.watch.row_ns = 1000;
        request.tokens = first.tokens = from_rows ? other : text;
        test_reply_free(run_as_alone(&s->stage, &first));
        if (from_rows)
            hth_batcher_save(s->stage.batcher, HEARTH_SAVE_EVICT);
        test_reply_free(run_as_alone(&s->stage, &request));
        assert_int_equal(asked.n, from_rows + 1);
        assert_int_equal(asked.last.n_prompt, N_PROMPT);
        expect_keys(s, request.tokens, 256, 2);
        assert_in_range(asked.last.compute_ns, (N_PROMPT - 256) * 1000, (N_PROMPT - 256) * 1002);
        test_stage_close(&s->stage);
    }
}

static void expect_no_question(scene *s, const hearth_request *request)
{
    open_stage(s);
    test_reply_free(run_as_alone(&s->stage, request));
    assert_int_equal(asked.n, 0);
    test_stage_close(&s->stage);
}

SCENE_TEST(nobody_is_asked_for_nothing)
{
    hearth_request request = asking(text, HTH_BLOCK_TOKENS - 1);

    expect_no_question(s, &request); /* too short */
    request = asking(text, N_PROMPT);
    request.no_cache_read = true;
    expect_no_question(s, &request);
    request.no_cache_read = false;
    expect_no_question(s, &request); /* all blocks are known now */
    request.tokens = other;
    s->options.directory = NULL;
    expect_no_question(s, &request); /* no other process could put rows here */
}

/* ---- the wait ---- */

SCENE_TEST(a_request_waits_for_rows_from_elsewhere)
{
    hearth_request request = asking(text, N_PROMPT);
    test_reply *reply;

    open_stage(s);
    reply = submit(&s->stage, &request);
    settle(s);
    assert_int_equal(asked.n, 1);
    assert_int_equal(asked.last.request_id, reply->id);
    expect_keys(s, text, 0, N_BLOCKS);
    assert_int_equal(asked.last.compute_ns, 0);
    come_from_elsewhere(s, text, N_PROMPT);
    settle(s);
    assert_int_equal(s->stage.watch.n_rows, 0); /* that they are there is no reason: more may come */
    hth_batcher_rows_came(reply->request);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, reply, &request);
    assert_true(reply->result->stats->cached_tokens >= N_BLOCKS * HTH_BLOCK_TOKENS);
    assert_true(s->stage.watch.n_rows < HTH_BLOCK_TOKENS);
    assert_int_equal(asked.n, 1);
    test_reply_free(reply);
    test_stage_close(&s->stage);
}

SCENE_TEST(rows_that_come_before_the_answer_are_not_waited_for)
{
    hearth_request request = asking(text, N_PROMPT);
    uint64_t begin_ns;
    test_reply *reply;

    open_stage(s);
    begin_ns = s->stage.now_ns;
    reply = submit(&s->stage, &request);
    hth_batcher_rows_came(reply->request);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, reply, &request);
    assert_int_equal(s->stage.now_ns, begin_ns);
    test_reply_free(reply);
    test_stage_close(&s->stage);
}

SCENE_TEST(the_wait_is_no_longer_than_computing_would_be)
{
    hearth_request first = asking(text, N_PROMPT), second = asking(other, N_PROMPT);
    uint64_t begin_ns;

    open_stage(s);
    s->stage.watch.row_ns = 1000000;
    begin_ns = s->stage.now_ns;
    test_reply_free(run_as_alone(&s->stage, &first)); /* nothing was measured yet */
    assert_in_range((s->stage.now_ns - begin_ns) / 1000000u, MINUTE_MS, MINUTE_MS + 2 * N_PROMPT);
    begin_ns = s->stage.now_ns;
    test_reply_free(run_as_alone(&s->stage, &second));
    assert_int_equal(asked.n, 2);
    assert_in_range((s->stage.now_ns - begin_ns) / 1000000u, 2 * N_PROMPT, 2 * N_PROMPT + 10);
    test_stage_close(&s->stage);
}

SCENE_TEST(a_request_that_waits_for_rows_can_end)
{
    hearth_request request = asking(text, N_PROMPT);
    test_reply *cancelled, *late;

    open_stage(s);
    cancelled = submit(&s->stage, &request);
    settle(s);
    test_stage_cancel(&s->stage, cancelled);
    settle(s);
    expect_ended(cancelled, HEARTH_CANCELLED, HEARTH_FINISH_CANCELLED);
    request.deadline_ms = 70;
    late = submit(&s->stage, &request);
    settle(s);
    assert_int_equal(hth_batcher_wake_ns(s->stage.batcher), s->stage.now_ns + 70000000u);
    test_stage_run(&s->stage);
    expect_ended(late, HEARTH_TIMED_OUT, HEARTH_FINISH_TIMED_OUT);
    assert_int_equal(s->stage.watch.n_rows, 0);
    test_reply_free(cancelled);
    test_reply_free(late);
    test_stage_close(&s->stage);
}

SCENE_TEST(a_request_that_waits_for_rows_holds_no_cells)
{
    hearth_request request = asking(text, N_PROMPT), beside = test_request(other, N_PROMPT, 3);
    test_reply *reply, *another;

    s->options.n_ctx = 1024;
    open_stage(s);
    reply = submit(&s->stage, &request);
    settle(s);
    another = submit(&s->stage, &beside);
    settle(s);
    expect_as_alone(&s->stage, another, &beside); /* both together have no room */
    assert_int_equal(reply->n_done, 0);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, reply, &request);
    test_reply_free(reply);
    test_reply_free(another);
    test_stage_close(&s->stage);
}

/* The cells were given to another: the request goes back to the line, and is not asked again. */
SCENE_TEST(a_wait_may_end_where_there_is_no_room)
{
    hearth_request request = asking(text, N_PROMPT), beside = test_request(other, N_PROMPT, 100);
    test_reply *reply, *another;

    s->options.n_ctx = 1024;
    open_stage(s);
    reply = submit(&s->stage, &request);
    settle(s);
    another = submit(&s->stage, &beside);
    test_stage_run_until(&s->stage, another, 5);
    hth_batcher_rows_came(reply->request);
    test_stage_run_until(&s->stage, another, 10);
    assert_int_equal(s->stage.batcher->line.n, 1);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, reply, &request);
    expect_as_alone(&s->stage, another, &beside);
    assert_int_equal(asked.n, 1);
    test_reply_free(reply);
    test_reply_free(another);
    test_stage_close(&s->stage);
}

SCENE_TEST(a_request_that_waits_for_rows_can_be_preempted)
{
    hearth_request request = asking(text, N_PROMPT), high = test_request(other, 100, 3);
    test_reply *reply, *first;
    uint64_t begin_ns;

    s->options.n_parallel = 1;
    open_stage(s);
    begin_ns = s->stage.now_ns;
    high.priority = 1;
    reply = submit(&s->stage, &request);
    settle(s);
    first = submit(&s->stage, &high);
    settle(s);
    expect_as_alone(&s->stage, first, &high);
    assert_int_equal(reply->n_done, 0);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, reply, &request);
    assert_int_equal(asked.n, 1);
    assert_int_equal((s->stage.now_ns - begin_ns) / 1000000u, MINUTE_MS); /* the wait went on meanwhile */
    test_reply_free(reply);
    test_reply_free(first);
    test_stage_close(&s->stage);
}

/* ---- others with the same beginning ---- */

enum { AGENTS = 3 };

SCENE_TEST(requests_at_once_fetch_what_they_share_once)
{
    hearth_token *prompts[AGENTS];
    hearth_request requests[AGENTS];
    test_reply *replies[AGENTS];

    open_stage(s);
    for (unsigned i = 0; i < AGENTS; i++) {
        prompts[i] = prompt_of(2 * HTH_BLOCK_TOKENS, 20, i);
        requests[i] = asking(prompts[i], 2 * HTH_BLOCK_TOKENS + 20);
        replies[i] = submit(&s->stage, &requests[i]);
    }
    settle(s);
    assert_int_equal(asked.n, 1);
    come_from_elsewhere(s, text, 2 * HTH_BLOCK_TOKENS);
    hth_batcher_rows_came(replies[0]->request);
    test_stage_run(&s->stage);
    assert_int_equal(asked.n, 1);
    assert_int_equal(s->stage.watch.n_rows, AGENTS * (20 + 2));
    for (unsigned i = 0; i < AGENTS; i++) {
        expect_as_alone(&s->stage, replies[i], &requests[i]);
        assert_int_equal(replies[i]->result->stats->cached_tokens, 2 * HTH_BLOCK_TOKENS);
        test_reply_free(replies[i]);
        free(prompts[i]);
    }
    test_stage_close(&s->stage);
}

SCENE_TEST(a_request_asks_for_what_follows_the_shared_beginning)
{
    hearth_token *longer = prompt_of(2 * HTH_BLOCK_TOKENS, HTH_BLOCK_TOKENS, 1);
    hearth_request first = asking(text, 2 * HTH_BLOCK_TOKENS), second = asking(longer, 3 * HTH_BLOCK_TOKENS);
    test_reply *one, *two;

    open_stage(s);
    one = submit(&s->stage, &first);
    two = submit(&s->stage, &second);
    settle(s);
    assert_int_equal(asked.n, 1);
    come_from_elsewhere(s, text, 2 * HTH_BLOCK_TOKENS);
    hth_batcher_rows_came(one->request);
    settle(s);
    expect_as_alone(&s->stage, one, &first);
    assert_int_equal(asked.n, 2);
    assert_int_equal(asked.last.request_id, two->id);
    expect_keys(s, longer, 2 * HTH_BLOCK_TOKENS, 1);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, two, &second);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&s->stage);
    free(longer);
}

SCENE_TEST(the_next_asks_when_the_first_is_cancelled)
{
    hearth_request request = asking(text, N_PROMPT);
    test_reply *one, *two;

    open_stage(s);
    one = submit(&s->stage, &request);
    two = submit(&s->stage, &request);
    settle(s);
    assert_int_equal(asked.n, 1);
    test_stage_cancel(&s->stage, one);
    settle(s);
    assert_int_equal(asked.n, 2);
    assert_int_equal(asked.last.request_id, two->id);
    test_stage_run(&s->stage);
    expect_as_alone(&s->stage, two, &request);
    test_reply_free(one);
    test_reply_free(two);
    test_stage_close(&s->stage);
}

/* ---- by the public interface ---- */

typedef struct caller {
    hearth_model *model;
    unsigned n;
} caller;

static bool answer_at_once(const hearth_missing *missing, void *user_data)
{
    caller *c = user_data;

    c->n++;
    assert_int_equal(hearth_rows_came(c->model, missing->request_id, NULL), HEARTH_OK);
    return true;
}

SCENE_TEST(replies_to_one_prompt_ask_once)
{
    hearth_runtime_options options = hth_test_runtime_options(s->directory);
    hearth_runtime *runtime = hth_test_runtime_open(&options);
    caller c = { .model = hth_test_model_load(runtime, "stub:", NULL) };
    hearth_request request = hearth_request_default();
    const hearth_result *results[AGENTS];
    hearth_events *events;
    uint64_t id;

    request.tokens = text;
    request.n_tokens = 2 * HTH_BLOCK_TOKENS;
    request.n_predict = 3;
    request.n = AGENTS;
    request.on_missing = answer_at_once;
    request.user_data = &c;
    assert_int_equal(hearth_complete(c.model, &request, results, NULL), HEARTH_OK);
    assert_int_equal(c.n, 1);
    for (unsigned i = 0; i < AGENTS; i++)
        hearth_result_unref(results[i]);
    request.tokens = other;
    assert_int_equal(hearth_events_open(NULL, &events, NULL), HEARTH_OK);
    request.events = events;
    assert_int_equal(hearth_submit(c.model, &request, &id, NULL), HEARTH_OK);
    for (unsigned i = 0; i < AGENTS; i++)
        assert_int_equal(hearth_wait(c.model, id + i, 60000, NULL), HEARTH_OK);
    assert_int_equal(c.n, 2);
    assert_int_equal(hearth_rows_came(c.model, id, NULL), HEARTH_NOT_FOUND);
    assert_int_equal(hearth_rows_came(NULL, id, NULL), HEARTH_MISUSE);
    hearth_events_close(events);
    hearth_model_unref(c.model);
    hearth_runtime_close(runtime);
}

GROUP(with_texts, make_texts, NULL)
