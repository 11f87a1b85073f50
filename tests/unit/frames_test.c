/*
 * frames_test.c - frames come out as they went in, and what is none is told from what is not whole yet
 */
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/support.h"
#include "wire/frames.h"

static const hearth_token tokens[] = { 0, 1, -1, 2147483647, 65536 };

static const hearth_logprob logprobs[] = {
    { 7, -0.5f }, { 8, -1e30f }, { 9, 0.0f }, { -1, -3.25f }, { 2147483647, -1 }, { 0, 0 },
};

static const hth_frame_outcome outcome = {
    .finish = 1,
    .stop_number = 2,
    .figures.n_prompt_tokens = 3,
    .figures.n_cached_tokens = 4,
    .figures.n_reply_tokens = 5,
    .figures.hit = 6,
    .figures.tier = 7,
    .figures.miss = 8,
    .n_finish_tokens = UINT32_MAX,
    .figures.prepare_ms = 1e9,
    .figures.queue_ms = 1.5,
    .figures.restore_ms = -2.5,
    .figures.prefill_ms = 1e300,
    .figures.ttft_ms = 1e-300,
    .figures.decode_ms = 4,
    .finish_key = { 1, 2, [31] = 255 },
};

/* One frame of each kind, one behind the other. */
static hth_buffer sample(void)
{
    const hth_frame_summary summary = {
        .status = 200,
        .figures.n_prompt_tokens = 1,
        .figures.n_cached_tokens = 2,
        .figures.n_reply_tokens = 3,
        .figures.hit = 4,
        .figures.tier = 5,
        .figures.miss = 6,
        .figures.left_at = 10,
        .figures.slot = 11,
        .finish = 7,
        .figures.prepare_ms = 0.125,
        .figures.queue_ms = 0.5,
        .figures.restore_ms = -1e300,
        .figures.prefill_ms = 1e-300,
        .figures.ttft_ms = 3.25,
        .figures.decode_ms = 1e9,
    };
    hth_buffer out = { .text = NULL };

    hth_frame_add_head(&out, 503, true, 17, "text/event-stream", NULL);
    hth_frame_add_step(&out, 127, 0, &(hth_frame_tokens){ .ids = tokens, .n = 5 }, "data: \0x\n\n", 10);
    hth_frame_add_step(&out, 0, HTH_STEP_ENDS, NULL, NULL, 0);
    hth_frame_add_step(&out, 0, HTH_STEP_FAILS, NULL, "error", 5);
    hth_frame_add_cached(&out, 126, UINT32_MAX);
    hth_frame_add_step(&out, 3, 0, &(hth_frame_tokens){ .ids = tokens, .n = 2, .logprobs = logprobs, .n_logprobs = 3 },
                       "x", 1);
    hth_frame_add_bytes(&out, "some\0bytes", 10);
    hth_frame_add_record(&out, HTH_RECORD_BEGUN, "kept", 4);
    hth_frame_add_outcome(&out, 125, &outcome);
    hth_frame_add_work(&out, 4 << 20);
    hth_frame_add_broken(&out, true, UINT64_C(0x0123456789abcdef));
    hth_frame_add_broken(&out, false, UINT64_MAX);
    hth_frame_add_end(&out, &summary);
    assert_false(out.failed);
    return out;
}

