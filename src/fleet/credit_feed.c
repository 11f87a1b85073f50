#include "fleet/credit_feed.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fleet/roster.h"

enum {
    KEY_BYTES = 128,
    BATCHES_MAX = 64, /* that are read at once */
    ID_BYTES = 48,
    PAUSES = 50, /* beats until the next try after an error */
};

struct hth_credit_feed {
    hth_credit_feed_options options;
    struct event *timer;
    hth_store_call *call;       /* NULL: none is on its way */
    hth_buffer batch;           /* what it carries; added again if it is lost */
    unsigned n_pauses;          /* beats to wait, at least 1 after an error */
    uint64_t n_holders;         /* when the stream was read from its beginning */
    uint64_t after_ms, after_n; /* the id of the last batch that was read */
};

/*
 * Add a batch, if there is one, and return those after an id: for each its id, and its records unless they are the
 * node's own. KEYS: the stream. ARGV: the first id, the epoch, the batch, the greatest number.
 */
static const char script[] =
    "if ARGV[3] ~= '' then "
    "  redis.call('XADD', KEYS[1], 'MAXLEN', '~', 4096, '*', 'epoch', ARGV[2], 'records', ARGV[3]) "
    "  redis.call('EXPIRE', KEYS[1], 3600) "
    "end "
    "local out = {} "
    "for _, e in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[4])) do "
    "  out[#out + 1] = e[1] "
    "  out[#out + 1] = e[2][2] ~= ARGV[2] and e[2][4] or '' "
    "end "
    "return out";

static void exchange(hth_credit_feed *feed);

/* The id of a batch, "MS-N". False: it is none. */
static bool take_id(hth_credit_feed *feed, const hth_store_reply *reply)
{
    uint64_t ms, n;

    if (!reply || reply->type != HTH_STORE_TEXT ||
        sscanf(reply->text, "%20" SCNu64 "-%20" SCNu64, &ms, &n) != 2) /* NOLINT(cert-err34-c): ids are small */
        return false;
    feed->after_ms = ms;
    feed->after_n = n;
    return true;
}

static void on_batches(const hth_store_reply *reply, void *user_data)
{
    hth_credit_feed *feed = user_data;
    size_t i = 0;

    feed->call = NULL;
    if (reply && reply->type == HTH_STORE_ERROR) {
        if (feed->n_pauses == 0)
            hth_warn(feed->options.log, "nodes do not learn from the store what others have cached: %s", reply->text);
        feed->n_pauses = PAUSES;
    }
    if (!reply || reply->type != HTH_STORE_LIST)
        return; /* the batch goes out with the next exchange; twice is harmless */
    feed->n_pauses = 0;
    hth_buffer_clear(&feed->batch);
    for (; hth_store_reply_at(reply, i + 1) && take_id(feed, hth_store_reply_at(reply, i)); i += 2) {
        const hth_store_reply *records = hth_store_reply_at(reply, i + 1);

        if (records->type == HTH_STORE_TEXT)
            hth_credit_import(feed->options.credit, records->text, records->n);
    }
    if (i >= (size_t)2 * BATCHES_MAX)
        exchange(feed);
}

static void exchange(hth_credit_feed *feed)
{
    char key[KEY_BYTES], first[ID_BYTES], n_max[16];

    if (!hth_store_is_up(feed->options.store))
        feed->after_ms = feed->after_n = 0; /* another one may be up next, with other ids */
    if (feed->call || !hth_store_is_up(feed->options.store))
        return;
    if (feed->n_holders != hth_credit_n_holders(feed->options.credit)) {
        feed->n_holders = hth_credit_n_holders(feed->options.credit);
        feed->after_ms = feed->after_n = 0;
    }
    if (feed->batch.n == 0)
        hth_credit_export(feed->options.credit, &feed->batch);
    if (feed->batch.failed)
        hth_buffer_deinit(&feed->batch);                                            /* without memory it is lost */
    (void)snprintf(key, sizeof(key), HTH_ROSTER_KEY "credit", feed->options.fleet); /* these fit */
    (void)snprintf(first, sizeof(first), "%" PRIu64 "-%" PRIu64, feed->after_ms, feed->after_n + 1);
    (void)snprintf(n_max, sizeof(n_max), "%d", BATCHES_MAX);
    {
        const char *const words[] = {
            "EVAL", script, "1", key, first, feed->options.epoch, hth_buffer_text(&feed->batch), n_max
        };
        const size_t lengths[] = { 4,
                                   sizeof(script) - 1,
                                   1,
                                   strlen(key),
                                   strlen(first),
                                   strlen(feed->options.epoch),
                                   feed->batch.n,
                                   strlen(n_max) };

        feed->call =
            hth_store_ask(feed->options.store, words, lengths, sizeof(words) / sizeof(words[0]), on_batches, feed);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_credit_feed *feed = user_data;

    (void)fd;
    (void)what;
    if (feed->n_pauses > 1)
        feed->n_pauses--;
    else
        exchange(feed);
}

hearth_status hth_credit_feed_new(const hth_credit_feed_options *options, hth_credit_feed **out, hearth_error *err)
{
    static const struct timeval pause = { .tv_usec = (suseconds_t)HTH_CREDIT_FEED_MS * 1000 };
    hth_credit_feed *feed = calloc(1, sizeof(*feed));

    *out = NULL;
    if (feed) {
        feed->options = *options;
        feed->timer = event_new(options->base, -1, EV_PERSIST, on_timer, feed);
    }
    if (!feed || !feed->timer || event_add(feed->timer, &pause) != 0) {
        hth_credit_feed_free(feed);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for what other nodes tell of their caches");
    }
    *out = feed;
    return HEARTH_OK;
}

void hth_credit_feed_free(hth_credit_feed *feed)
{
    if (!feed)
        return;
    hth_store_call_cancel(feed->call);
    if (feed->timer)
        event_free(feed->timer);
    hth_buffer_deinit(&feed->batch);
    free(feed);
}
