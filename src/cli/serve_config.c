/*
 * serve_config.c - the order in which sources of options win
 *
 *   1. defaults
 *   2. the configuration file, without its models
 *   3. for a model in the file, its presets in their order, then its section
 *   4. flags
 *
 * A later source wins, so a flag of models applies to all of them. The flags are read once for options of the server,
 * and once more over each section. A worker receives the options that differ from the defaults, in the order of the
 * rows: the same options give the same command line, by which a reload decides whether a worker may stay.
 */
#include "cli/serve_config.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/status.h"
#include "cache/directory.h"
#include "cache/policy.h"
#include "cli/address.h"
#include "cli/api_keys.h"
#include "cli/config_presets.h"
#include "cli/config_reader.h"
#include "cli/key_file.h"
#include "cli/model_source.h"
#include "cli/models_folder.h"
#include "models/runtime.h"
#include "sched/strategy.h"
#include "server/model_names.h"

enum { VALUE_BYTES = (64 << 10) + 64, WORKER_ARGS_MAX = 512 };

/* The state while a set is made. */
typedef struct loader {
    int argc; /* of the flags; 0: there are none */
    char **argv;
    hth_serve_set *set;
    hth_serve_options *o; /* set->effective */
    hth_pool *pool;
    hth_problems *problems;
    hth_serve_model *models; /* [n_models] so far */
    size_t n_models;
    /* The sections of models in the file. */
    hth_config_reader reader;
    const hth_config_node *sections[HTH_SERVE_MODELS_MAX];
    size_t n_sections;
    hth_config_presets presets;
} loader;

static bool no_memory(const loader *l)
{
    hth_problems_add(l->problems, "no memory for the configuration");
    return false;
}

/* ---- the file ---- */

/* Add the sections with a name below node, `model "NAME" { ... }`, to a list. */
static void add_sections(const hth_config_reader *reader, const hth_config_node *node, const char *example,
                         const hth_config_node **list, size_t n_max, size_t *n)
{
    const bool is_section = node->kind == HTH_CONFIG_SECTION;

    for (const hth_config_node *one = is_section ? node->first : NULL; one; one = one->next) {
        if (one->kind != HTH_CONFIG_SECTION) {
            hth_problems_add(reader->problems, "%s:%u: a %s has a name and a section: %s", reader->name, one->key_line,
                             node->key, example);
            return;
        }
        if (*n == n_max) {
            hth_problems_add(reader->problems, "%s:%u: %s '%.64s' is one too many; at most %d are allowed",
                             reader->name, one->key_line, node->key, one->key, (int)n_max);
            return;
        }
        list[(*n)++] = one;
    }
    if (!is_section || !node->first)
        hth_problems_add(reader->problems, "%s:%u: '%s' is no section with a name, such as %s", reader->name,
                         node->line, node->key, example);
}

static void add_named_sections(const hth_config_reader *reader, const hth_config_node *node, void *user_data)
{
    loader *l = user_data;

    if (strcmp(node->key, "preset") == 0)
        add_sections(reader, node, "preset \"small\" { context = 4096 }", l->presets.sections, HTH_CONFIG_PRESETS_MAX,
                     &l->presets.n);
    else
        add_sections(reader, node, "model \"chat\" { path = \"chat.gguf\" }", l->sections, HTH_SERVE_MODELS_MAX,
                     &l->n_sections);
}

/* Read the tree of a file; its relative paths start from the folder of path. */
static void read_tree(loader *l, const char *name, const char *path, const hth_config_node *root)
{
    const hth_config_scope scope = {
        .prefix = "", .where = "here", .own_keys = { "model", "preset" }, .read_own = add_named_sections, .user_data = l
    };

    l->reader = (hth_config_reader){ .name = name,
                                     .directory = hth_config_directory(l->pool, path),
                                     .root = &hth_serve_keys,
                                     .pool = l->pool,
                                     .problems = l->problems };
    if (l->reader.directory)
        hth_config_read(&l->reader, root, &hth_serve_keys, l->o, &scope);
    else
        (void)no_memory(l); /* problems has the error */
}

static void read_file(loader *l, const char *path)
{
    hth_config_file file;
    hearth_error err;

    if (hth_config_file_read(l->pool, path, &file, &err) == HEARTH_OK)
        read_tree(l, file.name, path, file.root);
    else
        hth_problems_add(l->problems, "%s", err.message);
}

/* ---- paths ---- */

