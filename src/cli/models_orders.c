/*
 * models_orders.c - see models_orders.h
 */
#include "cli/models_orders.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/operator_page.h"
#include "console/output.h"
#include "hub/client.h"
#include "options/commands.h"
#include "wire/worker_view.h"

enum { PATH_BYTES = 2048, ORDER_BYTES = 64 };

typedef struct order_options {
    hth_operator server;
    bool rows;
} order_options;

#define AT(field) offsetof(order_options, field)

static const hth_option all_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_option release_rows[] = {
    { "rows", 0, HTH_OPTION_FLAG, NULL, "also the rows that models have in memory", .offset = AT(rows) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const char closing[] =
    "\nThe server goes on with an order after the command has ended; 'hearth ps --watch' shows it.\n"
    "Exit codes: 0 the order is taken, 1 it is refused, or no server answers; 2 wrong usage.\n";

const hth_manual hth_models_forget_manual = {
    .name = "forget",
    .summary = "take back models that were added to a running server",
    .usage = "usage: hearth models forget NAME... [--url URL]\n"
             "\n"
             "Takes back models that 'hearth models add' or an operator's order added. Their requests end first.\n"
             "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

const hth_manual hth_models_load_manual = {
    .name = "load",
    .summary = "load models of a running server",
    .usage = "usage: hearth models load NAME... [--url URL]\n\nStarts the workers of models of a running server.\n\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

const hth_manual hth_models_unload_manual = {
    .name = "unload",
    .summary = "unload models of a running server",
    .usage = "usage: hearth models unload NAME... [--url URL]\n\nEnds the workers of models of a running server.\n\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

const hth_manual hth_models_move_manual = {
    .name = "move",
    .summary = "bring models of a running server to a place, and pin them there",
    .usage = "usage: hearth models move PLACE NAME... [--url URL]\n"
             "\n"
             "Brings models to a place: evicted, host, device. pinned_host and pinned_device keep them there, and the\n"
             "other places unpin them.\n"
             "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = "evicted|host|device|pinned_host|pinned_device " HTH_COMPLETE_SERVED,
};

const hth_manual hth_models_release_manual = {
    .name = "release",
    .summary = "unload all models of a running server that are not pinned",
    .usage = "usage: hearth models release [--rows] [--url URL]\n"
             "\n"
             "Unloads all models of a running server that are not pinned.\n"
             "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(release_rows),
};

const hth_manual hth_models_compact_manual = {
    .name = "compact",
    .summary = "restart models of a running server, against fragments of GPU memory",
    .usage = "usage: hearth models compact [--url URL]\n"
             "\n"
             "Restarts the models that are not pinned one after another, so that no fragments of a GPU's memory stay "
             "unused.\n"
             "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(all_rows),
};

/* Print the server's description of the model, or its lists of names. */
static void print_answer(const char *name, const hth_buffer *body)
{
    json_t *page = json_loadb(hth_buffer_text(body), body->n, 0, NULL), *value, *one;
    const char *key;
    size_t i;

    json_object_foreach(page, key, value)
    {
        if (json_is_string(value))
            hth_output_line(stdout, "%s: %s", name, json_string_value(value));
        json_array_foreach(value, i, one) if (json_is_string(one))
            hth_output_line(stdout, "%s: %s", json_string_value(one), key);
    }
    json_decref(page);
}

/* json is NULL for DELETE. */
static int give(const order_options *options, const char *path, const char *json, const char *name)
{
    hth_buffer answer = { .text = NULL };
    int exit_code = json ? hth_operator_ask(&options->server, path, json, &answer)
                         : hth_operator_delete(&options->server, path, &answer);

    if (exit_code == HTH_EXIT_OK)
        print_answer(name, &answer);
    hth_buffer_deinit(&answer);
    return exit_code;
}

/* Send an order for each model, even if one is refused. order follows the name in the path. */
static int give_each(const order_options *options, const char *order, int n, char **names, const char *json)
{
    int exit_code = HTH_EXIT_OK;

    for (int i = 0; i < n; i++) {
        char name[PATH_BYTES], path[PATH_BYTES + ORDER_BYTES];

        if (!hth_hub_escape(names[i], "-._~/", name, sizeof(name))) {
            exit_code = hth_sayf(HTH_EXIT_FAILED, "no model has so long a name as '%.40s...'", names[i]);
            continue;
        }
        (void)snprintf(path, sizeof(path), "/admin/models/%s%s", name, order); /* sized for it */
        if (give(options, path, json, names[i]) != HTH_EXIT_OK)
            exit_code = HTH_EXIT_FAILED;
    }
    return exit_code;
}

static int wrong_arguments(const hth_manual *verb, const char *takes)
{
    return hth_sayf(HTH_EXIT_USAGE, "models %s takes %s; 'hearth help models %s' explains it", verb->name, takes,
                    verb->name);
}

static int move(const order_options *options, int n, char **arguments)
{
    hth_residency place;
    char json[ORDER_BYTES];

    if (n < 2)
        return wrong_arguments(&hth_models_move_manual, "a PLACE and the names of models");
    if (!hth_residency_read(arguments[0], &place))
        return hth_sayf(HTH_EXIT_USAGE, "'%s' is no place; take evicted, host, device, pinned_host or pinned_device",
                        arguments[0]);
    (void)snprintf(json, sizeof(json), "{\"residency\":\"%s\"}", hth_residency_name(place)); /* sized for it */
    return give_each(options, "/residency", n - 1, arguments + 1, json);
}

int hth_models_order(const hth_manual *verb, int argc, char **argv)
{
    const bool has_names =
        verb == &hth_models_load_manual || verb == &hth_models_unload_manual || verb == &hth_models_forget_manual;
    order_options options = { .rows = false };
    int exit_code;
    const int first = hth_manual_parse(verb, &hth_models_manual, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    argc -= first;
    argv += first;
    if (verb == &hth_models_move_manual)
        return move(&options, argc, argv);
    if (has_names && argc == 0)
        return wrong_arguments(verb, "the names of models");
    if (verb == &hth_models_forget_manual)
        return give_each(&options, "", argc, argv, NULL);
    if (has_names)
        return give_each(&options, verb == &hth_models_load_manual ? "/load" : "/unload", argc, argv, "");
    if (argc > 0)
        return wrong_arguments(verb, "no name");
    if (verb == &hth_models_compact_manual)
        return give(&options, "/admin/compact", "", "models");
    return give(&options, "/admin/release_all", options.rows ? "{\"rows\":true}" : "", "models");
}
