/*
 * keys.c - keys by their digests, and buckets that refill
 *
 * The limits of a key are two buckets, for requests and tokens. A request is counted when it begins, and its tokens
 * when it ends, because their number is not known before. A bucket holds the used part of one minute's allowance, which
 * decreases at the rate of the limit. A request may begin while some allowance is left. So an idle key may use a
 * minute's allowance at once, and one request may exceed the rest; later requests then wait longer.
 *
 * The digest of the client's key is compared with every known digest, even after a match, so that the time reveals
 * nothing about a key. A key's use outlives a reload, by the key's name. The use of a removed key lives until its
 * requests end.
 */
#include "front/keys.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"

static_assert(HTH_SHA256_BYTES == HTH_HMAC_BYTES, "digests are compared as codes are");

enum { SECONDS_OF_EXCHANGE = 1 }; /* between two exchanges with other nodes, at most */

typedef struct bucket {
    double used; /* of a minute's allowance; a large request may exceed it */
    uint64_t at_ns;
} bucket;

struct hth_key_use {
    hth_keys *keys;
    const hth_server_key *key; /* in the current options; NULL: gone */
    bucket requests;
    bucket tokens;
    double new_requests; /* since they were told to other nodes */
    double new_tokens;   /* likewise */
    uint32_t n_running;
    uint32_t n_running_elsewhere;
    char name[];
};

struct hth_keys {
    hth_key_use **uses; /* [n]: those of the current options, in their order, then those of removed keys */
    size_t n;
    uint32_t n_parts; /* of every limit, of which this node has one; at least 1 */
};

hth_keys *hth_keys_new(void)
{
    hth_keys *keys = calloc(1, sizeof(*keys));

    if (keys)
        keys->n_parts = 1;
    return keys;
}

void hth_keys_free(hth_keys *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->n; i++)
        free(keys->uses[i]);
    free(keys->uses);
    free(keys);
}

/* ---- another set of keys ---- */

static hth_key_use *use_of(const hth_keys *keys, const char *name)
{
    for (size_t i = 0; i < keys->n; i++)
        if (strcmp(keys->uses[i]->name, name) == 0)
            return keys->uses[i];
    return NULL;
}

static hth_key_use *use_new(hth_keys *keys, const char *name)
{
    const size_t n = strlen(name) + 1;
    hth_key_use *use = calloc(1, sizeof(*use) + n);

    if (!use)
        return NULL;
    use->keys = keys;
    memcpy(use->name, name, n);
    return use;
}

bool hth_keys_set(hth_keys *keys, const hth_server_options *options)
{
    hth_key_use **uses = calloc(options->n_keys + keys->n + 1, sizeof(hth_key_use *));
    size_t n = 0;

    for (; uses && n < options->n_keys; n++) {
        uses[n] = use_of(keys, options->keys[n].name);
        if (!uses[n])
            uses[n] = use_new(keys, options->keys[n].name);
        if (!uses[n])
            break;
    }
    if (!uses || n < options->n_keys) {
        while (n-- > 0)
            if (!use_of(keys, uses[n]->name))
                free(uses[n]); /* a new one; NOLINT(clang-analyzer-unix.Malloc): names are unique */
        free(uses);
        return false;
    }
    /* Nothing fails from here on. */
    for (size_t i = 0; i < keys->n; i++)
        keys->uses[i]->key = NULL;
    for (size_t i = 0; i < n; i++)
        uses[i]->key = &options->keys[i];
    for (size_t i = 0; i < keys->n; i++) {
        hth_key_use *use = keys->uses[i];

        if (!use->key && use->n_running > 0)
            uses[n++] = use;
        else if (!use->key)
            free(use);
    }
    free(keys->uses);
    keys->uses = uses;
    keys->n = n;
    return true;
}

