/*
 * fleet_command.c - `hearth fleet`: machines that serve as one
 *
 *   init     make the file that makes machines a fleet
 *   ls       list the nodes, as one of them sees them
 *   why      show which nodes could take a request, and why one takes it
 *   drain    let a node take no more requests; its replies go on at others
 *   undrain  let it take requests again
 */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/status.h"
#include "cli/operator_page.h"
#include "console/output.h"
#include "console/text_file.h"
#include "fleet/fleet_pem.h"
#include "fleet/node_page.h"
#include "options/commands.h"
#include "options/manual.h"

enum { NAME_COLUMNS = 15, ADDRESS_COLUMNS = 21, ORDER_BYTES = 128, DEFAULT_PRINT_SHOWN = 16 };

typedef struct fleet_options {
    hth_operator server;
    const char *file;
    const char *endpoint;
    bool json;
    bool waits;
} fleet_options;

#define AT(field) offsetof(fleet_options, field)

static const hth_option init_rows[] = {
    { "file", 0, HTH_OPTION_TEXT, "FILE", "the new file (default: fleet.pem)", .offset = AT(file) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option list_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "print the server's page as it is, one JSON object", .offset = AT(json) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option why_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "file", 'f', HTH_OPTION_TEXT, "FILE", "the body of the request, JSON (default: standard input)",
      .offset = AT(file) },
    { "endpoint", 0, HTH_OPTION_TEXT, "PATH", "where it would be sent (default: /v1/chat/completions)",
      .offset = AT(endpoint) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "print the server's page as it is, one JSON object", .offset = AT(json) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option drain_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "wait", 'w', HTH_OPTION_FLAG, NULL, "end when the node has no more requests at work", .offset = AT(waits) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_option order_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "help", 'h', HTH_OPTION_END, .help = "this text" },
};

static const hth_manual init_manual = {
    .name = "init",
    .summary = "make the file that makes machines a fleet",
    .usage =
        "usage: hearth fleet init [--file FILE]\n"
        "\n"
        "Makes a file with a new key and its certificate. Copy it to every machine of the fleet, as you would copy a\n"
        "private key, and start 'hearth serve' there with --fleet FILE and --fleet-peer ADDRESS for the others. Who "
        "has\n"
        "the file can be a node of the fleet and see its requests.\n"
        "\n",
    .options = HTH_OPTION_ROWS(init_rows),
};

static const hth_manual list_manual = {
    .name = "ls",
    .alias = "list",
    .summary = "list the nodes of the fleet",
    .usage =
        "usage: hearth fleet ls [--url URL] [--json]\n"
        "\n"
        "Lists the nodes as the server at --url sees them: state, requests at work and waiting there, and models.\n"
        "\n",
    .options = HTH_OPTION_ROWS(list_rows),
};

static const hth_manual why_manual = {
    .name = "why",
    .summary = "show which node would take a request, and why",
    .usage = "usage: hearth fleet why [-f FILE] [--endpoint PATH] [--url URL] [--json]\n"
             "\n"
             "Lists the nodes that could take this request of a client without a key now, as the server at --url sees "
             "them:\n"
             "how much of its prompt each probably has cached, and how long it would wait there and take for the rest. "
             "Nothing\n"
             "is sent to a model.\n"
             "\n",
    .options = HTH_OPTION_ROWS(why_rows),
};

static const hth_manual drain_manual = {
    .name = "drain",
    .summary = "let a node take no more requests",
    .usage = "usage: hearth fleet drain NODE [--wait] [--url URL]\n"
             "\n"
             "The node takes no more requests, and its replies go on at other nodes that have their model. It still\n"
             "accepts clients, whose requests others compute. 'hearth fleet undrain' takes the order back.\n"
             "With --wait, the command ends when the node has no more requests at work: those that no other node "
             "can take\nstay there until they end.\n"
             "\n",
    .options = HTH_OPTION_ROWS(drain_rows),
    .arguments = HTH_COMPLETE_NOTHING,
};