static const char *absolute(const loader *l, const char *path)
{
    const char *here = path[0] == '/' ? "/" : hth_config_directory(l->pool, "");
    const char *result = here ? hth_config_path(l->pool, here, path) : NULL;

    if (!result)
        (void)no_memory(l);
    return result ? result : path;
}

static const char *absolute_adapter(const loader *l, const char *spec)
{
    const char *here = hth_config_directory(l->pool, "");
    const char *result = here ? hth_config_named_path(l->pool, here, spec) : NULL;

    if (!result)
        (void)no_memory(l);
    return result ? result : spec;
}

/* Make the paths of a table absolute, so that every process reads them alike. */
static void make_absolute(const loader *l, const hth_option_table *table, void *options)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const char **path = (const char **)((char *)options + flat.rows[i].offset + row->offset);

        if (row->is_path && row->kind == HTH_OPTION_TEXT && *path && !(row->is_word && row->is_word(*path)))
            *path = absolute(l, *path);
    }
}

static void make_setup_absolute(const loader *l, hth_model_setup *setup)
{
    make_absolute(l, &hth_worker_model_options, setup);
    for (size_t i = 0; i < setup->runtime.n_more_directories; i++)
        setup->more_directories[i] = absolute(l, setup->more_directories[i]);
    for (size_t i = 0; i < setup->adapters.n; i++)
        setup->adapters.list[i] = absolute_adapter(l, setup->adapters.list[i]);
    for (size_t i = 0; i < setup->model.n_control_vectors; i++)
        setup->control_vectors[i] = absolute(l, setup->control_vectors[i]);
}

/* ---- models ---- */

static bool is_model_name(const char *name)
{
    static const char others[] = "._-:/";
    const size_t n = strlen(name);

    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(others, name[i]))
            return false;
    return n > 0 && n <= HTH_SERVE_NAME_BYTES_MAX && isalnum((unsigned char)name[0]);
}

#define NAME_RULE "names have 1 to 128 letters, digits and . _ - : /, the first of them a letter or digit"

/* A name by which requests reach a model. */
typedef struct called {
    const char *name;
    const char *kind;
} called;

enum { CALLED_MAX = 1 + HTH_SERVE_ALIASES_MAX + HTH_ADAPTERS_MAX };

/* The model's names, [CALLED_MAX] in out: first its own and its aliases, then those of its adapters from *first on. */
static size_t list_names(const loader *l, const hth_serve_model *model, called *out, size_t *first_adapter)
{
    size_t n = 0;

    out[n++] = (called){ model->name, "name" };
    for (size_t i = 0; i < model->n_aliases; i++)
        out[n++] = (called){ model->aliases[i], "alias" };
    *first_adapter = n;
    for (size_t i = 0; i < model->setup.adapters.n; i++) {
        hth_adapter_spec spec;
        const char *name = NULL;

        if (hth_adapter_spec_read(model->setup.adapters.list[i], &spec, NULL) == HEARTH_OK)
            name = hth_pool_text(l->pool, spec.name, strlen(spec.name));
        if (name) /* else its option has told the error */
            out[n++] = (called){ name, "adapter" };
    }
    return n;
}

/* The second of two models with a name would never be used, and an adapter changes all requests that name it. */
static void check_names(const loader *l, const hth_serve_model *model, const char *where)
{
    called own[CALLED_MAX], others[CALLED_MAX];
    size_t first_adapter, ignored, n_own = list_names(l, model, own, &first_adapter);

    for (size_t i = first_adapter; i < n_own; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(own[i].name, own[j].name) == 0)
                hth_problems_add(l->problems,
                                 "%smodel '%s' has the adapter '%s' and the %s '%s'; give the adapter another name, "
                                 "NAME=FILE",
                                 where, model->name, own[i].name, own[j].kind, own[j].name);
    for (size_t k = 0; k < l->n_models; k++) {
        size_t n_others = list_names(l, &l->models[k], others, &ignored);

        for (size_t i = 0; i < n_own; i++)
            for (size_t j = 0; j < n_others; j++)
                if (strcmp(own[i].name, others[j].name) == 0)
                    hth_problems_add(l->problems,
                                     "%sthe %s '%s' of model '%s' is the %s of model '%s', too; rename one of them",
                                     where, own[i].kind, own[i].name, model->name, others[j].kind, l->models[k].name);
    }
}

