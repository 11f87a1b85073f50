#include "carrier/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/os.h"
#include "base/status.h"
#include "carrier/fetch.h"
#include "carrier/pull_judge.h"
#include "carrier/serve.h"
#include "http/host.h"

enum {
    WORKERS_MAX = 1024,
    NODES_MAX = 256,
    SERVED_AT_ONCE_MAX = 2 * HTH_CARRIER_SERVED_MAX, /* with strangers that are about to end */
    MESSAGES_A_TURN = 64,                            /* of one socket, so that others get their turn */
};

/* A socket to a worker. */
typedef struct channel {
    struct channel *prev, *next;
    int fd;
    char model[HTH_CARRIER_NAME_BYTES];
} channel;

typedef struct known_node {
    struct known_node *prev, *next;
    hth_pull_past past;
    char name[HTH_CARRIER_NAME_BYTES];
    char address[HTH_CARRIER_NAME_BYTES];
} known_node;

/* A transfer, on a thread of its own. The loop reads the results once has_ended is set. */
typedef struct transfer {
    struct transfer *prev, *next;
    struct carrier *of;
    pthread_t thread;
    atomic_bool stops;     /* nobody waits for a fetch, others need its place, or the carrier ends */
    atomic_bool is_member; /* of a connection to serve: it has shown that it is one of the fleet */
    atomic_bool has_ended;
    bool is_fetch;
    int fd;         /* of a connection to serve */
    channel *asker; /* of a fetch; NULL: it is gone, or does not wait any more */
    uint32_t number;
    char node[HTH_CARRIER_NAME_BYTES];
    char address[HTH_CARRIER_NAME_BYTES];
    char model[HTH_CARRIER_NAME_BYTES];
    hth_row_wish *wishes; /* owned; of the order */
    hth_fetch_order order;
    hth_fetched fetched;
    hth_served served;
} transfer;

typedef struct carrier {
    const hth_carrier_options *options;
    channel *channels;
    known_node *nodes;
    transfer *transfers;
    unsigned n_channels, n_nodes, n_fetches, n_served;
    int wake[2]; /* a thread writes when it has ended */
    bool has_ended;
    uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];
    struct pollfd polled[WORKERS_MAX + 2];
    channel *polled_channels[WORKERS_MAX + 2];
} carrier;

/* ---- transfers ---- */

static void *carry(void *user_data)
{
    transfer *t = user_data;
    const hth_carrier_options *options = t->of->options;
    struct ssl_ctx_st *context = hth_fleet_pem_context(options->pem);

    hth_os_thread_name(t->is_fetch ? "hearth-fetch" : "hearth-serve");
    if (t->is_fetch)
        hth_fetch_rows(options->tiers, context, &t->order, &t->stops, options->log, &t->fetched);
    else
        hth_serve(options->tiers, context, t->fd, &t->stops, options->log, &t->served, &t->is_member);
    atomic_store(&t->has_ended, true);
    (void)!write(t->of->wake[1], "", 1); /* full: the loop is woken in any case */
    return NULL;
}

/* Takes over the transfer. False: there is no thread, and the transfer is freed. */
static bool begin_take(carrier *c, transfer *t)
{
    t->of = c;
    if (pthread_create(&t->thread, NULL, carry, t) != 0) {
        free(t->wishes);
        free(t);
        return false;
    }
    DL_APPEND(c->transfers, t);
    *(t->is_fetch ? &c->n_fetches : &c->n_served) += 1;
    return true;
}

static known_node *node_called(carrier *c, const char *name)
{
    known_node *node;

    DL_FOREACH(c->nodes, node)
    {
        if (strcmp(node->name, name) == 0)
            return node;
    }
    return NULL;
}

static void tell_front(const carrier *c, const hth_carrier_message *message)
{
    (void)hth_carrier_send(c->options->control_fd, message, -1); /* if it is not read, a metric lacks it */
}

static void tell_fetched(const carrier *c, const transfer *t)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_FETCHED,
                                    .number = t->number,
                                    .end = t->fetched.end,
                                    .n_tokens = t->fetched.n_tokens,
                                    .n_rows = t->fetched.n_rows };

    if (t->asker)
        (void)hth_carrier_send(t->asker->fd, &message, -1); /* else its time limit ends its wait */
    message.kind = HTH_CARRIER_PULLED;
    message.number = 0;
    message.n_bytes = t->fetched.n_bytes;
    message.ns = t->fetched.ns;
    memcpy(message.name, t->model, sizeof(message.name));
    memcpy(message.address, t->address, sizeof(message.address));
    tell_front(c, &message);
}

static void note_past(carrier *c, const transfer *t)
{
    known_node *node = node_called(c, t->node);

    if (node && strcmp(node->address, t->address) == 0)
        hth_pull_note(&node->past, t->fetched.n_read, t->fetched.data_ns, t->fetched.gave_up, t->order.compute_ns,
                      hth_os_monotonic_ns());
}

