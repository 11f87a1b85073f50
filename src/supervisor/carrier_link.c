#include "supervisor/carrier_link.h"

#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utlist.h>

#include "base/draw.h"
#include "base/os.h"
#include "base/status.h"
#include "supervisor/restart_policy.h"
#include "supervisor/worker_arguments.h"
#include "supervisor/worker_process.h"
#include "wire/carrier_messages.h"
#include "wire/exposition.h"

enum {
    LOOK_MS = 250,        /* between two looks at the process */
    HEALTHY_MS = 30000,   /* a carrier that lived so long is started again at once */
    SMOOTH = 4,           /* a new pull counts as one in so many in the mean */
    MODELS_MAX = 1024,    /* whose pulls are counted; a carrier may say any name */
    MESSAGES_A_TURN = 64, /* so that other events get their turn */
};

/* The socket to one worker. */
typedef struct attachment {
    struct attachment *prev, *next;
    int fd; /* the carrier's end */
    char model[HTH_CARRIER_NAME_BYTES];
} attachment;

typedef struct known_node {
    struct known_node *prev, *next;
    char name[HTH_CARRIER_NAME_BYTES];
    char address[HTH_CARRIER_NAME_BYTES];
} known_node;

/* What pulls for a model cost here. */
typedef struct pulled_model {
    struct pulled_model *prev, *next;
    uint32_t token_ns; /* a mean; 0: unknown */
    char model[HTH_CARRIER_NAME_BYTES];
} pulled_model;

struct hth_carrier_link {
    hth_carrier_link_options options;
    hth_worker_process *process; /* NULL: none */
    int socket;                  /* to it; -1: none */
    struct event *on_message, *look;
    uint64_t started_ns;
    uint64_t start_ns; /* when it starts again, without a process */
    hth_restart_policy policy;
    attachment *attachments;
    known_node *nodes;
    pulled_model *pulled;
    unsigned n_pulled;
    uint64_t n_starts;
    uint64_t n_pulls[HTH_CARRIER_ENDS];
    uint64_t rows_pulled, bytes_pulled, tokens_pulled;
    uint64_t rows_served, bytes_served;
    uint8_t buffer[HTH_CARRIER_MESSAGE_BYTES_MAX];
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing is lost that anybody waits for */
    *fd = -1;
}

/* ---- messages ---- */

static pulled_model *pulled_of(hth_carrier_link *link, const char *model)
{
    pulled_model *found;

    DL_FOREACH(link->pulled, found)
    {
        if (strcmp(found->model, model) == 0)
            return found;
    }
    found = link->n_pulled < MODELS_MAX ? calloc(1, sizeof(*found)) : NULL;
    if (found) {
        link->n_pulled++;
        (void)snprintf(found->model, sizeof(found->model), "%s", model); /* both have the same size */
        DL_APPEND(link->pulled, found);
    }
    return found;
}

static void note_pulled(hth_carrier_link *link, const hth_carrier_message *message)
{
    pulled_model *pulled = message->n_tokens > 0 && message->ns > 0 ? pulled_of(link, message->name) : NULL;

    link->n_pulls[message->end]++;
    link->rows_pulled += message->n_rows;
    link->bytes_pulled += message->n_bytes;
    link->tokens_pulled += message->n_tokens;
    if (pulled) {
        const uint64_t ns = message->ns / message->n_tokens, now = ns < UINT32_MAX ? (ns > 0 ? ns : 1) : UINT32_MAX;

        pulled->token_ns = pulled->token_ns == 0
                             ? (uint32_t)now
                             : (uint32_t)(((SMOOTH - 1) * (uint64_t)pulled->token_ns + now) / SMOOTH);
    }
    hth_log_line(link->options.log, HEARTH_LOG_DEBUG, "fleet",
                 "rows for '%s' from %s: %s, %u tokens in %u rows, %.1f MB in %.3f s", message->name, message->address,
                 hth_carrier_end_names[message->end], message->n_tokens, message->n_rows,
                 (double)message->n_bytes / 1e6, (double)message->ns / 1e9);
}

