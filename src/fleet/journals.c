#include "fleet/journals.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/os.h"
#include "base/status.h"
#include "fleet/nodes.h"
#include "fleet/roster.h"
#include "fleet/sealed.h"
#include "wire/exposition.h"

enum {
    PREFIX_BYTES = 64,
    KEY_BYTES = PREFIX_BYTES + 64,
    OWNER_BYTES = HTH_NODE_EPOCH_BYTES + HTH_NODE_NAME_BYTES,
    NUMBER_BYTES = 24,
    BEAT_MS = 250,
    BEATS_A_LOOK = 4, /* for orphans */
    BEATS_OF_LEASE = HTH_ROSTER_LEASE_MS / BEAT_MS + 1,
    TOUCHES = 4,       /* of an idle journal, while it is kept */
    LONGER_MS = 60000, /* so that a journal outlives what it is about */
    ORPHANS_AT_ONCE = 16,
};

struct hth_journal {
    hth_journals *journals;
    hth_journal *prev, *next;
    char name[HTH_JOURNAL_NAME_BYTES];
    hth_seal seal;
    hth_journal_owner owner; /* on_lost NULL: nobody wants to hear of it */
    bool is_for_all;
    bool is_left;         /* freed when all is sent */
    bool is_dropped;      /* freed when the store has removed it */
    bool is_to_send;      /* coming is complete */
    bool is_given_up;     /* nothing is sent any more */
    hth_store_call *call; /* NULL: none is on its way */
    hth_buffer sent;      /* the sealed piece that is on its way, or has to be sent again; empty: none */
    hth_buffer coming;    /* of the next piece */
    uint64_t n_pieces;    /* in the store */
    uint64_t n_bytes;     /* likewise, sealed */
    uint64_t touched_ns;
};

struct hth_journal_wait {
    hth_journals *journals;
    hth_journal_wait *prev, *next;
    hth_journal_take *take;
    hth_store_call *call;
    hth_journal_way way;
    char name[HTH_JOURNAL_NAME_BYTES];
};

struct hth_journals {
    hth_journals_options options;
    char owner[OWNER_BYTES];   /* of this node's */
    char prefix[PREFIX_BYTES]; /* of all keys of the fleet */
    struct event *timer;
    unsigned n_beats;     /* until the next look */
    hth_store_call *look; /* for orphans; NULL: none is on its way */
    hth_journal *list;
    hth_journal_wait *waits;
    bool was_told; /* that the store refuses journals */
    uint64_t n_taken;
    uint64_t n_lost;
};

/* Begin a list, whose first element is the owner; again is harmless. KEYS: the list, the names. */
static const char begin_script[] = "local owner = redis.call('LINDEX', KEYS[1], 0) "
                                   "if owner then return owner == ARGV[1] and 1 or 0 end "
                                   "redis.call('RPUSH', KEYS[1], ARGV[1], ARGV[2]) "
                                   "redis.call('PEXPIRE', KEYS[1], ARGV[3]) "
                                   "if ARGV[4] ~= '' then redis.call('SADD', KEYS[2], ARGV[4]) end "
                                   "return 1";

/* Append piece number ARGV[2], once; an empty one only keeps the list. 0: it is another's, -1: it is not whole. */
static const char add_script[] = "local owner = redis.call('LINDEX', KEYS[1], 0) "
                                 "if not owner then return -1 end "
                                 "if owner ~= ARGV[1] then return 0 end "
                                 "redis.call('PEXPIRE', KEYS[1], ARGV[4]) "
                                 "if ARGV[3] == '' then return 1 end "
                                 "local n = redis.call('LLEN', KEYS[1]) - tonumber(ARGV[2]) "
                                 "if n == 1 then redis.call('RPUSH', KEYS[1], ARGV[3]) end "
                                 "return (n == 1 or n == 2) and 1 or -1";

/*
 * Has the owner a lease (roster.h)? Nothing else decides: two nodes that cannot reach each other, but the store, would
 * otherwise take the same journals from each other again and again. ARGV: the prefix.
 */
#define IS_THERE                                                              \
    "local function is_there(owner) "                                         \
    "  local epoch, node = string.match(owner, '^(%x+) (.*)$') "              \
    "  local lease = node and redis.call('GET', ARGV[1] .. 'node:' .. node) " \
    "  return lease and string.sub(lease, 1, #epoch) == epoch "               \
    "end "

