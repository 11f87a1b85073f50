/*
 * front.c - the life of the front: start, reload, drain, end
 *
 *   SERVING   requests come and go
 *   DRAINING  after SIGTERM: /ready is 503, new requests are refused, running ones may finish within a limit
 *   STOPPING  no request is left: workers save and end
 *
 * A second signal while draining or stopping ends everything at once. A reload replaces the whole set of options.
 * Requests that began under the old set keep it until they end.
 */
#include "front/front.h"

#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "base/status.h"
#include "front/front_request.h"
#include "supervisor/descriptors.h"

enum {
    SAVE_TIMEOUT_MS = 60000, /* for the workers' shutdown saves */
    LAST_REPLIES_MS = 5000,  /* for clients to read their last replies after that */
    LAST_LOOK_MS = 10,
    OPERATORS_CONNECTIONS = 16, /* on their own listener, besides all other connections */
    NODES_CONNECTIONS = 4096,   /* likewise */
    CONNECTIONS_FEW = 1024,     /* fewer cause a warning; ordinary limits allow more */
};

/* ---- sets of options ---- */

/* Put a set into use. False without memory. */
static bool use_options(hth_front *front, const hth_server_options *options, bool is_first)
{
    hth_front_options *set = calloc(1, sizeof(*set));

    if (!set)
        return false;
    *set = (hth_front_options){ .options = options, .n_users = 1, .is_first = is_first };
    if (!hth_keys_set(front->keys, options)) {
        free(set);
        return false;
    }
    hth_front_options_drop(front, front->options);
    front->options = set;
    hth_metrics_models_set(front->metrics, options);
    return true;
}

static hth_http_options http_options(const hth_front *front, const hth_server_options *options)
{
    hth_http_options http = options->http;

    http.server_name = "hearth";
    http.body_bytes_max = options->worker.requests.body_bytes_max;
    http.connections_max = hth_descriptors_for(http.connections_max, options->requests_max);
    if (http.connections_max < options->http.connections_max)
        hth_log_line(&front->log, http.connections_max < CONNECTIONS_FEW ? HEARTH_LOG_WARNING : HEARTH_LOG_DEBUG,
                     "hearth",
                     "the system's limit of open files allows %u connections and not %u (limits.connections_max): "
                     "raise it (LimitNOFILE=, ulimit -n)",
                     http.connections_max, options->http.connections_max);
    return http;
}