/* Without a carrier, no worker waits for one, nor does its successor begin with fetches that nobody waits for. */
static void tell_workers_gone(hth_carrier_link *link)
{
    hth_carrier_message message;
    attachment *at;
    int came;

    DL_FOREACH(link->attachments, at)
    {
        for (int i = 0; i < MESSAGES_A_TURN; i++) {
            const hth_carrier_received received = hth_carrier_receive(at->fd, link->buffer, &message, &came);

            close_fd(&came); /* it has none to give */
            if (received == HTH_CARRIER_NONE || received == HTH_CARRIER_CLOSED)
                break;
        }
        (void)hth_carrier_send(at->fd, &(hth_carrier_message){ .kind = HTH_CARRIER_GONE },
                               -1); /* else its requests wait for as long as computing takes */
    }
}

static void on_message(evutil_socket_t fd, short what, void *user_data)
{
    hth_carrier_link *link = user_data;
    hth_carrier_message message;
    int came = -1;

    (void)what;
    for (int i = 0; i < MESSAGES_A_TURN; i++) {
        const hth_carrier_received received = hth_carrier_receive((int)fd, link->buffer, &message, &came);

        if (received == HTH_CARRIER_NONE)
            return;
        close_fd(&came); /* it has none to give */
        if (received == HTH_CARRIER_CLOSED) {
            (void)event_del(link->on_message); /* it is pending; the next look sees the end of the process */
            tell_workers_gone(link);           /* at once */
            return;
        }
        if (received == HTH_CARRIER_GOT && message.kind == HTH_CARRIER_PULLED) {
            note_pulled(link, &message);
        } else if (received == HTH_CARRIER_GOT && message.kind == HTH_CARRIER_SERVED) {
            link->rows_served += message.n_rows;
            link->bytes_served += message.n_bytes;
        }
    }
}

static void send_node(const hth_carrier_link *link, const char *name, const char *address)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_NODE };

    (void)snprintf(message.name, sizeof(message.name), "%s", name); /* these have the same sizes, or are cut */
    (void)snprintf(message.address, sizeof(message.address), "%s", address);
    if (link->socket >= 0)
        (void)hth_carrier_send(link->socket, &message, -1); /* else fetches from there are refused */
}

static bool send_attachment(const hth_carrier_link *link, const attachment *of)
{
    hth_carrier_message message = { .kind = HTH_CARRIER_WORKER };

    (void)snprintf(message.name, sizeof(message.name), "%s", of->model); /* the same size */
    return link->socket >= 0 && hth_carrier_send(link->socket, &message, of->fd);
}

/* ---- the process ---- */

static void drop_process(hth_carrier_link *link)
{
    if (link->on_message)
        event_free(link->on_message);
    link->on_message = NULL;
    close_fd(&link->socket);
    hth_worker_process_free(link->process);
    link->process = NULL;
}

/* Those whose workers are gone. */
static void drop_attachments(hth_carrier_link *link, bool all)
{
    attachment *at, *next;

    DL_FOREACH_SAFE(link->attachments, at, next)
    {
        struct pollfd polled = { .fd = at->fd };

        if (!all && (poll(&polled, 1, 0) <= 0 || !(polled.revents & (POLLHUP | POLLERR))))
            continue;
        DL_DELETE(link->attachments, at);
        close_fd(&at->fd);
        free(at);
    }
}

static hearth_status start_process(hth_carrier_link *link, hearth_error *err)
{
    int pair[2];
    hearth_status status;

    if (!hth_carrier_pair(pair))
        return hth_fail(err, HEARTH_UNSUPPORTED, "this system has no sockets for it");
    status = hth_worker_process_start(&(hth_worker_process_options){ .base = link->options.base,
                                                                     .program = link->options.program,
                                                                     .name = "carrier",
                                                                     .command = "carrier",
                                                                     .worker = link->options.arguments,
                                                                     .status_fd = -1,
                                                                     .ram_fd = -1,
                                                                     .carrier_fd = pair[1],
                                                                     .no_sandbox = link->options.no_sandbox,
                                                                     .log = link->options.log },
                                      &link->process, err);
    close_fd(&pair[1]);
    link->socket = pair[0];
    if (status == HEARTH_OK) {
        link->on_message = event_new(link->options.base, link->socket, EV_READ | EV_PERSIST, on_message, link);
        if (!link->on_message || event_add(link->on_message, NULL) != 0)
            status = hth_fail(err, HEARTH_NO_MEMORY, "no memory");
    }
    if (status != HEARTH_OK)
        drop_process(link);
    return status;
}