/* ARGV: the prefix, the new owner, the way. All pieces; 0: it has an owner. */
static const char take_script[] =
    IS_THERE "local owner = redis.call('LINDEX', KEYS[1], 0) "
             "if not owner or owner == '-' then return {} end "
             "if ARGV[3] == '2' then return redis.call('LRANGE', KEYS[1], 1, 1) end "
             "if ARGV[3] == '1' and owner ~= ARGV[2] and is_there(owner) then return 0 end "
             "redis.call('LSET', KEYS[1], 0, ARGV[2]) "
             "return redis.call('LRANGE', KEYS[1], 1, -1)";

/*
 * ARGV: the prefix, this node, how many. The names of some lists without their owners. This node's are among them: it
 * may own one without knowing, if the answer to its take was lost.
 */
static const char look_script[] =
    IS_THERE "local out = {} "
             "for _, name in ipairs(redis.call('SRANDMEMBER', KEYS[1], ARGV[3])) do "
             "  local owner = redis.call('LINDEX', ARGV[1] .. 'stream:' .. name, 0) "
             "  if not owner or owner == '-' then redis.call('SREM', KEYS[1], name) "
             "  elseif owner == ARGV[2] or not is_there(owner) then out[#out + 1] = name end "
             "end "
             "return out";

/* End a list, which is this owner's ("": anybody's). For a while it is nobody's, so that an owner hears of it. */
static const char drop_script[] = "local owner = redis.call('LINDEX', KEYS[1], 0) "
                                  "if owner and (ARGV[1] == '' or owner == ARGV[1]) then "
                                  "  redis.call('DEL', KEYS[1]) "
                                  "  redis.call('RPUSH', KEYS[1], '-') "
                                  "  redis.call('PEXPIRE', KEYS[1], 60000) "
                                  "end";

/* ---- words for the store ---- */

static void key_of(const hth_journals *journals, const char *name, char out[KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "%sstream:%s", journals->prefix, name); /* fits */
}

static void names_key(const hth_journals *journals, char out[KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "%sorphans", journals->prefix); /* fits */
}

/* How long the store keeps a list. */
static uint64_t kept_ms(const hth_journals *journals)
{
    return (uint64_t)journals->options.keep_ms + LONGER_MS;
}

bool hth_journal_name(const hth_journals *journals, const char *id, const void *key, size_t n_key,
                      char out[HTH_JOURNAL_NAME_BYTES])
{
    static const char label[] = "hearth-journal-v1";
    hth_hmac_key *secret = hth_hmac_key_new(journals->options.secret, HTH_SEAL_SECRET_BYTES);
    hth_hmac *mac = secret ? hth_hmac_new(secret) : NULL;
    uint8_t digest[HTH_HMAC_BYTES];

    if (mac) {
        hth_hmac_update(mac, label, sizeof(label));
        hth_hmac_update(mac, id, strlen(id) + 1);
        hth_hmac_update(mac, key, n_key);
        hth_hmac_final(mac, digest);
        hth_hex_encode(digest, (HTH_JOURNAL_NAME_BYTES - 1) / 2, out);
    }
    hth_hmac_free(mac);
    hth_hmac_key_free(secret);
    return mac != NULL;
}

/* ---- one journal ---- */

static void journal_free(hth_journal *journal)
{
    hth_store_call_cancel(journal->call);
    DL_DELETE(journal->journals->list, journal);
    hth_buffer_deinit(&journal->sent);
    hth_buffer_deinit(&journal->coming);
    hth_seal_deinit(&journal->seal);
    free(journal);
}

/* NULL without memory. */
static hth_journal *journal_new(hth_journals *journals, const char *name)
{
    hth_journal *journal = calloc(1, sizeof(*journal));

    if (!journal)
        return NULL;
    if (!hth_seal_init(&journal->seal, journals->options.secret, name)) {
        free(journal);
        return NULL;
    }
    journal->journals = journals;
    (void)snprintf(journal->name, sizeof(journal->name), "%s", name); /* fits */
    journal->touched_ns = hth_os_monotonic_ns();
    DL_APPEND(journals->list, journal);
    return journal;
}

