/*
 * worker_prompts.c - a hash table in the order of use, under a lock
 */
#include "server/worker_prompts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

typedef struct kept {
    uint8_t key[HTH_API_PROMPT_KEY_BYTES];
    hth_api_prompt *prompt;
    size_t bytes;
    UT_hash_handle hh;
} kept;

struct hth_prompts {
    size_t bytes_max;

    /* Guards the fields below. Innermost lock. */
    pthread_mutex_t lock;
    kept *by_key; /* in the order of their last use, the oldest first */
    size_t bytes;
};

hth_prompts *hth_prompts_new(size_t bytes_max)
{
    hth_prompts *prompts = calloc(1, sizeof(*prompts));

    if (!prompts)
        return NULL;
    prompts->bytes_max = bytes_max;
    pthread_mutex_init(&prompts->lock, NULL);
    return prompts;
}

static void remove_locked(hth_prompts *prompts, kept *one)
{
    HASH_DEL(prompts->by_key, one);
    prompts->bytes -= one->bytes;
    hth_api_prompt_unref(one->prompt);
    free(one);
}

void hth_prompts_free(hth_prompts *prompts)
{
    if (!prompts)
        return;
    while (prompts->by_key)
        remove_locked(prompts, prompts->by_key);
    pthread_mutex_destroy(&prompts->lock);
    free(prompts);
}

hth_api_prompt *hth_prompts_find(hth_prompts *prompts, const uint8_t key[HTH_API_PROMPT_KEY_BYTES])
{
    hth_api_prompt *found = NULL;
    kept *one;

    pthread_mutex_lock(&prompts->lock);
    HASH_FIND(hh, prompts->by_key, key, HTH_API_PROMPT_KEY_BYTES, one);
    if (one) {
        HASH_DEL(prompts->by_key, one);
        HASH_ADD(hh, prompts->by_key, key, HTH_API_PROMPT_KEY_BYTES, one); /* now the newest */
        found = hth_api_prompt_ref(one->prompt);
    }
    pthread_mutex_unlock(&prompts->lock);
    return found;
}

void hth_prompts_keep(hth_prompts *prompts, const uint8_t key[HTH_API_PROMPT_KEY_BYTES], hth_api_prompt *prompt)
{
    size_t bytes = hth_api_prompt_bytes(prompt) + sizeof(kept);
    kept *one, *there;

    if (bytes > prompts->bytes_max / 8)
        return;
    one = calloc(1, sizeof(*one));
    if (!one)
        return;
    memcpy(one->key, key, sizeof(one->key));
    one->bytes = bytes;
    one->prompt = hth_api_prompt_ref(prompt);
    pthread_mutex_lock(&prompts->lock);
    HASH_FIND(hh, prompts->by_key, key, HTH_API_PROMPT_KEY_BYTES, there);
    if (there) /* made twice at once */
        remove_locked(prompts, there);
    HASH_ADD(hh, prompts->by_key, key, HTH_API_PROMPT_KEY_BYTES, one);
    prompts->bytes += bytes;
    while (prompts->bytes > prompts->bytes_max)
        remove_locked(prompts, prompts->by_key);
    pthread_mutex_unlock(&prompts->lock);
}
