#include "fleet/roster.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "wire/exposition.h"

enum {
    BEAT_MS = 500,
    KEY_BYTES = 128,
    FORGET_MS = 60000, /* a name without a lease */
};

struct hth_roster {
    hth_roster_options options;
    struct event *timer;
    hth_store_call *call; /* NULL: none is on its way */
    uint64_t began_ns;
    bool has_answer; /* there was one, at least a refusal */
    bool has_lease;  /* as of the last answer */
    bool has_left;
    char why[256];
    char address[256]; /* "HOST:PORT" of this node */
};

/*
 * Renew the own lease unless another process holds it, and read all. Returns the lease of that other process, or "",
 * and for each node its lease and the milliseconds that are left of it. If there are too many names, those with the
 * latest leases count. A process with another epoch and the same address is an earlier life of this node.
 */
static const char beat_script[] =
    "local t = redis.call('TIME') "
    "local now = t[1] * 1000 + math.floor(t[2] / 1000) "
    "local held = redis.call('GET', KEYS[1]) "
    "local is_mine = not held or string.sub(held, 1, 32) == ARGV[2] "
    "  or string.match(held, '^%x+ ([^\\n]*)\\n') == ARGV[3] "
    "if is_mine then "
    "  redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[3] .. '\\n' .. ARGV[4], 'PX', ARGV[5]) "
    "  redis.call('ZADD', KEYS[2], now, ARGV[1]) "
    "end "
    "redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - ARGV[6]) "
    "local out = { is_mine and '' or held } "
    "for _, name in ipairs(redis.call('ZRANGE', KEYS[2], -128, -1)) do "
    "  local key = ARGV[7] .. name "
    "  local lease = redis.call('GET', key) "
    "  if lease then out[#out + 1] = lease; out[#out + 1] = redis.call('PTTL', key) end "
    "end "
    "return out";

static const char leave_script[] = "local held = redis.call('GET', KEYS[1]) "
                                   "if held and string.sub(held, 1, 32) == ARGV[2] then "
                                   "  redis.call('DEL', KEYS[1]) "
                                   "  redis.call('ZREM', KEYS[2], ARGV[1]) "
                                   "end";

/* ---- reading ---- */

bool hth_lease_read(const char *text, size_t n, hth_lease *out)
{
    const char *end = memchr(text, '\n', n), *space = end ? memchr(text, ' ', (size_t)(end - text)) : NULL;
    const size_t n_epoch = space ? (size_t)(space - text) : 0, n_address = space ? (size_t)(end - space - 1) : 0;

    if (n_epoch != sizeof(out->epoch) - 1 || n_address == 0 || n_address >= sizeof(out->address) ||
        memchr(text, '\0', (size_t)(end - text)))
        return false;
    memcpy(out->epoch, text, n_epoch);
    out->epoch[n_epoch] = '\0';
    memcpy(out->address, space + 1, n_address);
    out->address[n_address] = '\0';
    out->page = end + 1;
    out->n_page = n - (size_t)(out->page - text);
    return hth_is_hex(out->epoch, n_epoch) && strcspn(out->address, " /") == n_address && strchr(out->address, ':');
}

/* Say once what is new. */
static void set_why(hth_roster *roster, const char *why)
{
    char cut[sizeof(roster->why)];

    (void)snprintf(cut, sizeof(cut), "%s", why); /* for people */
    hth_end_at_character(cut, sizeof(cut));
    if (*cut && strcmp(cut, roster->why) != 0)
        hth_warn(roster->options.log, "other nodes do not learn from the store that this node is there: %s", cut);
    else if (!*cut && *roster->why)
        hth_info(roster->options.log, "the store has this node's lease again");
    memcpy(roster->why, cut, sizeof(cut));
}

static void note_holder(hth_roster *roster, const hth_store_reply *held)
{
    hth_lease lease;
    char why[sizeof(roster->why)];

    if (!held || held->type != HTH_STORE_TEXT) {
        set_why(roster, "its answer has another form; is it Redis 6 or later, or Valkey?");
        return;
    }
    if (held->n == 0) {
        set_why(roster, "");
        return;
    }
    (void)snprintf(why, sizeof(why),
                   "the node at %.100s has the name '%s', too; give each its own (fleet { name = ... })",
                   hth_lease_read(held->text, held->n, &lease) ? lease.address : "another address",
                   roster->options.name); /* fits */
    set_why(roster, why);
}

static void on_beat(const hth_store_reply *reply, void *user_data)
{
    hth_roster *roster = user_data;

    roster->call = NULL;
    roster->has_lease = reply && reply->type == HTH_STORE_LIST;
    if (!reply)
        return; /* the store is down: everybody is asked */
    roster->has_answer = true;
    if (reply->type == HTH_STORE_ERROR) {
        set_why(roster, reply->text);
        return;
    }
    note_holder(roster, hth_store_reply_at(reply, 0));
    for (size_t i = 1; hth_store_reply_at(reply, i + 1); i += 2) {
        const hth_store_reply *text = hth_store_reply_at(reply, i);
        const int64_t left_ms = hth_store_reply_integer(hth_store_reply_at(reply, i + 1));
        hth_lease lease;

        if (text->type != HTH_STORE_TEXT || !hth_lease_read(text->text, text->n, &lease) ||
            strcmp(lease.epoch, roster->options.epoch) == 0 || left_ms < 0 || left_ms > HTH_ROSTER_LEASE_MS)
            continue;
        hth_nodes_note_page(roster->options.nodes, lease.address, lease.page, lease.n_page,
                            hth_ms_to_ns((uint32_t)(HTH_ROSTER_LEASE_MS - left_ms)));
    }
}

