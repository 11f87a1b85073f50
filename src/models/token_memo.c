/*
 * token_memo.c - hash tables of texts, one for each way of tokenizing, and a list of all texts by age
 */
#include "models/token_memo.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A table that has no memory to grow is told, and stays as it is. */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((entry)->is_lost = true)
#include <uthash.h>
#include <utlist.h>

typedef struct entry {
    UT_hash_handle hh;
    struct entry *prev, *next; /* by age, the oldest first */
    hearth_token *tokens;      /* [n] */
    size_t n;
    size_t n_bytes;
    unsigned way;
    bool is_lost; /* the table did not take it */
    char text[];
} entry;

/* Ways of tokenizing: sets of flags that change what comes of it. */
enum { WAY_MASK = HEARTH_TOKENIZE_BOS | HEARTH_TOKENIZE_SPECIAL, N_WAYS = WAY_MASK + 1 };

struct hth_token_memo {
    size_t bytes_max; /* fixed */
    pthread_mutex_t lock;
    /* Guarded by the lock. */
    entry *tables[N_WAYS];
    entry *by_age;
    size_t bytes;
};

hth_token_memo *hth_token_memo_new(size_t bytes_max)
{
    hth_token_memo *memo = calloc(1, sizeof(*memo));

    if (!memo)
        return NULL;
    memo->bytes_max = bytes_max;
    if (pthread_mutex_init(&memo->lock, NULL) != 0) {
        free(memo);
        return NULL;
    }
    return memo;
}

static size_t bytes_of(size_t n_bytes, size_t n_tokens)
{
    return sizeof(entry) + n_bytes + n_tokens * sizeof(hearth_token);
}

static void entry_free(entry *e)
{
    free(e->tokens);
    free(e);
}

static void drop_locked(hth_token_memo *memo, entry *e)
{
    HASH_DEL(memo->tables[e->way], e);
    DL_DELETE(memo->by_age, e);
    memo->bytes -= bytes_of(e->n_bytes, e->n);
    entry_free(e);
}

void hth_token_memo_free(hth_token_memo *memo)
{
    if (!memo)
        return;
    while (memo->by_age)
        drop_locked(memo, memo->by_age);
    (void)pthread_mutex_destroy(&memo->lock); /* nobody holds it */
    free(memo);
}

static bool is_worth_it(size_t n_bytes)
{
    return n_bytes >= HTH_TOKEN_MEMO_TEXT_MIN && n_bytes <= HTH_TOKEN_MEMO_TEXT_MAX;
}

static entry *find_locked(hth_token_memo *memo, const char *text, size_t n_bytes, unsigned way)
{
    entry *e = NULL;

    HASH_FIND(hh, memo->tables[way], text, n_bytes, e);
    return e;
}

bool hth_token_memo_find(hth_token_memo *memo, const char *text, size_t n_bytes, unsigned flags,
                         hearth_token **tokens_out, size_t *n_out)
{
    hearth_token *tokens = NULL;
    entry *e;

    if (!is_worth_it(n_bytes))
        return false;
    (void)pthread_mutex_lock(&memo->lock);
    e = find_locked(memo, text, n_bytes, flags & WAY_MASK);
    if (e) {
        DL_DELETE(memo->by_age, e);
        DL_APPEND(memo->by_age, e);
        tokens = malloc((e->n + 1) * sizeof(*tokens));
        if (tokens) {
            memcpy(tokens, e->tokens, e->n * sizeof(*tokens));
            *tokens_out = tokens;
            *n_out = e->n;
        }
    }
    (void)pthread_mutex_unlock(&memo->lock);
    return tokens != NULL;
}

static entry *entry_new(const char *text, size_t n_bytes, unsigned way, const hearth_token *tokens, size_t n)
{
    entry *e = calloc(1, sizeof(*e) + n_bytes);

    if (!e)
        return NULL;
    e->tokens = malloc((n + 1) * sizeof(*e->tokens));
    if (!e->tokens) {
        free(e);
        return NULL;
    }
    memcpy(e->text, text, n_bytes);
    memcpy(e->tokens, tokens, n * sizeof(*tokens));
    e->n_bytes = n_bytes;
    e->n = n;
    e->way = way;
    return e;
}

void hth_token_memo_add(hth_token_memo *memo, const char *text, size_t n_bytes, unsigned flags,
                        const hearth_token *tokens, size_t n)
{
    const unsigned way = flags & WAY_MASK;
    size_t bytes = bytes_of(n_bytes, n);
    entry *e = NULL;

    if (is_worth_it(n_bytes) && bytes <= memo->bytes_max)
        e = entry_new(text, n_bytes, way, tokens, n);
    if (!e)
        return;
    (void)pthread_mutex_lock(&memo->lock);
    /* Another thread may have been as quick. */
    e->is_lost = find_locked(memo, text, n_bytes, way) != NULL;
    if (!e->is_lost) {
        while (memo->bytes + bytes > memo->bytes_max)
            drop_locked(memo, memo->by_age);
        HASH_ADD_KEYPTR(hh, memo->tables[way], e->text, n_bytes, e);
    }
    if (!e->is_lost) {
        DL_APPEND(memo->by_age, e);
        memo->bytes += bytes;
    }
    (void)pthread_mutex_unlock(&memo->lock);
    if (e->is_lost)
        entry_free(e);
}