static void end_transfers(carrier *c, bool all)
{
    transfer *t, *next;
    char bytes[256];

    while (read(c->wake[0], bytes, sizeof(bytes)) > 0)
        ;
    DL_FOREACH_SAFE(c->transfers, t, next)
    {
        if (!all && !atomic_load(&t->has_ended))
            continue;
        (void)pthread_join(t->thread, NULL); /* it has ended, or ends soon */
        DL_DELETE(c->transfers, t);
        *(t->is_fetch ? &c->n_fetches : &c->n_served) -= 1;
        if (t->is_fetch && !all) {
            note_past(c, t);
            tell_fetched(c, t);
        } else if (!all && t->served.n_rows > 0) {
            tell_front(c, &(hth_carrier_message){
                              .kind = HTH_CARRIER_SERVED, .n_rows = t->served.n_rows, .n_bytes = t->served.n_bytes });
        }
        free(t->wishes);
        free(t);
    }
}

/* ---- orders of workers ---- */

static void refuse(const carrier *c, const channel *asker, const hth_carrier_message *order)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_FETCHED, .number = order->number, .end = HTH_CARRIER_REFUSED };

    (void)hth_carrier_send(asker->fd, &message, -1); /* else its time limit ends its wait */
    message.kind = HTH_CARRIER_PULLED;
    memcpy(message.name, asker->model, sizeof(message.name));
    tell_front(c, &message);
}

static void fetch(carrier *c, channel *asker, const hth_carrier_message *order)
{
    const known_node *node = node_called(c, order->name);
    const uint64_t now = hth_os_monotonic_ns();
    transfer *t = NULL;

    if (node && hth_pull_may_begin(&node->past, order->ns, now) && order->n_keys > 0 &&
        c->n_fetches < HTH_CARRIER_FETCHES_MAX)
        t = calloc(1, sizeof(*t));
    if (t)
        t->wishes = calloc(order->n_keys, sizeof(*t->wishes));
    if (!t || !t->wishes) {
        free(t);
        refuse(c, asker, order);
        return;
    }
    for (uint32_t i = 0; i < order->n_keys; i++)
        memcpy(t->wishes[i].key.bytes, order->keys + (size_t)i * HTH_CARRIER_KEY_BYTES, HTH_CARRIER_KEY_BYTES);
    memcpy(t->node, node->name, sizeof(t->node));
    memcpy(t->address, node->address, sizeof(t->address));
    memcpy(t->model, asker->model, sizeof(t->model));
    t->is_fetch = true;
    t->asker = asker;
    t->number = order->number;
    t->order = (hth_fetch_order){ .address = t->address,
                                  .wishes = t->wishes,
                                  .n = order->n_keys,
                                  .n_known = order->n_tokens,
                                  .compute_ns = order->ns,
                                  .rate = node->past.rate,
                                  .rate_age_ns = now - node->past.rated_ns };
    if (!begin_take(c, t))
        refuse(c, asker, order);
}

/* The worker does not wait for this fetch any more; number 0: for none. The rows would be of use to nobody. */
static void drop(carrier *c, const channel *asker, uint32_t number)
{
    transfer *t;

    DL_FOREACH(c->transfers, t)
    {
        if (t->asker == asker && (number == 0 || t->number == number)) {
            t->asker = NULL;
            atomic_store(&t->stops, true);
        }
    }
}

static void close_channel(carrier *c, channel *at)
{
    drop(c, at, 0);
    DL_DELETE(c->channels, at);
    c->n_channels--;
    (void)close(at->fd); /* nobody reads it */
    free(at);
}

/* A channel has messages, or is closed. */
static void hear_worker(carrier *c, channel *at)
{
    hth_carrier_message message;
    int fd = -1;

    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        switch (hth_carrier_receive(at->fd, c->buffer, &message, &fd)) {
        case HTH_CARRIER_NONE: return;
        case HTH_CARRIER_CLOSED: close_channel(c, at); return;
        case HTH_CARRIER_BAD: break;
        case HTH_CARRIER_GOT:
            if (fd >= 0)
                (void)close(fd); /* workers have none to give */
            message.ns = hth_pull_compute_ns(message.ns, message.n_rows);
            if (message.kind == HTH_CARRIER_FETCH)
                fetch(c, at, &message);
            else if (message.kind == HTH_CARRIER_DROP && message.number > 0)
                drop(c, at, message.number);
            break;
        }
    }
}

/* ---- orders of the front ---- */

/* Anybody can open a connection: the oldest one that is not known to be a member's makes room for the next. */
static bool end_a_stranger(carrier *c)
{
    transfer *t;

    DL_FOREACH(c->transfers, t)
    {
        if (t->is_fetch || atomic_load(&t->is_member) || atomic_load(&t->stops))
            continue;
        atomic_store(&t->stops, true);
        return true;
    }
    return false;
}