/* The key is gone, and the last request of its use has ended. */
static void remove_use(hth_key_use *use)
{
    hth_keys *keys = use->keys;

    for (size_t i = 0; i < keys->n; i++) {
        if (keys->uses[i] != use)
            continue;
        memmove(&keys->uses[i], &keys->uses[i + 1], (keys->n - i - 1) * sizeof(hth_key_use *));
        keys->n--;
        break;
    }
    free(use);
}

/* ---- the client's key ---- */

static hth_key_use *find_secret(hth_keys *keys, const char *secret)
{
    uint8_t digest[HTH_SHA256_BYTES];
    hth_key_use *found = NULL;

    hth_sha256_of(secret, strlen(secret), digest);
    for (size_t i = 0; i < keys->n; i++) {
        hth_key_use *use = keys->uses[i];

        if (use->key && hth_hmac_equal(use->key->sha256, digest))
            found = use;
    }
    return found;
}

/* The text after "Bearer"; NULL: another scheme. */
static const char *bearer(const char *authorization)
{
    static const char scheme[] = "bearer";
    const size_t n = sizeof(scheme) - 1;

    if (!authorization || strncasecmp(authorization, scheme, n) != 0 || authorization[n] != ' ')
        return NULL;
    return authorization + n + strspn(authorization + n, " ");
}

hth_key_use *hth_keys_find(hth_keys *keys, const char *authorization, const char *bare_key)
{
    const char *secret = bearer(authorization);
    hth_key_use *use = secret ? find_secret(keys, secret) : NULL;

    return use || !bare_key ? use : find_secret(keys, bare_key);
}

const hth_server_key *hth_key_use_key(const hth_key_use *use)
{
    return use->key;
}

bool hth_key_is_expired(const hth_server_key *key, int64_t now_s)
{
    return key->expires_s != 0 && now_s >= key->expires_s;
}

bool hth_key_allows_model(const hth_server_key *key, const char *model)
{
    for (size_t i = 0; i < key->n_models; i++)
        if (strcmp(key->models[i], model) == 0)
            return true;
    return key->n_models == 0;
}

/* ---- the limits of a key ---- */

static double rate_per_ns(uint32_t per_minute)
{
    return (double)per_minute / 60e9;
}

/* Subtract the part that has refilled since the last call. */
static void refill(bucket *b, uint32_t per_minute, uint64_t now_ns)
{
    if (now_ns > b->at_ns) {
        b->used -= (double)(now_ns - b->at_ns) * rate_per_ns(per_minute);
        b->at_ns = now_ns;
    }
    if (b->used < 0)
        b->used = 0;
}

/* Seconds until at most `left` of the bucket is used; at least 1. */
static uint32_t seconds_until(const bucket *b, uint32_t per_minute, double left)
{
    double seconds = ceil((b->used - left) / rate_per_ns(per_minute) / 1e9);

    if (seconds < 1)
        return 1;
    return seconds > UINT32_MAX ? UINT32_MAX : (uint32_t)seconds;
}

/* This node's part of a limit; at least 1. 0: there is none. */
static uint32_t part_of(const hth_key_use *use, uint32_t limit)
{
    const uint32_t n = use->keys->n_parts;

    return n > 1 && limit > 0 ? (limit + n - 1) / n : limit;
}

hth_key_verdict hth_key_use_begin(hth_key_use *use, uint64_t now_ns, uint32_t *retry_after_s)
{
    uint32_t at_once, tokens, requests;

    assert(use->key); /* found in the same turn of the event loop */
    at_once = part_of(use, use->key->concurrency);
    tokens = part_of(use, use->key->tokens_per_minute);
    requests = part_of(use, use->key->requests_per_minute);
    if (at_once > 0 && use->n_running + use->n_running_elsewhere >= at_once) {
        *retry_after_s = 1;
        return HTH_KEY_TOO_MANY_AT_ONCE;
    }
    refill(&use->tokens, tokens, now_ns);
    refill(&use->requests, requests, now_ns);
    if (tokens > 0 && use->tokens.used >= tokens) {
        *retry_after_s = seconds_until(&use->tokens, tokens, tokens);
        return HTH_KEY_TOO_MANY_TOKENS;
    }
    if (requests > 0 && use->requests.used + 1 > requests) {
        *retry_after_s = seconds_until(&use->requests, requests, requests - 1.0);
        return HTH_KEY_TOO_MANY_REQUESTS;
    }
    if (requests > 0) {
        use->requests.used += 1;
        use->new_requests += 1;
    }
    use->n_running++;
    return HTH_KEY_OK;
}

