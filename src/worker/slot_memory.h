/*
 * slot_memory.h - the tokens that ran last in each slot of a worker, for clients of llama-server
 *
 * A slot here is a number only, because every request can use every cached prefix. When a request ends, its evaluated
 * tokens are recorded under its slot and its salt: the same number with another salt is another slot. Nothing is stored
 * on disk. The memory is bounded in tokens; the least recently used slots go first.
 *
 * Any thread.
 */
#ifndef HTH_WORKER_SLOT_MEMORY_H
#define HTH_WORKER_SLOT_MEMORY_H

#include "engine/backend.h"

typedef struct hth_slot_memory hth_slot_memory;

enum { HTH_SLOT_TOKENS_MAX = 16 << 20 /* 64 MiB */, HTH_SLOTS_KEPT_MAX = 1024 };

/* n_tokens_max: of all slots together. NULL without memory. */
hth_slot_memory *hth_slot_memory_new(size_t n_tokens_max);
void hth_slot_memory_free(hth_slot_memory *memory); /* accepts NULL */

/* ---- numbers ---- */

enum { HTH_SLOT_NUMBERS_MAX = 256 };

/*
 * Take the slot of a request that begins, in [0, n): the wanted one or, if that is not in the range (-1), the lowest
 * one with the fewest requests.
 */
uint32_t hth_slot_memory_take(hth_slot_memory *memory, int64_t wanted, uint32_t n);
void hth_slot_memory_give_back(hth_slot_memory *memory, uint32_t number);

/* ---- tokens ---- */

/* The adapters of a request: those that it named, or those of the model at that time. */
typedef struct hth_slot_adapters {
    size_t n;
    hearth_adapter_scale list[HTH_ADAPTERS_MAX]; /* [n] */
} hth_slot_adapters;

/*
 * Record the tokens of begin, followed by those of rest. Without memory the slot becomes empty. salt: NULL or "" for
 * none, here and below.
 */
void hth_slot_memory_note(hth_slot_memory *memory, const char *salt, const hth_slot_adapters *adapters, uint32_t number,
                          const hearth_token *begin, uint32_t n_begin, const hearth_token *rest, uint32_t n_rest);
/*
 * A copy of the tokens, released with free, and the adapters. NULL with *n_out 0: the slot is empty. NULL with another
 * *n_out: no memory.
 */
hearth_token *hth_slot_memory_tokens(hth_slot_memory *memory, const char *salt, uint32_t number,
                                     hth_slot_adapters *adapters_out, uint32_t *n_out);
/*
 * The length in tokens of the longest prefix that these tokens share with a slot of another number and the same
 * adapters.
 */
uint32_t hth_slot_memory_shared(hth_slot_memory *memory, const char *salt, const hth_slot_adapters *adapters,
                                uint32_t number, const hearth_token *tokens, uint32_t n_tokens);
void hth_slot_memory_clear(hth_slot_memory *memory, const char *salt, uint32_t number);

#endif
