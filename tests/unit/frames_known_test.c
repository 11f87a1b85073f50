/*
 * frames_known_test.c - what is remembered of frames, for a worker that goes on with a reply
 */
#include "support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>

#include "wire/frames.h"
#include "worker/worker_known.h"

/* Tokens known of one reply, in all frames. */
static size_t count_known(const hth_buffer *known, uint32_t reply, size_t *n_frames_out, bool *has_ended_out)
{
    size_t n = 0;

    *n_frames_out = 0;
    *has_ended_out = false;
    for (size_t at = 0, n_used; at < known->n; at += n_used) {
        hth_frame frame;

        assert_int_equal(hth_frame_read(known->text + at, known->n - at, &frame, &n_used), HTH_FRAME_OK);
        assert_true(frame.kind == HTH_FRAME_STEP && frame.n_bytes == 0);
        ++*n_frames_out;
        if (frame.reply != reply)
            continue;
        for (uint32_t i = 0; i < frame.n_tokens; i++)
            assert_int_equal(hth_frame_token(&frame, i), (hearth_token)(n++ % 1000));
        *has_ended_out = frame.reply_has_ended;
    }
    return n;
}

static void add_known(hth_buffer *known, size_t *last, uint32_t reply, bool has_ended, uint32_t first, uint32_t n)
{
    hearth_token *some = malloc((n + 1) * sizeof(*some));
    hth_buffer step = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    assert_non_null(some);
    for (uint32_t i = 0; i < n; i++)
        some[i] = (hearth_token)((first + i) % 1000);
    hth_frame_add_step(&step, reply, has_ended ? HTH_STEP_ENDS : 0, &(hth_frame_tokens){ .ids = some, .n = n },
                       "left out", 8);
    assert_int_equal(hth_frame_read(step.text, step.n, &frame, &n_used), HTH_FRAME_OK);
    hth_frame_add_known(known, last, &frame);
    hth_buffer_deinit(&step);
    free(some);
}

TEST(what_is_known_of_one_reply_is_one_frame)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    for (uint32_t i = 0; i < 500; i++)
        add_known(&known, &last, 5, i == 499, 2 * i, 2);
    assert_int_equal(count_known(&known, 5, &n_frames, &has_ended), 1000);
    assert_int_equal(n_frames, 1);
    assert_true(has_ended);
    hth_buffer_deinit(&known);
}

TEST(the_last_state_of_the_sampler_is_known)
{
    static const float states[] = { 1.5f, NAN, -0.1f };
    hth_buffer known = { .text = NULL };
    size_t last = 0;

    for (int i = 0; i < 3; i++) {
        const hearth_token token = i;
        hth_buffer step = { .text = NULL };
        hth_api_error error = { .kind = HTH_API_NO_ERROR };
        hth_frame frame;
        size_t n_used;
        hth_known read;

        hth_frame_add_step(
            &step, 0, i == 2 ? HTH_STEP_ENDS : 0,
            &(hth_frame_tokens){ .ids = &token, .n = 1, .has_state = !isnan(states[i]), .state = states[i] }, "text",
            4);
        assert_int_equal(hth_frame_read(step.text, step.n, &frame, &n_used), HTH_FRAME_OK);
        assert_int_equal(n_used, step.n);
        assert_int_equal(frame.n_bytes, 4);
        hth_frame_add_known(&known, &last, &frame);
        assert_true(hth_known_read(known.text, known.n, 0, 1, &read, &error));
        assert_int_equal(read.replies[0].n, i + 1);
        assert_int_equal(read.replies[0].tokens[i], i);
        assert_true(isnan(states[i]) ? isnan(read.replies[0].state) : read.replies[0].state == states[i]);
        assert_int_equal(read.replies[0].has_ended, i == 2);
        hth_known_deinit(&read);
        hth_buffer_deinit(&step);
    }
    hth_buffer_deinit(&known);
}