TEST(what_was_written_is_read)
{
    hth_buffer out = sample(), again = { .text = NULL };
    const char *at = out.text;
    size_t n = out.n, n_used;
    hth_frame frame;

    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_HEAD);
    assert_int_equal(frame.status, 503);
    assert_true(frame.is_stream);
    assert_int_equal(frame.retry_after_s, 17);
    assert_string_equal(frame.content_type, "text/event-stream");
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_STEP);
    assert_int_equal(frame.reply, 127);
    assert_false(frame.reply_has_ended);
    assert_int_equal(frame.n_tokens, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(hth_frame_token(&frame, i), tokens[i]);
    assert_int_equal(frame.n_bytes, 10);
    assert_memory_equal(frame.bytes, "data: \0x\n\n", 10);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_true(frame.reply_has_ended && !frame.has_failed);
    assert_int_equal(frame.n_tokens + frame.n_bytes, 0);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_true(!frame.reply_has_ended && frame.has_failed);
    assert_int_equal(frame.n_bytes, 5);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_CACHED);
    assert_int_equal(frame.reply, 126);
    assert_int_equal(frame.n_cached, UINT32_MAX);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.n_tokens, 2);
    assert_int_equal(frame.n_logprobs, 3);
    assert_int_equal(hth_frame_token(&frame, 1), tokens[1]);
    for (uint32_t i = 0; i < 6; i++) {
        hearth_logprob logprob = hth_frame_logprob(&frame, i / 3, i % 3);

        assert_true(logprob.token == logprobs[i].token && logprob.logprob == logprobs[i].logprob);
    }
    assert_true(frame.n_bytes == 1 && frame.bytes[0] == 'x');
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_BYTES);
    assert_int_equal(frame.n_bytes, 10);
    assert_memory_equal(frame.bytes, "some\0bytes", 10);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_RECORD);
    assert_true(frame.is_last && frame.has_begun && frame.n_bytes == 4 && memcmp(frame.bytes, "kept", 4) == 0);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_OUTCOME);
    assert_int_equal(frame.reply, 125);
    hth_frame_add_outcome(&again, 125, &frame.outcome); /* the bytes, because structs have padding */
    assert_int_equal(again.n, n_used);
    assert_memory_equal(again.text, at, n_used);
    hth_buffer_deinit(&again);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_WORK);
    assert_int_equal(frame.n_worked, 4 << 20);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_BROKEN);
    assert_true(frame.has_died && frame.generation == UINT64_C(0x0123456789abcdef));
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_BROKEN);
    assert_true(!frame.has_died && frame.generation == UINT64_MAX);
    at += n_used;
    n -= n_used;
    assert_int_equal(hth_frame_read(at, n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.kind, HTH_FRAME_END);
    assert_int_equal(n_used, n);
    assert_int_equal(frame.summary.finish, 7);
    assert_int_equal(frame.summary.figures.n_reply_tokens, 3);
    assert_int_equal(frame.summary.figures.left_at, 10);
    assert_int_equal(frame.summary.figures.slot, 11);
    assert_true(frame.summary.figures.restore_ms == -1e300 && frame.summary.figures.prefill_ms == 1e-300);
    assert_true(frame.summary.figures.decode_ms == 1e9);
    hth_buffer_deinit(&out);
}

/* From memory that ends exactly there, so that a byte too many is seen. */
static hth_frame_result read_copy(const char *bytes, size_t n, hth_frame *frame, size_t *n_used)
{
    char *copy = malloc(n ? n : 1);
    hth_frame_result result;

    memcpy(copy, bytes, n);
    result = hth_frame_read(copy, n, frame, n_used);
    free(copy);
    return result;
}

TEST(a_frame_that_is_not_whole_wants_more)
{
    hth_buffer out = sample();
    size_t at = 0;

    while (at < out.n) {
        hth_frame frame;
        size_t n_used = 0;

        assert_int_equal(hth_frame_read(out.text + at, out.n - at, &frame, &n_used), HTH_FRAME_OK);
        for (size_t n = 0; n < n_used; n++) {
            size_t ignored;

            assert_int_equal(read_copy(out.text + at, n, &frame, &ignored), HTH_FRAME_PART);
        }
        at += n_used;
    }
    hth_buffer_deinit(&out);
}

/* Likewise. */
static size_t whole_bytes_of(const char *bytes, size_t n)
{
    char *copy = malloc(n ? n : 1);
    size_t n_whole;

    assert_non_null(copy);
    memcpy(copy, bytes, n);
    n_whole = hth_frame_whole_bytes(copy, n);
    free(copy);
    return n_whole;
}

TEST(the_whole_frames_are_told_from_the_beginning_of_another)
{
    hth_buffer out = sample();
    size_t n_whole = 0, n_used;
    hth_frame frame;

    for (size_t n = 0; n <= out.n; n++) {
        if (n > n_whole && hth_frame_read(out.text + n_whole, n - n_whole, &frame, &n_used) == HTH_FRAME_OK)
            n_whole += n_used;
        assert_int_equal(whole_bytes_of(out.text, n), n_whole);
    }
    assert_int_equal(n_whole, out.n);
    hth_buffer_deinit(&out);
}