/* Does this node write a journal of this name? */
static bool is_here(const hth_journals *journals, const char *name)
{
    const hth_journal *journal;

    DL_FOREACH(journals->list, journal)
    if (strcmp(journal->name, name) == 0)
        return true;
    return false;
}

/* Another node owns it. */
static void lose(hth_journal *journal)
{
    const hth_journal_owner owner = journal->owner;

    hth_info(journal->journals->options.log, "another node goes on with a reply that began here");
    journal_free(journal);
    if (owner.on_lost)
        owner.on_lost(owner.user_data);
}

/* The reply goes on without a journal. */
static void give_up(hth_journal *journal, const char *why)
{
    hth_journals *journals = journal->journals;

    if (!journals->was_told)
        hth_warn(journals->options.log, "a reply is lost if this node is: %.200s", why);
    journals->was_told = true;
    journals->n_lost++;
    journal->is_given_up = true;
    hth_buffer_deinit(&journal->sent);
    hth_buffer_deinit(&journal->coming);
    if (journal->is_left)
        journal_free(journal);
}

static void on_sent(const hth_store_reply *reply, void *user_data);

/* Send the sealed piece, or only keep the list. */
static void transmit(hth_journal *journal)
{
    hth_journals *journals = journal->journals;
    const bool is_first = journal->n_pieces == 0;
    char key[KEY_BYTES], names[KEY_BYTES], number[NUMBER_BYTES], keep[NUMBER_BYTES];

    key_of(journals, journal->name, key);
    names_key(journals, names);
    (void)snprintf(keep, sizeof(keep), "%" PRIu64, kept_ms(journals));     /* these fit */
    (void)snprintf(number, sizeof(number), "%" PRIu64, journal->n_pieces); /* fits */
    {
        const char *const first[] = { "EVAL",
                                      begin_script,
                                      "2",
                                      key,
                                      names,
                                      journals->owner,
                                      journal->sent.text,
                                      keep,
                                      journal->is_for_all ? journal->name : "" };
        const char *const more[] = {
            "EVAL", add_script, "1", key, journals->owner, number, hth_buffer_text(&journal->sent), keep
        };
        const char *const *words = is_first ? first : more;
        size_t lengths[sizeof(first) / sizeof(first[0])];
        const size_t n = is_first ? sizeof(first) / sizeof(first[0]) : sizeof(more) / sizeof(more[0]);

        for (size_t i = 0; i < n; i++)
            lengths[i] = i == 6 ? journal->sent.n : strlen(words[i]);
        journal->call = hth_store_ask(journals->options.store, words, lengths, n, on_sent, journal);
    }
    journal->touched_ns = hth_os_monotonic_ns();
}

/* Seal the next piece, if it is complete and nothing is on its way. */
static void send_next(hth_journal *journal)
{
    if (journal->call || journal->is_given_up)
        return;
    if (journal->sent.n == 0 && journal->is_to_send && journal->coming.n > 0) {
        hth_seal_add(&journal->seal, journal->n_pieces, journal->coming.text, journal->coming.n, &journal->sent);
        hth_buffer_clear(&journal->coming);
        journal->is_to_send = false;
        if (journal->sent.failed) {
            give_up(journal, "there is no memory for its journal");
            return;
        }
        /* Before it is in the store: a node that took a longer one would lose its store (store_reply.h). */
        if (journal->n_bytes + journal->sent.n > HTH_JOURNAL_BYTES_MAX || journal->n_pieces >= HTH_JOURNAL_PIECES_MAX) {
            hth_journals_remove(journal->journals, journal->name);
            give_up(journal, "it is too long for a journal");
            return;
        }
    }
    if (journal->sent.n > 0)
        transmit(journal);
    else if (journal->is_left)
        journal_free(journal);
}

static void on_sent(const hth_store_reply *reply, void *user_data)
{
    hth_journal *journal = user_data;
    const bool is_number = reply && reply->type == HTH_STORE_INTEGER;

    journal->call = NULL;
    if (!reply)
        return; /* it is sent again when the store is up */
    if (is_number && reply->integer == 0) {
        lose(journal);
        return;
    }
    if (!is_number || reply->integer != 1) {
        give_up(journal, is_number                        ? "the store does not have its whole journal any more"
                         : reply->type == HTH_STORE_ERROR ? reply->text
                                                          : "the store's answer has another form");
        return;
    }
    if (journal->sent.n > 0) {
        journal->n_pieces++;
        journal->n_bytes += journal->sent.n;
        hth_buffer_clear(&journal->sent);
    }
    send_next(journal);
}

