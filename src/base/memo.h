/*
 * memo.h - shared objects under digests, until others need their room
 *
 * A bounded map from 32 bytes to an object that counts its references. What was found or kept last goes last. Thread-safe;
 * its lock is innermost, but for what unref does.
 */
#ifndef HTH_BASE_MEMO_H
#define HTH_BASE_MEMO_H

#include <stddef.h>
#include <stdint.h>

enum { HTH_MEMO_KEY_BYTES = 32 };

typedef struct hth_memo hth_memo;

typedef struct hth_memo_kind {
    void (*ref)(void *object);
    void (*unref)(void *object);
} hth_memo_kind;

/* bytes_max: of all objects, as hth_memo_keep is told. kind outlives it. NULL without memory. */
hth_memo *hth_memo_new(size_t bytes_max, const hth_memo_kind *kind);
/* Objects that others hold stay. Accepts NULL. */
void hth_memo_free(hth_memo *memo);
/* A new reference to what is kept under key; NULL: nothing (any more). */
void *hth_memo_find(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES]);
/* Keep a reference of its own, in place of what was there. An object larger than an eighth of the room is not kept. */
void hth_memo_keep(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES], void *object, size_t n_bytes);

#endif