TEST(a_frame_that_is_too_long_is_told_by_its_head)
{
    hth_buffer out = { .text = NULL };
    size_t n_first;

    hth_frame_add_work(&out, 7);
    n_first = out.n;
    hth_buffer_add(&out, "\0\0\20\0\6", 5); /* as long as can be */
    assert_int_equal(whole_bytes_of(out.text, out.n), n_first);
    assert_int_equal(whole_bytes_of(out.text + n_first, 5), 0);
    out.text[n_first] = 1; /* a byte more */
    assert_true(whole_bytes_of(out.text, out.n) == HTH_FRAME_BAD_BYTES);
    assert_true(whole_bytes_of(out.text + n_first, 5) == HTH_FRAME_BAD_BYTES);
    assert_int_equal(whole_bytes_of(out.text, out.n - 1), n_first); /* without its kind it is no head */
    memcpy(out.text + n_first, "\377\377\377\377", 4);
    assert_true(whole_bytes_of(out.text, out.n) == HTH_FRAME_BAD_BYTES);
    hth_buffer_deinit(&out);
}

static void expect_bad(const char *bytes, size_t n)
{
    hth_frame frame = { .kind = HTH_FRAME_END, .status = 1234 };
    size_t n_used = 99;

    assert_int_equal(read_copy(bytes, n, &frame, &n_used), HTH_FRAME_BAD);
    assert_int_equal(frame.status, 1234); /* outputs are written on success only */
    assert_int_equal(n_used, 99);
}

TEST(what_is_no_frame_is_refused)
{
    hth_buffer out = { .text = NULL };

    expect_bad("\0\0\0\0\0", 5); /* no such kind */
    expect_bad("\0\0\0\0\4", 5);
    expect_bad("\1\0\20\0\2", 5); /* longer than any */
    expect_bad("\0\0\0\0\7", 5);
    expect_bad("\0\0\0\0\10", 5);
    expect_bad("\1\0\0\0\10\4", 6); /* no such flag */
    expect_bad("\0\0\0\0\11", 5);
    expect_bad("\0\0\0\0\12", 5);
    expect_bad("\10\0\0\0\12\1\0\0\0\0\0\0\0", 13);
    expect_bad("\12\0\0\0\12\1\0\0\0\0\0\0\0\0\0", 15); /* longer than its kind */
    expect_bad("\11\0\0\0\12\2\0\0\0\0\0\0\0\0", 14);   /* neither died nor lived */
    expect_bad("\0\0\0\0\13", 5);                       /* no such kind, either */
    expect_bad("\377\377\377\377\1", 5);
    expect_bad("\0\0\0\0\1", 5); /* shorter than its kind */
    expect_bad("\0\0\0\0\2", 5);
    expect_bad("\0\0\0\0\3", 5);
    hth_frame_add_step(&out, 0, 0, &(hth_frame_tokens){ .ids = tokens, .n = 2 }, NULL, 0);
    out.text[HTH_FRAME_HEAD_BYTES + 8] = 3; /* more tokens than there are */
    expect_bad(out.text, out.n);
    out.text[HTH_FRAME_HEAD_BYTES + 11] = '\x7f';
    expect_bad(out.text, out.n);
    out.text[HTH_FRAME_HEAD_BYTES + 8] = 2;
    out.text[HTH_FRAME_HEAD_BYTES + 11] = 0;
    out.text[HTH_FRAME_HEAD_BYTES + 5] = 1; /* with log probabilities that are not there */
    expect_bad(out.text, out.n);
    out.text[HTH_FRAME_HEAD_BYTES + 5] = HTH_FRAME_LOGPROBS_MAX + 1;
    expect_bad(out.text, out.n);
    hth_buffer_clear(&out);
    hth_frame_add_head(&out, 200, false, 0, "text/plain", NULL);
    out.text[HTH_FRAME_HEAD_BYTES] = 0; /* status 0 */
    expect_bad(out.text, out.n);
    hth_buffer_clear(&out);
    hth_frame_add_head(&out, 200, false, 0, "text/plain", NULL);
    out.text[out.n - 1] = '\0'; /* notes that are empty */
    expect_bad(out.text, out.n);
    hth_buffer_clear(&out);
    hth_frame_add_head(&out, 200, false, 0, "text/plain", "a, b");
    out.text[out.n - 2] = '\0'; /* within the notes */
    expect_bad(out.text, out.n);
    hth_buffer_deinit(&out);
}