hth_journal *hth_journal_begin(hth_journals *journals, const char *name, bool is_for_all, const void *piece, size_t n,
                               const hth_journal_owner *owner)
{
    hth_journal *journal;

    if (!hth_store_is_up(journals->options.store) || n > HTH_JOURNAL_BYTES_MAX - HTH_SEAL_MORE_BYTES)
        return NULL;
    journal = journal_new(journals, name);
    if (!journal)
        return NULL;
    journal->owner = *owner;
    journal->is_for_all = is_for_all;
    hth_journal_add(journal, piece, n);
    hth_journal_send(journal);
    return journal;
}

void hth_journal_set_owner(hth_journal *journal, const hth_journal_owner *owner)
{
    journal->owner = *owner;
}

void hth_journal_add(hth_journal *journal, const void *bytes, size_t n)
{
    if (journal->is_given_up)
        return;
    if (n > HTH_JOURNAL_BYTES_MAX - journal->coming.n) {
        give_up(journal, "it is too long for a journal");
        return;
    }
    hth_buffer_add(&journal->coming, bytes, n);
    if (journal->coming.failed)
        give_up(journal, "there is no memory for its journal");
}

void hth_journal_send(hth_journal *journal)
{
    if (!journal || journal->is_given_up)
        return;
    if (journal->coming.n > HTH_JOURNAL_WAITING_BYTES_MAX && journal->sent.n > 0) {
        give_up(journal, "the store does not take its journal");
        return;
    }
    journal->is_to_send = true;
    send_next(journal);
}

void hth_journal_leave(hth_journal *journal)
{
    if (!journal)
        return;
    journal->owner = (hth_journal_owner){ .on_lost = NULL };
    if (journal->is_given_up) {
        journal_free(journal);
        return;
    }
    journal->is_left = true;
    journal->is_to_send = true;
    send_next(journal);
}

bool hth_journal_is_stored(const hth_journal *journal)
{
    return journal && !journal->is_given_up && journal->n_pieces > 0;
}

/* owner "": whoever owns it. NULL: the store is not asked. */
static hth_store_call *remove_of(hth_journals *journals, const char *name, const char *owner,
                                 hth_store_reply_fn on_reply, void *user_data)
{
    char key[KEY_BYTES];
    const char *const words[] = { "EVAL", drop_script, "1", key, owner };

    key_of(journals, name, key);
    return hth_store_ask(journals->options.store, words, NULL, 5, on_reply, user_data);
}

static void on_removed(const hth_store_reply *reply, void *user_data)
{
    hth_journal *journal = user_data;

    journal->call = NULL;
    if (reply)
        journal_free(journal);
}

/* Ask the store to remove it, after what is on its way. */
static void send_drop(hth_journal *journal)
{
    hth_journals *journals = journal->journals;

    journal->call = remove_of(journals, journal->name, journals->owner, on_removed, journal);
}

void hth_journal_drop(hth_journal *journal)
{
    if (!journal)
        return;
    hth_store_call_cancel(journal->call);
    journal->owner = (hth_journal_owner){ .on_lost = NULL };
    journal->is_dropped = true;
    hth_buffer_deinit(&journal->sent);
    hth_buffer_deinit(&journal->coming);
    journal->touched_ns = hth_os_monotonic_ns();
    send_drop(journal);
}

void hth_journals_remove(hth_journals *journals, const char *name)
{
    (void)remove_of(journals, name, "", NULL, NULL); /* or it expires */
}

/* ---- taking ---- */

static void wait_free(hth_journal_wait *wait)
{
    wait->take->wait = NULL;
    DL_DELETE(wait->journals->waits, wait);
    free(wait);
}

