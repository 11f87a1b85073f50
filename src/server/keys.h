/*
 * keys.h - who a client is and what it may do now
 *
 * Keys are kept as SHA-256 and compared in constant time. Limits of a key are token buckets of a minute; what they count
 * survives a reload under the key's name. Event loop only.
 */
#ifndef HTH_SERVER_KEYS_H
#define HTH_SERVER_KEYS_H

#include "server/options.h"

typedef struct hth_keys hth_keys;

hth_keys *hth_keys_new(void);       /* NULL without memory */
void hth_keys_free(hth_keys *keys); /* accepts NULL */
/* Take over the keys of options, which outlive them or the next call; false without memory, nothing changed. */
bool hth_keys_set(hth_keys *keys, const hth_server_options *options);

/* A key and what it has used; valid until the next hth_keys_set, and while a request that it began runs. */
typedef struct hth_key_use hth_key_use;

/*
 * Who shows this: "Bearer ..." (authorization) or the bare key (x-api-key), either NULL. NULL: nobody we know. Who it is may
 * have a key that is expired.
 */
hth_key_use *hth_keys_find(hth_keys *keys, const char *authorization, const char *bare_key);
/* In the options in force, until the next hth_keys_set; NULL where that took the key away while a request ran. */
const hth_server_key *hth_key_use_key(const hth_key_use *use);
/* Is it one to be refused at now_s, Unix time? */
bool hth_key_is_expired(const hth_server_key *key, int64_t now_s);
bool hth_key_allows_model(const hth_server_key *key, const char *model);

typedef enum hth_key_verdict {
    HTH_KEY_OK,
    HTH_KEY_TOO_MANY_REQUESTS,
    HTH_KEY_TOO_MANY_TOKENS,
    HTH_KEY_TOO_MANY_AT_ONCE
} hth_key_verdict;

/*
 * Begin a request at now_ns, in the turn of the event loop in which the use was found; OK is to be followed by
 * hth_key_use_end, with which the use may be gone. *retry_after_s is set otherwise.
 */
hth_key_verdict hth_key_use_begin(hth_key_use *use, uint64_t now_ns, uint32_t *retry_after_s);
void hth_key_use_end(hth_key_use *use, uint64_t now_ns, uint64_t n_tokens);

#endif
