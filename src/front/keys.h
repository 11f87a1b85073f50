/*
 * keys.h - the key that a client sends, and its rights now
 *
 * Keys are kept as SHA-256 digests and compared in constant time. The limits of a key are token buckets of one minute.
 * Their contents survive a reload, by the key's name. In a fleet with a store they hold for all nodes together
 * (shared_limits.h). Event loop only.
 */
#ifndef HTH_FRONT_KEYS_H
#define HTH_FRONT_KEYS_H

#include "supervisor/server_options.h"

typedef struct hth_keys hth_keys;

hth_keys *hth_keys_new(void);       /* NULL without memory */
void hth_keys_free(hth_keys *keys); /* accepts NULL */
/* Use the keys of options, which must live until the next call. False without memory: the old keys stay. */
bool hth_keys_set(hth_keys *keys, const hth_server_options *options);

/* A key and its use. Valid until the next hth_keys_set, and while a request of the key runs. */
typedef struct hth_key_use hth_key_use;

/*
 * Find the key of the header authorization ("Bearer ...") or x-api-key (the bare key); either may be NULL. NULL: the
 * key is unknown. The key may have expired.
 */
hth_key_use *hth_keys_find(hth_keys *keys, const char *authorization, const char *bare_key);
/* Valid until the next hth_keys_set; NULL when a reload removed the key while a request ran. */
const hth_server_key *hth_key_use_key(const hth_key_use *use);
/* now_s: Unix time. */
bool hth_key_is_expired(const hth_server_key *key, int64_t now_s);
bool hth_key_allows_model(const hth_server_key *key, const char *model);

typedef enum hth_key_verdict {
    HTH_KEY_OK,
    HTH_KEY_TOO_MANY_REQUESTS,
    HTH_KEY_TOO_MANY_TOKENS,
    HTH_KEY_TOO_MANY_AT_ONCE
} hth_key_verdict;

/*
 * Begin a request at now_ns, in the same turn of the event loop as hth_keys_find. After OK, hth_key_use_end must
 * follow; it may free the use. Otherwise *retry_after_s is set.
 */
hth_key_verdict hth_key_use_begin(hth_key_use *use, uint64_t now_ns, uint32_t *retry_after_s);
void hth_key_use_end(hth_key_use *use, uint64_t now_ns, uint64_t n_tokens);

/* ---- the same limits on several nodes ---- */

/* What a key has used here since the last call, as far as it counts still, and has running. */
typedef struct hth_key_count {
    const hth_server_key *key; /* that has limits */
    double requests;
    double tokens;
    uint32_t n_running;
} hth_key_count;
/* Counts of the first keys with limits from *cursor on, which moves on, 0 at the beginning. Returns how many. */
size_t hth_keys_take_counts(hth_keys *keys, size_t *cursor, uint64_t now_ns, hth_key_count *out, size_t capacity);
/* The others did not learn these counts: the next ones have them, too. A key of this name may be gone. */
void hth_keys_return_counts(hth_keys *keys, const char *name, double requests, double tokens);
/* What all nodes have used of a minute, the last counts of this node included, and what others have running. */
void hth_keys_set_counts(hth_keys *keys, const char *name, double requests, double tokens, uint32_t n_running_elsewhere,
                         uint64_t now_ns);
/* The others cannot be asked: each of n nodes, at least 1, has its part of every limit, and of what was used. */
void hth_keys_divide(hth_keys *keys, uint32_t n);
/* They can be asked: the limits are whole, as at the beginning. */
void hth_keys_unite(hth_keys *keys);

#endif