static void start(hth_carrier_link *link)
{
    attachment *at;
    known_node *node;
    hearth_error err;

    link->started_ns = hth_os_monotonic_ns();
    link->n_starts++;
    if (start_process(link, &err) != HEARTH_OK) {
        hth_warn(link->options.log,
                 "rows of other nodes cannot be fetched, and theirs are computed: the process for "
                 "that does not start: %s",
                 err.message);
        return;
    }
    drop_attachments(link, false);
    DL_FOREACH(link->nodes, node)
    {
        send_node(link, node->name, node->address);
    }
    DL_FOREACH(link->attachments, at)
    {
        (void)send_attachment(link, at); /* else this worker computes */
    }
}

static void pause_before_next(hth_carrier_link *link, uint64_t lived_ms)
{
    const hth_restart next = hth_restart_after_death(
        &link->policy, HEALTHY_MS, &(hth_restart_life){ .ready_ms = lived_ms }, hth_draw_uniform(hth_draw_seed(), 0));

    link->start_ns = hth_os_monotonic_ns() + hth_ms_to_ns(next.pause_ms);
}

static void on_look(evutil_socket_t fd, short what, void *user_data)
{
    static const struct timeval wait = { .tv_usec = (suseconds_t)LOOK_MS * 1000 };
    hth_carrier_link *link = user_data;
    const uint64_t now_ns = hth_os_monotonic_ns();
    char cause[256];

    (void)fd;
    (void)what;
    if (link->process && hth_worker_process_has_ended(link->process)) {
        hth_worker_process_cause(link->process, cause, sizeof(cause));
        hth_warn(link->options.log, "the process that carries rows between nodes %s; it starts again", cause);
        drop_process(link);
        tell_workers_gone(link);
        pause_before_next(link, (now_ns - link->started_ns) / 1000000);
    }
    if (link->process)
        hth_worker_process_tick(link->process);
    else if (now_ns >= link->start_ns) {
        start(link);
        if (!link->process)
            pause_before_next(link, 0);
    }
    drop_attachments(link, false);
    (void)event_add(link->look, &wait); /* it was made before, so this needs no memory */
}

hearth_status hth_carrier_link_new(const hth_carrier_link_options *options, hth_carrier_link **out, hearth_error *err)
{
    hth_carrier_link *link = calloc(1, sizeof(*link));

    if (link) {
        link->options = *options;
        link->socket = -1;
        link->look = event_new(options->base, -1, 0, on_look, link);
    }
    if (!link || !link->look) {
        hth_carrier_link_free(link);
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for the process that carries rows between nodes");
    }
    on_look(-1, 0, link);
    *out = link;
    return HEARTH_OK;
}

void hth_carrier_link_free(hth_carrier_link *link)
{
    known_node *node, *next_node;
    pulled_model *pulled, *next_pulled;

    if (!link)
        return;
    drop_process(link);
    drop_attachments(link, true);
    DL_FOREACH_SAFE(link->nodes, node, next_node)
    {
        free(node);
    }
    DL_FOREACH_SAFE(link->pulled, pulled, next_pulled)
    {
        free(pulled);
    }
    if (link->look)
        event_free(link->look);
    free(link);
}

/* ---- what it is told ---- */

/* Do the rows of a worker with this command line lie where the carrier's do? */
static bool shares_rows(const hth_carrier_link *link, const char *const *arguments)
{
    static const char *const places[] = { "--cache", "--more-cache", "--index", "--ram-files", "--signing-key" };

    if (hth_worker_arguments_have_flag(arguments, "--no-cache"))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (!hth_worker_arguments_have_same(arguments, link->options.arguments, places[i]))
            return false;
    return true;
}