/* Open all pieces. False: one is not what it should be, or there is no memory. */
static bool open_all(hth_journal *journal, const hth_store_reply *reply, hth_buffer *first, hth_buffer *rest)
{
    for (size_t i = 0; i < reply->n; i++) {
        const hth_store_reply *piece = hth_store_reply_at(reply, i);

        if (piece->type != HTH_STORE_TEXT ||
            !hth_seal_open(&journal->seal, i, piece->text, piece->n, i == 0 ? first : rest))
            return false;
        journal->n_pieces++;
        journal->n_bytes += piece->n;
    }
    return true;
}

static void on_taken(const hth_store_reply *reply, void *user_data)
{
    hth_journal_wait *wait = user_data;
    hth_journals *journals = wait->journals;
    hth_journal_take *take = wait->take;
    hth_journal *journal = NULL;
    hth_journal_taken taken = HTH_JOURNAL_UNKNOWN;
    hth_buffer first = { .text = NULL }, rest = { .text = NULL };

    if (!reply || reply->type == HTH_STORE_ERROR)
        taken = HTH_JOURNAL_NO_STORE;
    else if (reply->type == HTH_STORE_INTEGER || (wait->way != HTH_JOURNAL_LOOK && is_here(journals, wait->name)))
        taken = HTH_JOURNAL_OWNED;
    else if (reply->type == HTH_STORE_LIST && reply->n > 0)
        journal = journal_new(journals, wait->name);
    if (journal && open_all(journal, reply, &first, &rest))
        taken = HTH_JOURNAL_TAKEN;
    else if (journal)
        hth_warn(journals->options.log, "a journal in the store is damaged, or not of this fleet, and is not used");
    if (journal && (taken != HTH_JOURNAL_TAKEN || wait->way == HTH_JOURNAL_LOOK)) {
        journal_free(journal);
        journal = NULL;
    }
    if (journal)
        journal->touched_ns = 0; /* the store may drop it soon: it is touched with the next beat */
    journals->n_taken += journal != NULL;
    wait_free(wait);
    take->on_taken(taken, hth_buffer_text(&first), first.n, hth_buffer_text(&rest), rest.n, journal, take->user_data);
    hth_buffer_deinit(&first);
    hth_buffer_deinit(&rest);
}

bool hth_journal_take_begin(hth_journals *journals, const char *name, hth_journal_way way, hth_journal_take *take)
{
    static const char *const ways[] = {
        [HTH_JOURNAL_ALWAYS] = "0", [HTH_JOURNAL_IF_ORPHAN] = "1", [HTH_JOURNAL_LOOK] = "2"
    };
    hth_journal_wait *wait = calloc(1, sizeof(*wait));
    char key[KEY_BYTES];
    const char *const words[] = { "EVAL", take_script, "1", key, journals->prefix, journals->owner, ways[way] };

    take->wait = NULL;
    if (!wait)
        return false;
    key_of(journals, name, key);
    wait->call = hth_store_ask(journals->options.store, words, NULL, sizeof(words) / sizeof(words[0]), on_taken, wait);
    if (!wait->call) {
        free(wait);
        return false;
    }
    wait->journals = journals;
    wait->take = take;
    wait->way = way;
    (void)snprintf(wait->name, sizeof(wait->name), "%s", name); /* fits */
    DL_APPEND(journals->waits, wait);
    take->wait = wait;
    return true;
}

void hth_journal_take_cancel(hth_journal_take *take)
{
    if (!take->wait)
        return;
    hth_store_call_cancel(take->wait->call); /* NOLINT(clang-analyzer-unix.Malloc): a freed one left its take */
    wait_free(take->wait);
}

/* ---- all ---- */

static void on_orphans(const hth_store_reply *reply, void *user_data)
{
    hth_journals *journals = user_data;

    journals->look = NULL;
    for (size_t i = 0; i < ORPHANS_AT_ONCE && hth_store_reply_at(reply, i); i++) {
        const hth_store_reply *name = hth_store_reply_at(reply, i);

        if (name->n == HTH_JOURNAL_NAME_BYTES - 1 && hth_is_hex(hth_store_reply_text(name), name->n) &&
            !is_here(journals, name->text))
            journals->options.on_orphan(name->text, journals->options.user_data);
    }
}