/* Check a model whose options are complete, and add it. where begins messages. */
static void finish_model(loader *l, hth_serve_model *model, const char *where)
{
    const hearth_cache_policy *given = &model->setup.policy;
    const hth_policy policy = { given->min_tokens,
                                given->cold_min_tokens,
                                given->cold_max_tokens ? given->cold_max_tokens : INT32_MAX,
                                given->continued_interval,
                                given->boundary_trim_tokens,
                                given->boundary_align_tokens,
                                given->snapshot_interval };
    hth_strategy strategy;
    hearth_error err;

    for (size_t i = 0; i < l->n_models; i++)
        if (strcmp(l->models[i].name, model->name) == 0) {
            hth_problems_add(l->problems, "%sthere is a model '%s' already; give one of them another name", where,
                             model->name);
            return;
        }
    if (l->n_models == HTH_SERVE_MODELS_MAX) {
        hth_problems_add(l->problems, "%smodel '%s' is one too many; at most %d are allowed", where, model->name,
                         HTH_SERVE_MODELS_MAX);
        return;
    }
    if (hth_policy_validate(&policy, &err) != HEARTH_OK)
        hth_problems_add(l->problems, "%sthe cache policy of model '%s' cannot be used: %s", where, model->name,
                         err.message);
    if (model->setup.chat_template && model->setup.chat_template_file)
        hth_problems_add(l->problems, "%smodel '%s' has both chat_template and chat_template_file; give one of them",
                         where, model->name);
    if (!hth_strategy_builtin(model->setup.model.strategy, &strategy))
        hth_problems_add(l->problems,
                         "%sstrategy of model '%s' is '%s'; it must be decode_maximal, prefill_priority or balanced",
                         where, model->name, model->setup.model.strategy);
    check_names(l, model, where);
    if (model->setup.defaults.system && strlen(model->setup.defaults.system) > HTH_API_DEFAULT_SYSTEM_BYTES_MAX)
        hth_problems_add(l->problems, "%sthe system message of model '%s' is longer than %d KiB", where, model->name,
                         HTH_API_DEFAULT_SYSTEM_BYTES_MAX >> 10);
    make_setup_absolute(l, &model->setup);
    if (model->setup.runtime.ram_bytes_max == 0)
        model->setup.runtime.ram_bytes_max = hth_runtime_ram_bytes_default() >> 20 << 20;
    model->setup.model.name = model->name;
    l->models[l->n_models++] = *model;
}

/* Add a model given as "FILE" or "NAME=FILE". A path that exists as a whole is a file, also with '=' in it. */
static void add_flag_model(loader *l, const char *given)
{
    hth_serve_model model = l->o->defaults;
    const char *equals = strchr(given, '=');
    const char *slash = strrchr(given, '/'), *name;

    model.setup.path = given;
    if (equals && access(given, F_OK) != 0) {
        name = hth_pool_text(l->pool, given, (size_t)(equals - given));
        model.setup.path = equals + 1;
    } else {
        name = slash ? slash + 1 : given;
        name = hth_pool_text(l->pool, name, hth_gguf_stem(name, strlen(name)));
    }
    model.name = name;
    model.setup.path = hth_model_source_downloaded(l->pool, model.setup.path, l->problems);
    if (!name)
        (void)no_memory(l);
    else if (!*model.setup.path)
        hth_problems_add(l->problems, "--model '%s' names no file after the '='", given);
    else if (!is_model_name(name))
        hth_problems_add(l->problems, "--model '%s' would be called '%.128s'; %s: give it one, as NAME=FILE", given,
                         name, NAME_RULE);
    else
        finish_model(l, &model, "");
}

/* Read the flags into options again. They were parsed before, so they have no error. */
static void apply_flags(const loader *l, hth_serve_options *options)
{
    if (l->argc > 0)
        (void)hth_option_table_parse(&hth_serve_flags, "hearth serve", l->argc, l->argv, options);
}

/* Apply the flags, which concern all models, to this one. */
static bool apply_flags_to_model(const loader *l, hth_serve_model *model)
{
    hth_serve_options *options = hth_pool_alloc(l->pool, sizeof(*options));

    if (!options)
        return no_memory(l);
    options->defaults = *model;
    apply_flags(l, options);
    *model = options->defaults;
    return true;
}