TEST(a_head_carries_what_was_passed_over)
{
    hth_buffer out = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    hth_frame_add_head(&out, 200, true, 0, "text/plain", "a, b.c[]");
    assert_int_equal(hth_frame_read(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    assert_string_equal(frame.content_type, "text/plain");
    assert_int_equal(frame.n_notes, 8);
    assert_memory_equal(frame.notes, "a, b.c[]", 8);
    hth_buffer_clear(&out);
    hth_frame_add_head(&out, 200, true, 0, "text/plain", "");
    assert_int_equal(hth_frame_read(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(frame.n_notes, 0);
    hth_buffer_deinit(&out);
}

TEST(long_content_types_are_cut)
{
    char type[200];
    hth_buffer out = { .text = NULL };
    hth_frame frame;
    size_t n_used;

    memset(type, 'x', sizeof(type) - 1);
    type[sizeof(type) - 1] = '\0';
    hth_frame_add_head(&out, 200, false, 0, type, NULL);
    assert_int_equal(hth_frame_read(out.text, out.n, &frame, &n_used), HTH_FRAME_OK);
    assert_int_equal(strlen(frame.content_type), 63);
    hth_buffer_deinit(&out);
}

/* However much a step has released, no frame is longer than a front has to keep; the last one has the tokens. */
TEST(what_is_too_long_for_a_frame_comes_in_several)
{
    enum { N = 3000001 };
    char *bytes = malloc(N);
    hth_buffer out = { .text = NULL }, all = { .text = NULL };
    size_t n_used;
    hth_frame frame = { .kind = HTH_FRAME_END };

    for (size_t i = 0; i < N; i++)
        bytes[i] = (char)(i * i % 251);
    hth_frame_add_step(&out, 5, HTH_STEP_ENDS, &(hth_frame_tokens){ .ids = tokens, .n = 5 }, bytes, N);
    for (size_t at = 0; at < out.n; at += n_used) {
        assert_int_not_equal(frame.kind, HTH_FRAME_STEP); /* it is the last one */
        assert_int_equal(hth_frame_read(out.text + at, out.n - at, &frame, &n_used), HTH_FRAME_OK);
        assert_true(n_used <= HTH_FRAME_BYTES_MAX + HTH_FRAME_HEAD_BYTES);
        hth_buffer_add(&all, frame.bytes, frame.n_bytes);
    }
    assert_true(frame.kind == HTH_FRAME_STEP && frame.reply == 5 && frame.reply_has_ended && frame.n_tokens == 5);
    assert_int_equal(all.n, N);
    assert_memory_equal(all.text, bytes, N);
    hth_buffer_deinit(&out);
    hth_buffer_deinit(&all);
    free(bytes);
}

TEST(bytes_that_were_changed_never_read_beyond_their_end)
{
    uint64_t seed = hth_test_seed();
    hth_buffer out = sample();

    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(out.n);
        size_t n = hth_test_random(&seed, out.n) + 1, n_used;
        hth_frame frame;

        memcpy(copy, out.text, n);
        for (uint64_t k = hth_test_random(&seed, 8); k > 0; k--)
            copy[hth_test_random(&seed, n)] = (char)hth_test_random(&seed, 256);
        if (hth_frame_read(copy, n, &frame, &n_used) == HTH_FRAME_OK) {
            assert_true(n_used <= n);
            if (frame.kind == HTH_FRAME_STEP && frame.n_tokens > 0)
                (void)hth_frame_token(&frame, frame.n_tokens - 1);
            if (frame.kind == HTH_FRAME_STEP && frame.n_tokens > 0 && frame.n_logprobs > 0)
                (void)hth_frame_logprob(&frame, frame.n_tokens - 1, frame.n_logprobs - 1);
        }
        free(copy);
    }
    hth_buffer_deinit(&out);
}
