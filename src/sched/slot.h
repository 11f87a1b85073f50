/*
 * slot.h - the place of one request: from the queue through its prompt to the end of its reply
 *
 *   WAITING   in the queue: the request has not run yet, or it was preempted
 *   DELIVER      runs; each tick delivers a part of the echoed prompt or of the replayed reply
 *   ROWS      runs; waits for rows, and holds no cells. Those of a parent key, which another process may be writing:
 *             until its own lookup finds them, nothing was published for a tenth of session_resume_wait_ms, or that
 *             time is over. Or those that on_missing fetches: until hearth_rows_came, or for as long as computing would
 *             take
 *   PREFIX    runs; waits for a prefix that another request is computing
 *   RESTORE   has a sequence; rows are being restored
 *   EVALUATE  has a sequence; tokens of the prompt, or the last drawn token, are still to be evaluated
 *   ENDING    the reply has ended; its cells are still to be saved
 *   DONE      the result is complete
 *
 * A slot goes through these states in this order, but may wait for a PREFIX before ROWS, too. It goes back from
 * EVALUATE to WAITING when it is preempted, and to PREFIX when a failed evaluation emptied its sequence; and from
 * PREFIX and ROWS to WAITING when there are too few cells. A cancelled, failed or timed-out request goes to ENDING from
 * any state.
 *
 * The sequence of a slot should hold the prompt and the reply so far, without the last drawn token. A slot that lost
 * its sequence continues as a new one begins: it looks up the tokens, restores rows and evaluates the rest.
 *
 * A slot never evaluates. It asks for rows in a batch, and the batch reports the result. Scheduler thread only, except
 * hth_slot_new.
 */
#ifndef HTH_SCHED_SLOT_H
#define HTH_SCHED_SLOT_H

#include "sched/draft.h"
#include "sched/draft_model.h"
#include "sched/pool.h"
#include "sched/reply.h"
#include "sched/sequence.h"

typedef enum hth_slot_state {
    HTH_SLOT_WAITING,
    HTH_SLOT_DELIVER,
    HTH_SLOT_ROWS,
    HTH_SLOT_PREFIX,
    HTH_SLOT_RESTORE,
    HTH_SLOT_EVALUATE,
    HTH_SLOT_ENDING,
    HTH_SLOT_DONE,
} hth_slot_state;

typedef struct hth_slot hth_slot;

struct hth_slot {
    /* Fixed at creation. */
    const hth_workplace *place;
    hth_request *request; /* owned */

    /* Used by the slot. */
    hth_slot_state state;
    hth_reply *reply;
    hth_pool_entry *entry; /* the assigned sequence; NULL: none */
    hearth_token *tokens;  /* [n_tokens], prompt and reply; NULL before the first hth_slot_begin */
    uint32_t n_tokens;
    uint32_t n_evaluated; /* tokens of the prompt; a token evaluated twice counts twice */
    size_t tokens_capacity;
    uint32_t n_room;      /* tokens whose cells the batcher has promised */
    uint32_t n_saved;     /* tokens of the sequence at the latest save */
    const float *logits;  /* the next token is drawn from these; NULL: none yet */
    const float *vector;  /* the prompt's embedding, for on_vector; NULL: none yet */
    float *saved_logits;  /* [n_vocab], from a logits row; kept until the restore has ended */
    hth_lookup lookup;    /* used by restore */
    hth_restore *restore; /* in HTH_SLOT_RESTORE */
    hth_restored restored;
    uint32_t n_limit;  /* maximum number of tokens to restore */
    uint32_t n_shared; /* leading tokens that the sequence had when it was assigned */
    int n_attempts;    /* to restore, since hth_slot_begin */
    bool lacks_logits; /* all of the prompt was known, but not the logits after it */
    bool has_begun;    /* the first restore is over: the statistics have the hit */
    bool tells;        /* it delivers known text, or did so when it was suspended */
    bool has_reported_restore;
    bool was_prefilled;                  /* the end of the prompt was evaluated or restored */
    hth_draft *draft;                    /* the source of its drafts; NULL: not needed yet */
    hth_draft_seat *seat;                /* in the draft model; NULL: none */
    uint32_t n_draft;                    /* draft tokens in its rows, after tokens [n_tokens] */
    float draft_right[HEARTH_DRAFT_MAX]; /* [n_draft] probability that the draft is right up to this token */

