/*
 * store.c - the states of the connection
 *
 *   PAUSING    none is open; a timer opens the next one
 *   SENTINEL   a sentinel is asked where the primary is; its answer opens a connection to the primary
 *   GREETING   the server is told password and database, and asked whether it can serve
 *   UP         commands of callers may be sent
 */
#include "store/store.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/draw.h"
#include "base/os.h"
#include "base/status.h"
#include "store/store_socket.h"

enum {
    LOOK_MS = 250, /* between two looks at the time of the oldest call */
    CONNECT_MS = 2000,
    PAUSE_MS_MIN = 100,
    PAUSE_MS_MAX = 5000,
    WELL_MS = 5000,              /* that it has to be up, so that the next pause is short again */
    BEHIND_BYTES_MAX = 32 << 20, /* that were not sent yet */
    PASSWORD_BYTES_MAX = 4096,
    WORDS_MAX = 512,
};

typedef enum store_state { PAUSING, SENTINEL, GREETING, UP } store_state;

struct hth_store_call {
    hth_store_call *prev, *next;
    hth_store_reply_fn on_reply; /* NULL: cancelled */
    void *user_data;
    uint64_t since_ns;
};

struct hth_store {
    hth_store_options options;
    hth_store_url url;
    char *password;
    SSL_CTX *tls; /* NULL: plain */
    store_state state;
    hth_store_socket socket;
    hth_store_reader *reader;
    hth_store_call *calls; /* that wait for replies, the oldest first */
    struct event *timer;
    uint64_t opened_ns;
    uint64_t up_ns; /* since when it is UP */
    uint32_t pause_ms;
    uint64_t n_openings; /* of connections */
    size_t n_tries;      /* of sentinels */
    bool has_failed;     /* since it was up: it is logged once */
    char primary[256];   /* of the sentinels' answer; "": none */
    char address[300];
    char why[256];
};

static void wait_ms(hth_store *store, uint32_t ms)
{
    const struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

    (void)event_add(store->timer, &wait); /* replaces the earlier time, so it needs no memory but at first */
}

/* ---- the end of a connection ---- */

static void fail_calls(hth_store *store)
{
    hth_store_call *calls = store->calls, *call, *next;

    store->calls = NULL; /* callers may ask again, in vain */
    DL_FOREACH_SAFE(calls, call, next)
    {
        if (call->on_reply)
            call->on_reply(NULL, call->user_data);
        free(call);
    }
}

static void close_socket(hth_store *store)
{
    hth_store_socket_close(&store->socket);
    hth_store_reader_free(store->reader);
    store->reader = NULL;
}

/* The connection is of no use; open another one after a pause. */
static void lose(hth_store *store, const char *why)
{
    const bool was_up = store->state == UP;
    uint32_t pause_ms;

    close_socket(store);
    store->state = PAUSING;
    store->n_tries++;
    store->primary[0] = '\0';
    if (why != store->why)
        (void)snprintf(store->why, sizeof(store->why), "%s", why); /* cut: for people */
    hth_end_at_character(store->why, sizeof(store->why));
    if (!store->has_failed)
        hth_warn(store->options.log, "the fleet's store at %s %s: %s", store->address,
                 was_up ? "is lost" : "cannot be used", store->why);
    store->has_failed = true;
    if (was_up && hth_os_monotonic_ns() - store->up_ns >= hth_ms_to_ns(WELL_MS))
        store->pause_ms = PAUSE_MS_MIN; /* not of one that greets well and then refuses all commands */
    pause_ms = store->pause_ms;
    store->pause_ms = pause_ms * 2 > PAUSE_MS_MAX ? PAUSE_MS_MAX : pause_ms * 2;
    wait_ms(store, pause_ms / 2 + (uint32_t)(hth_draw_seed() % (pause_ms / 2 + 1))); /* nodes do not come all at once */
    fail_calls(store);
    if (was_up && store->options.on_change)
        store->options.on_change(store->options.user_data);
}

/* ---- commands ---- */

