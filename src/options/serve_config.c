/*
 * serve_config.c - makes a set of options: the models with the command lines of their workers, and the rest
 *
 * Sources of options, and their precedence:
 *
 *   1. defaults
 *   2. the configuration file, without its models
 *   3. for a model in the file, its presets in their order, then its section
 *   4. flags
 *
 * A later source overrides earlier ones, so a flag for models applies to all of them. The flags are read once for
 * options of the server, and again over each section.
 *
 * The models come from flags, sections of the configuration file, a folder, and orders of operators; without any of
 * these, they are the downloaded models. A model starts as a copy of the options of all models.
 */
#include "options/serve_config.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/status.h"
#include "cache/policy.h"
#include "front/model_names.h"
#include "models/runtime.h"
#include "options/file_name.h"
#include "options/key_file.h"
#include "options/model_source.h"
#include "options/models_folder.h"
#include "options/values.h"
#include "rows/directory.h"
#include "sched/strategy.h"

/* The state while a set is made. */
typedef struct loader {
    int argc; /* of the flags; 0: no flags */
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
    const hth_named_model *named; /* [n_named], added by operators */
    size_t n_named;
} loader;

static bool no_memory(const loader *l)
{
    hth_problems_add(l->problems, "no memory for the configuration");
    return false;
}

/*
 * Make paths absolute, so that they are valid in every process: one path (is_named: or NAME=PATH), those of a table,
 * those of a model.
 */
static const char *absolute(const loader *l, const char *path, bool is_named)
{
    const char *(*place)(hth_pool *, const char *, const char *) = is_named ? hth_config_named_path : hth_config_path;
    const char *here = path[0] == '/' ? "/" : hth_config_directory(l->pool, "");
    const char *result = here ? place(l->pool, here, path) : NULL;

    if (!result)
        (void)no_memory(l);
    return result ? result : path;
}

static void make_absolute(const loader *l, const hth_option_table *table, void *options)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const char **path = (const char **)((char *)options + flat.rows[i].offset + row->offset);

        if (row->is_path && row->kind == HTH_OPTION_TEXT && *path && !(row->is_word && row->is_word(*path)))
            *path = absolute(l, *path, false);
    }
}

static void setup_make_absolute(const loader *l, hth_model_setup *setup)
{
    make_absolute(l, &hth_worker_model_options, setup);
    for (size_t i = 0; i < setup->runtime.n_more_directories; i++)
        setup->more_directories[i] = absolute(l, setup->more_directories[i], false);
    for (size_t i = 0; i < setup->adapters.n; i++)
        setup->adapters.list[i] = absolute(l, setup->adapters.list[i], true);
    for (size_t i = 0; i < setup->model.n_control_vectors; i++)
        setup->control_vectors[i] = absolute(l, setup->control_vectors[i], false);
}

/* Read the flags into options again. They were parsed before, so they have no errors. */
static void apply_flags(const loader *l, hth_serve_options *options)
{
    if (l->argc > 0)
        (void)hth_option_table_parse(&hth_serve_flags, "hearth serve", l->argc, l->argv, options);
}

/* Check that the default model exists. Call when all models are known. */
static void check_default_model(const loader *l)
{
    const char *name = l->o->server.default_model;

    for (size_t i = 0; name && i < l->n_models; i++)
        if (strcmp(l->models[i].name, name) == 0)
            return;
    for (size_t i = 0; name && i < l->n_named; i++) /* one of them may be left out */
        if (strcmp(l->named[i].name, name) == 0)
            return;
    if (name && strcmp(name, HTH_NO_DEFAULT_MODEL) != 0)
        hth_problems_add(l->problems,
                         "default (--default-model) is '%s', which is no model here; give the name of one, or none",
                         name);
}

