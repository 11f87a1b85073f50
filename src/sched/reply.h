/*
 * reply.h - the reply of a request: its drawn tokens, its text and its result
 *
 * A reply needs logits from outside. All its other state depends only on its tokens: the sampler chain with grammar and
 * penalties, the held text, the counts. So a preempted reply can continue with any sequence that holds the same tokens,
 * and a reply that was interrupted in another process can be replayed from its tokens.
 */
#ifndef HTH_SCHED_REPLY_H
#define HTH_SCHED_REPLY_H

#include "sched/request.h"
#include "sched/result.h"
#include "sched/sequence.h"

typedef struct hth_reply hth_reply; /* one thread at a time */

/*
 * Make a reply to request, which is borrowed, and replay the request's tokens. sampling is the public struct, with
 * grammar and lists. like is NULL, or a reply with the same sampling except for the seed; no other thread may use it
 * during the call. A grammar without like may take a long time. HEARTH_MISUSE with a message that names the option;
 * HEARTH_NO_MEMORY.
 */
hearth_status hth_reply_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                            const hth_reply *like, hth_reply **out, hearth_error *err);
/*
 * Accepts NULL. The result takes over the prompt of the request, because others may hold references to the result. So
 * free the request after the reply.
 */
void hth_reply_free(hth_reply *reply);

/* The maximum number of tokens of the reply: n_predict, or as many as fit in the context. */
uint32_t hth_reply_n_max(const hth_reply *reply);
uint32_t hth_reply_n_tokens(const hth_reply *reply);
/* Time of the first drawn token; 0: none yet. */
uint64_t hth_reply_first_token_ns(const hth_reply *reply);
hearth_token hth_reply_token(const hth_reply *reply, uint32_t i);

/* Allocate memory for n tokens and their text. A failure is harmless: memory is then allocated token by token. */
void hth_reply_reserve(hth_reply *reply, uint32_t n);
/*
 * Deliver the text before the first drawn token, if the request asks for it: the echoed prompt and the replayed reply.
 * At most n more tokens; returns how many. The reader may refuse, which ends the reply.
 */
uint32_t hth_reply_tell(hth_reply *reply, uint32_t n);
/* Is all of that delivered? */
bool hth_reply_has_told(const hth_reply *reply);
/* Has it ended because the replayed tokens are the whole reply? */
bool hth_reply_was_whole(const hth_reply *reply);
/* Draw the next token from logits and deliver it. False when the reply has ended; the result has the reason. */
bool hth_reply_draw(hth_reply *reply, const float *logits);

/*
 * End the reply, if it has not ended: HEARTH_OK with a reason, or a failure whose message is already in the result's
 * error.
 */
void hth_reply_end(hth_reply *reply, hearth_status status, hearth_finish_reason reason);
bool hth_reply_has_ended(const hth_reply *reply);
/* Deliver the held text. Call once, after the end. */
void hth_reply_flush(hth_reply *reply);

/* The scheduler fills the statistics. Borrowed until hth_reply_free. */
hth_counted_result *hth_reply_result(hth_reply *reply);

#endif