static hth_store_call *send_command(hth_store *store, const char *const *words, const size_t *lengths, size_t n,
                                    hth_store_reply_fn on_reply, void *user_data)
{
    struct evbuffer *output = bufferevent_get_output(store->socket.bev);
    size_t own_lengths[WORDS_MAX];
    hth_store_call *call;
    char *command = NULL;
    long long n_bytes;

    for (size_t i = 0; !lengths && i < n && n <= WORDS_MAX; i++)
        own_lengths[i] = strlen(words[i]);
    if ((!lengths && n > WORDS_MAX) || evbuffer_get_length(output) > BEHIND_BYTES_MAX)
        return NULL;
    call = calloc(1, sizeof(*call));
    n_bytes =
        call ? redisFormatCommandArgv(&command, (int)n, (const char **)words, lengths ? lengths : own_lengths) : -1;
    if (n_bytes < 0 || bufferevent_write(store->socket.bev, command, (size_t)n_bytes) != 0) {
        if (n_bytes >= 0)
            redisFreeCommand(command);
        free(call);
        return NULL;
    }
    redisFreeCommand(command);
    *call = (hth_store_call){ .on_reply = on_reply, .user_data = user_data, .since_ns = hth_os_monotonic_ns() };
    DL_APPEND(store->calls, call);
    return call;
}

hth_store_call *hth_store_ask(hth_store *store, const char *const *words, const size_t *lengths, size_t n,
                              hth_store_reply_fn on_reply, void *user_data)
{
    return store->state == UP ? send_command(store, words, lengths, n, on_reply, user_data) : NULL;
}

void hth_store_call_cancel(hth_store_call *call)
{
    if (call)
        call->on_reply = NULL;
}

/* ---- the beginning of a connection ---- */

static void open_socket(hth_store *store, const hth_store_server *server, store_state state);

static bool is_error(const hth_store_reply *reply)
{
    return reply && reply->type == HTH_STORE_ERROR;
}

/* A step that must succeed. The loss of the connection comes as NULL, and was handled. */
static void on_step(const hth_store_reply *reply, void *user_data)
{
    hth_store *store = user_data;

    if (is_error(reply) && store->state == GREETING) {
        (void)snprintf(store->why, sizeof(store->why), "it refuses: %.200s", reply->text);
        lose(store, store->why);
    }
}

static void on_ignored(const hth_store_reply *reply, void *user_data)
{
    (void)reply;
    (void)user_data;
}

static void on_role(const hth_store_reply *reply, void *user_data)
{
    hth_store *store = user_data;
    const char *role = hth_store_reply_text(hth_store_reply_at(reply, 0));

    if (*role && strcmp(role, "master") != 0 && store->state == GREETING)
        lose(store, "the sentinels named it, but it is no primary; a failover may be under way");
}

static void on_ready(const hth_store_reply *reply, void *user_data)
{
    hth_store *store = user_data;

    on_step(reply, store);
    if (!reply || store->state != GREETING)
        return;
    store->state = UP;
    store->up_ns = hth_os_monotonic_ns();
    store->has_failed = false;
    store->why[0] = '\0';
    hth_info(store->options.log, "the fleet's store at %s is up", store->address);
    if (store->options.on_change)
        store->options.on_change(store->options.user_data);
}

/* words: n texts, with NULL for what is left out. */
static bool step(hth_store *store, const char *const *words, size_t n, hth_store_reply_fn on_reply)
{
    const char *given[4];
    size_t n_given = 0;

    for (size_t i = 0; i < n; i++)
        if (words[i])
            given[n_given++] = words[i];
    return send_command(store, given, NULL, n_given, on_reply, store) != NULL;
}

/* Sentinels often have no password, and refuse one then. */
static bool tell_password(hth_store *store, hth_store_reply_fn on_reply)
{
    return !store->password || step(store, (const char *[]){ "AUTH", store->url.user, store->password }, 3, on_reply);
}

static void greet(hth_store *store)
{
    bool ok = tell_password(store, on_step);
    char database[16];

    (void)snprintf(database, sizeof(database), "%u", store->url.database); /* fits */
    if (ok && store->url.database > 0)
        ok = step(store, (const char *[]){ "SELECT", database }, 2, on_step);
    if (ok && store->url.sentinel_name)
        ok = step(store, (const char *[]){ "ROLE" }, 1, on_role);
    if (ok)
        ok = step(store, (const char *[]){ "CLIENT", "SETNAME", "hearth" }, 3, on_ignored) &&
             step(store, (const char *[]){ "PING" }, 1, on_ready);
    if (!ok)
        lose(store, "there is no memory for it");
}

/* ---- sentinels ---- */