/* Make a loader with an empty set; NULL without memory, with the error in problems. */
static loader *loader_new(hth_problems *problems)
{
    hth_pool *pool = hth_pool_new();
    hth_serve_set *set = pool ? hth_pool_alloc(pool, sizeof(*set)) : NULL;
    loader *l = set ? hth_pool_alloc(pool, sizeof(*l)) : NULL;
    unsigned *n_users = l ? hth_pool_alloc(pool, sizeof(*n_users)) : NULL;

    if (!n_users) {
        hth_problems_add(problems, "no memory for the configuration");
        hth_pool_free(pool);
        return NULL;
    }
    set->pool = pool;
    set->n_users = n_users;
    *n_users = 1;
    *l = (loader){ .set = set, .o = &set->effective, .pool = pool, .problems = problems };
    l->presets.table = &hth_serve_model_keys;
    hth_serve_options_init(l->o);
    return l;
}

/* ---- models ---- */

enum { TEMPLATE_BYTES_MAX = 64 << 10 };

/* A name that requests can use for a model. */
typedef struct model_name {
    const char *name;
    const char *kind;
} model_name;

enum { NAMES_MAX = 1 + HTH_SERVE_ALIASES_MAX + HTH_ADAPTERS_MAX };

/*
 * Write the model's names to out, [NAMES_MAX]: first its own name and its aliases, then from *first_adapter on the
 * names of its adapters. Returns their number.
 */
static size_t list_names(const loader *l, const hth_serve_model *model, model_name *out, size_t *first_adapter)
{
    size_t n = 0;

    out[n++] = (model_name){ model->name, "name" };
    for (size_t i = 0; i < model->n_aliases; i++)
        out[n++] = (model_name){ model->aliases[i], "alias" };
    *first_adapter = n;
    for (size_t i = 0; i < model->setup.adapters.n; i++) {
        hth_adapter_spec spec;
        const char *name = NULL;

        if (hth_adapter_spec_read(model->setup.adapters.list[i], &spec, NULL) == HEARTH_OK)
            name = hth_pool_text(l->pool, spec.name, strlen(spec.name));
        if (name) /* otherwise the error was reported with its option */
            out[n++] = (model_name){ name, "adapter" };
    }
    return n;
}

/*
 * Names must be unique: the second of two models with one name would never be used, and an adapter changes all requests
 * that name it.
 */
static void check_names(const loader *l, const hth_serve_model *model, const char *where)
{
    model_name own[NAMES_MAX], others[NAMES_MAX];
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
    const hth_policy policy = hth_policy_of(&model->setup.policy, INT32_MAX);
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
    if (model->setup.chat_template && strlen(model->setup.chat_template) > TEMPLATE_BYTES_MAX)
        hth_problems_add(l->problems,
                         "%schat_template of model '%s' is a text of more than %d KiB, which the command line of a "
                         "worker has no room for; put it into a file, and give its path",
                         where, model->name, TEMPLATE_BYTES_MAX >> 10);
    if (!hth_strategy_builtin(model->setup.model.strategy, &strategy))
        hth_problems_add(l->problems,
                         "%sstrategy of model '%s' is '%s'; it must be decode_maximal, prefill_priority or balanced",
                         where, model->name, model->setup.model.strategy);
    check_names(l, model, where);
    if (model->setup.defaults.system && strlen(model->setup.defaults.system) > HTH_API_DEFAULT_SYSTEM_BYTES_MAX)
        hth_problems_add(l->problems, "%sthe system message of model '%s' is longer than %d KiB", where, model->name,
                         HTH_API_DEFAULT_SYSTEM_BYTES_MAX >> 10);
    setup_make_absolute(l, &model->setup);
    if (model->setup.runtime.ram_bytes_max == 0)
        model->setup.runtime.ram_bytes_max = hth_runtime_ram_bytes_default() >> 20 << 20;
    model->setup.model.name = model->name;
    l->models[l->n_models++] = *model;
}

/*
 * ---- workers ----
 *
 * A worker gets the options that differ from the defaults, in the order of the rows. So the same options give the same
 * command line, and a reload keeps a worker whose command line is unchanged.
 */

enum { WORKER_ARGS_MAX = 512 };