/* Requests of other nodes have frames, records and true tokens before the client's body. */
static void let_nodes_in(hth_front *front, const hth_http_options *http)
{
    hth_http_server_set_nodes(front->http, HTH_FRONT_FLEET,
                              http->body_bytes_max + HTH_KNOWN_BYTES_MAX + HTH_PAST_BYTES_MAX +
                                  HTH_HISTORY_PART_BYTES_MAX);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_address(const hth_server_address *a, const hth_server_address *b)
{
    return is_same_text(a->host, b->host) && is_same_text(a->path, b->path) && a->port == b->port;
}

static bool listens_alike(const hth_server_options *a, const hth_server_options *b)
{
    if (a->n_listen != b->n_listen || !is_same_address(&a->admin, &b->admin) ||
        !is_same_text(a->tls_certificate, b->tls_certificate) || !is_same_text(a->tls_key, b->tls_key))
        return false;
    for (size_t i = 0; i < a->n_listen; i++)
        if (!is_same_address(&a->listen[i], &b->listen[i]))
            return false;
    return true;
}

/*
 * Listeners do not change during the life of the process. A set without keys may be safe only because of its new
 * addresses. Then the old addresses, which stay open, would serve every client.
 */
static bool check_listeners(const hth_front *front, const hth_server_options *options, hearth_error *err)
{
    if (listens_alike(front->first_options, options))
        return true;
    if (options->n_keys == 0 && front->options->options->n_keys > 0 && !options->allow_public_without_keys) {
        (void)hth_fail(err, HEARTH_MISUSE,
                       "keys are taken away, and addresses changed, which a reload cannot do: the old addresses would "
                       "ask for no key; start the server anew"); /* false reports it */
        return false;
    }
    hth_warn(&front->log, "addresses to listen on, and the files of TLS, change when the server is started anew");
    return true;
}

static bool is_same_fleet(const hth_fleet_options *a, const hth_fleet_options *b)
{
    if (a->n_peers != b->n_peers || a->policy != b->policy || a->no_rows != b->no_rows ||
        a->same_bits != b->same_bits || !is_same_text(a->file, b->file) || !is_same_text(a->name, b->name) ||
        !is_same_text(a->host, b->host) || !is_same_text(a->store, b->store) || !is_same_text(a->id, b->id) ||
        !is_same_text(a->store_password_file, b->store_password_file) ||
        !is_same_text(a->store_authorities, b->store_authorities) || !is_same_address(&a->listen, &b->listen))
        return false;
    for (size_t i = 0; i < a->n_peers; i++)
        if (strcmp(a->peers[i], b->peers[i]) != 0)
            return false;
    return true;
}

/* False while the server ends, with the error. */
static bool may_change(const hth_front *front, hearth_error *err)
{
    if (front->is_draining)
        (void)hth_fail(err, HEARTH_BUSY, "the server is shutting down"); /* false reports it */
    return !front->is_draining;
}

/*
 * Put options in force; reconfigure passes them to the supervisor. False without memory: they are released, and the old
 * ones stay.
 */
static bool take_options(hth_front *front, const hth_server_options *options,
                         void (*reconfigure)(hth_supervisor *supervisor, const hth_server_options *options),
                         hearth_error *err)
{
    /* The supervisor reads the set without holding a reference, so it gets the new set before the old one goes. */
    reconfigure(front->supervisor, options);
    hth_pressure_watch_set_options(front->pressure, options);
    if (use_options(front, options, false))
        return true;
    reconfigure(front->supervisor, front->options->options);
    hth_pressure_watch_set_options(front->pressure, front->options->options);
    front->hooks->release(options, front->hooks->user_data);
    (void)hth_fail(err, HEARTH_NO_MEMORY, "no memory for the new options; the old ones stay"); /* false reports it */
    return false;
}

/* SIGHUP, or an operator's order. False: the new configuration is wrong, the old one stays. */
static bool reload(void *user_data, hearth_error *err)
{
    hth_front *front = user_data;
    const hth_server_options *options;
    hth_http_options http;
    hearth_error problem;

    if (!may_change(front, err))
        return false;
    if (hth_server_log_reopen(front->server_log, &problem) != HEARTH_OK)
        hth_warn(&front->log, "%s; the log stays where it was", problem.message);
    options = front->hooks->reload(front->options->options, front->hooks->user_data, err);
    if (!options)
        return false;
    if (!check_listeners(front, options, err) || !hth_front_adapters_fit(front, options, err) ||
        (front->tls && hth_tls_reload(front->tls, err) != HEARTH_OK)) {
        front->hooks->release(options, front->hooks->user_data);
        return false;
    }
    if (!take_options(front, options, hth_supervisor_reconfigure, err))
        return false;
    hth_pressure_watch_set_settings(front->pressure, &options->pressure); /* orders do not outlive a reload */
    http = http_options(front, options);
    hth_http_server_set_options(front->http, &http);
    let_nodes_in(front, &http);
    front->fleet.page_ns = 0;
    front->log.level = options->log_level;
    hth_server_log_level_set(front->server_log, options->log_level);
    hth_proxy_set_limits(front->proxy, &options->relay);
    hth_places_set_wait_timeout(front->places, options->relay.wait_timeout_ms);
    hth_kept_streams_set_options(front->kept, &options->kept);
    if (front->fleet.journals)
        hth_journals_set_keep_ms(front->fleet.journals, options->kept.keep_ms);
    hth_event_feed_set_heartbeat(front->feed, options->relay.keep_alive_ms);
    hth_folder_watch_set(front->folders, options->watched_folders, options->n_watched_folders);
    for (size_t i = 0; i < options->n_warnings; i++)
        hth_warn(&front->log, "%s", options->warnings[i]);
    if (!is_same_fleet(&front->first_options->fleet, &options->fleet))
        hth_warn(&front->log, "the options of the fleet change when the server is started anew");
    hth_info(&front->log, "the configuration was read anew");
    return true;
}

/*
 * Tell the service manager the state, "READY=1" or "STOPPING=1": the protocol of sd_notify(3), without its library.
 * Does nothing if $NOTIFY_SOCKET is not set. Never blocks.
 */
static void notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t n = path ? strlen(path) : 0;
    int fd;

    if (n == 0 || n >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, n);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0'; /* an abstract socket */
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    /* If the manager does not listen, the datagram is lost. */
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    (void)close(fd);
}

static void reload_and_tell(hth_front *front)
{
    hearth_error err;

    notify("RELOADING=1");
    if (!reload(front, &err))
        hth_log_line(&front->log, HEARTH_LOG_ERROR, "hearth", "the configuration stays as it was: %s", err.message);
    notify("READY=1");
}