static void on_primary(const hth_store_reply *reply, void *user_data)
{
    hth_store *store = user_data;
    const char *host = hth_store_reply_text(hth_store_reply_at(reply, 0)),
               *port = hth_store_reply_text(hth_store_reply_at(reply, 1));
    const unsigned long number = strtoul(port, NULL, 10);
    hth_store_server primary = { .host = store->primary, .port = (uint16_t)number };

    if (!reply || store->state != SENTINEL)
        return;
    if (!*host || strlen(host) >= sizeof(store->primary) || number == 0 || number > UINT16_MAX) {
        (void)snprintf(store->why, sizeof(store->why), "the sentinel knows no primary '%.64s'%s%.100s",
                       store->url.sentinel_name, is_error(reply) ? ": " : "", is_error(reply) ? reply->text : "");
        lose(store, store->why);
        return;
    }
    (void)snprintf(store->primary, sizeof(store->primary), "%s", host);
    open_socket(store, &primary, GREETING); /* this runs within the reader of the old one: see on_read */
}

static void ask_sentinel(hth_store *store)
{
    if (!tell_password(store, on_ignored) ||
        !step(store, (const char *[]){ "SENTINEL", "get-master-addr-by-name", store->url.sentinel_name }, 3,
              on_primary))
        lose(store, "there is no memory for it");
}

/* ---- bytes ---- */

