#include "front/shared_limits.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/status.h"
#include "fleet/roster.h"

enum {
    KEYS_AT_ONCE = 64, /* of an exchange */
    WORDS_OF_KEY = 6,
    IDLE_BEATS = 5, /* between two exchanges while nothing is used here */
    NUMBER_BYTES = 32,
    NAME_BYTES = 128, /* names of keys are shorter */
};

struct hth_shared_limits {
    hth_shared_limits_options options;
    struct event *timer;
    hth_store_call *call;               /* NULL: none is on its way */
    size_t cursor;                      /* of the keys, within an exchange */
    unsigned n_beats;                   /* since the last exchange began */
    bool was_busy;                      /* something was used, or ran, at the last exchange */
    bool is_refused;                    /* it was said */
    hth_key_count counts[KEYS_AT_ONCE]; /* [n]: of the exchange on its way */
    char names[KEYS_AT_ONCE][NAME_BYTES];
    size_t n;
};

/*
 * Add what was used on a node, and return what all have used, and what runs on others. ARGV: the node, and for each key
 * its name, requests, tokens, running requests, and its two limits for a minute.
 */
static const char script[] =
    "local t = redis.call('TIME') "
    "local now = t[1] * 1000 + math.floor(t[2] / 1000) "
    "local own = 'n:' .. ARGV[1] "
    "local out = {} "
    "for i = 2, #ARGV, 6 do "
    "  local key = KEYS[1] .. ARGV[i] "
    "  local all = redis.call('HGETALL', key) "
    "  local f = {} "
    "  for j = 1, #all, 2 do f[all[j]] = all[j + 1] end "
    "  local passed = math.max(0, now - (tonumber(f.at) or now)) "
    "  local r = math.max(0, (tonumber(f.r) or 0) - passed * ARGV[i + 4] / 60000) + ARGV[i + 1] "
    "  local k = math.max(0, (tonumber(f.k) or 0) - passed * ARGV[i + 5] / 60000) + ARGV[i + 2] "
    "  local elsewhere = 0 "
    "  for name, value in pairs(f) do "
    "    if string.sub(name, 1, 2) == 'n:' and name ~= own then "
    "      local n, till = string.match(value, '^(%d+) (%d+)$') "
    "      if n and tonumber(till) > now then elsewhere = elsewhere + n else redis.call('HDEL', key, name) end "
    "    end "
    "  end "
    "  if r > 0 or k > 0 or f.at or tonumber(ARGV[i + 3]) > 0 then "
    "    redis.call('HSET', key, 'r', r, 'k', k, 'at', now, own, ARGV[i + 3] .. ' ' .. (now + 3000)) "
    "    redis.call('EXPIRE', key, 3600) "
    "  end "
    "  out[#out + 1] = tostring(r); out[#out + 1] = tostring(k); out[#out + 1] = elsewhere "
    "end "
    "return out";

static void exchange(hth_shared_limits *limits);

/* A number of the store, which may be anything. */
static double number_of(const hth_store_reply *reply)
{
    const double value = strtod(hth_store_reply_text(reply), NULL);

    return value > 0 && value < 1e15 ? value : 0;
}

static void take_sums(hth_shared_limits *limits, const hth_store_reply *reply)
{
    const uint64_t now_ns = hth_os_monotonic_ns();

    for (size_t i = 0; i < limits->n && hth_store_reply_at(reply, 3 * i + 2); i++) {
        const int64_t elsewhere = hth_store_reply_integer(hth_store_reply_at(reply, 3 * i + 2));

        hth_keys_set_counts(limits->options.keys, limits->names[i], number_of(hth_store_reply_at(reply, 3 * i)),
                            number_of(hth_store_reply_at(reply, 3 * i + 1)),
                            elsewhere > 0 && elsewhere < UINT32_MAX ? (uint32_t)elsewhere : 0, now_ns);
    }
}

static uint32_t n_answering(const hth_shared_limits *limits)
{
    uint32_t n = 1; /* this one */

    for (size_t i = 0; i < hth_nodes_n(limits->options.nodes); i++) {
        const hth_node_state state = hth_node_state_of(hth_nodes_at(limits->options.nodes, i));

        n += state == HTH_NODE_UP || state == HTH_NODE_DRAINING;
    }
    return n;
}

/* The last exchange failed. */
static void return_counts(hth_shared_limits *limits)
{
    for (size_t i = 0; i < limits->n; i++)
        hth_keys_return_counts(limits->options.keys, limits->names[i], limits->counts[i].requests,
                               limits->counts[i].tokens);
}