/* The arguments of a worker under construction, and room for values. */
typedef struct argument_list {
    const char *list[WORKER_ARGS_MAX + 1];
    size_t n;
    bool failed;
    char value[HTH_SERVE_VALUE_BYTES], usual[HTH_SERVE_VALUE_BYTES];
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
        for (size_t j = 0; hth_option_write(row, (const char *)options + offset, j, out->value, HTH_SERVE_VALUE_BYTES);
             j++) {
            if (hth_option_write(row, (const char *)defaults + offset, j, out->usual, HTH_SERVE_VALUE_BYTES) &&
                strcmp(out->value, out->usual) == 0)
                continue;
            add_argument(l, out, flag);
            if (row->kind != HTH_OPTION_FLAG)
                add_argument(l, out, out->value);
        }
    }
}

/* Add the names of adapters, which clients may use as model names. */
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
    hth_model_setup usual, setup = model->setup;
    const char **list;

    arguments->n = 0;
    arguments->failed = false;
    hth_model_setup_init(&usual);
    if (setup.model.fit && setup.model.fit_bytes == 0) /* a larger model would displace all others */
        setup.model.fit_bytes = l->o->server.memory_bytes;
    if ((setup.model.fit || setup.model.n_gpu_layers == HEARTH_GPU_LAYERS_AUTO) && setup.model.fit_device_bytes == 0)
        setup.model.fit_device_bytes = l->o->server.device_memory_bytes;
    add_arguments(l, &hth_worker_model_options, &setup, &usual, arguments);
    add_arguments(l, &hth_worker_request_options, &l->o->server, &usual_server, arguments);
    add_arguments(l, &hth_worker_stream_options, &l->o->server, &usual_server, arguments);
    add_arguments(l, &hth_worker_slot_options, &l->o->server, &usual_server, arguments);
    if (model->shown) {
        add_argument(l, arguments, "--shown-name");
        add_argument(l, arguments, model->shown);
    }
    list = hth_pool_alloc(l->pool, (arguments->n + 1) * sizeof(*list));
    if (arguments->failed || !list)
        return no_memory(l);
    memcpy(list, arguments->list, arguments->n * sizeof(*list));
    *out = (hth_server_model){
        .name = model->name,
        .shown = model->shown,
        .worker = list,
        .ram_bytes = model->setup.runtime.cache_disabled ? 0 : model->setup.runtime.ram_bytes_max,
        .has_history = model->setup.runtime.history_bytes_max > 0,
        .rules = model->rules,
        .path = model->setup.path,
        .aliases = model->aliases,
        .n_aliases = model->n_aliases,
        .adapters_directory = model->setup.adapters.directory,
        .tags = model->tags,
        .n_tags = model->n_tags,
    };
    return add_adapter_names(l, &model->setup.adapters, out);
}

/* Make the command line of the carrier: rows lie where the section `cache` says. */
static bool make_carrier(const loader *l)
{
    argument_list *arguments = malloc(sizeof(*arguments)); /* as below */
    hth_model_setup usual, setup = l->o->defaults.setup;
    const char **list = NULL;
    bool ok = arguments != NULL;

    if (ok) {
        arguments->n = 0;
        arguments->failed = false;
        hth_model_setup_init(&usual);
        setup.model.cache_salt = usual.model.cache_salt; /* keys of rows are known to it, and salts are not */
        add_argument(l, arguments, "--fleet");
        add_argument(l, arguments, l->set->options.fleet.file);
        add_arguments(l, &hth_model_cache_options, &setup, &usual, arguments);
        list = hth_pool_alloc(l->pool, (arguments->n + 1) * sizeof(*list));
        ok = list && !arguments->failed;
    }
    if (ok)
        memcpy(list, arguments->list, arguments->n * sizeof(*list));
    free(arguments);
    l->set->options.carrier = list;
    return ok || no_memory(l);
}

