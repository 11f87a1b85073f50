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
#include "sched/text_stream.h"

/* One thread at a time. */
typedef struct hth_reply {
    /* For the slot, which only fills the statistics. */
    hth_counted_result *result;
    uint32_t n_max;          /* maximum number of tokens: n_predict, or as many as fit in the context */
    uint64_t first_token_ns; /* time of the first drawn token; 0: none yet */
    bool ended;
    bool is_delivered; /* all text before the first drawn token was delivered */
    bool was_whole;    /* it has ended because the replayed tokens are the whole reply */

    /* Used by the reply. */
    const hth_workplace *place;
    hth_request *request;
    hth_engine_sampler *sampler;
    hth_text_stream *text;
    bool has_grammar; /* or a schema: nothing can follow its end */
    bool refused;     /* a reader's callback returned false */
    bool is_silent;   /* no callbacks, during the replay */

    hth_text_stream *echo; /* for the prompt's text; NULL: not begun */
    uint32_t n_prompt_delivered;

    uint32_t *pieces; /* [n_pieces], lengths in bytes of the replayed texts to deliver; NULL: none */
    uint32_t n_pieces;
    uint32_t n_echoed; /* leading pieces of the echoed prompt */
    uint32_t n_pieces_delivered;
    size_t n_bytes_delivered;

    size_t text_capacity;
    size_t tokens_capacity;
    size_t logprobs_capacity;
} hth_reply;

static inline uint32_t hth_reply_n_tokens(const hth_reply *reply)
{
    return reply->result->stats.completion_tokens;
}

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

/* Allocate memory for its tokens and their text. A failure is harmless: memory is then allocated token by token. */
void hth_reply_reserve(hth_reply *reply);
/*
 * Deliver the text before the first drawn token, if the request asks for it: the echoed prompt and the replayed reply.
 * At most n more tokens; returns how many. The reader may refuse, which ends the reply.
 */
uint32_t hth_reply_tell(hth_reply *reply, uint32_t n);
/* Draw the next token from logits and deliver it. False when the reply has ended; the result has the reason. */
bool hth_reply_draw(hth_reply *reply, const float *logits);

/*
 * End the reply, if it has not ended: HEARTH_OK with a reason, or a failure whose message is already in the result's
 * error.
 */
void hth_reply_end(hth_reply *reply, hearth_status status, hearth_finish_reason reason);
/* Deliver the held text. Call once, after the end. */
void hth_reply_flush(hth_reply *reply);

#endif
