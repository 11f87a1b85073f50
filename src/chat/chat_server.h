/*
 * chat_server.h - a server with OpenAI's API: its address, its models, and its streamed replies
 */
#ifndef HTH_CHAT_CHAT_SERVER_H
#define HTH_CHAT_CHAT_SERVER_H

#include <stdbool.h>

#include "api/buffer.h"
#include "chat/dialog_source.h"
#include "hearth.h"
#include "http/fetch.h"

enum { HTH_CHAT_SERVER_URL_BYTES = 2048 };

/* The address without a trailing "/" and "/v1". HEARTH_MISUSE if it is empty or too long. */
hearth_status hth_chat_server_base(const char *url, char out[HTH_CHAT_SERVER_URL_BYTES], hearth_error *err);
typedef struct hth_chat_server_model {
    char *name;         /* freed by the caller */
    bool tells_timings; /* the server is Hearth or llama-server and accepts `timings_per_token`; others may refuse it */
} hth_chat_server_model;

/* The first model in the server's list. key may be NULL. Blocks. One thread at a time. */
hearth_status hth_chat_server_find(const char *base, const char *key, hth_chat_server_model *out, hearth_error *err);

/*
 * A streamed reply: events, each a line that begins with "data:". The caller sets the first two fields; the others are
 * initially zeros. hth_buffer_deinit releases `line`.
 */
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