/* Does the reply say that this server cannot serve now, whatever is asked? */
static bool is_of_no_use(const hth_store_reply *reply)
{
    static const char *const words[] = { "READONLY ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN " };
    static const char of_script[] = "ERR Error running script "; /* Redis 6 puts the error that it met behind this */

    if (is_error(reply) && strncmp(reply->text, of_script, sizeof(of_script) - 1) == 0)
        return strstr(reply->text, " -READONLY ") != NULL;
    for (size_t i = 0; is_error(reply) && i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(reply->text, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

/* False: the connection is lost or another one. */
static bool take_reply(hth_store *store, const hth_store_reply *reply)
{
    const uint64_t opening = store->n_openings;
    hth_store_call *call = store->calls;

    if (!call) {
        lose(store, "it answers what was not asked");
        return false;
    }
    if (is_of_no_use(reply)) {
        (void)snprintf(store->why, sizeof(store->why), "%.200s", reply->text);
        lose(store, store->why);
        return false;
    }
    DL_DELETE(store->calls, call);
    if (call->on_reply)
        call->on_reply(reply, call->user_data);
    free(call);
    return store->socket.bev && store->n_openings == opening;
}

static void on_read(struct bufferevent *bev, void *user_data)
{
    hth_store *store = user_data;
    struct evbuffer *input = bufferevent_get_input(bev);
    char bytes[16 << 10];
    hth_store_reply *reply;
    hearth_error err;
    int n;

    while ((n = evbuffer_remove(input, bytes, sizeof(bytes))) > 0) {
        if (hth_store_reader_feed(store->reader, bytes, (size_t)n, &err) != HEARTH_OK) {
            lose(store, err.message);
            return;
        }
        do {
            bool goes_on = true;

            if (hth_store_reader_next(store->reader, &reply, &err) != HEARTH_OK) {
                lose(store, err.message);
                return;
            }
            if (reply)
                goes_on = take_reply(store, reply);
            hth_store_reply_free(reply);
            if (!goes_on)
                return; /* bev and the reader are gone */
        } while (reply);
    }
}

static void on_event(struct bufferevent *bev, short what, void *user_data)
{
    hth_store *store = user_data;
    char why[200];

    (void)bev;
    if (what & BEV_EVENT_CONNECTED) {
        if (store->state == SENTINEL)
            ask_sentinel(store);
        else
            greet(store);
        return;
    }
    hth_store_socket_why(&store->socket, what, why, sizeof(why));
    lose(store, why);
}

static void open_socket(hth_store *store, const hth_store_server *server, store_state state)
{
    hearth_error err;

    close_socket(store);
    store->n_openings++;
    store->state = state;
    store->opened_ns = hth_os_monotonic_ns();
    (void)snprintf(store->address, sizeof(store->address), strchr(server->host, ':') ? "[%s]:%u" : "%s:%u",
                   server->host, server->port);
    store->reader = hth_store_reader_new();
    if (!store->reader) {
        lose(store, "there is no memory for it");
    } else if (hth_store_socket_open(store->options.base, server, store->tls, &store->socket, &err) != HEARTH_OK) {
        lose(store, err.message);
    } else {
        bufferevent_setcb(store->socket.bev, on_read, NULL, on_event, store);
        (void)bufferevent_enable(store->socket.bev, EV_READ | EV_WRITE); /* cannot fail before it is connected */
        wait_ms(store, LOOK_MS);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *user_data)
{
    hth_store *store = user_data;
    const uint64_t now_ns = hth_os_monotonic_ns();

    (void)fd;
    (void)what;
    if (store->state == PAUSING)
        open_socket(store, &store->url.servers[store->n_tries % store->url.n_servers],
                    store->url.sentinel_name ? SENTINEL : GREETING);
    else if (store->state != UP && now_ns - store->opened_ns > hth_ms_to_ns(CONNECT_MS))
        lose(store, "it does not answer");
    else if (store->calls && now_ns - store->calls->since_ns > hth_ms_to_ns(HTH_STORE_ANSWER_MS))
        lose(store, "it does not answer in time");
    else
        wait_ms(store, LOOK_MS);
}

/* ---- the store ---- */

/* The first line of the file, without its end. */
static hearth_status read_password(const char *path, char **out, hearth_error *err)
{
    FILE *file = fopen(path, "re");
    char line[PASSWORD_BYTES_MAX];
    const int saved = errno;
    bool is_read;

    if (!file)
        return hth_fail_errno(err, saved, "cannot read the password of the store from '%s'", path);
    is_read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file); /* it was read only */
    line[is_read ? strcspn(line, "\r\n") : 0] = '\0';
    *out = *line ? strdup(line) : NULL;
    if (!*line)
        return hth_fail(err, HEARTH_CORRUPT, "the first line of '%s' is empty; it must be the password of the store",
                        path);
    OPENSSL_cleanse(line, sizeof(line));
    return *out ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store");
}

/* Read all that the options name. */
static hearth_status read_options(hth_store *store, hearth_error *err)
{
    hearth_status status = hth_store_url_read(store->options.url, &store->url, err);

    if (status == HEARTH_OK && store->options.password_file)
        status = read_password(store->options.password_file, &store->password, err);
    else if (status == HEARTH_OK && store->url.password && !(store->password = strdup(store->url.password)))
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store");
    if (status == HEARTH_OK && store->url.is_tls)
        status = hth_store_tls_new(store->options.authorities, &store->tls, err);
    return status;
}

static hearth_status make(const hth_store_options *options, hth_store **out, hearth_error *err)
{
    hth_store *store = calloc(1, sizeof(*store));
    hearth_status status;

    *out = store;
    if (!store)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store");
    store->options = *options;
    store->pause_ms = PAUSE_MS_MIN;
    status = read_options(store, err);
    if (status != HEARTH_OK) {
        hth_store_free(store);
        *out = NULL;
    }
    return status;
}

hearth_status hth_store_check(const char *url, const char *password_file, const char *authorities, hearth_error *err)
{
    hth_store *store;
    const hearth_status status = make(
        &(hth_store_options){ .url = url, .password_file = password_file, .authorities = authorities }, &store, err);

    hth_store_free(store);
    return status;
}

hearth_status hth_store_new(const hth_store_options *options, hth_store **out, hearth_error *err)
{
    hth_store *store;
    const hearth_status status = make(options, &store, err);

    *out = store;
    if (status != HEARTH_OK || !store)
        return status;
    store->timer = event_new(options->base, -1, 0, on_timer, store);
    if (store->timer)
        return HEARTH_OK;
    hth_store_free(store);
    *out = NULL;
    return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the store");
}

void hth_store_free(hth_store *store)
{
    hth_store_call *call, *next;

    if (!store)
        return;
    close_socket(store);
    DL_FOREACH_SAFE(store->calls, call, next)
    free(call);
    if (store->timer)
        event_free(store->timer);
    SSL_CTX_free(store->tls);
    if (store->password)
        OPENSSL_cleanse(store->password, strlen(store->password));
    free(store->password);
    OPENSSL_cleanse(&store->url, sizeof(store->url));
    free(store);
}

void hth_store_begin(hth_store *store)
{
    on_timer(-1, 0, store);
}

bool hth_store_is_up(const hth_store *store)
{
    return store->state == UP;
}

const char *hth_store_why(const hth_store *store)
{
    return store->state == UP ? "" : store->why;
}

const char *hth_store_address(const hth_store *store)
{
    return store->address;
}

bool hth_store_own_host(const hth_store *store, char out[HTH_STORE_HOST_BYTES])
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t n = sizeof(address);
    const void *host;

    out[0] = '\0';
    if (store->state != UP || getsockname(bufferevent_getfd(store->socket.bev), (struct sockaddr *)&address, &n) != 0)
        return false;
    host = address.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&address)->sin6_addr
                                         : (void *)&((struct sockaddr_in *)&address)->sin_addr;
    return inet_ntop(address.ss_family, host, out, HTH_STORE_HOST_BYTES) != NULL;
}
