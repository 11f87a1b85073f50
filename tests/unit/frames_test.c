/*
 * frames_test.c - frames as they are written, read in pieces, and refused
 */
#include "support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "server/frames.h"

static const hearth_token tokens[] = { 0, 1, -1, INT32_MAX, INT32_MIN };
enum { N_TOKENS = 5 };

/* Read the frame at the text's beginning, from memory that ends where n does. */
static hth_frame_result read_exactly(const char *text, size_t n, hth_frame *out, size_t *used_out)
{
    char *exact = malloc(n ? n : 1);
    hth_frame_result result;

    assert_non_null(exact);
    memcpy(exact, text, n);
    result = hth_frame_read(exact, n, out, used_out);
    free(exact);
    return result;
}

static void what_was_written_is_read(void **state)
{
    const hth_frame_summary summary = { .status = 200,
                                        .n_prompt_tokens = 1,
                                        .n_cached_tokens = 2,
                                        .n_reply_tokens = 3,
                                        .hit = 4,
                                        .tier = 5,
                                        .miss = 6,
                                        .finish = 7,
                                        .queue_ms = 0.5,
                                        .restore_ms = 1e9,
                                        .prefill_ms = -1,
                                        .ttft_ms = 3.25,
                                        .decode_ms = 1e-9 };
    hth_buffer out = { .text = NULL };
    hth_frame frame;
    size_t n_used, at = 0;

    (void)state;
    hth_frame_add_head(&out, 429, true, 77, "text/event-stream; charset=utf-8");
    hth_frame_add_step(&out, 127, true, tokens, N_TOKENS, "a\0b", 3);
    hth_frame_add_step(&out, 0, false, NULL, 0, NULL, 0);
    hth_frame_add_end(&out, &summary);
    assert_int_equal(hth_frame_read(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_HEAD);
    assert_int_equal(frame.status, 429);
    assert_true(frame.is_stream);
    assert_int_equal(frame.retry_after_s, 77);
    assert_string_equal(frame.content_type, "text/event-stream; charset=utf-8");
    at += n_used;
    assert_int_equal(hth_frame_read(out.text + at, out.n - at, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_STEP);
    assert_int_equal(frame.reply, 127);
    assert_true(frame.reply_has_ended);
    assert_int_equal(frame.n_tokens, N_TOKENS);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        assert_int_equal(hth_frame_token(&frame, i), tokens[i]);
    assert_int_equal(frame.n_bytes, 3);
    assert_memory_equal(frame.bytes, "a\0b", 3);
    at += n_used;
    assert_int_equal(hth_frame_read(out.text + at, out.n - at, &frame, &n_used), HTH_FRAME_OK);
    assert_true(frame.kind == HTH_FRAME_STEP && !frame.reply_has_ended && frame.n_tokens == 0 && frame.n_bytes == 0);
    at += n_used;
    assert_int_equal(hth_frame_read(out.text + at, out.n - at, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_END);
    assert_memory_equal(&frame.summary, &summary, sizeof(summary));
    assert_int_equal(at + n_used, out.n);
    hth_buffer_deinit(&out);
}

static void a_content_type_that_is_too_long_is_cut(void **state)
{
    char type[200];
    hth_buffer out = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    (void)state;
    memset(type, 'x', sizeof(type) - 1);
    type[sizeof(type) - 1] = '\0';
    hth_frame_add_head(&out, 200, false, 0, type);
    assert_int_equal(hth_frame_read(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(strlen(frame.content_type), 63);
    hth_buffer_deinit(&out);
}

static void a_frame_in_part_is_waited_for(void **state)
{
    hth_buffer out = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    (void)state;
    hth_frame_add_step(&out, 3, false, tokens, N_TOKENS, "bytes", 5);
    for (size_t n = 0; n < out.n; n++)
        assert_int_equal(read_exactly(out.text, n, &frame, &n_used), HTH_FRAME_PART);
    assert_int_equal(read_exactly(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    hth_buffer_deinit(&out);
}

static void assert_bad(const void *bytes, size_t n)
{
    hth_frame frame = { .kind = HTH_FRAME_END };
    size_t n_used = 99;

    assert_int_equal(read_exactly(bytes, n, &frame, &n_used), HTH_FRAME_BAD);
    assert_true(frame.kind == HTH_FRAME_END && n_used == 99); /* written on success only */
}

static void what_is_no_frame_is_refused(void **state)
{
    (void)state;
    assert_bad("\0\0\0\0\0", 5);                              /* a kind that is none */
    assert_bad("\0\0\0\0\4", 5);                              /* likewise */
    assert_bad("\1\0\0\4\2", 5);                              /* longer than any */
    assert_bad("\7\0\0\0\1\xc8\0\0\0\0\0\0", 12);             /* a head that is too short */
    assert_bad("\x8\0\0\0\1\xc7\0\0\0\0\0\0\0", 13);          /* status 199 */
    assert_bad("\xa\0\0\0\1\xc8\0\0\0\0\0\0\0a\0", 15);       /* a type with an end in it */
    assert_bad("\xb\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0", 16);      /* a step that is too short */
    assert_bad("\xf\0\0\0\2\0\0\0\0\0\0\0\0\1\0\0\0abc", 20); /* a token that is not there */
    assert_bad("\xf\0\0\0\2\0\0\0\0\0\0\0\0\xff\xff\xff\xff"
               "abc",
               20);               /* many */
    assert_bad("\1\0\0\0\3x", 6); /* an end of another size */
}

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
    hth_frame_add_step(&step, reply, has_ended, some, n, "left out", 8);
    assert_int_equal(hth_frame_read(step.text, step.n, &frame, &n_used), HTH_FRAME_OK);
    hth_frame_add_known(known, last, &frame);
    hth_buffer_deinit(&step);
    free(some);
}

static void what_is_known_of_one_reply_is_one_frame(void **state)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    (void)state;
    for (uint32_t i = 0; i < 500; i++)
        add_known(&known, &last, 5, i == 499, 2 * i, 2);
    assert_int_equal(count_known(&known, 5, &n_frames, &has_ended), 1000);
    assert_int_equal(n_frames, 1);
    assert_true(has_ended);
    hth_buffer_deinit(&known);
}

static void what_is_known_of_several_keeps_its_order(void **state)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    (void)state;
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

static void an_end_without_tokens_is_known_too(void **state)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames;
    bool has_ended;

    (void)state;
    add_known(&known, &last, 1, false, 0, 3);
    add_known(&known, &last, 1, true, 3, 0);
    assert_int_equal(count_known(&known, 1, &n_frames, &has_ended), 3);
    assert_true(has_ended && n_frames == 1);
    hth_buffer_deinit(&known);
}

static void frames_of_what_is_known_are_bounded(void **state)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_frames, n = 0;
    bool has_ended;

    (void)state;
    for (int i = 0; i < 12; i++, n += 100000)
        add_known(&known, &last, 0, false, (uint32_t)n, 100000);
    assert_int_equal(count_known(&known, 0, &n_frames, &has_ended), n);
    assert_true(n_frames > 4 && n_frames <= 12);
    hth_buffer_deinit(&known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_content_type_that_is_too_long_is_cut),
        cmocka_unit_test(a_frame_in_part_is_waited_for),
        cmocka_unit_test(what_is_no_frame_is_refused),
        cmocka_unit_test(what_is_known_of_one_reply_is_one_frame),
        cmocka_unit_test(what_is_known_of_several_keeps_its_order),
        cmocka_unit_test(an_end_without_tokens_is_known_too),
        cmocka_unit_test(frames_of_what_is_known_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