static void on_folders_changed(void *user_data)
{
    hth_front *front = user_data;

    if (front->is_draining)
        return;
    hth_info(&front->log, "the folder of models has changed");
    reload_and_tell(front);
}

/* ---- the end ---- */

/* Workers have ended. The front ends once clients have read their last replies, or have stopped reading. */
static void end_when_taken(hth_front *front)
{
    const struct timeval delay = { .tv_usec = (suseconds_t)LAST_LOOK_MS * 1000 };

    if (hth_http_server_owes_replies(front->http) && hth_os_monotonic_ns() < front->end_by_ns &&
        evtimer_add(front->end_timer, &delay) == 0)
        return;
    (void)event_base_loopbreak(front->base); /* fails only without an event base */
}

static void on_workers_stopped(void *user_data)
{
    hth_front *front = user_data;

    hth_event_feed_end(front->feed);
    front->end_by_ns = hth_os_monotonic_ns() + hth_ms_to_ns(LAST_REPLIES_MS);
    end_when_taken(front);
}

static void stop_workers(hth_front *front)
{
    if (front->is_stopping)
        return;
    front->is_stopping = true;
    (void)evtimer_del(front->end_timer); /* cannot fail for a valid event */
    hth_info(&front->log, "stopping: workers save what they hold");
    if (front->fleet.roster)
        hth_roster_leave(front->fleet.roster);
    hth_supervisor_stop(front->supervisor, SAVE_TIMEOUT_MS, on_workers_stopped, front);
}

static void end_requests(hth_front *front)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_warn(&front->log, "%zu requests did not finish in time and are ended", front->n_requests);
    hth_api_fail(&error, HTH_API_OVERLOADED, NULL,
                 "the server is shutting down, and this request took too long to be waited for");
    error.retry_after_s = 5;
    hth_proxy_end_all(front->proxy, &error);
    hth_peer_end_all(front);
    stop_workers(front);
}

/* Ends one of two phases: first requests finish, then clients read their replies. */
static void on_timer(int fd, short what, void *user_data)
{
    hth_front *front = user_data;

    (void)fd;
    (void)what;
    if (front->is_stopping)
        end_when_taken(front);
    else
        end_requests(front);
}

/* SIGTERM, or an operator's order. */
static void drain(void *user_data)
{
    hth_front *front = user_data;
    const uint32_t ms = front->options->options->drain_timeout_ms;
    const struct timeval timeout = { .tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * (suseconds_t)1000 };

    if (front->is_draining)
        return;
    front->is_draining = true;
    notify("STOPPING=1");
    front->fleet.page_ns = 0; /* tells other nodes */
    hth_places_set_draining(front->places, true);
    hth_http_server_drain(front->http);
    if (front->n_requests == 0) {
        stop_workers(front);
        return;
    }
    hth_info(&front->log, "stopping: %zu requests may finish within %u ms", front->n_requests, ms);
    if (evtimer_add(front->end_timer, &timeout) != 0)
        end_requests(front); /* no memory to wait */
}

static void on_signal(evutil_socket_t number, short what, void *user_data)
{
    hth_front *front = user_data;

    (void)what;
    if (number == SIGHUP && front->is_draining) {
        hth_warn(&front->log, "the configuration stays as it was: the server is shutting down");
    } else if (number == SIGHUP) {
        reload_and_tell(front);
    } else if (!front->is_draining) {
        drain(front);
    } else {
        front->was_killed = true;
        (void)event_base_loopbreak(front->base); /* fails only without an event base */
    }
}

/* ---- pages for operators ---- */

/* Put options in force that have one model more or fewer. options NULL: they failed, and *err has the reason. */
static hearth_status take_models(hth_front *front, const hth_server_options *options, const char *name,
                                 const char *done, hearth_error *err)
{
    if (!options)
        return err->status;
    if (!hth_front_adapters_fit(front, options, err)) {
        front->hooks->release(options, front->hooks->user_data);
        return err->status;
    }
    if (!take_options(front, options, hth_supervisor_set_models, err))
        return err->status;
    hth_info(&front->log, "an operator's order %s model '%s'", done, name);
    return HEARTH_OK;
}

static hearth_status order_name_model(const char *name, const char *settings, void *user_data, hearth_error *err)
{
    hth_front *front = user_data;
    const hth_front_hooks *hooks = front->hooks;

    if (!may_change(front, err))
        return err->status;
    return take_models(front, hooks->name_model(front->options->options, name, settings, hooks->user_data, err), name,
                       "added", err);
}