TEST(what_is_known_of_several_keeps_its_order)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    for (uint32_t i = 0; i < 100; i++)
        for (uint32_t reply = 0; reply < 3; reply++)
            add_known(&known, &last, reply, i == 99 && reply == 1, i, 1);
    for (uint32_t reply = 0; reply < 3; reply++) {
        assert_int_equal(count_known(&known, reply, &n_frames, &has_ended), 100);
        assert_int_equal(has_ended, reply == 1);
    }
    assert_int_equal(n_frames, 300);
    hth_buffer_deinit(&known);
}

/* The frames of other nodes come first. Each run has its own. */
TEST(tokens_of_other_nodes_are_counted)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL }, more = { .text = NULL };
    size_t last = 0, n_elsewhere;
    hth_known known;

    add_known(&out, &last, 0, false, 0, 3);
    add_known(&out, &last, 2, false, 0, 2);
    n_elsewhere = out.n;
    last = 0;
    add_known(&more, &last, 0, false, 3, 4);
    add_known(&more, &last, 1, true, 0, 1);
    hth_buffer_add(&out, more.text, more.n);
    assert_true(hth_known_read(out.text, out.n, n_elsewhere, 3, &known, &error));
    assert_int_equal(hth_known_at(&known, 0)->n, 7);
    assert_int_equal(hth_known_at(&known, 0)->n_elsewhere, 3);
    assert_int_equal(hth_known_at(&known, 1)->n, 1);
    assert_int_equal(hth_known_at(&known, 1)->n_elsewhere, 0);
    assert_int_equal(hth_known_at(&known, 2)->n, 2);
    assert_int_equal(hth_known_at(&known, 2)->n_elsewhere, 2);
    hth_known_deinit(&known);
    hth_buffer_deinit(&out);
    hth_buffer_deinit(&more);
}

TEST(an_end_without_tokens_is_known_too)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    add_known(&known, &last, 1, false, 0, 3);
    add_known(&known, &last, 1, true, 3, 0);
    assert_int_equal(count_known(&known, 1, &n_frames, &has_ended), 3);
    assert_true(has_ended && n_frames == 1);
    hth_buffer_deinit(&known);
}

TEST(what_was_cached_is_known_beside_the_tokens)
{
    const hth_frame cached = { .kind = HTH_FRAME_CACHED, .reply = 2, .n_cached = 733 };
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL };
    hth_known known;
    size_t last = 0;

    add_known(&out, &last, 2, false, 0, 3);
    hth_frame_add_known(&out, &last, &cached);
    add_known(&out, &last, 2, false, 3, 2);
    add_known(&out, &last, 2, true, 5, 2);
    assert_true(hth_known_read(out.text, out.n, 0, 3, &known, &error));
    assert_int_equal(hth_known_at(&known, 2)->n, 7);
    for (int i = 0; i < 7; i++)
        assert_int_equal(known.replies[2].tokens[i], i);
    assert_true(hth_known_at(&known, 2)->has_ended);
    assert_true(hth_known_at(&known, 2)->has_cached);
    assert_int_equal(hth_known_at(&known, 2)->n_cached, 733);
    assert_false(hth_known_at(&known, 1)->has_cached);
    assert_false(hth_known_at(&known, 3)->has_cached);
    hth_known_deinit(&known);
    hth_buffer_deinit(&out);
}

