/*
 * reply.h - what comes of a request, as the bytes that its client expects
 *
 * A reply is made for a prepared request and told what happens: each token, each piece of text, each end. Where the
 * client asked for a stream, events are appended to out as things happen; otherwise a body is read piece by piece, at the
 * end. Both are made of the same pieces, so their contents are equal.
 *
 * One thread at a time, and not that of the callbacks: it asks the model for the text of tokens. i counts replies: that
 * of prompt p and number k is p * n + k.
 */
#ifndef HTH_API_REPLY_H
#define HTH_API_REPLY_H

#include "api/prepare.h"

typedef struct hth_api_reply hth_api_reply;

typedef struct hth_api_reply_options {
    const char *model;    /* the name that the reply bears */
    const char *id;       /* letters and digits, at most 40, not given to any other reply: ids are made of it */
    json_int_t created_s; /* Unix time */
    uint32_t slot;        /* the number that native replies bear */
} hth_api_reply_options;

/*
 * model, request and prepared outlive the reply; strings of options are copied. NULL with error filled: no memory, or a
 * parser that cannot be made.
 */
hth_api_reply *hth_api_reply_new(hearth_model *model, const hth_api_request *request, const hth_api_prepared *prepared,
                                 const hth_api_reply_options *options, hth_api_error *error);
void hth_api_reply_free(hth_api_reply *reply); /* accepts NULL */

/* How many replies there will be: prompts times n. */
size_t hth_api_reply_n(const hth_api_reply *reply);

/* hearth_progress_fn: the first events tell how much of the prompt was cached, which is what was said last of a restore. */
void hth_api_reply_progress(hth_api_reply *reply, size_t i, hearth_phase phase, uint32_t n_done);
/*
 * Of a stream whose client asked for return_progress: n_done tokens of the prompt of reply i are read, ms after its reading
 * began. Nothing is written where its API has no place for that, or of replies that share their prompt with one before.
 */
void hth_api_reply_prefill(hth_api_reply *reply, size_t i, uint32_t n_done, double ms, hth_buffer *out);
/*
 * Of a stream: nothing has come for a while, and whoever waits is to know that it is alive. Writes what the API has for
 * that, a comment where it has nothing. True: that was the beginning of the stream of reply 0, which will not be written
 * again.
 */
bool hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out);
/* The beginning of the stream of reply i has left already, in another worker. */
void hth_api_reply_note_reply_begun(hth_api_reply *reply, size_t i);
/* hearth_token_fn, before the text that the token released. The first one of a reply begins its stream. */
void hth_api_reply_token(hth_api_reply *reply, size_t i, const hearth_token_event *event, hth_buffer *out);
/* hearth_text_fn. Streamed or not, text is given as it comes: how it is cut can show in what a parser makes of it. */
void hth_api_reply_text(hth_api_reply *reply, size_t i, const char *text, size_t n_bytes, hth_buffer *out);
/* hearth_done_fn. The last of all replies writes what is still to be written of a stream. */
void hth_api_reply_done(hth_api_reply *reply, size_t i, const hearth_result *result, hth_buffer *out);
/*
 * Not streamed, and it has ended well: append the next n_bytes of the body, or a little more. True: that was the rest.
 * Whoever reads it from its beginning to its end gets the same bytes, however large the pieces are.
 */
bool hth_api_reply_body(hth_api_reply *reply, size_t n_bytes, hth_buffer *out);
/* It has ended well: append it as it is to be kept (response_record.h); nothing, where it is not. */
void hth_api_reply_record(hth_api_reply *reply, hth_buffer *out);
/* Nothing has come of it yet, and its client does not wait: append it as it is now; nothing, where he does. */
void hth_api_reply_record_begun(const hth_api_reply *reply, hth_buffer *out);
/* Something else went wrong: write the error, as a body or as an event. Nothing is written afterwards. */
void hth_api_reply_fail(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);

/* Is anything known of tokens that was not written yet, and that their ids do not tell? */
bool hth_api_reply_has_untold(const hth_api_reply *reply, size_t i);
/* Nothing more will happen: but for a body, all is written. */
bool hth_api_reply_has_ended(const hth_api_reply *reply);
/* How many of the bytes written last are the end of all replies, and not of the one that ended last. */
size_t hth_api_reply_n_end_bytes(const hth_api_reply *reply);
/* The HTTP status, once it has ended or anything was written. 200 of a stream that failed later. */
int hth_api_reply_http_status(const hth_api_reply *reply);
/* The HTTP status of the error that ended it, also within a stream; 0: none did. */
int hth_api_reply_failure(const hth_api_reply *reply);

#endif
