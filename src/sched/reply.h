/*
 * reply.h - what a request has generated: tokens drawn, text released, and the result that comes of it
 *
 * Everything that a reply needs besides logits is here, and depends on its tokens alone: the sampler chain with its
 * grammar and penalties, the text that is held back, the counts. So it goes on after a break with any sequence that holds
 * the same tokens, and a reply that was broken off elsewhere is replayed from its tokens.
 */
#ifndef HTH_SCHED_REPLY_H
#define HTH_SCHED_REPLY_H

#include "sched/request.h"
#include "sched/result.h"
#include "sched/sequence.h"

typedef struct hth_reply hth_reply; /* one thread at a time */

/*
 * A reply to request, which is borrowed, with its replayed tokens. sampling is the public one, with grammar and lists.
 * May take long where there is a grammar, unless like, which nobody uses meanwhile, is a reply with the same sampling but
 * for the seed (NULL: there is none). HEARTH_MISUSE naming the option; HEARTH_NO_MEMORY.
 */
hearth_status hth_reply_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                            const hth_reply *like, hth_reply **out, hearth_error *err);
/* Accepts NULL. The request's prompt becomes the result's, which others may have kept; so the request is freed after it. */
void hth_reply_free(hth_reply *reply);

/* Most tokens it can have: n_predict, or what the context has room for. */
uint32_t hth_reply_n_max(const hth_reply *reply);
uint32_t hth_reply_n_tokens(const hth_reply *reply);
/* When the first token was drawn; 0: none was yet. */
uint64_t hth_reply_first_token_ns(const hth_reply *reply);
/* Token i. */
hearth_token hth_reply_token(const hth_reply *reply, uint32_t i);

/* Memory for n tokens and their text ahead of need. Without it they get theirs as they come. */
void hth_reply_reserve(hth_reply *reply, uint32_t n);
/*
 * Tell what comes before the first token that is drawn, where that is asked for: the prompt's text, or what was replayed;
 * of at most n more tokens. Of how many. It may end the reply.
 */
uint32_t hth_reply_tell(hth_reply *reply, uint32_t n);
/* Nothing of that is left. */
bool hth_reply_has_told(const hth_reply *reply);
/* It has ended because its replayed tokens are all of it. */
bool hth_reply_was_whole(const hth_reply *reply);
/*
 * Draw the next token from logits, emit it, and see whether the reply goes on. When it does not, status and finish reason
 * are in the result.
 */
bool hth_reply_draw(hth_reply *reply, const float *logits);

/* End it, if it has not ended: status HEARTH_OK with a reason, or a failure with what is in the result's error. */
void hth_reply_end(hth_reply *reply, hearth_status status, hearth_finish_reason reason);
bool hth_reply_has_ended(const hth_reply *reply);
/* Release what text is held back. Once, after the end. */
void hth_reply_flush(hth_reply *reply);

/* The statistics are the scheduler's to fill. Borrowed until hth_reply_free. */
hth_counted_result *hth_reply_result(hth_reply *reply);

#endif
