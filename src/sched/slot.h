/*
 * slot.h - one request on its way: from the queue through its prompt to the end of its reply
 *
 *   WAITING   in the queue: it has not run yet, or made room for another
 *   TELL      has a place; its prompt's text, or what was replayed, is told, some each tick
 *   PARENT    has a place; rows that another process may be writing are waited for
 *   PREFIX    has a place; another request is computing what it needs
 *   RESTORE   has a sequence; rows come into it
 *   EVALUATE  tokens are left to evaluate: those of the prompt, or the last one drawn
 *   ENDING    the reply is complete; what came of it is to be saved
 *   DONE      the result is complete
 *
 * The tokens that a slot wants in its sequence are the prompt and the reply so far. While the reply goes on all but its
 * last one are evaluated; so a slot that lost its sequence in the middle goes on like one that begins: look up, restore,
 * evaluate what is missing.
 *
 * A slot never evaluates: it says what it wants in a batch, and is told what came of it. Scheduler thread only, but for
 * hth_slot_new.
 */
#ifndef HTH_SCHED_SLOT_H
#define HTH_SCHED_SLOT_H

#include "sched/pool.h"
#include "sched/reply.h"
#include "sched/sequence_restore.h"

typedef enum hth_slot_state {
    HTH_SLOT_WAITING,
    HTH_SLOT_TELL,
    HTH_SLOT_PARENT,
    HTH_SLOT_PREFIX,
    HTH_SLOT_RESTORE,
    HTH_SLOT_EVALUATE,
    HTH_SLOT_ENDING,
    HTH_SLOT_DONE,
} hth_slot_state;

typedef struct hth_slot hth_slot;

struct hth_slot {
    /* Fixed. */
    const hth_workplace *place;
    hth_request *request; /* owned */

    /* The slot's own. */
    hth_slot_state state;
    hth_reply *reply;
    hth_seat *seat;       /* NULL: none */
    hearth_token *tokens; /* [n_tokens], prompt and reply */
    uint32_t n_tokens;
    uint32_t tokens_capacity;
    uint32_t n_room;      /* tokens that it may have in the context without asking again */
    uint32_t n_saved;     /* tokens that the latest row that was saved of the reply covers */
    const float *logits;  /* the next token is drawn from these; NULL: none yet */
    float *saved_logits;  /* [n_vocab], while a restore brings their sequence */
    hth_lookup lookup;    /* with restore */
    hth_restore *restore; /* in HTH_SLOT_RESTORE */
    hth_restored restored;
    uint32_t n_limit;  /* tokens to bring in at most */
    uint32_t n_shared; /* tokens it was seated with */
    int n_attempts;    /* restores of one beginning */
    bool lacks_logits; /* the prompt's end is known, and what follows it is not */
    bool has_begun;    /* its first beginning is over: statistics say what was known */
    bool has_told_restore;
    bool was_prefilled; /* the prompt's end was evaluated, or restored */

    /* The waiting line's. */
    hth_slot *prev, *next;
    uint64_t waits_since_ns; /* its first coming */
    uint64_t limit_ns;       /* of a newcomer's time; UINT64_MAX: none */
    uint32_t limited_place;
    bool has_returned; /* it has had a place before */

    /* The batcher's. */
    uint64_t number;     /* of its arrival */
    uint64_t started_ns; /* this run; 0 while it waits */
    uint64_t ran_ns;     /* in runs before */
    uint64_t paused_ns;  /* since then; 0: it is not */
    unsigned n_pauses;   /* seen */
    hth_slot *leader;    /* in HTH_SLOT_PREFIX: who computes */
    uint32_t n_awaited;  /* tokens of it that are waited for */
    uint32_t n_awaited_before;
    uint32_t n_needed;       /* cells that it was admitted for, while it has no seat */
    uint32_t n_spare;        /* cells that nobody was promised, when it begins or restores */
    uint64_t parent_wait_ns; /* in HTH_SLOT_PARENT: until when */
    uint64_t quiet_ns;       /* and until when something has to happen */
    uint32_t cache_changes;  /* seen */
    bool waited_for_parent;
    bool has_followers;  /* somebody waits, or waited, for what it computes */
    bool cannot_suspend; /* it was tried: it could not be saved */
    bool is_going;       /* while it is chosen who makes room: it would */
    bool is_short;       /* of cells: it waits in place until others have ended */
    uint32_t n_breaks;   /* evaluations that failed under it */
    uint32_t n_in_batch; /* rows of it */
    uint32_t first_row;
    uint64_t last_ticked; /* number of the tick that evaluated something of it */
};

