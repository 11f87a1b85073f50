/*
 * learned.h - the memory that models were seen to take, kept across restarts
 *
 * A model is known by its path, the size and time of its file, and its options. So a file that was replaced, or another
 * size of the context, is asked and measured anew. The file is a cache: without it, all is learned again.
 *
 *   hearth-needs 1
 *   model KEY BYTES          KEY: 64 hex digits. Lines of needs_text.h follow, if the needs are known
 *
 * A changed file is written beside the old one and takes its name. One thread.
 */
#ifndef HTH_SUPERVISOR_LEARNED_H
#define HTH_SUPERVISOR_LEARNED_H

#include "base/log.h"
#include "models/needs.h"

enum { HTH_LEARNED_KEY_BYTES = 32 };

typedef struct hth_learned_model {
    hth_model_needs needs; /* n_ctx 0: unknown */
    uint64_t bytes;        /* the most that a process took, without rows; 0: unknown */
} hth_learned_model;

typedef struct hth_learned hth_learned;

/*
 * Read the file; one that is missing, damaged or in an unsafe folder counts as empty. path NULL: keep all in memory.
 * log outlives it. NULL without memory.
 */
hth_learned *hth_learned_open(const char *path, const hth_log *log);
/* Writes changes. Accepts NULL. */
void hth_learned_close(hth_learned *learned);

/* The key of a model with these options of its worker, ending with NULL. False: path is NULL or names no file. */
bool hth_learned_key(const char *path, const char *const *options, uint8_t out[HTH_LEARNED_KEY_BYTES]);
/* False, with out unchanged: nothing is known. */
bool hth_learned_find(const hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], hth_learned_model *out);
/* Keep it in place of an earlier one; the one that was noted first goes when there are too many. */
void hth_learned_note(hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], const hth_learned_model *model);
/* Write the file if something has changed since. Without a sync: a file that a power cut spoils is empty. */
void hth_learned_write(hth_learned *learned);

#endif