static hearth_status order_forget_model(const char *name, void *user_data, hearth_error *err)
{
    hth_front *front = user_data;
    const hth_front_hooks *hooks = front->hooks;

    if (!may_change(front, err))
        return err->status;
    return take_models(front, hooks->forget_model(front->options->options, name, hooks->user_data, err), name,
                       "took back", err);
}

static hearth_status order_set_pressure(const char *text, void *user_data, hearth_error *err)
{
    hth_front *front = user_data;
    const hth_front_hooks *hooks = front->hooks;
    hth_pressure_settings settings = *hth_pressure_watch_settings(front->pressure);
    hearth_status status;

    status = hooks->read_pressure(text, &settings, hooks->user_data, err);
    if (status != HEARTH_OK)
        return status;
    hth_pressure_watch_set_settings(front->pressure, &settings);
    hth_info(&front->log, "an operator's order changed settings of memory pressure, until a reload: %.200s", text);
    return HEARTH_OK;
}

/* The orders that operators' pages may give. */
static hth_admin orders_of(hth_front *front)
{
    return (hth_admin){
        .supervisor = front->supervisor,
        .metrics = front->metrics,
        .http = front->http,
        .feed = front->feed,
        .pressure = front->pressure,
        .drain = drain,
        .reload = reload,
        .name_model = order_name_model,
        .forget_model = order_forget_model,
        .set_pressure = order_set_pressure,
        .fleet_metrics = hth_front_fleet_metrics,
        .fleet = hth_front_fleet_json,
        .why = hth_front_fleet_why,
        .drain_node = hth_front_fleet_drain,
        .user_data = front,
        .json = front->hooks->json,
    };
}

/* ---- the beginning ---- */

static hearth_status make_base(hth_front *front, hearth_error *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };

    front->base = event_base_new();
    if (!front->base)
        return hth_fail(err, HEARTH_FAILED, "the event loop cannot be made; are file descriptors left (ulimit -n)?");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        front->signals[i] = evsignal_new(front->base, numbers[i], on_signal, front);
        if (!front->signals[i] || evsignal_add(front->signals[i], NULL) != 0)
            return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the event loop's signals");
    }
    front->end_timer = evtimer_new(front->base, on_timer, front);
    return front->end_timer ? HEARTH_OK : hth_fail(err, HEARTH_NO_MEMORY, "no memory for the event loop's timers");
}

static hearth_status make_parts(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    hth_http_options http;
    hearth_status status;

    status = hth_server_log_new(options->log_file, options->log_format, options->log_level, &front->server_log, err);
    if (status != HEARTH_OK)
        return status;
    front->log = (hth_log){ .level = options->log_level, .write = hth_server_log_fn, .user_data = front->server_log };
    http = http_options(front, options);
    front->metrics = hth_metrics_new();
    front->keys = hth_keys_new();
    if (!front->metrics || !front->keys || !use_options(front, options, true))
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the server");
    if (options->tls_certificate)
        status = hth_tls_new(options->tls_certificate, options->tls_key, &front->tls, err);
    if (status == HEARTH_OK)
        status = hth_front_fleet_open(front, options, err);
    if (status == HEARTH_OK)
        status = hth_http_server_new(front->base, &http, hth_front_handle, front, &front->http, err);
    if (status != HEARTH_OK)
        return status;
    hth_http_server_set_errors(front->http, hth_front_protocol_error);
    hth_http_server_set_gate(front->http, hth_front_wants_body);
    hth_http_server_reserve(front->http, HTH_FRONT_ADMIN, OPERATORS_CONNECTIONS);
    if (options->fleet.file)
        hth_http_server_reserve(front->http, HTH_FRONT_FLEET, NODES_CONNECTIONS);
    let_nodes_in(front, &http);
    if (options->fleet.file)
        status = hth_front_fleet_listen(front, err);
    return status;
}

static json_t *snapshot(void *user_data)
{
    const hth_front *front = user_data;
    const hth_http_numbers numbers = hth_http_server_numbers(front->http);

    return hth_admin_models_json(front->supervisor, front->is_draining, front->n_requests, &numbers);
}

static uint64_t relieve(uint64_t n_bytes, bool is_device, hth_departures *departures, void *user_data)
{
    return hth_supervisor_relieve(user_data, n_bytes, is_device, departures);
}

