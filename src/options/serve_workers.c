/*
 * serve_workers.c - the models of the server's options, with the command lines of their workers
 *
 * A worker gets the options that differ from the defaults, in the order of the rows. So the same options give the same
 * command line, and a reload keeps a worker whose command line is unchanged.
 */
#include <stdlib.h>
#include <string.h>

#include "options/serve_config_inside.h"

enum { WORKER_ARGS_MAX = 512 };

/* The arguments of a worker under construction, and room for values. */
typedef struct argument_list {
    const char *list[WORKER_ARGS_MAX + 1];
    size_t n;
    bool failed;
    char value[HTH_SERVE_VALUE_BYTES], usual[HTH_SERVE_VALUE_BYTES];
} argument_list;

static void add_argument(const hth_serve_loader *l, argument_list *out, const char *text)
{
    const char *copy = out->n < WORKER_ARGS_MAX ? hth_pool_text(l->pool, text, strlen(text)) : NULL;

    out->failed |= !copy;
    if (copy)
        out->list[out->n++] = copy;
}

/* Add flags for the options of a table whose values differ from the defaults. */
static void add_arguments(const hth_serve_loader *l, const hth_option_table *table, const void *options,
                          const void *defaults, argument_list *out)
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
static bool add_adapter_names(const hth_serve_loader *l, const hth_adapter_specs *specs, hth_server_model *out)
{
    const char **names = hth_pool_alloc(l->pool, (specs->n + 1) * sizeof(*names));
    hth_adapter_spec spec;

    if (!names)
        return hth_serve_no_memory(l);
    for (size_t i = 0; i < specs->n; i++) {
        if (hth_adapter_spec_read(specs->list[i], &spec, NULL) != HEARTH_OK)
            continue; /* it was checked when it was read */
        names[out->n_adapters] = hth_pool_text(l->pool, spec.name, strlen(spec.name));
        if (!names[out->n_adapters++])
            return hth_serve_no_memory(l);
    }
    out->adapters = names;
    return true;
}

static bool make_worker(const hth_serve_loader *l, const hth_serve_model *model, argument_list *arguments,
                        hth_server_model *out)
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
        return hth_serve_no_memory(l);
    memcpy(list, arguments->list, arguments->n * sizeof(*list));
    *out = (hth_server_model){
        .name = model->name,
        .shown = model->shown,
        .worker = list,
        .ram_bytes = model->setup.runtime.cache_disabled ? 0 : model->setup.runtime.ram_bytes_max,
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

bool hth_serve_workers_make(const hth_serve_loader *l)
{
    hth_server_model *models = hth_pool_alloc(l->pool, (l->n_models + 1) * sizeof(*models));
    argument_list *arguments = malloc(sizeof(*arguments)); /* not from the pool, which the server keeps */
    bool ok = models && arguments;

    if (!ok)
        (void)hth_serve_no_memory(l);
    for (size_t i = 0; ok && i < l->n_models; i++)
        ok = make_worker(l, &l->models[i], arguments, &models[i]);
    free(arguments);
    l->set->options.models = models;
    l->set->options.n_models = ok ? l->n_models : 0;
    return ok;
}
