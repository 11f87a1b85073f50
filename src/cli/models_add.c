/*
 * models_add.c - see models_add.h
 *
 * The options are the flags of a model, from the rows of `hearth serve`. Each given option becomes a key of the order;
 * the server reads it as in its configuration file. Relative paths start from the command's working directory.
 *
 * Options that were not given are not in the order, so the server's own defaults hold. The command only checks values
 * by their rows. The server decides the rest: either the model is served, or nothing has changed on the server.
 */
#include "cli/models_add.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/operator_page.h"
#include "console/output.h"
#include "options/commands.h"
#include "options/config_reader.h"
#include "options/serve_options.h"

enum { PRESETS_MAX = 16 };

typedef struct add_options {
    hth_operator server;
    const char *presets[PRESETS_MAX];
    size_t n_presets;
    hth_serve_model model; /* only for checking */
} add_options;

#define AT(field) offsetof(add_options, field)

static const hth_option rows[] = {
    { .kind = HTH_OPTION_TABLE, .table = &hth_operator_options, .offset = AT(server) },
    { "preset", 0, HTH_OPTION_TEXTS, "NAME", "a preset of the server's configuration; may be repeated",
      .offset = AT(presets), .n_offset = AT(n_presets), .n_max = PRESETS_MAX, .key = "preset", .repeats = true },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
    { .kind = HTH_OPTION_HEADING, .help = "The model; what is not given is as for all models of the server" },
    { .kind = HTH_OPTION_TABLE, .table = &hth_serve_model_flags, .offset = AT(model) },
};

const hth_manual hth_models_add_manual = {
    .name = "add",
    .summary = "let a running server serve one more model",
    .usage = "usage: hearth models add NAME PATH [OPTIONS]\n"
             "\n"
             "Lets a running server serve the GGUF file at PATH, or a downloaded model, until the server ends or\n"
             "'hearth models forget' takes it back. The model starts with the first request for it, or with --start.\n"
             "\n",
    .closing = "\nExit codes: 0 the model is served, 1 it is refused, or no server answers; 2 wrong usage.\n",
    .options = HTH_OPTION_ROWS(rows),
    .arguments = HTH_COMPLETE_NOTHING " " HTH_COMPLETE_MODEL " " HTH_COMPLETE_NOTHING,
};

/* ---- the order ---- */

typedef struct order {
    json_t *json;
    hth_pool *pool; /* for paths */
    bool failed;    /* out of memory */
    bool asks_help;
} order;

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

static const char *absolute(const order *o, const hth_option *option, const char *value)
{
    const char *here = hth_config_directory(o->pool, "");

    if (!here || (option->is_word && option->is_word(value)))
        return here ? value : NULL;
    return option->is_named ? hth_config_named_path(o->pool, here, value) : hth_config_path(o->pool, here, value);
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
static json_t *value_json(const order *o, const hth_option *option, const char *value)
{
    switch (option->kind) {
    case HTH_OPTION_FLAG: return json_true();
    case HTH_OPTION_I32:
    case HTH_OPTION_U32:
    case HTH_OPTION_NUMBER:
    case HTH_OPTION_COUNT: return number_json(value);
    default: break;
    }
    value = option->is_path ? absolute(o, option, value) : value;
    return value ? json_string(value) : NULL;
}

static bool add(const order *o, const hth_option *option, const char *value)
{
    const char *section = section_of(option);
    json_t *to = section ? object_at(o->json, section) : o->json;

    if (option->is_pairs) {
        const char *equals = strchr(value, '='); /* its form was checked */
        const char *key = hth_pool_text(o->pool, value, (size_t)(equals - value));

        return key && json_object_set_new(object_at(to, option->key), key, number_json(equals + 1)) == 0;
    }
    if (!option->repeats)
        return json_object_set_new(to, option->key, value_json(o, option, value)) == 0;
    if (!json_object_get(to, option->key))
        (void)json_object_set_new(to, option->key, json_array()); /* the next line reports a failure */
    return json_array_append_new(json_object_get(to, option->key), value_json(o, option, value)) == 0;
}

static void add_option(const hth_option *option, const char *value, void *user_data)
{
    order *o = user_data;

    o->asks_help |= option->kind == HTH_OPTION_END;
    if (option->key)
        o->failed |= !add(o, option, value);
}

/* ---- the command ---- */

static int give(order *o, const add_options *options, const char *name, const char *path)
{
    /* Otherwise the text names a downloaded model, or a file on the server. */
    const hth_option is_path = { .is_path = access(path, F_OK) == 0 };
    hth_buffer answer = { .text = NULL };
    char *json;
    int exit_code;

    o->failed |= json_object_set_new(o->json, "name", json_string(name)) != 0 ||
                 json_object_set_new(o->json, "path", value_json(o, &is_path, path)) != 0;
    json = o->failed ? NULL : json_dumps(o->json, JSON_COMPACT);
    if (!json)
        return hth_say("no memory, or a name or a path that is no text in UTF-8", HTH_EXIT_FAILED);
    exit_code = hth_operator_ask(&options->server, "/admin/models", json, &answer);
    if (exit_code == HTH_EXIT_OK)
        printf("%s: added\n", name);
    hth_buffer_deinit(&answer);
    free(json);
    return exit_code;
}

int hth_models_add(int argc, char **argv)
{
    add_options *options = calloc(1, sizeof(*options)); /* large */
    order o = { .json = json_object(), .pool = hth_pool_new() };
    int exit_code = HTH_EXIT_FAILED, first;

    if (!options || !o.json || !o.pool) {
        (void)hth_say("no memory", 0);
        goto out;
    }
    hth_model_setup_init(&options->model.setup);
    exit_code = HTH_EXIT_USAGE;
    first =
        hth_option_table_visit(hth_models_add_manual.options, "hearth models add", argc, argv, options, add_option, &o);
    if (first < 0)
        goto out;
    if (o.asks_help) {
        hth_manual_print(&hth_models_add_manual, true, stdout);
        exit_code = HTH_EXIT_OK;
    } else if (argc - first != 2) {
        (void)hth_say("models add takes a NAME and a PATH; 'hearth help models add' explains it", 0);
    } else {
        exit_code = give(&o, options, argv[first], argv[first + 1]);
    }
out:
    json_decref(o.json);
    hth_pool_free(o.pool);
    free(options);
    return exit_code;
}