static void hold(bool is_held, void *user_data)
{
    hth_supervisor_hold(user_data, is_held);
}

/* Called after the addresses are bound, so that a second server finds them in use before it loads anything. */
static hearth_status make_workers(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    hearth_status status = hth_upstream_new(front->base, &front->upstream, err);

    if (status == HEARTH_OK && front->fleet.pem)
        hth_upstream_set_tls(front->upstream, hth_fleet_pem_tls(front->fleet.pem));
    if (status == HEARTH_OK)
        status = hth_event_feed_new(front->base, snapshot, front, &front->feed, err);
    if (status == HEARTH_OK)
        hth_event_feed_set_heartbeat(front->feed, options->relay.keep_alive_ms);
    if (status == HEARTH_OK)
        status = hth_supervisor_new(front->base, front->hooks->program, options, &front->log, front->feed,
                                    &front->supervisor, err);
    if (status == HEARTH_OK)
        status = hth_pressure_watch_new(
            front->base, front->hooks->program, options,
            &(hth_pressure_orders){ .relieve = relieve, .hold = hold, .user_data = front->supervisor }, &front->log,
            front->feed, &front->pressure, err);
    if (status == HEARTH_OK)
        status = hth_kept_streams_new(front->base, &options->kept, &front->kept, err);
    if (status == HEARTH_OK)
        status = hth_front_fleet_begin(front, options, err);
    if (status == HEARTH_OK)
        status = hth_front_takeover_begin(front, err);
    if (status == HEARTH_OK)
        status = hth_proxy_new(&(hth_proxy_options){ .upstream = front->upstream,
                                                     .places = front->places,
                                                     .kept = front->kept,
                                                     .journals = front->fleet.journals,
                                                     .metrics = front->metrics,
                                                     .log = &front->log,
                                                     .limits = options->relay,
                                                     .same_bits = options->fleet.same_bits },
                               &front->proxy, err);
    if (status == HEARTH_OK)
        status = hth_response_store_new(
            &(hth_response_store_options){
                .base = front->base, .limits = options->responses, .shared = front->fleet.shared, .log = &front->log },
            &front->responses, err);
    if (status != HEARTH_OK)
        return status;
    front->folders = hth_folder_watch_new(front->base, &front->log, on_folders_changed, front);
    if (!front->folders)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the watch of folders");
    hth_folder_watch_set(front->folders, options->watched_folders, options->n_watched_folders);
    return HEARTH_OK;
}

static hearth_status listen_at(hth_front *front, const hth_server_address *address, hth_front_tag tag,
                               uint16_t *port_out, hearth_error *err)
{
    hth_http_listener *listener; /* freed with the server */

    *port_out = 0;
    if (tag == HTH_FRONT_FLEET)
        return hth_http_listen_tcp(front->http, address->host, address->port, tag, hth_fleet_pem_context,
                                   front->fleet.pem, port_out, &listener, err);
    if (address->path)
        return hth_http_listen_unix(front->http, address->path, tag, &listener, err);
    return hth_http_listen_tcp(front->http, address->host, address->port, tag,
                               front->tls && tag == HTH_FRONT_PUBLIC ? hth_tls_context : NULL, front->tls, port_out,
                               &listener, err);
}

static bool is_listed(const hth_server_options *options, const char *host, uint16_t port)
{
    for (size_t i = 0; i < options->n_listen; i++)
        if (options->listen[i].host && strcmp(options->listen[i].host, host) == 0 && options->listen[i].port == port)
            return true;
    return false;
}

/*
 * "localhost" means both loopback addresses, and a client may try either first. So the front listens on both, on one
 * port, as far as the system has them. If another process has the port on one of them, some clients would connect to
 * that process: then the start fails, unless any free port was requested.
 */
static hearth_status listen_at_localhost(hth_front *front, const hth_server_options *options, uint16_t port,
                                         uint16_t *port_out, hearth_error *err)
{
    const hth_server_address v4 = { .host = "127.0.0.1", .port = port };
    hth_server_address v6 = { .host = "::1", .port = port };
    hearth_error problem = { .message = "" };
    hearth_status status = listen_at(front, &v4, HTH_FRONT_PUBLIC, port_out, err), other;
    uint16_t same_port;

    if (status == HEARTH_BUSY || status == HEARTH_PERMISSION)
        return status;
    if (status != HEARTH_OK)
        return listen_at(front, &v6, HTH_FRONT_PUBLIC, port_out, err);
    if (is_listed(options, v6.host, *port_out))
        return HEARTH_OK; /* the list has this address, too */
    v6.port = *port_out;
    other = listen_at(front, &v6, HTH_FRONT_PUBLIC, &same_port, &problem);
    return other == HEARTH_BUSY && port != 0 ? hth_fail(err, other, "%s", problem.message) : HEARTH_OK;
}