static void add_file_model(loader *l, const hth_config_node *section)
{
    const size_t n_before = l->problems->n_errors;
    hth_serve_model model = l->o->defaults;
    char where[512];

    model.name = section->key;
    (void)snprintf(where, sizeof(where), "%.400s:%u: ", l->reader.name, section->key_line); /* cut */
    if (!is_model_name(model.name)) {
        hth_problems_add(l->problems, "%sa model is called '%.128s'; %s", where, model.name, NAME_RULE);
        return;
    }
    hth_config_presets_read(&l->presets, &l->reader, section, "of a model", &model);
    if (!apply_flags_to_model(l, &model))
        return;
    if (!model.setup.path && l->problems->n_errors == n_before)
        hth_problems_add(l->problems, "%smodel '%s' has no 'path'; give the path of its GGUF file", where, model.name);
    else
        finish_model(l, &model, where);
}

/* Add a model of the folder, unless it is named elsewhere. */
static void add_found_model(loader *l, const hth_found_model *found)
{
    hth_serve_model model = l->o->defaults;

    for (size_t i = 0; i < l->n_models; i++)
        if (strcmp(l->models[i].name, found->name) == 0 || strcmp(l->models[i].setup.path, found->path) == 0)
            return;
    if (!is_model_name(found->name)) {
        hth_problems_warn(l->problems, "'%s' is left out: %s", found->path, NAME_RULE);
        return;
    }
    model.name = found->name;
    model.setup.path = found->path;
    model.start = HTH_START_ON_DEMAND;
    finish_model(l, &model, "");
}

static bool read_models(loader *l)
{
    hth_serve_model unused = l->o->defaults;
    hth_found_models found = { .n = 0 };
    size_t n;

    if (l->o->server.models_folder &&
        !hth_models_folder_read(l->pool, l->o->server.models_folder, HTH_SERVE_MODELS_MAX, l->problems, &found))
        return false;
    l->set->options.watched_folders = found.folders;
    l->set->options.n_watched_folders = found.n_folders;
    n = l->o->n_models + l->n_sections + found.n;
    l->models = hth_pool_alloc(l->pool, (n + 1) * sizeof(*l->models));
    if (!l->models)
        return no_memory(l);
    if (l->presets.n > 0) /* else there may be no file */
        hth_config_presets_check(&l->presets, &l->reader, &unused);
    for (size_t i = 0; i < l->o->n_models; i++)
        add_flag_model(l, l->o->models[i]);
    for (size_t i = 0; i < l->n_sections; i++)
        add_file_model(l, l->sections[i]);
    for (size_t i = 0; i < found.n; i++)
        add_found_model(l, &found.list[i]);
    if (n == 0 && l->problems->n_errors == 0)
        hth_problems_add(l->problems,
                         "there is no model to serve; give one with -m FILE, with --models-dir, or with a section "
                         "'model \"NAME\" { path = \"FILE\" }' in the file that --config names");
    l->set->models = l->models;
    return true;
}

/* ---- workers ---- */

/* The arguments of a worker while they are made, and room for values. */
typedef struct argument_list {
    const char *list[WORKER_ARGS_MAX + 1];
    size_t n;
    bool failed;
    char value[VALUE_BYTES], usual[VALUE_BYTES];
} argument_list;

static void add_argument(const loader *l, argument_list *out, const char *text)
{
    const char *copy = out->n < WORKER_ARGS_MAX ? hth_pool_text(l->pool, text, strlen(text)) : NULL;

    out->failed |= !copy;
    if (copy)
        out->list[out->n++] = copy;
}

/* Add flags for the options of a table whose values differ from the defaults. */
static void add_arguments(const loader *l, const hth_option_table *table, const void *options, const void *defaults,
                          argument_list *out)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const size_t offset = flat.rows[i].offset;
        char flag[128];

        (void)snprintf(flag, sizeof(flag), "--%s", row->name); /* names are shorter */
        for (size_t j = 0; hth_option_write(row, (const char *)options + offset, j, out->value, VALUE_BYTES); j++) {
            if (hth_option_write(row, (const char *)defaults + offset, j, out->usual, VALUE_BYTES) &&
                strcmp(out->value, out->usual) == 0)
                continue;
            add_argument(l, out, flag);
            if (row->kind != HTH_OPTION_FLAG)
                add_argument(l, out, out->value);
        }
    }
}