static void serve_take(carrier *c, int fd)
{
    transfer *t = NULL;

    if (c->n_served < HTH_CARRIER_SERVED_MAX || (c->n_served < SERVED_AT_ONCE_MAX && end_a_stranger(c)))
        t = calloc(1, sizeof(*t));
    if (t)
        t->fd = fd;
    if (!t || !begin_take(c, t))
        (void)close(fd); /* the other node computes */
}

static void add_worker_take(carrier *c, int fd, const char *model)
{
    channel *at = c->n_channels < WORKERS_MAX && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 ? calloc(1, sizeof(*at)) : NULL;

    if (!at) {
        (void)close(fd); /* the worker computes */
        return;
    }
    at->fd = fd;
    (void)snprintf(at->model, sizeof(at->model), "%s", model); /* the same size */
    DL_APPEND(c->channels, at);
    c->n_channels++;
    (void)hth_carrier_send(fd, &(hth_carrier_message){ .kind = HTH_CARRIER_HERE }, -1); /* else the worker computes */
}

static void note_node(carrier *c, const char *name, const char *address)
{
    known_node *node = node_called(c, name);

    if (node && (!*address || strcmp(node->address, address) != 0)) {
        DL_DELETE(c->nodes, node);
        c->n_nodes--;
        free(node);
        node = NULL;
    }
    if (node || !*address || c->n_nodes == NODES_MAX)
        return;
    node = calloc(1, sizeof(*node));
    if (!node)
        return;                                                 /* fetches from there are refused */
    (void)snprintf(node->name, sizeof(node->name), "%s", name); /* these have the same sizes */
    (void)snprintf(node->address, sizeof(node->address), "%s", address);
    DL_APPEND(c->nodes, node);
    c->n_nodes++;
}

static void obey_take(carrier *c, const hth_carrier_message *message, int fd)
{
    if (message->kind == HTH_CARRIER_SERVE && fd >= 0)
        serve_take(c, fd);
    else if (message->kind == HTH_CARRIER_WORKER && fd >= 0)
        add_worker_take(c, fd, message->name);
    else if (fd >= 0)
        (void)close(fd); /* other orders have none */
    if (message->kind == HTH_CARRIER_NODE)
        note_node(c, message->name, message->address);
}

static void hear_front(carrier *c)
{
    hth_carrier_message message;
    int fd = -1;

    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        switch (hth_carrier_receive(c->options->control_fd, c->buffer, &message, &fd)) {
        case HTH_CARRIER_NONE: return;
        case HTH_CARRIER_CLOSED: c->has_ended = true; return;
        case HTH_CARRIER_BAD: break;
        case HTH_CARRIER_GOT: obey_take(c, &message, fd); break;
        }
    }
}

/* ---- the loop ---- */

static bool wait_and_hear(carrier *c)
{
    channel *at;
    nfds_t n = 2;

    c->polled[0] = (struct pollfd){ .fd = c->options->control_fd, .events = POLLIN };
    c->polled[1] = (struct pollfd){ .fd = c->wake[0], .events = POLLIN };
    DL_FOREACH(c->channels, at)
    {
        c->polled[n] = (struct pollfd){ .fd = at->fd, .events = POLLIN };
        c->polled_channels[n++] = at;
    }
    if (poll(c->polled, n, -1) < 0)
        return errno == EINTR;
    end_transfers(c, false);
    if (c->polled[0].revents)
        hear_front(c); /* first: what workers want may need what it says */
    for (nfds_t i = 2; i < n; i++)
        if (c->polled[i].revents)
            hear_worker(c, c->polled_channels[i]); /* frees this one at most */
    return true;
}

static void end(carrier *c)
{
    transfer *t;

    DL_FOREACH(c->transfers, t)
    {
        atomic_store(&t->stops, true);
    }
    end_transfers(c, true);
    while (c->channels)
        close_channel(c, c->channels);
    while (c->nodes)
        note_node(c, c->nodes->name, "");
    (void)close(c->wake[0]); /* no thread writes any more */
    (void)close(c->wake[1]);
    free(c);
}

hearth_status hth_carrier_run(const hth_carrier_options *options, hearth_error *err)
{
    carrier *c = calloc(1, sizeof(*c));
    hearth_status status = HEARTH_OK;

    if (!c)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the carrier of rows");
    status = hth_host_allow_threads(err);
    if (status != HEARTH_OK) {
        free(c);
        return status;
    }
    c->options = options;
    if (pipe(c->wake) != 0) {
        status = hth_fail_errno(err, errno, "cannot make a pipe for the carrier of rows");
        free(c);
        return status;
    }
    for (int i = 0; i < 2; i++)
        if (fcntl(c->wake[i], F_SETFL, O_NONBLOCK) != 0 || fcntl(c->wake[i], F_SETFD, FD_CLOEXEC) != 0)
            status = hth_fail_errno(err, errno, "cannot set up a pipe for the carrier of rows");
    while (status == HEARTH_OK && !c->has_ended)
        if (!wait_and_hear(c))
            status = hth_fail_errno(err, errno, "the carrier of rows cannot wait for orders");
    end(c);
    return status;
}