/* ports: [n_listen + 2], then the operators' port, then that for other nodes. */
static hearth_status listen_all(hth_front *front, const hth_server_options *options, uint16_t *ports, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < options->n_listen && status == HEARTH_OK; i++) {
        const hth_server_address *address = &options->listen[i];

        if (address->host && strcasecmp(address->host, "localhost") == 0)
            status = listen_at_localhost(front, options, address->port, &ports[i], err);
        else
            status = listen_at(front, address, HTH_FRONT_PUBLIC, &ports[i], err);
    }
    if (status == HEARTH_OK && hth_server_has_admin_address(options))
        status = listen_at(front, &options->admin, HTH_FRONT_ADMIN, &ports[options->n_listen], err);
    if (status == HEARTH_OK && options->fleet.file)
        status = listen_at(front, &options->fleet.listen, HTH_FRONT_FLEET, &front->fleet.port, err);
    ports[options->n_listen + hth_server_has_admin_address(options)] = front->fleet.port;
    return status;
}

static hearth_status make_all(hth_front *front, const hth_server_options *options, hearth_error *err)
{
    uint16_t *ports = calloc(options->n_listen + 2, sizeof(*ports));
    hearth_status status = HEARTH_OK;

    if (!ports)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the listeners");
    status = make_base(front, err);
    if (status == HEARTH_OK)
        status = make_parts(front, options, err);
    if (status == HEARTH_OK)
        status = listen_all(front, options, ports, err);
    if (status == HEARTH_OK)
        status = make_workers(front, options, err);
    if (status == HEARTH_OK)
        front->hooks->on_listening(
            ports, options->n_listen + hth_server_has_admin_address(options) + (options->fleet.file != NULL),
            front->hooks->user_data);
    free(ports);
    return status;
}

static void front_deinit(hth_front *front)
{
    hth_api_error error = { .kind = HTH_API_NO_ERROR };

    hth_api_fail(&error, HTH_API_OVERLOADED, NULL, "the server ended");
    if (front->proxy)
        hth_proxy_end_all(front->proxy, &error);
    hth_http_server_free(front->http);
    hth_proxy_free(front->proxy);
    hth_front_takeover_end(front);
    hth_front_fleet_end(front);
    hth_front_orders_free(front);
    hth_folder_watch_free(front->folders);
    hth_response_store_free(front->responses);
    hth_kept_streams_free(front->kept);
    hth_pressure_watch_free(front->pressure);
    hth_supervisor_free(front->supervisor);
    hth_event_feed_free(front->feed);
    hth_upstream_free(front->upstream);
    hth_fleet_pem_free(front->fleet.pem);
    hth_tls_free(front->tls);
    hth_front_options_drop(front, front->options);
    hth_keys_free(front->keys);
    hth_metrics_free(front->metrics);
    hth_buffer_deinit(&front->protocol_error);
    for (size_t i = 0; i < sizeof(front->signals) / sizeof(front->signals[0]); i++)
        if (front->signals[i])
            event_free(front->signals[i]);
    if (front->end_timer)
        event_free(front->end_timer);
    if (front->base)
        event_base_free(front->base);
    hth_server_log_free(front->server_log);
}

hearth_status hth_front_run(const hth_server_options *options, const hth_front_hooks *hooks, hearth_error *err)
{
    hth_front front = {
        .hooks = hooks, .first_options = options, .on_last_over = stop_workers, .started_s = (int64_t)time(NULL)
    };
    uint64_t random;
    hearth_status status;

    hth_os_random(&random, sizeof(random));
    (void)snprintf(front.id_prefix, sizeof(front.id_prefix), "%016" PRIx64, random); /* fits */
    status = make_all(&front, options, err);
    if (status == HEARTH_OK) {
        front.admin = orders_of(&front); /* no request is read before the loop runs */
        hth_front_fleet_start(&front);
        notify("READY=1");
        if (event_base_dispatch(front.base) < 0)
            status = hth_fail(err, HEARTH_FAILED, "the event loop failed");
        else if (front.was_killed)
            status = hth_fail(err, HEARTH_CANCELLED, "ended by a second signal");
    }
    front_deinit(&front);
    return status;
}