int hth_carrier_link_attach(hth_carrier_link *link, const char *model, const char *const *arguments)
{
    attachment *at = link && shares_rows(link, arguments) ? calloc(1, sizeof(*at)) : NULL;
    int pair[2];

    if (!at || !hth_carrier_pair(pair)) {
        free(at);
        return -1;
    }
    at->fd = pair[0];
    (void)snprintf(at->model, sizeof(at->model), "%s", model); /* cut: such a name is only shown */
    DL_APPEND(link->attachments, at);
    (void)send_attachment(link, at); /* else it computes, until the next carrier starts */
    return pair[1];
}

void hth_carrier_link_note_node(hth_carrier_link *link, const char *name, const char *address)
{
    known_node *node;

    DL_FOREACH(link->nodes, node)
    {
        if (strcmp(node->name, name) == 0)
            break;
    }
    if (node && strcmp(node->address, address) == 0)
        return;
    if (!node) {
        node = calloc(1, sizeof(*node));
        if (!node)
            return;                                                 /* fetches from there are refused */
        (void)snprintf(node->name, sizeof(node->name), "%s", name); /* both are shorter */
        DL_APPEND(link->nodes, node);
    }
    (void)snprintf(node->address, sizeof(node->address), "%s", address);
    send_node(link, name, address);
}

void hth_carrier_link_forget_node(hth_carrier_link *link, const char *address)
{
    known_node *node, *next;

    DL_FOREACH_SAFE(link->nodes, node, next)
    {
        if (strcmp(node->address, address) != 0)
            continue;
        send_node(link, node->name, "");
        DL_DELETE(link->nodes, node);
        free(node);
    }
}

void hth_carrier_link_serve_take(hth_carrier_link *link, int fd)
{
    if (link->socket >= 0)
        (void)hth_carrier_send(link->socket, &(hth_carrier_message){ .kind = HTH_CARRIER_SERVE },
                               fd); /* else it breaks */
    close_fd(&fd);
}

/* ---- what it told ---- */

uint32_t hth_carrier_link_token_ns(const hth_carrier_link *link, const char *model)
{
    const pulled_model *pulled;

    DL_FOREACH(link->pulled, pulled)
    {
        if (strcmp(pulled->model, model) == 0)
            return pulled->token_ns;
    }
    return 0;
}

static void write_counter(hth_buffer *out, const char *name, const char *help, uint64_t value)
{
    hth_exposition_family(out, name, "counter", help);
    hth_exposition_count(out, name, (hth_labels){ NULL, 0 }, value);
}

void hth_carrier_link_write_metrics(const hth_carrier_link *link, hth_buffer *out)
{
    static const char pulls[] = "hearth_fleet_pulls_total";

    hth_exposition_family(out, pulls, "counter", "Fetches of rows from other nodes, by their end.");
    for (int end = 0; end < HTH_CARRIER_ENDS; end++)
        hth_exposition_count(out, pulls, (hth_labels){ &(hth_label){ "end", hth_carrier_end_names[end] }, 1 },
                             link->n_pulls[end]);
    write_counter(out, "hearth_fleet_pulled_tokens_total", "Tokens whose rows came from other nodes.",
                  link->tokens_pulled);
    write_counter(out, "hearth_fleet_pulled_rows_total", "Rows that came from other nodes.", link->rows_pulled);
    write_counter(out, "hearth_fleet_pulled_bytes_total", "Bytes of these rows.", link->bytes_pulled);
    write_counter(out, "hearth_fleet_served_rows_total", "Rows that other nodes fetched here.", link->rows_served);
    write_counter(out, "hearth_fleet_served_bytes_total", "Bytes of these rows.", link->bytes_served);
    write_counter(out, "hearth_fleet_carrier_starts_total", "Starts of the process that carries rows between nodes.",
                  link->n_starts);
}