void hth_key_use_end(hth_key_use *use, uint64_t now_ns, uint64_t n_tokens)
{
    assert(use->n_running > 0);
    use->n_running--;
    if (!use->key) {
        if (use->n_running == 0)
            remove_use(use);
        return;
    }
    if (use->key->tokens_per_minute == 0)
        return;
    refill(&use->tokens, part_of(use, use->key->tokens_per_minute), now_ns);
    use->tokens.used += (double)n_tokens;
    use->new_tokens += (double)n_tokens;
}

/* ---- the same limits on several nodes ---- */

static bool has_limits(const hth_server_key *key)
{
    return key && (key->concurrency > 0 || key->tokens_per_minute > 0 || key->requests_per_minute > 0);
}

/*
 * How much of what is new others have to learn. A bucket that refilled has forgotten a part, so a long time without the
 * others is not charged at once. What refilled since a usual exchange counts.
 */
static double count_of(bucket *b, double new_ones, uint32_t per_minute, uint64_t now_ns)
{
    refill(b, per_minute, now_ns);
    return fmin(new_ones, b->used + per_minute / 60.0 * SECONDS_OF_EXCHANGE);
}

size_t hth_keys_take_counts(hth_keys *keys, size_t *cursor, uint64_t now_ns, hth_key_count *out, size_t capacity)
{
    size_t n = 0;

    for (; *cursor < keys->n && n < capacity; (*cursor)++) {
        hth_key_use *use = keys->uses[*cursor];

        if (!has_limits(use->key))
            continue;
        out[n++] = (hth_key_count){ .key = use->key,
                                    .requests = count_of(&use->requests, use->new_requests,
                                                         part_of(use, use->key->requests_per_minute), now_ns),
                                    .tokens = count_of(&use->tokens, use->new_tokens,
                                                       part_of(use, use->key->tokens_per_minute), now_ns),
                                    .n_running = use->n_running };
        use->new_requests = 0;
        use->new_tokens = 0;
    }
    return n;
}

void hth_keys_return_counts(hth_keys *keys, const char *name, double requests, double tokens)
{
    hth_key_use *use = use_of(keys, name);

    if (!use)
        return;
    use->new_requests += requests;
    use->new_tokens += tokens;
}

void hth_keys_set_counts(hth_keys *keys, const char *name, double requests, double tokens, uint32_t n_running_elsewhere,
                         uint64_t now_ns)
{
    hth_key_use *use = use_of(keys, name);

    if (!use)
        return;
    use->requests = (bucket){ .used = requests + use->new_requests, .at_ns = now_ns };
    use->tokens = (bucket){ .used = tokens + use->new_tokens, .at_ns = now_ns };
    use->n_running_elsewhere = n_running_elsewhere;
}

/* What is used is divided as the limits are: the others are taken to use as much as this node. */
static void set_parts(hth_keys *keys, uint32_t n)
{
    for (size_t i = 0; i < keys->n; i++) {
        keys->uses[i]->requests.used *= (double)keys->n_parts / n;
        keys->uses[i]->tokens.used *= (double)keys->n_parts / n;
    }
    keys->n_parts = n;
}

void hth_keys_divide(hth_keys *keys, uint32_t n)
{
    set_parts(keys, n);
    for (size_t i = 0; i < keys->n; i++)
        keys->uses[i]->n_running_elsewhere = 0;
}

void hth_keys_unite(hth_keys *keys)
{
    set_parts(keys, 1);
}