    /* Used by the waiting line. */
    hth_slot *prev, *next;
    uint64_t waits_since_ns; /* the first arrival */
    uint64_t came_ns;        /* likewise, or that in an earlier process */
    uint64_t limit_ns;       /* a newcomer's time limit; UINT64_MAX: none */
    uint32_t limited_place;  /* index in the heap of time limits */
    bool has_returned;       /* it has run before, or was in another process */

    /* Used by the batcher. */
    uint64_t number;           /* assigned at arrival */
    uint64_t started_ns;       /* start of this run; 0 while it waits */
    uint64_t ran_ns;           /* in earlier runs */
    uint64_t paused_ns;        /* start of the pause; 0: not paused */
    unsigned n_pauses;         /* the request's, as last seen */
    hth_slot *leader;          /* in HTH_SLOT_PREFIX: the slot that computes the prefix */
    uint32_t n_awaited;        /* tokens of that prefix */
    uint32_t n_awaited_before; /* a slot waits again only for more than these tokens */
    uint32_t n_needed;         /* cells of its admission, while it has no sequence */
    uint32_t n_spare;          /* cells not promised to any slot when this one begins or restores */
    uint64_t rows_until_ns;    /* end of the wait for rows; 0: it has not waited */
    uint64_t quiet_ns;         /* end of the wait for a parent's rows unless the cache changes before then */
    uint32_t cache_changes;    /* the cache's counter, as last seen */
    bool waited_for_parent;
    bool has_asked;       /* on_missing was called, or need not be */
    bool awaits_others;   /* on_missing fetches rows, and the wait for them is not over */
    bool has_followers;   /* a slot waits, or has waited, for the prefix that this one computes */
    bool cannot_suspend;  /* an attempt failed: its cells could not be saved */
    bool is_going;        /* set while the batcher counts the cells that preempting this slot would free */
    bool is_short;        /* it lacks cells, and keeps its place until other requests end */
    uint32_t n_breaks;    /* failed evaluations with its rows */
    uint32_t n_in_batch;  /* its rows in the batch */
    uint32_t first_row;   /* index of the first of them */
    uint64_t last_ticked; /* number of the last tick that evaluated its rows */
    uint64_t turn_wait;   /* number of its wait for the turn of its adapters; 0: it does not wait */
    uint64_t turn_due;    /* virtual time of its next turn (turns.h); 0: no turn yet */
};

/*
 * Make a slot for a request, which it takes over only on HEARTH_OK. sampling is the public struct. like is NULL, or a
 * slot, not yet in a batcher, with the same sampling except for the seed. A grammar without like may take a long time.
 * Any thread. HEARTH_MISUSE, HEARTH_NO_MEMORY.
 */
hearth_status hth_slot_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                           const hth_slot *like, hth_slot **out, hearth_error *err);
void hth_slot_free(hth_slot *slot); /* accepts NULL; the slot must not occupy a sequence */

/* The maximum number of tokens to share or restore: the prompt and the reply so far, without the last drawn token. */
uint32_t hth_slot_n_limit(const hth_slot *slot);
hth_pool_query hth_slot_pool_query(const hth_slot *slot);
/* The number of tokens that it is expected to have in the context at its end. */
uint32_t hth_slot_n_expected(const hth_slot *slot);
bool hth_slot_is_cancelled(const hth_slot *slot);
/* Is the prompt still evaluated for a while although no client waits for the reply? */
bool hth_slot_lingers(const hth_slot *slot);
bool hth_slot_is_paused(const hth_slot *slot);
/* Is it paused, and would its next step deliver text to its reader? A pause does not stop prefill. */
bool hth_slot_waits_for_reader(const hth_slot *slot);

