/*
 * text_stream.h - turn the bytes of tokens into whole characters without stop texts
 *
 * A token may end inside a character or inside a stop text. The stream holds an unfinished character and a possible
 * beginning of a stop text, and releases all other text. Bytes that cannot become a character are replaced by U+FFFD.
 */
#ifndef HTH_SCHED_TEXT_STREAM_H
#define HTH_SCHED_TEXT_STREAM_H

#include "base/utf8.h"
#include "engine/backend.h"

typedef struct hth_text_stream hth_text_stream; /* one thread at a time */

/* The stop texts are borrowed; empty ones are ignored. NULL if out of memory. */
hth_text_stream *hth_text_stream_new(const char *const *stop, size_t n_stop);
void hth_text_stream_free(hth_text_stream *stream); /* accepts NULL */

/*
 * Feed bytes. *text_out / *n_out: the text that this call releases, terminated, valid until the next call; *n_out may
 * be 0. *stopped_out: a stop text was found (hth_text_stream_stop). The text before it is released, and further bytes
 * are ignored. False if out of memory; the same bytes can be fed again.
 */
bool hth_text_stream_feed(hth_text_stream *stream, const char *bytes, size_t n_bytes, const char **text_out,
                          size_t *n_out, bool *stopped_out);
/* The index of the stop text that was found. */
size_t hth_text_stream_stop(const hth_text_stream *stream);
/* Release the held text at the end of the reply; an unfinished character becomes U+FFFD. False if out of memory. */
bool hth_text_stream_finish(hth_text_stream *stream, const char **text_out, size_t *n_out);

enum { HTH_TOKEN_TEXT_BYTES = 64 };

/*
 * The text of the token, NUL-terminated, truncated after a whole character; for a control token, its name. Invalid
 * bytes become U+FFFD. "" on failure.
 */
void hth_token_text(const hth_backend *backend, const hth_engine_model *model, hearth_token token,
                    char text[HTH_TOKEN_TEXT_BYTES]);

#endif
