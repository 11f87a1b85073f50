/*
 * models_command.c - `hearth models`: lists and removes downloaded models, and gives orders to a running server
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/operator_page.h"
#include "cli/result_json.h"
#include "console/output.h"
#include "console/units.h"
#include "hub/client.h"
#include "hub/ollama.h"
#include "hub/settings.h"
#include "hub/stock.h"
#include "options/commands.h"
#include "options/config_reader.h"
#include "options/manual.h"
#include "options/serve_options.h"
#include "wire/worker_view.h"

enum { NAME_COLUMNS = 50 };

typedef struct models_options {
    bool json;
    bool names;
    bool yes;
    size_t n_shown; /* rows of the table of ls */
} models_options;

#define AT(field) offsetof(models_options, field)

static const hth_option ls_rows[] = {
    { "json", 0, HTH_OPTION_FLAG, NULL, "one JSON object a line, with the path", .offset = AT(json) },
    { "names", 0, HTH_OPTION_FLAG, NULL, "the names alone, one a line", .offset = AT(names) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_option rm_rows[] = {
    { "yes", 'y', HTH_OPTION_FLAG, NULL, "do not ask", .offset = AT(yes) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const char closing[] = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n";

static const hth_manual ls_manual = {
    .name = "ls",
    .alias = "list",
    .summary = "list the models that were downloaded",
    .usage =
        "usage: hearth models ls [--json | --names]\n"
        "\n"
        "Lists the GGUF models that 'hearth pull' and other programs of its hub downloaded, and those of Ollama's\n"
        "folder.\n"
        "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(ls_rows),
};

static const hth_manual rm_manual = {
    .name = "rm",
    .alias = "remove",
    .summary = "remove downloaded models",
    .usage =
        "usage: hearth models rm NAME... [--yes]\n"
        "\n"
        "Removes downloaded models by the names that 'hearth models ls' shows; asks first if standard input is a\n"
        "terminal. Models in Ollama's folder, also those that 'hearth pull' brought there, are left to 'ollama rm'.\n"
        "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(rm_rows),
    .arguments = HTH_COMPLETE_NAME,
};

/* ---- ls ---- */

typedef struct shown_model {
    const char *name, *quant, *path, *source;
    uint64_t bytes, used;
} shown_model;

static bool print_row(const shown_model *shown, models_options *options)
{
    char size[32], unused[32] = "-";
    const uint64_t now = (uint64_t)time(NULL);

    if (options->names)
        return puts(shown->name) >= 0;
    if (options->json)
        return hth_json_print(json_pack("{ss ss* sI sI ss ss}", "name", shown->name, "quant",
                                        shown->quant[0] ? shown->quant : NULL, "bytes", (json_int_t)shown->bytes,
                                        "used", (json_int_t)shown->used, "source", shown->source, "path", shown->path),
                              true);
    if (options->n_shown++ == 0)
        printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, "NAME", "QUANT", "SIZE", "UNUSED", "SOURCE");
    if (shown->used > 0)
        (void)hth_time_text(now > shown->used ? (now - shown->used) * 1000 : 0, unused);
    return printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, shown->name, shown->quant[0] ? shown->quant : "-",
                  hth_size_text(shown->bytes, size), unused, shown->source) > 0;
}

static bool print_ollama(const hth_ollama_model *model, void *user_data)
{
    models_options *options = user_data;
    const shown_model shown = {
        .name = model->name, .quant = "", .path = model->path, .source = "ollama", .bytes = model->bytes
    };

    return print_row(&shown, options);
}

static int list(models_options *options)
{
    hth_hub_settings settings;
    hth_hub_model *models = NULL;
    size_t n = 0;
    char folder[PATH_MAX];
    hearth_error err;

    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_models_read(settings.cache, &models, &n, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    for (size_t i = 0; i < n; i++) {
        const hth_hub_model *m = &models[i];
        const shown_model shown = { m->name, m->quant, m->path, "hub", m->bytes, m->used };

        (void)print_row(&shown, options); /* failures are reported at the end */
    }
    free(models);
    if (hth_ollama_folder(folder))
        hth_ollama_visit(folder, print_ollama, options);
    if (options->n_shown == 0 && !options->json && !options->names)
        (void)fputs("hearth: no models are downloaded; 'hearth pull OWNER/REPO' gets one\n", stderr);
    return hth_output_end(HTH_EXIT_OK);
}

/* ---- rm ---- */

static bool agrees(const char *name)
{
    int first, c;

    (void)fprintf(stderr, "remove '%s'? [y/N] ", name);
    first = c = getchar();
    while (c != '\n' && c != EOF) /* the rest of the line must not answer the next question */
        c = getchar();
    return first == 'y' || first == 'Y';
}

static bool is_at_ollama(const char *name)
{
    char folder[PATH_MAX];
    hth_ollama_model unused;

    return hth_ollama_folder(folder) && hth_ollama_find(folder, name, &unused);
}

static int remove_models(const models_options *options, int n, char **names)
{
    const bool asks = !options->yes && isatty(STDIN_FILENO);
    hth_hub_settings settings;
    int exit_code = HTH_EXIT_OK;
    hearth_error err;

    if (n == 0)
        return hth_say("models rm needs a NAME; 'hearth models ls' lists them", HTH_EXIT_USAGE);
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    for (int i = 0; i < n; i++) {
        uint64_t n_freed;
        char size[32];
        hearth_status status;

        if (asks && !agrees(names[i]))
            continue;
        status = hth_hub_model_remove(settings.cache, names[i], &n_freed, &err);
        if (status == HEARTH_NOT_FOUND && is_at_ollama(names[i]))
            (void)hth_fail(&err, status,
                           "'%.200s' is a model of Ollama's folder, where Hearth removes nothing; 'ollama rm %.200s' "
                           "does",
                           names[i], names[i]);
        if (status != HEARTH_OK)
            exit_code = hth_say(err.message, HTH_EXIT_FAILED);
        else
            printf("removed %s, %s\n", names[i], hth_size_text(n_freed, size));
    }
    return hth_output_end(exit_code);
}

/* ---- orders to a running server ---- */

enum { PATH_BYTES = 2048, ORDER_BYTES = 64 };

typedef struct order_options {
    hth_operator server;
    bool rows;
} order_options;

#define IN_ORDER(field) offsetof(order_options, field)

static const hth_option all_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = IN_ORDER(server) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_option release_rows[] = {
    { "rows", 0, HTH_OPTION_FLAG, NULL, "also the rows that models have in memory", .offset = IN_ORDER(rows) },
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = IN_ORDER(server) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const char order_closing[] =
    "\nThe server goes on with an order after the command has ended; 'hearth ps --watch' shows it.\n"
    "Exit codes: 0 the order is taken, 1 it is refused, or no server answers; 2 wrong usage.\n";

static const hth_manual forget_manual = {
    .name = "forget",
    .summary = "take back models that were added to a running server",
    .usage = "usage: hearth models forget NAME... [--url URL]\n"
             "\n"
             "Takes back models that 'hearth models add' or an operator's order added. Their requests end first.\n"
             "\n",
    .closing = order_closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

static const hth_manual load_manual = {
    .name = "load",
    .summary = "load models of a running server",
    .usage = "usage: hearth models load NAME... [--url URL]\n\nStarts the workers of models of a running server.\n\n",
    .closing = order_closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

static const hth_manual unload_manual = {
    .name = "unload",
    .summary = "unload models of a running server",
    .usage = "usage: hearth models unload NAME... [--url URL]\n\nEnds the workers of models of a running server.\n\n",
    .closing = order_closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = HTH_COMPLETE_SERVED,
};

static const hth_manual move_manual = {
    .name = "move",
    .summary = "bring models of a running server to a place, and pin them there",
    .usage = "usage: hearth models move PLACE NAME... [--url URL]\n"
             "\n"
             "Brings models to a place: evicted, host, device. pinned_host and pinned_device keep them there, and the\n"
             "other places unpin them.\n"
             "\n",
    .closing = order_closing,
    .options = HTH_OPTION_ROWS(all_rows),
    .arguments = "evicted|host|device|pinned_host|pinned_device " HTH_COMPLETE_SERVED,
};

static const hth_manual release_manual = {
    .name = "release",
    .summary = "unload all models of a running server that are not pinned",
    .usage = "usage: hearth models release [--rows] [--url URL]\n"
             "\n"
             "Unloads all models of a running server that are not pinned.\n"
             "\n",
    .closing = order_closing,
    .options = HTH_OPTION_ROWS(release_rows),
};

static const hth_manual compact_manual = {
    .name = "compact",
    .summary = "restart models of a running server, against fragments of GPU memory",
    .usage = "usage: hearth models compact [--url URL]\n"
             "\n"
             "Restarts the models that are not pinned one after another, so that no fragments of a GPU's memory stay "
             "unused.\n"
             "\n",
    .closing = order_closing,
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
        return wrong_arguments(&move_manual, "a PLACE and the names of models");
    if (!hth_residency_read(arguments[0], &place))
        return hth_sayf(HTH_EXIT_USAGE, "'%s' is no place; take evicted, host, device, pinned_host or pinned_device",
                        arguments[0]);
    (void)snprintf(json, sizeof(json), "{\"residency\":\"%s\"}", hth_residency_name(place)); /* sized for it */
    return give_each(options, "/residency", n - 1, arguments + 1, json);
}

static int give_order(const hth_manual *verb, int argc, char **argv)
{
    const bool has_names = verb == &load_manual || verb == &unload_manual || verb == &forget_manual;
    order_options options = { .rows = false };
    int exit_code;
    const int first = hth_manual_parse(verb, &hth_models_manual, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    argc -= first;
    argv += first;
    if (verb == &move_manual)
        return move(&options, argc, argv);
    if (has_names && argc == 0)
        return wrong_arguments(verb, "the names of models");
    if (verb == &forget_manual)
        return give_each(&options, "", argc, argv, NULL);
    if (has_names)
        return give_each(&options, verb == &load_manual ? "/load" : "/unload", argc, argv, "");
    if (argc > 0)
        return wrong_arguments(verb, "no name");
    if (verb == &compact_manual)
        return give(&options, "/admin/compact", "", "models");
    return give(&options, "/admin/release_all", options.rows ? "{\"rows\":true}" : "", "models");
}

/*
 * ---- add ----
 *
 * The options are the flags of a model, from the rows of `hearth serve`. Each given option becomes a key of the order;
 * the server reads it as in its configuration file. Relative paths start from the command's working directory.
 *
 * Options that were not given are not in the order, so the server's own defaults hold. The command only checks values
 * by their rows. The server decides the rest: either the model is served, or nothing has changed on the server.
 */

enum { PRESETS_MAX = 16 };

typedef struct add_options {
    hth_operator server;
    const char *presets[PRESETS_MAX];
    size_t n_presets;
    hth_serve_model model; /* only for checking */
} add_options;

#define IN_ADD(field) offsetof(add_options, field)

static const hth_option add_rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = IN_ADD(server) },
    { "preset", 0, HTH_OPTION_TEXTS, "NAME", "a preset of the server's configuration; may be repeated",
      .offset = IN_ADD(presets), .n_offset = IN_ADD(n_presets), .n_max = PRESETS_MAX, .key = "preset",
      .repeats = true },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
    { .kind = HTH_OPTION_HEADING, .help = "The model; what is not given is as for all models of the server" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_model_flags, .offset = IN_ADD(model) },
};

static const hth_manual add_manual = {
    .name = "add",
    .summary = "let a running server serve one more model",
    .usage = "usage: hearth models add NAME PATH [OPTIONS]\n"
             "\n"
             "Lets a running server serve the GGUF file at PATH, or a downloaded model, until the server ends or\n"
             "'hearth models forget' takes it back. The model starts with the first request for it, or with --start.\n"
             "\n",
    .closing = "\nExit codes: 0 the model is served, 1 it is refused, or no server answers; 2 wrong usage.\n",
    .options = HTH_OPTION_ROWS(add_rows),
    .arguments = HTH_COMPLETE_NOTHING " " HTH_COMPLETE_MODEL " " HTH_COMPLETE_NOTHING,
};

typedef struct addition {
    json_t *json;
    hth_pool *pool; /* for paths */
    bool failed;    /* out of memory */
    bool asks_help;
} addition;

/* The section within a model's section that has this row; NULL: none, it is a key of the model itself. */
static const char *section_of(const hth_option *option)
{
    hth_flat_table keys, inside;

    hth_option_table_flatten(&hth_serve_model_keys, false, &keys);
    for (size_t i = 0; i < keys.n; i++) {
        const hth_option *row = keys.rows[i].option;

        if (row->kind != HTH_OPTION_TABLE)
            continue;
        hth_option_table_flatten(row->table, true, &inside);
        for (size_t k = 0; k < inside.n; k++)
            if (inside.rows[k].option == option)
                return row->key;
    }
    return NULL;
}

/* The object at key, made if it is missing; NULL if out of memory. Borrowed. */
static json_t *object_at(json_t *object, const char *key)
{
    if (!json_object_get(object, key))
        (void)json_object_set_new(object, key, json_object()); /* NULL reports a failure */
    return json_object_get(object, key);
}

static const char *absolute(const addition *a, const hth_option *option, const char *value)
{
    const char *here = hth_config_directory(a->pool, "");

    if (!here || (option->is_word && option->is_word(value)))
        return here ? value : NULL;
    return option->is_named ? hth_config_named_path(a->pool, here, value) : hth_config_path(a->pool, here, value);
}

static json_t *number_json(const char *text)
{
    json_t *number = json_loads(text, JSON_DECODE_ANY, NULL);

    if (json_is_number(number))
        return number;
    json_decref(number);
    return json_string(text); /* the server has the same rules, and its own messages */
}

/* A value in the form of the configuration file; NULL if out of memory. */
static json_t *value_json(const addition *a, const hth_option *option, const char *value)
{
    switch (option->kind) {
    case HTH_OPTION_FLAG: return json_true();
    case HTH_OPTION_I32:
    case HTH_OPTION_U32:
    case HTH_OPTION_NUMBER:
    case HTH_OPTION_COUNT: return number_json(value);
    default: break;
    }
    value = option->is_path ? absolute(a, option, value) : value;
    return value ? json_string(value) : NULL;
}

static bool add_member(const addition *a, const hth_option *option, const char *value)
{
    const char *section = section_of(option);
    json_t *to = section ? object_at(a->json, section) : a->json;

    if (option->is_pairs) {
        const char *equals = strchr(value, '='); /* its form was checked */
        const char *key = hth_pool_text(a->pool, value, (size_t)(equals - value));

        return key && json_object_set_new(object_at(to, option->key), key, number_json(equals + 1)) == 0;
    }
    if (!option->repeats)
        return json_object_set_new(to, option->key, value_json(a, option, value)) == 0;
    if (!json_object_get(to, option->key))
        (void)json_object_set_new(to, option->key, json_array()); /* the next line reports a failure */
    return json_array_append_new(json_object_get(to, option->key), value_json(a, option, value)) == 0;
}

static void add_option(const hth_option *option, const char *value, void *user_data)
{
    addition *a = user_data;

    a->asks_help |= option->kind == HTH_OPTION_END;
    if (option->key)
        a->failed |= !add_member(a, option, value);
}

static int give_addition(addition *a, const add_options *options, const char *name, const char *path)
{
    /* Otherwise the text names a downloaded model, or a file on the server. */
    const hth_option is_path = { .is_path = access(path, F_OK) == 0 };
    hth_buffer answer = { .text = NULL };
    char *json;
    int exit_code;

    a->failed |= json_object_set_new(a->json, "name", json_string(name)) != 0 ||
                 json_object_set_new(a->json, "path", value_json(a, &is_path, path)) != 0;
    json = a->failed ? NULL : json_dumps(a->json, JSON_COMPACT);
    if (!json)
        return hth_say("no memory, or a name or a path that is no text in UTF-8", HTH_EXIT_FAILED);
    exit_code = hth_operator_ask(&options->server, "/admin/models", json, &answer);
    if (exit_code == HTH_EXIT_OK)
        printf("%s: added\n", name);
    hth_buffer_deinit(&answer);
    free(json);
    return exit_code;
}

static int add(int argc, char **argv)
{
    add_options *options = calloc(1, sizeof(*options)); /* large */
    addition a = { .json = json_object(), .pool = hth_pool_new() };
    int exit_code = HTH_EXIT_FAILED, first;

    if (!options || !a.json || !a.pool) {
        (void)hth_say("no memory", 0);
        goto out;
    }
    hth_model_setup_init(&options->model.setup);
    exit_code = HTH_EXIT_USAGE;
    first = hth_option_table_visit(add_manual.options, "hearth models add", argc, argv, options, add_option, &a);
    if (first < 0)
        goto out;
    if (a.asks_help) {
        hth_manual_print(&add_manual, true, stdout);
        exit_code = HTH_EXIT_OK;
    } else if (argc - first != 2) {
        (void)hth_say("models add takes a NAME and a PATH; 'hearth help models add' explains it", 0);
    } else {
        exit_code = give_addition(&a, options, argv[first], argv[first + 1]);
    }
out:
    json_decref(a.json);
    hth_pool_free(a.pool);
    free(options);
    return exit_code;
}

/* ---- the command ---- */

static const hth_manual *const verbs[] = {
    &ls_manual,     &rm_manual,   &add_manual,     &forget_manual,  &load_manual,
    &unload_manual, &move_manual, &release_manual, &compact_manual, NULL,
};

const hth_manual hth_models_manual = {
    .name = "models",
    .summary = "list and remove downloaded models; give orders to a running server",
    .usage = "Looks after downloaded models (ls, rm), and after those of a running server (add, forget, load, unload, "
             "move, ...).\n\n",
    .closing = "'hearth help models VERB' explains a verb and its options.\n",
    .verbs = verbs,
};

int hth_command_models(int argc, char **argv)
{
    int exit_code;
    const hth_manual *manual = hth_verb_read(&hth_models_manual, argc, argv, &exit_code);
    models_options options = { .json = false };
    int first;

    if (!manual)
        return exit_code;
    if (manual == &add_manual)
        return add(argc - 1, argv + 1);
    if (manual != &ls_manual && manual != &rm_manual)
        return give_order(manual, argc - 1, argv + 1);
    first = hth_manual_parse(manual, &hth_models_manual, --argc, ++argv, &options, &exit_code);
    if (first < 0)
        return exit_code;
    if (manual == &rm_manual)
        return remove_models(&options, argc - first, argv + first);
    return first == argc ? list(&options) : hth_say("models ls takes no further argument", HTH_EXIT_USAGE);
}