/* ---- writing ---- */

/* False: it is not known yet. */
static bool know_address(hth_roster *roster)
{
    char own[HTH_STORE_HOST_BYTES];
    const char *host = roster->options.host;

    if (!host && hth_store_own_host(roster->options.store, own))
        host = own;
    if (host)
        (void)snprintf(roster->address, sizeof(roster->address), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                       roster->options.port); /* fits: hosts are shorter */
    return roster->address[0] != '\0';
}

static void write_keys(const hth_roster *roster, char leases[KEY_BYTES], char lease[KEY_BYTES], char names[KEY_BYTES])
{
    (void)snprintf(leases, KEY_BYTES, HTH_ROSTER_KEY "node:", roster->options.fleet); /* these fit */
    (void)snprintf(lease, KEY_BYTES, HTH_ROSTER_KEY "node:%s", roster->options.fleet, roster->options.name);
    (void)snprintf(names, KEY_BYTES, HTH_ROSTER_KEY "nodes", roster->options.fleet);
}

static void beat(hth_roster *roster)
{
    char leases[KEY_BYTES], lease[KEY_BYTES], names[KEY_BYTES], lease_ms[16], forget_ms[16];
    const hth_buffer *page;

    if (roster->call || roster->has_left || !hth_store_is_up(roster->options.store) || !know_address(roster))
        return;
    page = roster->options.page(roster->options.user_data);
    if (page->failed)
        return;
    write_keys(roster, leases, lease, names);
    (void)snprintf(lease_ms, sizeof(lease_ms), "%d", HTH_ROSTER_LEASE_MS);
    (void)snprintf(forget_ms, sizeof(forget_ms), "%d", FORGET_MS);
    {
        const char *const words[] = { "EVAL",
                                      beat_script,
                                      "2",
                                      lease,
                                      names,
                                      roster->options.name,
                                      roster->options.epoch,
                                      roster->address,
                                      hth_buffer_text(page),
                                      lease_ms,
                                      forget_ms,
                                      leases };

        roster->call =
            hth_store_ask(roster->options.store, words, NULL, sizeof(words) / sizeof(words[0]), on_beat, roster);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    (void)fd;
    (void)what;
    beat(user_data);
}

void hth_roster_on_store(hth_roster *roster)
{
    if (!hth_store_is_up(roster->options.store))
        set_why(roster, ""); /* the store's own reason says it */
    beat(roster);
}

static void on_left(const hth_store_reply *reply, void *user_data)
{
    (void)reply; /* otherwise the lease ends by itself */
    (void)user_data;
}

void hth_roster_leave(hth_roster *roster)
{
    char leases[KEY_BYTES], lease[KEY_BYTES], names[KEY_BYTES];

    if (roster->has_left)
        return;
    roster->has_left = true;
    write_keys(roster, leases, lease, names);
    (void)hth_store_ask(
        roster->options.store,
        (const char *[]){ "EVAL", leave_script, "2", lease, names, roster->options.name, roster->options.epoch }, NULL,
        7, on_left, NULL);
}

bool hth_roster_is_young(const hth_roster *roster)
{
    return !roster->has_answer && (hth_store_is_up(roster->options.store) ||
                                   hth_os_monotonic_ns() - roster->began_ns < hth_ms_to_ns(HTH_ROSTER_LEASE_MS));
}

const char *hth_roster_why(const hth_roster *roster)
{
    return roster->why;
}

void hth_roster_write_metrics(const hth_roster *roster, hth_buffer *out)
{
    static const char up[] = "hearth_store_up", lease[] = "hearth_store_lease";
    const bool is_up = hth_store_is_up(roster->options.store);

    hth_exposition_family(out, up, "gauge", "1 while the store of the fleet is up.");
    hth_exposition_count(out, up, (hth_labels){ NULL, 0 }, is_up);
    hth_exposition_family(out, lease, "gauge", "1 while the store has the lease of this node.");
    hth_exposition_count(out, lease, (hth_labels){ NULL, 0 }, is_up && roster->has_lease && !*roster->why);
}

/* ---- the roster ---- */

hearth_status hth_roster_new(const hth_roster_options *options, hth_roster **out, hearth_error *err)
{
    static const struct timeval pause = { .tv_usec = (suseconds_t)BEAT_MS * 1000 };
    hth_roster *roster = calloc(1, sizeof(*roster));

    *out = NULL;
    if (roster) {
        roster->options = *options;
        roster->began_ns = hth_os_monotonic_ns();
        roster->timer = event_new(options->base, -1, EV_PERSIST, on_timer, roster);
    }
    if (!roster || !roster->timer || event_add(roster->timer, &pause) != 0) {
        hth_roster_free(roster);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the roster of the fleet");
    }
    *out = roster;
    return HEARTH_OK;
}

void hth_roster_free(hth_roster *roster)
{
    if (!roster)
        return;
    hth_store_call_cancel(roster->call);
    if (roster->timer)
        event_free(roster->timer);
    free(roster);
}
