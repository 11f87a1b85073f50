/*
 * slot_memory.h - what ran last in each slot of a worker, as llama-server's clients number them
 *
 * A slot is a number of a request here, and no place: any request has any cached prefix. What is kept of one that ended are the
 * tokens that were evaluated for it, by number and salt: under another salt the slot of that number is another one. Nothing is
 * kept on disk. The bound is in tokens; those that were used least lately go.
 *
 * Any thread.
 */
#ifndef HTH_SERVER_SLOT_MEMORY_H
#define HTH_SERVER_SLOT_MEMORY_H

#include "hearth.h"

typedef struct hth_slot_memory hth_slot_memory;

enum { HTH_SLOT_TOKENS_MAX = 16 << 20 /* 64 MiB */, HTH_SLOTS_KEPT_MAX = 1024 };

/* Of so many tokens in all. NULL without memory. */
hth_slot_memory *hth_slot_memory_new(size_t n_tokens_max);
void hth_slot_memory_free(hth_slot_memory *memory); /* accepts NULL */

/* ---- numbers ---- */

enum { HTH_SLOT_NUMBERS_MAX = 256 };

/*
 * The number of a request that begins, of n there are: the wanted one, or, where that is none of them (-1), the one that the
 * fewest requests have, the lowest of those.
 */
uint32_t hth_slot_memory_take(hth_slot_memory *memory, int64_t wanted, uint32_t n);
void hth_slot_memory_give_back(hth_slot_memory *memory, uint32_t number);

/* ---- tokens ---- */

/* A salt is NULL or "" for none, here and below. Two arrays that follow one another; without memory the slot is empty. */
void hth_slot_memory_note(hth_slot_memory *memory, const char *salt, uint32_t number, const hearth_token *begin,
                          uint32_t n_begin, const hearth_token *rest, uint32_t n_rest);
/* A copy, released with free; NULL and *n_out 0: the slot is empty. NULL and another *n_out: no memory. */
hearth_token *hth_slot_memory_tokens(hth_slot_memory *memory, const char *salt, uint32_t number, uint32_t *n_out);
/* How many of these tokens the slots of other numbers begin with, at most. */
uint32_t hth_slot_memory_shared(hth_slot_memory *memory, const char *salt, uint32_t number, const hearth_token *tokens,
                                uint32_t n_tokens);
void hth_slot_memory_clear(hth_slot_memory *memory, const char *salt, uint32_t number);

#endif