/* Clients may name an adapter as a model. */
static bool add_adapter_names(const loader *l, const hth_adapter_specs *specs, hth_server_model *out)
{
    const char **names = hth_pool_alloc(l->pool, (specs->n + 1) * sizeof(*names));
    hth_adapter_spec spec;

    if (!names)
        return no_memory(l);
    for (size_t i = 0; i < specs->n; i++) {
        if (hth_adapter_spec_read(specs->list[i], &spec, NULL) != HEARTH_OK)
            continue; /* it was checked when it was read */
        names[out->n_adapters] = hth_pool_text(l->pool, spec.name, strlen(spec.name));
        if (!names[out->n_adapters++])
            return no_memory(l);
    }
    out->adapters = names;
    return true;
}

static bool make_worker(const loader *l, const hth_serve_model *model, argument_list *arguments, hth_server_model *out)
{
    const hth_server_options usual_server = hth_server_options_default();
    hth_model_setup usual;
    const char **list;

    arguments->n = 0;
    arguments->failed = false;
    hth_model_setup_init(&usual);
    add_arguments(l, &hth_worker_model_options, &model->setup, &usual, arguments);
    add_arguments(l, &hth_worker_request_options, &l->o->server, &usual_server, arguments);
    add_arguments(l, &hth_worker_stream_options, &l->o->server, &usual_server, arguments);
    add_arguments(l, &hth_worker_slot_options, &l->o->server, &usual_server, arguments);
    list = hth_pool_alloc(l->pool, (arguments->n + 1) * sizeof(*list));
    if (arguments->failed || !list)
        return no_memory(l);
    memcpy(list, arguments->list, arguments->n * sizeof(*list));
    *out = (hth_server_model){
        .name = model->name,
        .worker = list,
        .ram_bytes = model->setup.runtime.cache_disabled ? 0 : model->setup.runtime.ram_bytes_max,
        .on_demand = model->start == HTH_START_ON_DEMAND,
        .is_pinned = model->is_pinned,
        .unload_after_ms = model->unload_after_ms,
        .path = model->setup.path,
        .aliases = model->aliases,
        .n_aliases = model->n_aliases,
        .adapters_directory = model->setup.adapters.directory,
        .tags = model->tags,
        .n_tags = model->n_tags,
    };
    return add_adapter_names(l, &model->setup.adapters, out);
}

static bool make_workers(const loader *l)
{
    hth_server_model *models = hth_pool_alloc(l->pool, (l->n_models + 1) * sizeof(*models));
    argument_list *arguments = malloc(sizeof(*arguments)); /* not of the pool, which the server keeps */
    bool ok = (models && arguments) || no_memory(l);

    for (size_t i = 0; ok && i < l->n_models; i++)
        ok = make_worker(l, &l->models[i], arguments, &models[i]);
    free(arguments);
    l->set->options.models = models;
    l->set->options.n_models = ok ? l->n_models : 0;
    return ok;
}

/* ---- addresses ---- */

static void add_listen(loader *l, const char *text)
{
    hth_serve_options *o = l->o;

    if (!text)
        (void)no_memory(l); /* which is said */
    else if (o->n_listen == HTH_SERVE_LISTEN_MAX)
        hth_problems_add(l->problems, "'%s' is one address too many to listen on; at most %d are allowed", text,
                         HTH_SERVE_LISTEN_MAX);
    else
        o->listen[o->n_listen++] = text;
}

/*
 * Add one host of --host: a name, an address with or without brackets, or a unix socket, which llama-server recognises
 * by ".sock".
 */
static void add_host(loader *l, const char *host, size_t n)
{
    const unsigned port = l->o->has_port ? l->o->port : HTH_ADDRESS_PORT;

    while (n > 0 && host[0] == ' ') {
        host++;
        n--;
    }
    while (n > 0 && host[n - 1] == ' ')
        n--;
    if (n >= VALUE_BYTES)
        hth_problems_add(l->problems, "--host '%.60s...' is too long", host);
    else if (n > 5 && strncmp(host, "unix:", 5) == 0)
        add_listen(l, hth_pool_text(l->pool, host, n));
    else if (n > 5 && strncmp(host + n - 5, ".sock", 5) == 0)
        add_listen(l, hth_pool_format(l->pool, "unix:%.*s", (int)n, host));
    else if (n > 0)
        add_listen(l, hth_pool_format(l->pool, memchr(host, ':', n) && host[0] != '[' ? "[%.*s]:%u" : "%.*s:%u", (int)n,
                                      host, port));
}