/*
 * Deliver at most *n_tokens tokens of the echoed prompt or the replayed reply, and subtract the delivered ones from
 * *n_tokens. True if everything is delivered and the slot can begin; otherwise it is in DELIVER or ENDING.
 */
bool hth_slot_tell(hth_slot *slot, uint32_t *n_tokens);
/* Assign a sequence and begin to restore the known prefix. Ends in RESTORE or EVALUATE; ENDING after a failure. */
void hth_slot_begin(hth_slot *slot, hth_pool *pool);
/* Continue a restore to its end, but no longer than until_ns. */
void hth_slot_restore(hth_slot *slot, hth_pool *pool, uint64_t until_ns);

/* In EVALUATE: the tokens that the next batch can take. */
hearth_plan_item hth_slot_plan_item(const hth_slot *slot);
/* May it use rows, and cells of other sequences? */
bool hth_slot_may_read(const hth_slot *slot);
/* Write the batch rows of its next n tokens. */
void hth_slot_fill_rows(const hth_slot *slot, uint32_t n, hth_batch_row *rows);
/* Does it need the logits after each of these tokens? */
bool hth_slot_wants_prompt_logprobs(const hth_slot *slot);
/* The rows were evaluated: take the logits after row i. Called before hth_slot_note_evaluated. */
void hth_slot_note_prompt_logits(hth_slot *slot, uint32_t i, const float *logits);
/*
 * n rows were evaluated, including those of a draft. logits are those of the last row before the draft; they are used
 * if no token is left to evaluate, and stay valid until the next evaluation.
 */
void hth_slot_note_evaluated(hth_slot *slot, uint32_t n, const float *logits, uint64_t begin_ns, uint64_t end_ns);
/* The evaluation failed: remove the cells that it may have left, or empty the sequence. */
void hth_slot_note_broken(hth_slot *slot);
/* Draw the next token, if there are logits. */
void hth_slot_draw(hth_slot *slot);
/*
 * Save the rows that the last evaluation completed. Call before the next evaluation and before the end. With
 * keep_logits, the sequence keeps the logits after the prompt for other slots.
 */
void hth_slot_save(hth_slot *slot, const float *logits, bool keep_logits);

/* End the reply now; its tokens and text stay. message (NULL: none) becomes the result's error. */
void hth_slot_stop(hth_slot *slot, hearth_status status, hearth_finish_reason reason, const char *message);
/* Go from ENDING to DONE: release the held text, save, complete the statistics, release the sequence. */
void hth_slot_conclude(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);
/* Save all of its cells. False if a part could not be saved and would have to be computed again. */
bool hth_slot_save_all(hth_slot *slot);
/* Preempt it after hth_slot_save_all: release the sequence and go to WAITING. */
void hth_slot_suspend(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);
/* Release the sequence, if there is one. The slot must begin again. */
void hth_slot_release(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);

/*
 * ---- drafts: guess the next tokens, evaluate them with the last one, remove the wrong ones ----
 *
 * The draft of a planned evaluation follows the tokens of the slot, and is in the sequence once it has been evaluated.
 * Drawn tokens replace it in the slot. Before the sequence is saved or shared, it is cut after the last token that both
 * have in common. So cells of wrong tokens are never saved or shared.
 */

/*
 * The next evaluation has the last token of the slot: append a draft from its text, which is either empty or at least
 * as long as the request's minimum. least: see hth_draft_guess.
 */
void hth_slot_plan_draft(hth_slot *slot, float least);
/* The same for the draft model: fill in a job for at most n_max tokens. False if no draft may follow. */
bool hth_slot_draft_job(hth_slot *slot, uint32_t n_max, hth_draft_job *out);
/* The draft model has done the job; its guess may be empty. */
void hth_slot_take_draft(hth_slot *slot, const hth_draft_job *job);
/* Was token i of the draft drawn, so that the logits after it are valid, and does the reply continue? */
bool hth_slot_has_drawn_draft(const hth_slot *slot, uint32_t i);
/* Nothing more is drawn: cut the sequence and discard the draft. */
void hth_slot_end_draft(hth_slot *slot);

#endif