/* Make the models of the server's options, with the command lines of their workers. */
static bool make_workers(const loader *l)
{
    hth_server_model *models = hth_pool_alloc(l->pool, (l->n_models + 1) * sizeof(*models));
    argument_list *arguments = malloc(sizeof(*arguments)); /* not from the pool, which the server keeps */
    bool ok = models && arguments;

    if (!ok)
        (void)no_memory(l);
    for (size_t i = 0; ok && i < l->n_models; i++)
        ok = make_worker(l, &l->models[i], arguments, &models[i]);
    free(arguments);
    l->set->options.models = models;
    l->set->options.n_models = ok ? l->n_models : 0;
    return ok;
}

/*
 * ---- models of orders: sets of options with one model more or fewer than the set in force ----
 *
 * Such a set reads no configuration file: it has the models of the last reading, and the models added by operators,
 * each read again from its order. It keeps a reference to the set of that reading, which owns most of its texts. So
 * errors in a file, or half-finished edits, do not matter, and a failed order leaves nothing behind.
 *
 * A reload reads all orders again. An error in an order by then, such as a missing file, is a warning: it must not make
 * the server refuse a valid configuration file. The model is left out, and its order stays for the next reload. Without
 * memory for an order, nothing is known about its model, and the reload fails: the set in force stays.
 */

static const char *copy(const loader *l, const char *text)
{
    return text ? hth_pool_text(l->pool, text, strlen(text)) : NULL;
}

/* Read the members of an order over the model's options; relative paths stay. */
static bool read_settings(const loader *l, const char *settings, hth_serve_model *model)
{
    const hth_config_reader reader = { .directory = "", .pool = l->pool, .problems = l->problems };
    const size_t n_before = l->problems->n_errors;
    const hth_config_node *root;
    hearth_error err;

    if (hth_config_file_parse(l->pool, "the order", settings, strlen(settings), &root, &err) != HEARTH_OK) {
        hth_problems_add(l->problems, "%s", err.message);
        return false;
    }
    hth_config_presets_read(&l->presets, &reader, root, "of a model", model);
    return l->problems->n_errors == n_before;
}

/* Find its file, as the first reading found it: a downloaded model may have other files since. */
static bool find_file(loader *l, const hth_named_model *named, hth_serve_model *model)
{
    const size_t n_before = l->problems->n_errors;

    if (named->path)
        model->setup.path = copy(l, named->path);
    else if (!model->setup.path)
        hth_problems_add(l->problems, "model '%s' has no 'path'; give the path of its GGUF file", model->name);
    else
        model->setup.path = absolute(l, hth_model_source_downloaded(l->pool, model->setup.path, l->problems), false);
    return l->problems->n_errors == n_before && (model->setup.path || no_memory(l));
}

static bool copy_order(const loader *l, const hth_named_model *named, hth_named_model *out)
{
    *out = (hth_named_model){ .name = copy(l, named->name),
                              .settings = copy(l, named->settings),
                              .path = copy(l, named->path),
                              .is_left_out = named->is_left_out };
    if (out->name && out->settings && (out->path || !named->path))
        return true;
    (void)no_memory(l); /* returns false in any case */
    return false;
}

/* Add the model of an order. */
static void add_model(loader *l, hth_named_model *named)
{
    hth_serve_model model = l->o->defaults;

    model.name = named->name;
    model.rules.start = HTH_START_ON_DEMAND;
    if (!hth_serve_name_is_good(model.name))
        hth_problems_add(l->problems, "a model is called '%.128s'; %s", model.name, HTH_SERVE_NAME_RULE);
    else if (read_settings(l, named->settings, &model) && find_file(l, named, &model))
        finish_model(l, &model, "");
    named->path = model.setup.path;
}