static void add_likely(hth_buffer *known, size_t *last, hearth_token first, uint32_t n, uint32_t n_logprobs)
{
    hearth_token *ids = calloc(n + 1, sizeof(*ids));
    hearth_logprob *logprobs = calloc((size_t)n * n_logprobs + 1, sizeof(*logprobs));
    hth_buffer step = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    for (uint32_t i = 0; i < n; i++) {
        ids[i] = first + (hearth_token)i;
        for (uint32_t k = 0; k < n_logprobs; k++)
            logprobs[i * n_logprobs + k] =
                (hearth_logprob){ .token = ids[i] + (hearth_token)k, .logprob = -(float)(ids[i] + 1) };
    }
    hth_frame_add_step(&step, 0, 0,
                       &(hth_frame_tokens){ .ids = ids, .n = n, .logprobs = logprobs, .n_logprobs = n_logprobs }, NULL,
                       0);
    assert_int_equal(hth_frame_read(step.text, step.n, &frame, &n_used), HTH_FRAME_OK);
    hth_frame_add_known(known, last, &frame);
    hth_buffer_deinit(&step);
    free(ids);
    free(logprobs);
}

static void expect_likely(const hth_known *known, uint32_t i, bool is_told)
{
    uint32_t n = 0;
    const hearth_logprob *logprobs = hth_known_logprobs(known, 0, i, &n);

    if (!is_told) {
        assert_true(!logprobs || isnan(logprobs[0].logprob));
        return;
    }
    assert_non_null(logprobs);
    assert_int_equal(n, 3);
    for (uint32_t k = 0; k < n; k++)
        assert_true(logprobs[k].token == (hearth_token)(i + k) && logprobs[k].logprob == -(float)(i + 1));
}

/* Of a stream only those that have not left are told: here, and there. */
TEST(log_probabilities_are_known_of_the_tokens_that_they_were_told_of)
{
    static const struct {
        uint32_t n;
        bool is_told;
    } steps[] = { { 0, true }, { 40, false }, { 3, true }, { 500, false },
                  { 1, true }, { 0, true },   { 2, true }, { 1, false } };
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL };
    hth_known known;
    size_t last = 0;
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        add_likely(&out, &last, (hearth_token)n, steps[i].n, steps[i].is_told ? 3 : 0);
        n += steps[i].n;
    }
    assert_true(hth_known_read(out.text, out.n, 0, 1, &known, &error));
    assert_int_equal(hth_known_at(&known, 0)->n, n);
    n = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        for (uint32_t k = 0; k < steps[i].n; k++, n++) {
            assert_int_equal(known.replies[0].tokens[n], n);
            expect_likely(&known, n, steps[i].is_told);
        }
    assert_null(hth_known_logprobs(&known, 0, n, &n));
    assert_null(hth_known_logprobs(&known, 1, 0, &n));
    hth_known_deinit(&known);
    hth_buffer_deinit(&out);
}

/* It came before the tokens that did not come, and belongs to an end that was another. */
TEST(the_outcome_of_a_reply_counts_once_it_has_ended)
{
    const hth_frame outcome = { .kind = HTH_FRAME_OUTCOME, .reply = 0, .outcome = { .figures.n_reply_tokens = 12 } };
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer out = { .text = NULL };
    hth_known known;
    size_t last = 0;

    add_known(&out, &last, 0, false, 0, 3);
    hth_frame_add_known(&out, &last, &outcome);
    assert_true(hth_known_read(out.text, out.n, 0, 1, &known, &error));
    assert_null(hth_known_outcome(&known, 0));
    hth_known_deinit(&known);
    add_known(&out, &last, 0, true, 3, 1);
    assert_true(hth_known_read(out.text, out.n, 0, 1, &known, &error));
    assert_non_null(hth_known_outcome(&known, 0));
    assert_int_equal(hth_known_outcome(&known, 0)->figures.n_reply_tokens, 12);
    assert_null(hth_known_outcome(&known, 1));
    hth_known_deinit(&known);
    hth_buffer_deinit(&out);
}

TEST(frames_of_what_is_known_are_bounded)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames, n = 0;
    bool has_ended;

    for (int i = 0; i < 12; i++, n += 100000)
        add_known(&known, &last, 0, false, (uint32_t)n, 100000);
    assert_int_equal(count_known(&known, 0, &n_frames, &has_ended), n);
    assert_true(n_frames > 4 && n_frames <= 12);
    hth_buffer_deinit(&known);
}
