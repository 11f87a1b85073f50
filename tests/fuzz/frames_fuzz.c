/*
 * frames_fuzz.c - any bytes, read as frames: what is one stays within what was given, and can be written again
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* The same frame, written by us, reads as what it was. */
static void write_again(const hth_frame *frame)
{
    hth_buffer out = { .text = NULL };
    hearth_token *tokens = malloc((frame->n_tokens + 1) * sizeof(*tokens));
    hth_frame read;
    size_t n_used;

    require(tokens != NULL);
    for (uint32_t i = 0; i < frame->n_tokens; i++)
        tokens[i] = hth_frame_token(frame, i);
    if (frame->kind == HTH_FRAME_HEAD)
        hth_frame_add_head(&out, frame->status, frame->is_stream, frame->retry_after_s, frame->content_type);
    else if (frame->kind == HTH_FRAME_STEP)
        hth_frame_add_step(&out, frame->reply, frame->reply_has_ended, tokens, frame->n_tokens, frame->bytes,
                           frame->n_bytes);
    else
        hth_frame_add_end(&out, &frame->summary);
    require(!out.failed && hth_frame_read(out.text, out.n, &read, &n_used) == HTH_FRAME_OK && n_used == out.n);
    require(read.kind == frame->kind && read.status == frame->status && read.reply == frame->reply &&
            read.n_tokens == frame->n_tokens && read.n_bytes == frame->n_bytes &&
            strcmp(read.content_type, frame->content_type) == 0);
    free(tokens);
    hth_buffer_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    hth_buffer known = { .text = NULL };
    size_t last = 0, n_used = 0;
    hth_frame frame;

    for (size_t at = 0; hth_frame_read(bytes + at, n_bytes - at, &frame, &n_used) == HTH_FRAME_OK; at += n_used) {
        require(n_used <= n_bytes - at);
        write_again(&frame);
        if (frame.kind == HTH_FRAME_STEP)
            hth_frame_add_known(&known, &last, &frame);
    }
    for (size_t at = 0; at < known.n; at += n_used)
        require(hth_frame_read(known.text + at, known.n - at, &frame, &n_used) == HTH_FRAME_OK && frame.n_bytes == 0);
    hth_buffer_deinit(&known);
    return 0;
}
