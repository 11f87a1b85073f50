/*
 * frames_fuzz.c - any bytes as frames: what a front reads from a worker, and a worker as what is known of a reply
 *
 * What is held: nothing outside the bytes is read (a sanitizer sees it); a frame that was read and is written again is
 * the same but for what no writer sets; and how many of the bytes are there decides only whether more are wanted.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api/notes.h"
#include "api/request.h"
#include "wire/frames.h"
#include "worker/worker_known.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

enum { PARTS_BYTES_MAX = 512 };

static void rewrite_step(const hth_frame *frame, hth_buffer *out)
{
    size_t n_logprobs = (size_t)frame->n_tokens * frame->n_logprobs;
    hearth_token *ids = calloc((size_t)frame->n_tokens + 1, sizeof(*ids));
    hearth_logprob *logprobs = calloc(n_logprobs + 1, sizeof(*logprobs));

    for (uint32_t i = 0; ids && logprobs && i < frame->n_tokens; i++) {
        ids[i] = hth_frame_token(frame, i);
        for (uint32_t k = 0; k < frame->n_logprobs; k++)
            logprobs[(size_t)i * frame->n_logprobs + k] = hth_frame_logprob(frame, i, k);
    }
    if (ids && logprobs && hth_frame_token_bytes(frame->n_tokens, frame->n_logprobs) <= HTH_STEP_TOKEN_BYTES_MAX)
        hth_frame_add_step(out, frame->reply,
                           (frame->reply_has_ended ? HTH_STEP_ENDS : 0u) | (frame->has_failed ? HTH_STEP_FAILS : 0u),
                           &(hth_frame_tokens){ .ids = ids,
                                                .n = frame->n_tokens,
                                                .logprobs = logprobs,
                                                .n_logprobs = frame->n_logprobs,
                                                .has_state = frame->has_state,
                                                .state = frame->state },
                           frame->bytes, frame->n_bytes);
    free(ids);
    free(logprobs);
}

static void check_rewritten(const hth_frame *frame, size_t n_used)
{
    hth_buffer out = { .text = NULL };
    char notes[HTH_API_NOTES_BYTES + 1] = "";
    hth_frame again;
    size_t n_again = 0;

    if (frame->kind == HTH_FRAME_HEAD) {
        if (frame->n_notes > 0)
            memcpy(notes, frame->notes, frame->n_notes);
        hth_frame_add_head(&out, frame->status, frame->is_stream, frame->retry_after_s, frame->content_type, notes);
    } else if (frame->kind == HTH_FRAME_END) {
        hth_frame_add_end(&out, &frame->summary);
    } else if (frame->kind == HTH_FRAME_CACHED) {
        hth_frame_add_cached(&out, frame->reply, frame->n_cached);
    } else if (frame->kind == HTH_FRAME_MODEL) {
        hth_frame_add_model(&out, frame->model);
    } else if (frame->kind == HTH_FRAME_OUTCOME) {
        hth_frame_add_outcome(&out, frame->reply, &frame->outcome);
    } else if (frame->kind == HTH_FRAME_WORK) {
        hth_frame_add_work(&out, frame->n_worked);
    } else if (frame->kind == HTH_FRAME_BROKEN) {
        hth_frame_add_broken(&out, frame->has_died, frame->generation);
    } else if (frame->kind == HTH_FRAME_BYTES) {
        hth_frame_add_bytes(&out, frame->bytes, frame->n_bytes);
    } else if (frame->kind == HTH_FRAME_RECORD) {
        if (frame->is_last) /* others are followed by more */
            hth_frame_add_record(&out, frame->has_begun ? HTH_RECORD_BEGUN : 0, frame->bytes, frame->n_bytes);
    } else {
        rewrite_step(frame, &out);
    }
    if (out.n > 0 && !out.failed) {
        assert(out.n == n_used);
        assert(hth_frame_read(out.text, out.n, &again, &n_again) == HTH_FRAME_OK);
        assert(n_again == n_used);
        assert(again.kind == frame->kind && again.n_tokens == frame->n_tokens && again.n_bytes == frame->n_bytes);
        assert(again.n_cached == frame->n_cached && again.has_failed == frame->has_failed);
        assert(again.n_worked == frame->n_worked);
        assert(again.has_died == frame->has_died && again.generation == frame->generation);
    }
    hth_buffer_deinit(&out);
}

/* The first n of the bytes, in memory that ends with them. */
static hth_frame_result read_part(const uint8_t *bytes, size_t n, hth_frame *frame, size_t *n_used)
{
    uint8_t *copy = malloc(n ? n : 1);
    hth_frame_result result = HTH_FRAME_PART;

    if (copy) {
        if (n > 0)
            memcpy(copy, bytes, n);
        result = hth_frame_read(copy, n, frame, n_used);
    }
    free(copy);
    return result;
}

/* What a front remembers of the steps, a worker reads: as many tokens of each reply. */
static void check_remembered(const hth_buffer *remembered, size_t last, size_t n_tokens)
{
    hth_frame frame;
    size_t n_used = 0, n = 0;

    if (remembered->failed)
        return;
    for (size_t at = 0; at < remembered->n; at += n_used) {
        assert(at <= last);
        assert(hth_frame_read(remembered->text + at, remembered->n - at, &frame, &n_used) == HTH_FRAME_OK);
        assert((frame.kind == HTH_FRAME_STEP && frame.n_bytes == 0) || frame.kind == HTH_FRAME_CACHED ||
               frame.kind == HTH_FRAME_MODEL || frame.kind == HTH_FRAME_OUTCOME);
        n += frame.n_tokens;
    }
    assert(n == n_tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };
    hth_buffer remembered = { .text = NULL };
    size_t last = 0, n_tokens = 0;
    hth_known known;
    size_t at = 0, n_used = 0, n_whole;
    hth_frame_result result;
    hth_frame frame;

    while ((result = hth_frame_read(bytes + at, n_bytes - at, &frame, &n_used)) == HTH_FRAME_OK) {
        assert(n_used >= HTH_FRAME_HEAD_BYTES && n_used <= n_bytes - at);
        check_rewritten(&frame, n_used);
        for (size_t n = 0; n < n_used && n < PARTS_BYTES_MAX; n++) {
            hth_frame part;
            size_t ignored;

            assert(read_part(bytes + at, n, &part, &ignored) == HTH_FRAME_PART);
        }
        hth_frame_add_known(&remembered, &last, &frame);
        n_tokens += frame.n_tokens;
        at += n_used;
    }
    n_whole = hth_frame_whole_bytes(bytes, n_bytes);
    assert(result == HTH_FRAME_PART ? n_whole == at : n_whole >= at);
    assert(n_whole <= n_bytes || n_whole == HTH_FRAME_BAD_BYTES);
    check_remembered(&remembered, last, n_tokens);
    hth_buffer_deinit(&remembered);
    if (hth_known_read((const char *)bytes, n_bytes, n_bytes / 2, HTH_API_REPLIES_MAX, &known, &error)) {
        assert(at == n_bytes);
        assert(known.n_replies <= HTH_API_REPLIES_MAX);
        hth_known_deinit(&known);
    } else {
        assert(error.kind != HTH_API_NO_ERROR);
    }
    return 0;
}