/* --host and --port replace the list; without any of them the default address is used. */
static void choose_listen(loader *l, const hth_serve_options *flags)
{
    hth_serve_options *o = l->o;

    if ((o->n_hosts > 0 || o->has_port) && flags->n_listen > 0)
        hth_problems_add(l->problems, "--listen and --host or --port exclude each other; --listen HOST:PORT says both");
    if (o->n_hosts == 0 && !o->has_port && o->n_listen > 0)
        return;
    o->n_listen = 0;
    for (size_t i = 0; i < o->n_hosts; i++) {
        const char *at = o->hosts[i];
        size_t n = strcspn(at, ",");

        add_host(l, at, n);
        while (at[n] == ',') {
            at += n + 1;
            n = strcspn(at, ",");
            add_host(l, at, n);
        }
    }
    if (o->n_listen == 0 && o->n_hosts > 0)
        hth_problems_add(l->problems, "--host '%s' names no host", o->hosts[0]);
    if (o->n_listen == 0)
        add_host(l, "127.0.0.1", strlen("127.0.0.1"));
}

static bool read_address(const loader *l, const char *shown, const char **text, hth_server_address *out)
{
    char host[HTH_ADDRESS_HOST_BYTES];
    const char *path;
    hearth_error err;

    *out = (hth_server_address){ .host = NULL };
    if (!hth_address_read(shown, *text, host, sizeof(host), &out->port, &path, &err)) {
        hth_problems_add(l->problems, "%s", err.message);
        return false;
    }
    if (path) {
        out->path = absolute(l, path);
        *text = hth_pool_format(l->pool, "unix:%s", out->path);
        return *text || no_memory(l);
    }
    out->host = hth_pool_text(l->pool, host, strlen(host));
    return out->host || no_memory(l);
}

/* Is the address reachable from this machine only? */
static bool is_private(const hth_server_address *address)
{
    static const char digits[] = "0123456789.";
    const char *host = address->host;

    return !host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (strncmp(host, "127.", 4) == 0 && !host[strspn(host, digits)]);
}

static bool is_same(const hth_server_address *a, const hth_server_address *b)
{
    if (a->path || b->path)
        return a->path && b->path && strcmp(a->path, b->path) == 0;
    return a->port == b->port && a->port != 0 && strcmp(a->host, b->host) == 0;
}

static void check_addresses(const loader *l, const hth_server_address *list, size_t n)
{
    const hth_serve_options *o = l->o;
    const hth_server_address *admin = &l->set->options.admin;

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            if (is_same(&list[i], &list[j]))
                hth_problems_add(l->problems, "the address '%s' to listen on is given twice", o->listen[i]);
        if (o->admin && is_same(&list[i], admin))
            hth_problems_add(l->problems,
                             "the operators' address '%s' is one of those that clients use; give it "
                             "another, or leave 'admin' out and use a key with 'admin = true'",
                             o->admin);
        if (!is_private(&list[i]) && !hth_serve_asks_for_keys(o) && !o->server.allow_public_without_keys)
            hth_problems_add(
                l->problems,
                "'%s' can be reached from other machines, but no keys are required: make a file of keys "
                "with 'hearth key new --name NAME --file keys.conf' and name it with 'keys' (--keys), give one with "
                "--api-key-file FILE, or say "
                "allow_public_without_keys = true (--allow-public-without-keys)",
                o->listen[i]);
    }
    if (o->admin && !is_private(admin) && !o->server.allow_public_without_keys)
        hth_problems_add(l->problems,
                         "the operators' address '%s' can be reached from other machines, and asks for no key: use one "
                         "of 127.0.0.1, or leave 'admin' out and use a key with 'admin = true'",
                         o->admin);
}

static bool read_addresses(loader *l)
{
    hth_serve_options *o = l->o;
    hth_server_address *list = hth_pool_alloc(l->pool, HTH_SERVE_LISTEN_MAX * sizeof(*list));
    bool ok = true;

    if (!list)
        return no_memory(l);
    for (size_t i = 0; i < o->n_listen; i++)
        ok &= read_address(l, "listen", &o->listen[i], &list[i]);
    if (o->admin)
        ok &= read_address(l, "admin", &o->admin, &l->set->options.admin);
    if (ok)
        check_addresses(l, list, o->n_listen);
    l->set->options.listen = list;
    l->set->options.n_listen = ok ? o->n_listen : 0;
    return ok;
}

/* ---- all of it ---- */

