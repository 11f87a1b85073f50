/*
 * learned.h - the measured memory use of models, kept across restarts
 *
 * The key of a model is its path, the size and time of its file, and its options. So a model whose file was replaced,
 * or whose context size changed, is measured again. The file is a cache: without it, everything is measured again.
 *
 *   hearth-needs 1
 *   model KEY BYTES          KEY: 64 hex digits. Lines of needs_text.h follow, if the needs are known
 *
 * A new version is written beside the old file and then renamed to it. One thread.
 */
#ifndef HTH_SUPERVISOR_LEARNED_H
#define HTH_SUPERVISOR_LEARNED_H

#include "base/log.h"
#include "models/needs.h"

enum { HTH_LEARNED_KEY_BYTES = 32 };

typedef struct hth_learned_model {
    hth_model_needs needs; /* n_ctx 0: unknown */
    uint64_t bytes;        /* the most that a process used, without rows; 0: unknown */
} hth_learned_model;

typedef struct hth_learned hth_learned;

/*
 * Read the file. A file that is missing, damaged or in an unsafe folder counts as empty. path NULL: keep everything in
 * memory. log must outlive the result. NULL without memory.
 */
hth_learned *hth_learned_open(const char *path, const hth_log *log);
/* Writes changes. Accepts NULL. */
void hth_learned_close(hth_learned *learned);

/* The key of a model with these options of its worker, ending with NULL. False: path is NULL or names no file. */
bool hth_learned_key(const char *path, const char *const *options, uint8_t out[HTH_LEARNED_KEY_BYTES]);
/* False, with out unchanged: nothing is known. */
bool hth_learned_find(const hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], hth_learned_model *out);
/* Store an entry, in place of an earlier one. If there are too many, the oldest entry is dropped. */
void hth_learned_note(hth_learned *learned, const uint8_t key[HTH_LEARNED_KEY_BYTES], const hth_learned_model *model);
/* Write the file if something has changed since. There is no sync: a file that a power cut damages counts as empty. */
void hth_learned_write(hth_learned *learned);

#endif
