/*
 * token_text.c - one piece through a text stream
 */
#include "sched/token_text.h"

#include <stdio.h>
#include <string.h>

#include "sched/text_stream.h"

static void append(char text[HTH_TOKEN_TEXT_BYTES], const char *more)
{
    size_t n = strlen(text);

    if (snprintf(text + n, HTH_TOKEN_TEXT_BYTES - n, "%s", more) >= (int)(HTH_TOKEN_TEXT_BYTES - n))
        hth_end_at_character(text, HTH_TOKEN_TEXT_BYTES);
}

void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES])
{
    hth_text_stream *stream = hth_text_stream_new(NULL, 0);
    char piece[HTH_PIECE_BYTES_MAX];
    const char *released;
    size_t n_piece = 0, n_released;
    bool stopped;

    text[0] = '\0';
    if (stream && backend->piece(model, token, true, piece, sizeof(piece), &n_piece, NULL) == HEARTH_OK &&
        hth_text_stream_feed(stream, piece, n_piece, &released, &n_released, &stopped)) {
        append(text, released);
        if (hth_text_stream_finish(stream, &released, &n_released))
            append(text, released);
    }
    hth_text_stream_free(stream);
}
