/*
 * chat_stream.h - reads a streamed reply of OpenAI's chat API: events, each a line that begins with "data:"
 */
#ifndef HTH_CHAT_CHAT_STREAM_H
#define HTH_CHAT_CHAT_STREAM_H

#include "api/buffer.h"
#include "chat/dialog_source.h"
#include "http/fetch.h"

/* The caller sets the first two fields; the others are initially zeros. hth_buffer_deinit releases `line`. */
typedef struct hth_chat_stream {
    const hth_dialog_hooks *hooks; /* on_text is called */
    hth_dialog_figures *figures;   /* filled in, except ttft_ms */
    uint64_t first_ns, last_ns;    /* of text; 0: none yet */
    hth_buffer line;               /* the incomplete line; for an error, its body */
    char message[256];             /* of an error event */
    bool has_ended;
    bool has_timings; /* the server sends timings */
} hth_chat_stream;

/* A hth_fetch_bytes_fn whose user_data is the stream. */
bool hth_chat_stream_take(hth_fetch *fetch, long status, const void *bytes, size_t n_bytes, void *user_data);
/*
 * The response with this status has ended: check that it was a complete reply. base is the server's address, for
 * messages.
 */
hearth_status hth_chat_stream_conclude(hth_chat_stream *s, const char *base, long status, hearth_error *err);

#endif
