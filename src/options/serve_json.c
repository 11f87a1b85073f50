/*
 * serve_json.c - options as JSON objects, with their names in the configuration file, for operators' pages and orders
 */
#include <stdlib.h>
#include <string.h>

#include "api/json_values.h"
#include "base/status.h"
#include "options/config_reader.h"
#include "options/serve_config.h"

enum { WORD_BYTES = 256 };

static json_t *value_json(const hth_option *row, const void *options)
{
    const void *field = (const char *)options + row->offset;
    char word[WORD_BYTES];

    switch (row->kind) {
    case HTH_OPTION_FLAG: return json_boolean(*(const bool *)field);
    case HTH_OPTION_TEXT: return hth_json_string(*(const char *const *)field);
    case HTH_OPTION_TEXTS: return hth_json_strings(field, *(const size_t *)((const char *)options + row->n_offset));
    case HTH_OPTION_U32:
    case HTH_OPTION_MS: return json_integer(*(const uint32_t *)field);
    case HTH_OPTION_SIZE: {
        const uint64_t size = *(const uint64_t *)field;

        return json_integer(size > INT64_MAX ? INT64_MAX : (json_int_t)size);
    }
    default: return hth_json_string(hth_option_write(row, options, 0, word, sizeof(word)) ? word : NULL);
    }
}

/* Sections become nested objects. NULL without memory. */
static json_t *table_json(const hth_option_table *table, const void *options)
{
    json_t *object = json_object();
    hth_flat_table flat;

    hth_option_table_flatten(table, false, &flat);
    for (size_t i = 0; object && i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const char *place = (const char *)options + flat.rows[i].offset;

        if (row->key && json_object_set_new(object, row->key,
                                            row->kind == HTH_OPTION_TABLE ? table_json(row->table, place + row->offset)
                                                                          : value_json(row, place)) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

static json_t *server_json(const hth_server_options *options)
{
    hth_serve_options *all = calloc(1, sizeof(*all));
    json_t *object = NULL;

    if (all) {
        all->server = *options;
        all->server.ram_total_bytes = hth_server_ram_total(options); /* even if it was not chosen */
        for (size_t i = 0; i < options->n_cors_origins; i++)
            all->origins[all->n_origins++] = options->cors_origins[i];
        for (size_t i = 0; i < options->fleet.n_peers; i++)
            all->fleet_peers[all->n_fleet_peers++] = options->fleet.peers[i];
        object = table_json(&hth_serve_server_keys, all);
    }
    free(all);
    return object;
}

static json_t *pressure_json(const hth_pressure_settings *settings)
{
    return table_json(&hth_serve_pressure_settings, settings);
}

static json_t *rules_json(const hth_model_rules *rules)
{
    return table_json(&hth_serve_model_rules, rules);
}

const hth_options_json hth_serve_json = { .server = server_json, .rules = rules_json, .pressure = pressure_json };

/* ---- orders ---- */

static void read_text(hth_pool *pool, const char *text, hth_pressure_settings *settings, hth_problems *problems)
{
    const hth_config_reader reader = { .directory = "", .pool = pool, .problems = problems };
    const hth_config_scope scope = { .prefix = "", .where = "that an order may change" };
    const hth_config_node *root;
    hearth_error err;

    if (hth_config_file_parse(pool, "the order", text, strlen(text), &root, &err) == HEARTH_OK)
        hth_config_read(&reader, root, &hth_serve_pressure_settings, settings, &scope);
    else
        hth_problems_add(problems, "%s", err.message);
}

hearth_status hth_serve_pressure_read(const char *text, hth_pressure_settings *settings, hearth_error *err)
{
    hth_problems *problems = calloc(1, sizeof(*problems));
    hth_pool *pool = hth_pool_new();
    hth_pressure_settings read = *settings;
    hearth_status status = HEARTH_OK;

    if (problems && pool)
        read_text(pool, text, &read, problems);
    if (!problems || !pool)
        status = hth_fail(err, HEARTH_NO_MEMORY, "no memory for the order");
    else if (problems->n_errors > 0)
        status = hth_fail(err, HEARTH_MISUSE, "%s", hth_problems_first(problems));
    else
        *settings = read;
    hth_pool_free(pool);
    free(problems);
    return status;
}
