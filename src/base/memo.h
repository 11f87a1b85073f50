/*
 * memo.h - shared objects under digests, in bounded memory
 *
 * A bounded map from 32 bytes to a reference-counted object. The least recently found or kept object is dropped first.
 * Thread-safe. Its lock is innermost, except that unref may take others.
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

/*
 * bytes_max: limit for all objects, using the sizes given to hth_memo_keep. kind must outlive the memo. NULL without
 * memory.
 */
hth_memo *hth_memo_new(size_t bytes_max, const hth_memo_kind *kind);
/* Objects with other references stay. Accepts NULL. */
void hth_memo_free(hth_memo *memo);
/* A new reference to the object under key. NULL: none (any more). */
void *hth_memo_find(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES]);
/*
 * Keep a reference of the memo's own, replacing an earlier object. An object larger than an eighth of bytes_max is not
 * kept.
 */
void hth_memo_keep(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES], void *object, size_t n_bytes);

#endif
