/*
 * text_stream.h - bytes of tokens in, whole characters out, nothing of a stop text ever shown
 *
 * Tokens end anywhere: inside a character, inside a stop text. The stream holds back what is not yet a whole character
 * and what may still become a stop text, and releases the rest. Bytes that can never become a character are replaced by
 * U+FFFD.
 */
#ifndef HTH_SCHED_TEXT_STREAM_H
#define HTH_SCHED_TEXT_STREAM_H

#include "base/status.h"

typedef struct hth_text_stream hth_text_stream; /* one thread at a time */

/* stop texts are copied; empty ones are ignored. NULL when there is no memory. */
hth_text_stream *hth_text_stream_new(const char *const *stop, size_t n_stop);
void hth_text_stream_free(hth_text_stream *stream); /* accepts NULL */

/*
 * Feed bytes. *text_out / *n_out: the text released by this call, terminated, valid until the next call; n may be 0.
 * *stopped_out: a stop text came, hth_text_stream_stop; everything before it is released and further bytes are ignored.
 * False when there is no memory (nothing is lost: the bytes can be fed again).
 */
bool hth_text_stream_feed(hth_text_stream *stream, const char *bytes, size_t n_bytes, const char **text_out,
                          size_t *n_out, bool *stopped_out);
/* Which of the stop texts came: its index. After one did. */
size_t hth_text_stream_stop(const hth_text_stream *stream);
/* Release what is held back, at the end of the reply; an unfinished character becomes U+FFFD. */
bool hth_text_stream_finish(hth_text_stream *stream, const char **text_out, size_t *n_out);

/*
 * All of these bytes as text: a new string, terminated and *n_out bytes long, with U+FFFD for what is no character. NULL
 * when there is no memory.
 */
char *hth_utf8_repaired(const char *bytes, size_t n_bytes, size_t *n_out);

/* True when n_bytes bytes are valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF). */
bool hth_utf8_is_valid(const char *bytes, size_t n_bytes);

#endif