/* Is there a model of the default's name? Checked when all models are known. */
static void check_default_model(const loader *l)
{
    const char *name = l->o->server.default_model;

    for (size_t i = 0; name && i < l->n_models; i++)
        if (strcmp(l->models[i].name, name) == 0)
            return;
    if (name && strcmp(name, HTH_NO_DEFAULT_MODEL) != 0)
        hth_problems_add(l->problems,
                         "default (--default-model) is '%s', which is no model here; give the name of one, or none",
                         name);
}

static void check_server(const loader *l)
{
    const hth_server_options *server = &l->o->server;

    if (!server->tls_certificate != !server->tls_key)
        hth_problems_add(l->problems, "TLS needs both a certificate and its key; %s is missing",
                         server->tls_certificate ? "tls.key (--tls-key)" : "tls.certificate (--tls-certificate)");
    if (server->bodies_bytes_max < server->body_bytes_max)
        hth_problems_add(l->problems,
                         "limits.bodies_bytes_max (--bodies-bytes-max) has to be as large as limits.body_bytes_max "
                         "(--body-bytes-max): one request could not be read otherwise");
    if (server->log_prompts)
        hth_problems_warn(l->problems, "bodies of requests go into the log, prompts included (log.prompts)");
}

/* Beside the rows that models share; in memory only where there is no such folder. */
static const char *learned_path(const loader *l)
{
    const hearth_runtime_options *runtime = &l->o->defaults.setup.runtime;
    char directory[PATH_MAX];

    if (runtime->cache_disabled)
        return NULL;
    if (runtime->cache_directory)
        return hth_pool_format(l->pool, "%s/needs", runtime->cache_directory);
    return hth_cache_default_directory(directory, sizeof(directory)) ? hth_pool_format(l->pool, "%s/needs", directory)
                                                                     : NULL;
}

/* The file and the flags were read: complete the set. */
static void finish(loader *l, const hth_serve_options *flags)
{
    hth_server_options *options = &l->set->options;

    make_absolute(l, &hth_serve_keys, l->o);
    make_setup_absolute(l, &l->o->defaults.setup);
    choose_listen(l, flags);
    check_server(l);
    *options = l->o->server;
    if (!read_addresses(l) || !read_models(l) || !make_workers(l))
        return;
    check_default_model(l);
    options->learned_path = learned_path(l);
    options->cors_origins = l->o->origins;
    options->n_cors_origins = l->o->n_origins;
}

/* A loader with an empty set; NULL without memory, with the error in problems. */
static loader *loader_new(hth_problems *problems)
{
    hth_pool *pool = hth_pool_new();
    hth_serve_set *set = pool ? hth_pool_alloc(pool, sizeof(*set)) : NULL;
    loader *l = set ? hth_pool_alloc(pool, sizeof(*l)) : NULL;

    if (!l) {
        hth_problems_add(problems, "no memory for the configuration");
        hth_pool_free(pool);
        return NULL;
    }
    set->pool = pool;
    *l = (loader){ .set = set, .o = &set->effective, .pool = pool, .problems = problems };
    l->presets.table = &hth_serve_model_keys;
    hth_serve_options_init(l->o);
    return l;
}

hth_serve_set *hth_serve_set_new(int argc, char **argv, const hth_serve_options *flags, hth_problems *problems)
{
    loader *l = loader_new(problems);

    if (!l)
        return NULL;
    l->argc = argc;
    l->argv = argv;
    if (flags->config_file)
        read_file(l, flags->config_file);
    apply_flags(l, l->o);
    finish(l, flags);
    if (l->o->keys_file)
        hth_key_file_read(l->pool, l->o->keys_file, &l->set->options, problems);
    hth_api_keys_add(l->pool, l->o->api_keys, l->o->n_api_keys, l->o->api_key_file, &l->set->options, problems);
    return l->set;
}

hth_serve_set *hth_serve_set_of_text(const char *name, const char *text, size_t n, hth_problems *problems)
{
    const hth_serve_options no_flags = { .n_listen = 0 };
    loader *l = loader_new(problems);
    const hth_config_node *root;
    hearth_error err;

    if (!l)
        return NULL;
    if (hth_config_file_parse(l->pool, name, text, n, &root, &err) == HEARTH_OK)
        read_tree(l, name, name, root);
    else
        hth_problems_add(problems, "%s", err.message);
    finish(l, &no_flags);
    return l->set;
}

void hth_serve_set_free(const hth_server_options *options)
{
    if (options)
        hth_pool_free(((const hth_serve_set *)options)->pool);
}