/* Likewise at a reload: a model that can no longer be served is left out with a warning. False: no memory. */
static bool add_again(loader *l, hth_named_model *named)
{
    hth_problems *all = l->problems, *own = calloc(1, sizeof(*own)); /* large */
    const char *path = named->path;
    const size_t n_before = l->n_models;

    if (!own)
        return no_memory(l);
    l->problems = own;
    add_model(l, named);
    if (l->n_models > n_before)
        hth_serve_check_model(&l->models[n_before], own);
    l->problems = all;
    if (hth_pool_lacked_memory(l->pool)) {
        free(own);
        return no_memory(l);
    }
    named->is_left_out = own->n_errors > 0;
    if (named->is_left_out) {
        l->n_models = n_before;
        named->path = path;
        hth_problems_warn(all, "model '%s', which an operator's order added, is left out until the next reload: %s",
                          named->name, hth_problems_first(own));
    }
    free(own);
    return true;
}

/* Add the models that operators added, after all others. False without memory. */
static bool read_named_models(loader *l, bool is_reload)
{
    hth_named_model *list = hth_pool_alloc(l->pool, (l->n_named + 1) * sizeof(*list));

    if (!list)
        return no_memory(l);
    l->set->n_read = l->n_models;
    l->set->named = list;
    for (size_t i = 0; i < l->n_named; i++) {
        if (!copy_order(l, &l->named[i], &list[i]) || (is_reload && !add_again(l, &list[i])))
            return false;
        if (!is_reload && !list[i].is_left_out) /* an order for one model does not check the files of others */
            add_model(l, &list[i]);
    }
    l->set->n_named = l->n_named;
    return true;
}

/* Make a new set: the models of the last reading (that of current, or of its base) and these named ones. */
static hth_serve_set *set_of(const hth_serve_set *current, const hth_named_model *named, size_t n,
                             hth_problems *problems)
{
    const hth_serve_set *base = current->base ? current->base : current;
    loader *l = loader_new(problems);

    if (!l)
        return NULL;
    *l->o = base->effective;
    l->set->options = base->options;
    l->set->presets = l->presets = base->presets;
    l->set->base = base;
    ++*base->n_users;
    l->named = named;
    l->n_named = n;
    l->models = hth_pool_alloc(l->pool, (base->n_read + n + 1) * sizeof(*l->models));
    if (!l->models) {
        (void)no_memory(l); /* problems has the error */
        return l->set;
    }
    memcpy(l->models, base->models, base->n_read * sizeof(*l->models));
    l->n_models = base->n_read;
    l->set->models = l->models;
    if (read_named_models(l, false) && make_workers(l))
        check_default_model(l);
    return l->set;
}

hth_serve_set *hth_serve_set_with(const hth_serve_set *current, const char *name, const char *settings,
                                  hth_problems *problems)
{
    hth_named_model named[HTH_SERVE_MODELS_MAX];
    hth_serve_set *set;
    size_t n = 0;

    if (current->n_named == HTH_SERVE_MODELS_MAX) {
        hth_problems_add(problems, "model '%.128s' is one too many; at most %d are allowed", name,
                         HTH_SERVE_MODELS_MAX);
        return NULL;
    }
    for (size_t i = 0; i < current->n_named; i++) /* a model that is left out releases its name */
        if (!current->named[i].is_left_out || strcmp(current->named[i].name, name) != 0)
            named[n++] = current->named[i];
    named[n++] = (hth_named_model){ .name = name, .settings = settings };
    set = set_of(current, named, n, problems);
    if (set && problems->n_errors == 0)
        hth_serve_check_model(&set->models[set->options.n_models - 1], problems);
    return set;
}

hth_serve_set *hth_serve_set_without(const hth_serve_set *current, const char *name, hth_problems *problems)
{
    hth_named_model named[HTH_SERVE_MODELS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < current->n_named; i++)
        if (strcmp(current->named[i].name, name) != 0)
            named[n++] = current->named[i];
    return set_of(current, named, n, problems);
}

bool hth_serve_set_names(const hth_serve_set *set, const char *name)
{
    for (size_t i = 0; i < set->n_named; i++)
        if (strcmp(set->named[i].name, name) == 0)
            return true;
    return false;
}

/* ---- models of flags, sections and folders ---- */