static const hth_manual undrain_manual = {
    .name = "undrain",
    .summary = "let a node take requests again",
    .usage = "usage: hearth fleet undrain NODE [--url URL]\n\nThe node takes requests again.\n\n",
    .options = HTH_OPTION_ROWS(order_rows),
    .arguments = HTH_COMPLETE_NOTHING,
};

static const hth_manual *const manuals[] = { &init_manual,  &list_manual,    &why_manual,
                                             &drain_manual, &undrain_manual, NULL };

const hth_manual hth_fleet_manual = {
    .name = "fleet",
    .summary = "several machines that serve as one",
    .usage = "Machines that serve as one: every node takes requests for all, and replies outlive their node.\n\n",
    .closing =
        "'hearth help fleet VERB' explains a verb and its options. docs/fleet.md shows a fleet in three terminals.\n",
    .verbs = manuals,
};

/* ---- init ---- */

static int init(const fleet_options *options)
{
    const char *file = options->file ? options->file : "fleet.pem";
    char print[HTH_FLEET_PRINT_BYTES];
    hearth_error err;

    if (hth_fleet_pem_make(file, print, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    hth_output_line(stdout, "%s: the key of a new fleet, certificate %.*s...", file, DEFAULT_PRINT_SHOWN, print);
    hth_output_line(stdout, "Copy it to every machine, and start there:");
    hth_output_line(stdout, "  hearth serve -m MODEL --fleet %s --fleet-peer HOST:9430", file);
    return hth_output_end(HTH_EXIT_OK);
}

/* ---- ls ---- */

static long long sum_of(const json_t *models, const char *key)
{
    const json_t *model;
    json_int_t sum = 0;
    size_t i;

    json_array_foreach((json_t *)models, i, model) sum += json_integer_value(json_object_get(model, key));
    return sum;
}

/* A model that is not ready has a mark. */
static void add_models(const json_t *models, hth_buffer *line)
{
    json_t *model;
    size_t i;

    json_array_foreach((json_t *)models, i, model)
    {
        const char *name = json_string_value(json_object_get(model, "name")),
                   *state = json_string_value(json_object_get(model, "state"));
        const bool is_ready = state ? strcmp(state, "ready") == 0 : json_is_true(json_object_get(model, "ready"));

        hth_buffer_add_text(line, i > 0 ? ", " : "");
        hth_buffer_add_text(line, name ? name : "?");
        hth_buffer_add_text(line, is_ready ? "" : " (not loaded)");
    }
}

static void print_node(const json_t *node, const char *address, const char *state)
{
    const char *name = json_string_value(json_object_get(node, "name")),
               *why = json_string_value(json_object_get(node, "why"));
    const json_t *models = json_object_get(node, "models");
    hth_buffer last = { .text = NULL };

    if (why)
        hth_buffer_add_text(&last, why);
    else
        add_models(models, &last);
    hth_output_line(stdout, "%-*s %-*s %-9s %7lld %7lld  %s", NAME_COLUMNS, name ? name : "?", ADDRESS_COLUMNS, address,
                    state, sum_of(models, "at_work"), sum_of(models, "waiting"), hth_buffer_text(&last));
    hth_buffer_deinit(&last);
}

/* store NULL: there is none. */
static void print_store(const json_t *store)
{
    const char *address = json_string_value(json_object_get(store, "address")),
               *why = json_string_value(json_object_get(store, "why"));

    if (!store)
        return;
    putchar('\n');
    hth_output_line(stdout, "store %s: %s%s%s", address ? address : "?",
                    json_is_true(json_object_get(store, "up")) ? "up" : "down", why && *why ? "; " : "",
                    why ? why : "");
}

static int print_page(const json_t *page)
{
    const json_t *own = json_object_get(page, "self");
    json_t *node;
    size_t i;

    if (!json_is_true(json_object_get(page, "fleet")))
        return hth_say("this server is no node of a fleet; 'hearth fleet init' makes one", HTH_EXIT_FAILED);
    printf("%-*s %-*s %-9s %7s %7s  %s\n", NAME_COLUMNS, "NODE", ADDRESS_COLUMNS, "ADDRESS", "STATE", "AT WORK",
           "WAITING", "MODELS");
    print_node(own, "(this one)", json_is_true(json_object_get(own, "draining")) ? "draining" : "up");
    json_array_foreach(json_object_get(page, "nodes"), i, node)
    {
        const char *address = json_string_value(json_object_get(node, "address")),
                   *state = json_string_value(json_object_get(node, "state"));

        print_node(node, address ? address : "?", state ? state : "?");
    }
    print_store(json_object_get(page, "store"));
    return hth_output_end(HTH_EXIT_OK);
}

/* Ask the server with this order, or NULL, and show the answer: with --json as it is. */
static int show(const fleet_options *options, const char *order, int (*print)(const json_t *page))
{
    hth_buffer body = { .text = NULL };
    int exit_code = hth_operator_ask(&options->server, "/admin/fleet", order, &body);
    json_t *page = exit_code == HTH_EXIT_OK ? json_loadb(hth_buffer_text(&body), body.n, 0, NULL) : NULL;

    if (exit_code == HTH_EXIT_OK && options->json) {
        (void)hth_output_text(hth_buffer_text(&body), body.n); /* failures are reported at the end */
        exit_code = hth_output_end(HTH_EXIT_OK);
    } else if (exit_code == HTH_EXIT_OK) {
        exit_code = print(page);
    }
    json_decref(page);
    hth_buffer_deinit(&body);
    return exit_code;
}

/* ---- why ---- */

static void print_place(const json_t *place)
{
    const char *name = json_string_value(json_object_get(place, "node"));

    hth_output_line(
        stdout, "%c %-*s %7" JSON_INTEGER_FORMAT " %8" JSON_INTEGER_FORMAT " %8.2f s %8.2f s %8.2f%s",
        json_is_true(json_object_get(place, "chosen")) ? '*' : ' ', NAME_COLUMNS, name ? name : "?",
        json_integer_value(json_object_get(place, "load")), json_integer_value(json_object_get(place, "cached_tokens")),
        json_real_value(json_object_get(place, "load_s")) + json_real_value(json_object_get(place, "wait_s")),
        json_real_value(json_object_get(place, "prompt_s")), json_real_value(json_object_get(place, "cost_s")),
        json_is_true(json_object_get(place, "ready")) ? "" : "  (not loaded)");
}

static int print_places(const json_t *page)
{
    const char *model = json_string_value(json_object_get(page, "model")),
               *policy = json_string_value(json_object_get(page, "policy"));
    json_t *place;
    size_t i;

    hth_output_line(stdout, "model %s, policy %s, about %" JSON_INTEGER_FORMAT " tokens", model ? model : "?",
                    policy ? policy : "?", json_integer_value(json_object_get(page, "prompt_tokens")));
    printf("\n  %-*s %7s %8s %10s %10s %8s\n", NAME_COLUMNS, "NODE", "LOAD", "CACHED", "WAIT", "PROMPT", "COST");
    json_array_foreach(json_object_get(page, "places"), i, place) print_place(place);
    return hth_output_end(HTH_EXIT_OK);
}

/* The order with the text of the body; NULL: that is not UTF-8, or there is no memory. */
static char *why_order(const fleet_options *options, const char *body)
{
    json_t *order = json_pack("{s:s, s:o}", "why", options->endpoint ? options->endpoint : "/v1/chat/completions",
                              "body", json_string(body));
    char *out = order ? json_dumps(order, JSON_COMPACT) : NULL;

    json_decref(order);
    return out;
}

static int why(const fleet_options *options)
{
    char *body = hth_text_file_read(options->file ? options->file : "-"), *text = NULL;
    int exit_code;

    if (!body)
        return HTH_EXIT_FAILED; /* it was said why */
    text = why_order(options, body);
    exit_code = text ? show(options, text, print_places)
                     : hth_say("the body of the request is no text in UTF-8", HTH_EXIT_FAILED);
    free(text);
    free(body);
    return exit_code;
}

/* ---- drain and undrain ---- */

/* The node of this name in the page; NULL: it is not there. */
static const json_t *node_in(const json_t *page, const char *name)
{
    const json_t *own = json_object_get(page, "self"), *own_name = json_object_get(own, "name");
    json_t *node;
    size_t i;

    if (json_is_string(own_name) && strcmp(json_string_value(own_name), name) == 0)
        return own;
    json_array_foreach(json_object_get(page, "nodes"), i, node)
    {
        const char *its_name = json_string_value(json_object_get(node, "name"));

        if (its_name && strcmp(its_name, name) == 0)
            return node;
    }
    return NULL;
}

/* Does the node of the page take no more requests, and has it none? *n_out: those at work and waiting. */
static bool is_drained(const json_t *node, long long *n_out)
{
    const char *state = json_string_value(json_object_get(node, "state"));
    const json_t *models = json_object_get(node, "models");
    const bool is_gone = !node || (state && strcmp(state, "down") == 0),
               drains = json_is_true(json_object_get(node, "draining")) || (state && strcmp(state, "draining") == 0);

    *n_out = sum_of(models, "at_work") + sum_of(models, "waiting");
    return is_gone || (drains && *n_out == 0);
}

/* Until the node has no more requests; Ctrl-C ends the program. */
static int wait_drained(const fleet_options *options, const char *name)
{
    const struct timespec pause = { .tv_nsec = 300000000 };
    long long n_told = -1, n = 0;
    int exit_code;

    for (;;) {
        hth_buffer body = { .text = NULL };
        json_t *page = NULL;
        bool is_done = false;

        exit_code = hth_operator_ask(&options->server, "/admin/fleet", NULL, &body);
        if (exit_code == HTH_EXIT_OK) {
            page = json_loadb(hth_buffer_text(&body), body.n, 0, NULL);
            is_done = is_drained(node_in(page, name), &n);
        }
        json_decref(page);
        hth_buffer_deinit(&body);
        if (exit_code != HTH_EXIT_OK || is_done)
            return exit_code;
        if (n != n_told)
            hth_output_line(stderr, "node '%s' has %lld requests at work", name, n);
        n_told = n;
        (void)nanosleep(&pause, NULL);
    }
}

static int order(const hth_manual *verb, const fleet_options *options, const char *node)
{
    hth_buffer body = { .text = NULL };
    char text[ORDER_BYTES];
    int exit_code;

    if (!hth_node_name_is_valid(node))
        return hth_sayf(HTH_EXIT_USAGE, "'%s' is no name of a node; 'hearth fleet ls' lists them", node);
    (void)snprintf(text, sizeof(text), "{\"%s\":\"%s\"}", verb->name, node); /* fits */
    exit_code = hth_operator_ask(&options->server, "/admin/fleet", text, &body);
    hth_buffer_deinit(&body);
    if (exit_code != HTH_EXIT_OK)
        return exit_code;
    hth_output_line(stdout, "node '%s' was asked to take %s; 'hearth fleet ls' shows its state", node,
                    verb == &drain_manual ? "no more requests" : "requests again");
    if (options->waits) {
        exit_code = wait_drained(options, node);
        if (exit_code != HTH_EXIT_OK)
            return exit_code;
        hth_output_line(stdout, "node '%s' has no requests at work", node);
    }
    return hth_output_end(HTH_EXIT_OK);
}

int hth_command_fleet(int argc, char **argv)
{
    fleet_options options = { .json = false };
    int exit_code, first;
    const hth_manual *verb = hth_verb_read(&hth_fleet_manual, argc, argv, &exit_code);
    const bool is_order = verb == &drain_manual || verb == &undrain_manual;

    if (!verb)
        return exit_code;
    first = hth_manual_parse(verb, &hth_fleet_manual, --argc, ++argv, &options, &exit_code);
    if (first < 0)
        return exit_code;
    if (is_order && argc - first != 1)
        return hth_sayf(HTH_EXIT_USAGE, "'fleet %s' takes one node; 'hearth fleet ls' lists them", verb->name);
    if (!is_order && first < argc)
        return hth_sayf(HTH_EXIT_USAGE, "'fleet %s' takes no '%s'", verb->name, argv[first]);
    if (is_order)
        return order(verb, &options, argv[first]);
    return verb == &init_manual ? init(&options)
         : verb == &why_manual  ? why(&options)
                                : show(&options, NULL, print_page);
}