/*
 * A slot for a request, which it takes over on HEARTH_OK only. sampling is the public one. Any thread; may take long
 * where there is a grammar, unless like, which no batcher has heard of yet, is a slot with the same sampling but for the
 * seed (NULL: there is none). HEARTH_MISUSE, HEARTH_NO_MEMORY.
 */
hearth_status hth_slot_new(const hth_workplace *workplace, hth_request *request, const hearth_sampling *sampling,
                           const hth_slot *like, hth_slot **out, hearth_error *err);
void hth_slot_free(hth_slot *slot); /* accepts NULL; it has no seat */

/* The prompt and what was drawn: all, or all but the last where the reply has begun, can be brought in from elsewhere. */
uint32_t hth_slot_n_limit(const hth_slot *slot);
hth_guest hth_slot_guest(const hth_slot *slot);
/* Tokens that it will have in the context, as far as is expected. */
uint32_t hth_slot_n_expected(const hth_slot *slot);
bool hth_slot_is_cancelled(const hth_slot *slot);
/* Its reader asked it to wait. */
/* Nobody waits for its reply, only its prompt is read on for a while. */
bool hth_slot_lingers(const hth_slot *slot);
bool hth_slot_is_paused(const hth_slot *slot);

/*
 * Tell what comes before the first token that is drawn; of at most *n_tokens tokens, which becomes how many are left. True
 * when all is told and the slot goes on; else it is in TELL, or in ENDING.
 */
bool hth_slot_tell(hth_slot *slot, uint32_t *n_tokens);
/* Take a seat and begin to bring in what is known. Ends in RESTORE, EVALUATE, or ENDING where it failed. */
void hth_slot_begin(hth_slot *slot, hth_pool *pool);
/* Go on with a restore until it is over, or until_ns. */
void hth_slot_restore(hth_slot *slot, hth_pool *pool, uint64_t until_ns);

/* In EVALUATE: what it could have in the next batch. */
hearth_plan_item hth_slot_plan_item(const hth_slot *slot);
/* May it take what others have computed, from rows or from the context? */
bool hth_slot_may_read(const hth_slot *slot);
/* Rows for its next n tokens. */
void hth_slot_fill_rows(const hth_slot *slot, uint32_t n, hth_batch_row *rows);
/* Are the logits after each of them wanted? */
bool hth_slot_wants_prompt_logprobs(const hth_slot *slot);
/* They were evaluated, and these are the logits after the i-th of them. Before hth_slot_note_evaluated. */
void hth_slot_note_prompt_logits(hth_slot *slot, uint32_t i, const float *logits);
/* They were evaluated; logits are those of the last where all tokens are, valid until the next evaluation. */
void hth_slot_note_evaluated(hth_slot *slot, uint32_t n, const float *logits, uint64_t begin_ns, uint64_t end_ns);
/* They were not, and the sequence is in doubt: go on from what is left of it. */
void hth_slot_note_broken(hth_slot *slot);
/* Draw a token where there are logits. */
void hth_slot_draw(hth_slot *slot);
/* Save what the last evaluation completed; before the next one, and before the end. */
void hth_slot_save(hth_slot *slot, const float *logits, bool keep_logits);

/* End it early; what it has is kept. err's message is the result's. */
void hth_slot_stop(hth_slot *slot, hearth_status status, hearth_finish_reason reason, const char *message);
/* ENDING to DONE: save, release the rest of the text, complete the statistics, leave the seat. */
void hth_slot_conclude(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);
/* Save everything. False where it could not go on from that later without computing something again. */
bool hth_slot_save_all(hth_slot *slot);
/* Make room for another, with everything saved: leave the seat, and wait. */
void hth_slot_suspend(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);
/* Leave a seat in the middle of a beginning, to wait for somebody else. */
void hth_slot_leave(hth_slot *slot, hth_pool *pool, uint64_t session_until_ns);

#endif