const char *hth_serve_given_path(const char *given)
{
    const char *equals = strchr(given, '=');

    return equals && access(given, F_OK) != 0 ? equals + 1 : given;
}

/*
 * Is there a model with this name or path? path may be NULL. For models that operators added, only names count: an
 * order adds a model but removes none.
 */
static bool is_served(const loader *l, const char *name, const char *path)
{
    for (size_t i = 0; i < l->n_models; i++)
        if (strcmp(l->models[i].name, name) == 0 || (path && strcmp(l->models[i].setup.path, path) == 0))
            return true;
    for (size_t i = 0; i < l->n_named; i++)
        if (strcmp(l->named[i].name, name) == 0)
            return true;
    return false;
}

/* The part of "FILE" or "NAME=FILE" that is the name. */
static const char *flag_name(const char *given, size_t *n_out)
{
    const char *path = hth_serve_given_path(given), *base = hth_gguf_base_name(given);

    *n_out = path != given ? (size_t)(path - 1 - given) : hth_gguf_stem(base, strlen(base));
    return path != given ? given : base;
}

/* Is it the name of a model that was already added, or of one in another flag, a section, or an order? */
static bool is_given(const loader *l, const char *name, const char *flag)
{
    for (size_t i = 0; i < l->o->n_models; i++) {
        size_t n;
        const char *other = flag_name(l->o->models[i], &n);

        if (l->o->models[i] != flag && strlen(name) == n && memcmp(name, other, n) == 0)
            return true;
    }
    for (size_t i = 0; i < l->n_sections; i++)
        if (strcmp(l->sections[i]->key, name) == 0)
            return true;
    return is_served(l, name, NULL);
}

/* Add the text that a model's name was made from as an alias, if clients can send it and no other model has it. */
static void add_original(const loader *l, hth_serve_model *model, const char *original)
{
    model_name others[NAMES_MAX];
    size_t ignored;

    if (hth_serve_name_is_good(original) || !hth_alias_is_good(original) || strchr(original, '*') ||
        model->n_aliases == HTH_SERVE_ALIASES_MAX)
        return;
    for (size_t k = 0; k <= l->n_models; k++) {
        const size_t n = list_names(l, k < l->n_models ? &l->models[k] : model, others, &ignored);

        for (size_t i = 0; i < n; i++)
            if (strcmp(others[i].name, original) == 0)
                return;
    }
    model->aliases[model->n_aliases++] = original;
}

/* As in llama-server, the first alias is the name that clients see, unless the model was given a name. */
static const char *first_alias(const hth_serve_model *model)
{
    for (size_t i = 0; i < model->n_aliases; i++)
        if (!strchr(model->aliases[i], '*'))
            return model->aliases[i];
    return NULL;
}

/* Add a model given as "FILE" or "NAME=FILE". */
static void add_flag_model(loader *l, const char *given)
{
    hth_serve_model model = l->o->defaults;
    const char *path = hth_serve_given_path(given);
    size_t n;
    const char *begin = flag_name(given, &n), *original = hth_pool_text(l->pool, begin, n);
    const bool is_made = path == given && original && !hth_serve_name_is_good(original);

    model.name = is_made ? hth_file_name_safe(l->pool, original, n) : original;
    if (is_made && model.name && is_given(l, model.name, given))
        model.name = hth_file_name_parted(l->pool, model.name, given);
    model.shown = path == given ? first_alias(&model) : NULL;
    model.setup.path = hth_model_source_downloaded(l->pool, path, l->problems);
    if (!model.name) {
        (void)no_memory(l);
    } else if (!*model.setup.path) {
        hth_problems_add(l->problems, "--model '%s' names no file", given);
    } else if (!hth_serve_name_is_good(model.name)) {
        hth_problems_add(l->problems, "--model '%s' would be called '%.128s'; %s: give it one, as NAME=FILE", given,
                         model.name, HTH_SERVE_NAME_RULE);
    } else {
        if (is_made)
            add_original(l, &model, original);
        finish_model(l, &model, "");
    }
}

