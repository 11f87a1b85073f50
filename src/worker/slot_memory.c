/*
 * A list in the order of use. It is short, and it is walked only when a request ends or a client gives an order.
 */
#include "worker/slot_memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#include "sched/batcher.h"

typedef struct kept kept;
struct kept {
    kept *prev, *next;
    char *salt; /* "": none */
    uint32_t number;
    hth_slot_adapters adapters;
    uint32_t n_tokens;
    hearth_token tokens[]; /* [n_tokens] */
};

struct hth_slot_memory {
    size_t n_tokens_max;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    kept *list; /* least recently used first */
    size_t n_kept;
    size_t n_tokens;
    uint32_t n_users[HTH_SLOT_NUMBERS_MAX];
};

hth_slot_memory *hth_slot_memory_new(size_t n_tokens_max)
{
    hth_slot_memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return NULL;
    memory->n_tokens_max = n_tokens_max;
    pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

static void remove_locked(hth_slot_memory *memory, kept *one)
{
    DL_DELETE(memory->list, one);
    memory->n_kept--;
    memory->n_tokens -= one->n_tokens;
    free(one->salt);
    free(one);
}

void hth_slot_memory_free(hth_slot_memory *memory)
{
    if (!memory)
        return;
    while (memory->list)
        remove_locked(memory, memory->list);
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

/* ---- numbers ---- */

static_assert((int)HTH_SLOT_NUMBERS_MAX >= (int)HTH_PARALLEL_MAX, "every slot of a model has a number");

uint32_t hth_slot_memory_take(hth_slot_memory *memory, int64_t wanted, uint32_t n)
{
    uint32_t number = 0;

    n = n < HTH_SLOT_NUMBERS_MAX ? n : HTH_SLOT_NUMBERS_MAX;
    pthread_mutex_lock(&memory->lock);
    for (uint32_t i = 1; i < n; i++)
        if (memory->n_users[i] < memory->n_users[number])
            number = i;
    if (wanted >= 0 && wanted < n)
        number = (uint32_t)wanted;
    memory->n_users[number]++;
    pthread_mutex_unlock(&memory->lock);
    return number;
}

void hth_slot_memory_give_back(hth_slot_memory *memory, uint32_t number)
{
    assert(number < HTH_SLOT_NUMBERS_MAX);
    pthread_mutex_lock(&memory->lock);
    memory->n_users[number]--;
    pthread_mutex_unlock(&memory->lock);
}

/* ---- tokens ---- */

static const char *text_of(const char *salt)
{
    return salt ? salt : "";
}

static kept *find_locked(const hth_slot_memory *memory, const char *salt, uint32_t number)
{
    kept *one;

    DL_FOREACH(memory->list, one)
    if (one->number == number && strcmp(one->salt, text_of(salt)) == 0)
        return one;
    return NULL;
}

static void clear_locked(hth_slot_memory *memory, const char *salt, uint32_t number)
{
    kept *one = find_locked(memory, salt, number);

    if (one)
        remove_locked(memory, one);
}

static kept *kept_new(const char *salt, const hth_slot_adapters *adapters, uint32_t number, uint32_t n_tokens)
{
    kept *one = malloc(sizeof(*one) + n_tokens * sizeof(one->tokens[0]));

    if (!one)
        return NULL;
    *one = (kept){ .salt = strdup(text_of(salt)), .adapters = *adapters, .number = number, .n_tokens = n_tokens };
    if (one->salt)
        return one;
    free(one);
    return NULL;
}

void hth_slot_memory_note(hth_slot_memory *memory, const char *salt, const hth_slot_adapters *adapters, uint32_t number,
                          const hearth_token *begin, uint32_t n_begin, const hearth_token *rest, uint32_t n_rest)
{
    size_t n = (size_t)n_begin + n_rest;
    kept *one = n > 0 && n <= memory->n_tokens_max ? kept_new(salt, adapters, number, (uint32_t)n) : NULL;

    if (one && n_begin > 0)
        memcpy(one->tokens, begin, n_begin * sizeof(*begin));
    if (one && n_rest > 0)
        memcpy(one->tokens + n_begin, rest, n_rest * sizeof(*rest));
    pthread_mutex_lock(&memory->lock);
    clear_locked(memory, salt, number);
    if (one) {
        DL_APPEND(memory->list, one);
        memory->n_kept++;
        memory->n_tokens += n;
    }
    while (memory->n_tokens > memory->n_tokens_max || memory->n_kept > HTH_SLOTS_KEPT_MAX)
        remove_locked(memory, memory->list);
    pthread_mutex_unlock(&memory->lock);
}

hearth_token *hth_slot_memory_tokens(hth_slot_memory *memory, const char *salt, uint32_t number,
                                     hth_slot_adapters *adapters_out, uint32_t *n_out)
{
    hearth_token *tokens = NULL;
    kept *one;

    pthread_mutex_lock(&memory->lock);
    one = find_locked(memory, salt, number);
    *n_out = one ? one->n_tokens : 0;
    if (one) {
        DL_DELETE(memory->list, one);
        DL_APPEND(memory->list, one);
        *adapters_out = one->adapters;
        tokens = malloc(one->n_tokens * sizeof(*tokens));
    }
    if (tokens)
        memcpy(tokens, one->tokens, one->n_tokens * sizeof(*tokens));
    pthread_mutex_unlock(&memory->lock);
    return tokens;
}

static uint32_t common(const hearth_token *a, uint32_t n_a, const hearth_token *b, uint32_t n_b)
{
    uint32_t n = 0;

    while (n < n_a && n < n_b && a[n] == b[n])
        n++;
    return n;
}

/* A set in another order counts as different: then an erase only removes rows that a prompt can make again. */
static bool are_same(const hth_slot_adapters *a, const hth_slot_adapters *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; i < a->n && same; i++)
        same = a->list[i].id == b->list[i].id && a->list[i].scale == b->list[i].scale;
    return same;
}

uint32_t hth_slot_memory_shared(hth_slot_memory *memory, const char *salt, const hth_slot_adapters *adapters,
                                uint32_t number, const hearth_token *tokens, uint32_t n_tokens)
{
    uint32_t most = 0;
    const kept *one;

    pthread_mutex_lock(&memory->lock);
    DL_FOREACH(memory->list, one)
    {
        uint32_t n =
            one->number != number && strcmp(one->salt, text_of(salt)) == 0 && are_same(&one->adapters, adapters)
                ? common(one->tokens, one->n_tokens, tokens, n_tokens)
                : 0;

        most = n > most ? n : most;
    }
    pthread_mutex_unlock(&memory->lock);
    return most;
}

void hth_slot_memory_clear(hth_slot_memory *memory, const char *salt, uint32_t number)
{
    pthread_mutex_lock(&memory->lock);
    clear_locked(memory, salt, number);
    pthread_mutex_unlock(&memory->lock);
}
