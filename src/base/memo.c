/*
 * memo.c - a hash table ordered by last use
 */
#include "base/memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

typedef struct kept {
    uint8_t key[HTH_MEMO_KEY_BYTES];
    void *object;
    size_t bytes;
    UT_hash_handle hh;
} kept;

struct hth_memo {
    /* Fixed. */
    size_t bytes_max;
    const hth_memo_kind *kind;

    /* Guards the fields below. */
    pthread_mutex_t lock;
    kept *by_key; /* in the order of their last use, the oldest first */
    size_t bytes;
};

hth_memo *hth_memo_new(size_t bytes_max, const hth_memo_kind *kind)
{
    hth_memo *memo = calloc(1, sizeof(*memo));

    if (!memo)
        return NULL;
    memo->bytes_max = bytes_max;
    memo->kind = kind;
    pthread_mutex_init(&memo->lock, NULL);
    return memo;
}

static void remove_locked(hth_memo *memo, kept *one)
{
    HASH_DEL(memo->by_key, one); /* NOLINT(clang-analyzer-core.NullDereference): an entry in the table has neighbours */
    memo->bytes -= one->bytes;
    memo->kind->unref(one->object);
    free(one);
}

void hth_memo_free(hth_memo *memo)
{
    if (!memo)
        return;
    while (memo->by_key)
        remove_locked(memo, memo->by_key); /* NOLINT(clang-analyzer-unix.Malloc): the first of a table has no prev */
    pthread_mutex_destroy(&memo->lock);
    free(memo);
}

void *hth_memo_find(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES])
{
    void *found = NULL;
    kept *one;

    pthread_mutex_lock(&memo->lock);
    HASH_FIND(hh, memo->by_key, key, HTH_MEMO_KEY_BYTES, one);
    if (one) {
        HASH_DEL(memo->by_key, one);
        HASH_ADD(hh, memo->by_key, key, HTH_MEMO_KEY_BYTES, one); /* now the newest */
        found = one->object;
        memo->kind->ref(found);
    }
    pthread_mutex_unlock(&memo->lock);
    return found;
}

void hth_memo_keep(hth_memo *memo, const uint8_t key[HTH_MEMO_KEY_BYTES], void *object, size_t n_bytes)
{
    size_t bytes = n_bytes + sizeof(kept);
    kept *one, *there;

    if (bytes > memo->bytes_max / 8)
        return;
    one = calloc(1, sizeof(*one));
    if (!one)
        return;
    memcpy(one->key, key, sizeof(one->key));
    one->bytes = bytes;
    one->object = object;
    memo->kind->ref(object);
    pthread_mutex_lock(&memo->lock);
    HASH_FIND(hh, memo->by_key, key, HTH_MEMO_KEY_BYTES, there);
    if (there) /* two threads created it at once */
        remove_locked(memo, there);
    HASH_ADD(hh, memo->by_key, key, HTH_MEMO_KEY_BYTES, one);
    memo->bytes += bytes;
    while (memo->bytes > memo->bytes_max)
        remove_locked(memo, memo->by_key); /* NOLINT(clang-analyzer-unix.Malloc): the table has a new first entry */
    pthread_mutex_unlock(&memo->lock);
}