/* Apply the flags, which apply to all models, to this one. */
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
    if (!hth_serve_name_is_good(model.name)) {
        hth_problems_add(l->problems, "%sa model is called '%.128s'; %s", where, model.name, HTH_SERVE_NAME_RULE);
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

/*
 * Add a model of the folder, unless it is configured elsewhere. A name that was made from another text hides no file.
 */
static void add_found_model(loader *l, const hth_found_model *found)
{
    hth_serve_model model = l->o->defaults;
    size_t at = found->at;

    while (at < HTH_FOUND_NAMES && is_served(l, found->names[at].name, NULL))
        if (hth_found_is_exact(found, at++))
            return;
    if (at == HTH_FOUND_NAMES || is_served(l, found->names[at].name, found->path))
        return;
    model.name = found->names[at].name;
    model.setup.path = found->path;
    model.rules.start = HTH_START_ON_DEMAND;
    if (found->names[at].original)
        add_original(l, &model, found->names[at].original);
    finish_model(l, &model, "");
}

/* Find models in the folder or, if no models are configured, among the downloaded ones. */
static bool find_models(loader *l, hth_found_models *out)
{
    const hth_server_options *server = &l->o->server;

    *out = (hth_found_models){ .n = 0 };
    l->set->serves_downloads = l->argc > 0 && l->o->n_models == 0 && !l->o->config_file && !server->models_folder;
    if (l->set->serves_downloads)
        return hth_downloaded_models_read(l->pool, HTH_SERVE_MODELS_MAX, l->problems, out);
    return !server->models_folder || hth_models_folder_read(l->pool, server->models_folder, server->models_folder_names,
                                                            HTH_SERVE_MODELS_MAX, l->problems, out);
}

/*
 * Read the models from flags, sections and the folder, and named ones. Errors are in problems. False: no memory, or the
 * folder cannot be read.
 */
static bool read_models(loader *l)
{
    hth_serve_model unused = l->o->defaults;
    hth_found_models found;
    size_t n;

    if (!find_models(l, &found))
        return false;
    l->set->options.watched_folders = found.folders;
    l->set->options.n_watched_folders = found.n_folders;
    n = l->o->n_models + l->n_sections + found.n + l->n_named;
    l->models = hth_pool_alloc(l->pool, (n + 1) * sizeof(*l->models));
    if (!l->models)
        return no_memory(l);
    if (l->presets.n > 0) /* otherwise there may be no file */
        hth_config_presets_check(&l->presets, &l->reader, &unused);
    for (size_t i = 0; i < l->o->n_models; i++)
        add_flag_model(l, l->o->models[i]);
    for (size_t i = 0; i < l->n_sections; i++)
        add_file_model(l, l->sections[i]);
    for (size_t i = 0; i < found.n; i++)
        add_found_model(l, &found.list[i]);
    if (!read_named_models(l, true))
        return false;
    if (n == 0 && l->o->server.models_folder)
        hth_problems_warn(l->problems, "there is no model in '%s' yet; a GGUF file that comes there is served at once",
                          l->o->server.models_folder);
    else if (n == 0 && l->set->serves_downloads)
        hth_problems_warn(l->problems, "there is no model yet; download one with 'hearth pull OWNER/REPO' and reload "
                                       "(SIGHUP), or start with -m FILE or --models-dir DIR");
    else if (n == 0 && l->problems->n_errors == 0)
        hth_problems_add(l->problems,
                         "there is no model to serve; give one with -m FILE, with --models-dir, or with a section "
                         "'model \"NAME\" { path = \"FILE\" }' in the file that --config names");
    l->set->models = l->models;
    return true;
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

/* Read the tree of a file; its relative paths are relative to the folder of path. */
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
    l->presets.directory = l->reader.directory;
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

/* ---- addresses ---- */

static void add_listen(loader *l, const char *text)
{
    hth_serve_options *o = l->o;

    if (!text)
        (void)no_memory(l); /* which reports the error */
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
    if (n >= HTH_SERVE_VALUE_BYTES)
        hth_problems_add(l->problems, "--host '%.60s...' is too long", host);
    else if (n > 5 && strncmp(host, "unix:", 5) == 0)
        add_listen(l, hth_pool_text(l->pool, host, n));
    else if (n > 5 && strncmp(host + n - 5, ".sock", 5) == 0)
        add_listen(l, hth_pool_format(l->pool, "unix:%.*s", (int)n, host));
    else if (n > 0)
        add_listen(l, hth_pool_format(l->pool, memchr(host, ':', n) && host[0] != '[' ? "[%.*s]:%u" : "%.*s:%u", (int)n,
                                      host, port));
}

/* --host and --port replace the list of addresses. Without any address, the default is used. */
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
        out->path = absolute(l, path, false);
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
    if (o->fleet_listen)
        ok &= read_address(l, "fleet.listen", &o->fleet_listen, &l->set->options.fleet.listen);
    if (ok)
        check_addresses(l, list, o->n_listen);
    l->set->options.listen = list;
    l->set->options.n_listen = ok ? o->n_listen : 0;
    return ok;
}

/* ---- the whole set ---- */

static void check_server(const loader *l)
{
    const hth_server_options *server = &l->o->server;

    if (!server->tls_certificate != !server->tls_key)
        hth_problems_add(l->problems, "TLS needs both a certificate and its key; %s is missing",
                         server->tls_certificate ? "tls.key (--tls-key)" : "tls.certificate (--tls-certificate)");
    if (server->http.bodies_bytes_max < server->worker.requests.body_bytes_max)
        hth_problems_add(l->problems,
                         "limits.bodies_bytes_max (--bodies-bytes-max) has to be as large as limits.body_bytes_max "
                         "(--body-bytes-max): one request could not be read otherwise");
    if (!server->fleet.file &&
        (l->o->n_fleet_peers > 0 || l->o->fleet_listen || server->fleet.name || server->fleet.store))
        hth_problems_add(l->problems,
                         "a fleet needs its file: 'hearth fleet init' makes it; name it with fleet.file (--fleet)");
    if (!server->fleet.store && (server->fleet.host || server->fleet.id || server->fleet.store_password_file ||
                                 server->fleet.store_authorities))
        hth_problems_add(l->problems, "fleet.host and the other options of a store need the store: fleet.store "
                                      "(--fleet-store)");
    for (size_t i = 0; i < l->o->n_fleet_peers; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(l->o->fleet_peers[i], l->o->fleet_peers[k]) == 0)
                hth_problems_add(l->problems, "the node '%s' is in fleet.peers (--fleet-peer) twice",
                                 l->o->fleet_peers[i]);
    if (server->log_prompts)
        hth_problems_warn(l->problems, "bodies of requests go into the log, prompts included (log.prompts)");
}

/* The file is beside the rows that models share. Without such a folder, the data is in memory only. */
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
    setup_make_absolute(l, &l->o->defaults.setup);
    choose_listen(l, flags);
    check_server(l);
    *options = l->o->server;
    l->named = flags->named;
    l->n_named = flags->n_named;
    if (!read_addresses(l) || !read_models(l) || !make_workers(l))
        return;
    if (options->fleet.file && !options->fleet.no_rows && !l->o->defaults.setup.runtime.cache_disabled &&
        !make_carrier(l))
        return;
    check_default_model(l);
    l->set->presets = l->presets;
    options->learned_path = learned_path(l);
    options->cors_origins = l->o->origins;
    options->n_cors_origins = l->o->n_origins;
    options->fleet.peers = l->o->fleet_peers;
    options->fleet.n_peers = l->o->n_fleet_peers;
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
    const hth_serve_set *set = (const hth_serve_set *)options;

    while (set && --*set->n_users == 0) {
        const hth_serve_set *base = set->base;

        hth_pool_free(set->pool);
        set = base;
    }
}