static void on_sums(const hth_store_reply *reply, void *user_data)
{
    hth_shared_limits *limits = user_data;

    limits->call = NULL;
    /* The store may have counted them, if only the reply was lost: then they count twice, rather than not at all. */
    if (!reply || reply->type == HTH_STORE_ERROR)
        return_counts(limits);
    if (!reply)
        return;
    if (reply->type == HTH_STORE_ERROR) {
        if (!limits->is_refused)
            hth_warn(limits->options.log, "the store refuses the limits of keys, so each node counts its part: %.200s",
                     reply->text);
        limits->is_refused = true;
        hth_keys_divide(limits->options.keys, n_answering(limits));
        return;
    }
    limits->is_refused = false;
    hth_keys_unite(limits->options.keys);
    take_sums(limits, reply);
    if (limits->cursor > 0)
        exchange(limits);
}

/* Tell and ask the next keys; the last ones leave the cursor at 0. */
static void exchange(hth_shared_limits *limits)
{
    const char *words[4 + WORDS_OF_KEY * KEYS_AT_ONCE + 1] = { "EVAL", script, "1" };
    char numbers[KEYS_AT_ONCE][WORDS_OF_KEY - 1][NUMBER_BYTES], prefix[64];
    size_t n = 3;

    (void)snprintf(prefix, sizeof(prefix), HTH_ROSTER_KEY "limit:", limits->options.fleet); /* fits, as all do */
    words[n++] = prefix;
    words[n++] = limits->options.name;
    limits->n = hth_keys_take_counts(limits->options.keys, &limits->cursor, hth_os_monotonic_ns(), limits->counts,
                                     KEYS_AT_ONCE);
    for (size_t i = 0; i < limits->n; i++) {
        const hth_key_count *count = &limits->counts[i];

        (void)snprintf(limits->names[i], sizeof(limits->names[i]), "%s", count->key->name);
        (void)snprintf(numbers[i][0], NUMBER_BYTES, "%.3f", count->requests);
        (void)snprintf(numbers[i][1], NUMBER_BYTES, "%.3f", count->tokens);
        (void)snprintf(numbers[i][2], NUMBER_BYTES, "%u", count->n_running);
        (void)snprintf(numbers[i][3], NUMBER_BYTES, "%u", count->key->requests_per_minute);
        (void)snprintf(numbers[i][4], NUMBER_BYTES, "%u", count->key->tokens_per_minute);
        words[n++] = limits->names[i];
        for (size_t k = 0; k < WORDS_OF_KEY - 1; k++)
            words[n++] = numbers[i][k];
        limits->was_busy |= count->requests > 0 || count->tokens > 0 || count->n_running > 0;
    }
    if (limits->n < KEYS_AT_ONCE)
        limits->cursor = 0;
    if (limits->n == 0)
        return;
    limits->call = hth_store_ask(limits->options.store, words, NULL, n, on_sums, limits);
    if (!limits->call)
        return_counts(limits);
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_shared_limits *limits = user_data;

    (void)fd;
    (void)what;
    if (!hth_store_is_up(limits->options.store)) {
        hth_keys_divide(limits->options.keys, n_answering(limits));
        return;
    }
    if (limits->call || (!limits->was_busy && ++limits->n_beats < IDLE_BEATS))
        return;
    limits->n_beats = 0;
    limits->was_busy = false;
    limits->cursor = 0;
    exchange(limits);
}

hearth_status hth_shared_limits_new(const hth_shared_limits_options *options, hth_shared_limits **out,
                                    hearth_error *err)
{
    static const struct timeval pause = { .tv_usec = (suseconds_t)HTH_LIMITS_BEAT_MS * 1000 };
    hth_shared_limits *limits = calloc(1, sizeof(*limits));

    *out = NULL;
    if (limits) {
        limits->options = *options;
        limits->timer = event_new(options->base, -1, EV_PERSIST, on_timer, limits);
    }
    if (!limits || !limits->timer || event_add(limits->timer, &pause) != 0) {
        hth_shared_limits_free(limits);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the limits of the fleet");
    }
    *out = limits;
    return HEARTH_OK;
}

void hth_shared_limits_free(hth_shared_limits *limits)
{
    if (!limits)
        return;
    hth_store_call_cancel(limits->call);
    if (limits->timer)
        event_free(limits->timer);
    free(limits);
}
