/*
 * reply.h - the reply to a request, as the bytes that its client expects
 *
 * A reply is made for a prepared request and receives events: each token, each piece of text, each end. If the client
 * asked for a stream, each event appends its part to out. Otherwise the body is read in pieces at the end. Both are
 * made of the same pieces, so their contents are equal.
 *
 * One thread at a time, but not the thread of the callbacks, because a reply asks the model for the text of tokens. i
 * is the index of a reply: reply k of prompt p is i = p * n + k.
 */
#ifndef HTH_API_REPLY_H
#define HTH_API_REPLY_H

#include "api/prepare.h"

typedef struct hth_api_reply hth_api_reply;

typedef struct hth_api_reply_options {
    const char *model; /* the name that the reply shows */
    const char *id; /* at most 40 letters and digits, unique among replies: all ids in the reply are derived from it */
    json_int_t created_s; /* Unix time */
    uint32_t slot;        /* the slot number that native replies show */
} hth_api_reply_options;

/*
 * model, request and prepared outlive the reply; strings of options are copied. NULL with error filled if memory is out
 * or the parser of the conversation's format cannot be made.
 */
hth_api_reply *hth_api_reply_new(hearth_model *model, const hth_api_request *request, const hth_api_prepared *prepared,
                                 const hth_api_reply_options *options, hth_api_error *error);
void hth_api_reply_free(hth_api_reply *reply); /* accepts NULL */

/* The number of replies: prompts times n. */
size_t hth_api_reply_n(const hth_api_reply *reply);

/*
 * For hearth_progress_fn. The last progress of a restore is the number of cached tokens that the first events report.
 */
void hth_api_reply_progress(hth_api_reply *reply, size_t i, hearth_phase phase, uint32_t n_done);
/*
 * For a stream with return_progress: n_done tokens of reply i's prompt are evaluated, ms after its prefill began.
 * Writes nothing if the API has no such event, or if the reply shares its prompt with an earlier one. The result is
 * that of hth_api_reply_idle, for reply i.
 */
bool hth_api_reply_prefill(hth_api_reply *reply, size_t i, uint32_t n_done, double ms, hth_buffer *out);
/*
 * For a stream: nothing was sent for a while, so write a keep-alive, the API's own or a comment. True if this was the
 * beginning of the stream of reply 0, which is not written again.
 */
bool hth_api_reply_idle(hth_api_reply *reply, hth_buffer *out);
/* Another worker has sent the beginning of the stream of reply i. */
void hth_api_reply_note_reply_begun(hth_api_reply *reply, size_t i);
/*
 * For hearth_token_fn. Call it before passing the text that the token released. The first token of a reply begins its
 * stream.
 */
void hth_api_reply_token(hth_api_reply *reply, size_t i, const hearth_token_event *event, hth_buffer *out);
/*
 * For hearth_text_fn. Pass the text as it comes, streamed or not: a parser's result can depend on where the text is
 * split.
 */
void hth_api_reply_text(hth_api_reply *reply, size_t i, const char *text, size_t n_bytes, hth_buffer *out);
/* For hearth_done_fn. The end of the last reply writes the rest of a stream. */
void hth_api_reply_done(hth_api_reply *reply, size_t i, const hearth_result *result, hth_buffer *out);
/*
 * For a reply that is not streamed and ended well: append the next n_bytes of the body, or a little more. True if the
 * body is complete. The bytes of the whole body do not depend on the sizes of the pieces.
 */
bool hth_api_reply_body(hth_api_reply *reply, size_t n_bytes, hth_buffer *out);
/*
 * For a reply that ended well: append the record to store (response_record.h), or nothing if the response is not
 * stored.
 */
void hth_api_reply_record(hth_api_reply *reply, hth_buffer *out);
/*
 * For a reply to a background request that has no content yet: append the record of its current state. Appends nothing
 * for other requests.
 */
void hth_api_reply_record_begun(const hth_api_reply *reply, hth_buffer *out);
/* End the reply with an error from elsewhere, written as a body or as an event. Nothing is written afterwards. */
void hth_api_reply_fail(hth_api_reply *reply, const hth_api_error *error, hth_buffer *out);

/* Are there log probabilities that have not been written yet? */
bool hth_api_reply_has_unwritten(const hth_api_reply *reply, size_t i);
/* Has the reply ended? Only its body, if it has one, may still have to be written. */
bool hth_api_reply_has_ended(const hth_api_reply *reply);
/* The number of bytes, among those written last, that end all replies and not just the reply that ended last. */
size_t hth_api_reply_n_end_bytes(const hth_api_reply *reply);
/* The HTTP status, once the reply has ended or written anything. A stream that fails later keeps 200. */
int hth_api_reply_http_status(const hth_api_reply *reply);
/* The HTTP status of the error that ended the reply, even inside a stream; 0: no error. */
int hth_api_reply_failure(const hth_api_reply *reply);

#endif