static void look_for_orphans(hth_journals *journals)
{
    char key[KEY_BYTES], most[NUMBER_BYTES];
    const char *const words[] = { "EVAL", look_script, "1", key, journals->prefix, journals->owner, most };

    names_key(journals, key);
    (void)snprintf(most, sizeof(most), "%d", ORPHANS_AT_ONCE); /* fits */
    journals->look =
        hth_store_ask(journals->options.store, words, NULL, sizeof(words) / sizeof(words[0]), on_orphans, journals);
}

/* Do again what the store did not answer, and keep what is idle. The journal may be freed. */
static void beat(hth_journal *journal, uint64_t now_ns)
{
    const uint64_t idle_ns = now_ns - journal->touched_ns, kept_ns = hth_ms_to_ns(kept_ms(journal->journals));

    if (journal->call)
        return;
    if (journal->is_dropped && idle_ns >= kept_ns)
        journal_free(journal); /* the store has dropped it by itself */
    else if (journal->is_dropped)
        send_drop(journal);
    else if (journal->sent.n > 0 || (journal->is_to_send && journal->coming.n > 0) || journal->is_left)
        send_next(journal);
    else if (!journal->is_given_up && idle_ns >= kept_ns / TOUCHES)
        transmit(journal);
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_journals *journals = user_data;
    const uint64_t now_ns = hth_os_monotonic_ns();
    hth_journal *journal, *next;

    (void)fd;
    (void)what;
    if (!hth_store_is_up(journals->options.store)) {
        journals->n_beats = BEATS_OF_LEASE; /* others, whose leases have ended meanwhile, may come back later */
        return;
    }
    DL_FOREACH_SAFE(journals->list, journal, next)
    beat(journal, now_ns);
    if (journals->n_beats > 0)
        journals->n_beats--;
    if (journals->n_beats == 0 && !journals->look) {
        journals->n_beats = BEATS_A_LOOK;
        look_for_orphans(journals);
    }
}

hearth_status hth_journals_new(const hth_journals_options *options, hth_journals **out, hearth_error *err)
{
    static const struct timeval pause = { .tv_usec = (suseconds_t)BEAT_MS * 1000 };
    hth_journals *journals = calloc(1, sizeof(*journals));

    *out = NULL;
    if (journals) {
        journals->options = *options;
        (void)snprintf(journals->owner, sizeof(journals->owner), "%s %s", options->epoch,
                       options->name); /* these fit */
        (void)snprintf(journals->prefix, sizeof(journals->prefix), HTH_ROSTER_KEY, options->fleet);
        journals->timer = event_new(options->base, -1, EV_PERSIST, on_timer, journals);
    }
    if (!journals || !journals->timer || event_add(journals->timer, &pause) != 0) {
        hth_journals_free(journals);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the journals of replies");
    }
    *out = journals;
    return HEARTH_OK;
}

void hth_journals_free(hth_journals *journals)
{
    if (!journals)
        return;
    while (journals->waits)
        hth_journal_take_cancel(journals->waits->take);
    while (journals->list)
        journal_free(journals->list); /* NOLINT(clang-analyzer-unix.Malloc): it leaves the list before it is freed */
    hth_store_call_cancel(journals->look);
    if (journals->timer)
        event_free(journals->timer);
    free(journals);
}

void hth_journals_write_metrics(const hth_journals *journals, hth_buffer *out)
{
    static const char written[] = "hearth_fleet_journals", taken[] = "hearth_fleet_journals_taken_total",
                      lost[] = "hearth_fleet_journals_given_up_total";
    const hth_journal *journal;
    uint64_t n = 0;

    DL_FOREACH(journals->list, journal)
    n += !journal->is_dropped;
    hth_exposition_family(out, written, "gauge", "Replies that another node could go on with if this one died.");
    hth_exposition_count(out, written, (hth_labels){ NULL, 0 }, n);
    hth_exposition_family(out, taken, "counter", "Replies of other nodes that this one goes on with.");
    hth_exposition_count(out, taken, (hth_labels){ NULL, 0 }, journals->n_taken);
    hth_exposition_family(out, lost, "counter", "Replies that are lost if this node is, though they should not be.");
    hth_exposition_count(out, lost, (hth_labels){ NULL, 0 }, journals->n_lost);
}

void hth_journals_set_keep_ms(hth_journals *journals, uint32_t keep_ms)
{
    journals->options.keep_ms = keep_ms;
}
