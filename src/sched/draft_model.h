/*
 * draft_model.h - a small model that guesses the next tokens of replies
 *
 * The draft model has the vocabulary of the model whose replies it guesses, called the target, and a context of its
 * own. A reply that asks for guesses gets a seat: a sequence of the draft model, which follows the tokens of the reply.
 * One evaluation serves all seats at once. A prompt is filled from shared cells, then from rows, then by evaluation, so
 * a prompt that is warm for the target is warm for the draft model, too. Its rows are in their own keyspace.
 *
 * A guess is drawn as the target draws: with the temperature and the filters of the request, and with the same random
 * number for its seed and position. So two models that agree draw the same tokens.
 *
 * The draft model learns how often its guesses are right, by their probability and for each reply. It guesses a token
 * only while that is likely to save time. A reply for which it is not gets an occasional guess, to learn whether that
 * has changed.
 *
 * A sequence may end with guesses. Before it is saved or shared, it is cut after the tokens of its reply. So wrong
 * tokens are never saved or shared.
 *
 * Only the scheduler's thread calls these functions; any thread may call hth_draft_model_keyspace. Only opening can
 * fail. If the engine fails later, that is logged, and there are no more guesses.
 */
#ifndef HTH_SCHED_DRAFT_MODEL_H
#define HTH_SCHED_DRAFT_MODEL_H

#include "sched/request.h"
#include "sched/sequence.h"

typedef struct hth_draft_seat hth_draft_seat;

typedef struct hth_draft_model_options {
    const hth_workplace *place; /* of the draft model; borrowed */
    uint32_t n_sequences;       /* of its context, as for the target; more than the requests that run at once */
    uint32_t n_vocab;           /* of the target: other tokens are not guessed */
    uint32_t max_tick_ms;
} hth_draft_model_options;

/* The caller owns *out. options is copied. After HEARTH_NO_MEMORY, *out does not change. */
hearth_status hth_draft_model_open(const hth_draft_model_options *options, hth_draft_model **out, hearth_error *err);
void hth_draft_model_close(hth_draft_model *model); /* all replies must have left; accepts NULL */

/*
 * The keyspace of the draft model's rows for a request of this keyspace: salts remain separate, adapters do not matter.
 */
void hth_draft_model_keyspace(const hth_workplace *place, const hth_keyspace *request, hth_keyspace *out);

/* A request for guesses of the tokens that follow these. */
typedef struct hth_draft_job {
    const hth_request *request; /* borrowed until the reply leaves its seat */
    hth_draft_seat **seat;      /* the reply's seat, owned by the draft model; *seat NULL: none yet */
    const hearth_token *tokens; /* [n_tokens], prompt and reply; borrowed during the call */
    uint32_t n_tokens;
    uint32_t n_max;                       /* 1 .. HEARTH_DRAFT_MAX; guesses end at a block boundary at the latest */
    hearth_token guess[HEARTH_DRAFT_MAX]; /* [n] */
    uint32_t n;
    float right[HEARTH_DRAFT_MAX]; /* [n] the probability that the guesses up to and including this one are right */
    void *owner;                   /* the caller's */
    /* Used by the draft model. */
    float all_right; /* the probability that all are right */
    bool is_open;
} hth_draft_job;

/*
 * Guess for n jobs of different replies, n >= 1. This evaluates: for prompts it takes about token_ns or a quarter of
 * max_tick_ms, whichever is shorter, and for each guess one step. price is the cost of verifying a token, as a fraction
 * of token_ns, the time of a token without guesses; 0: unknown. A job may get no guesses, if its prompt is not
 * evaluated yet or guesses do not pay.
 */
void hth_draft_model_guess(hth_draft_model *model, hth_draft_job *jobs, uint32_t n, float price, uint64_t token_ns);

/*
 * The reply has ended or was preempted with these tokens, prompt and reply: save and release its sequence. Afterwards
 * the seat is free, and the request is no longer borrowed.
 */
void hth_draft_model_leave(hth_draft_model *model, hth_draft_seat *seat, const hearth_token *tokens, uint32_t n_tokens);

/* Save the sequences, like hth_pool_save. Wrong guesses are removed first. */
void hth_draft_model_save(hth_draft_model *model, hearth_save_reason reason);
/* Like hth_pool_forget; fingerprint is the draft model's. */
void hth_draft_model_forget(hth_draft_model *model, const uint8_t fingerprint[32], const hearth_token *tokens,
                            uint32_t n_tokens, uint32_t n_kept);

#endif
