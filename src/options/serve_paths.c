/*
 * serve_paths.c - absolute paths of options
 */
#include "options/serve_config_inside.h"

const char *hth_serve_absolute(const hth_serve_loader *l, const char *path)
{
    const char *here = path[0] == '/' ? "/" : hth_config_directory(l->pool, "");
    const char *result = here ? hth_config_path(l->pool, here, path) : NULL;

    if (!result)
        (void)hth_serve_no_memory(l);
    return result ? result : path;
}

static const char *absolute_adapter(const hth_serve_loader *l, const char *spec)
{
    const char *here = hth_config_directory(l->pool, "");
    const char *result = here ? hth_config_named_path(l->pool, here, spec) : NULL;

    if (!result)
        (void)hth_serve_no_memory(l);
    return result ? result : spec;
}

void hth_serve_make_absolute(const hth_serve_loader *l, const hth_option_table *table, void *options)
{
    hth_flat_table flat;

    hth_option_table_flatten(table, true, &flat);
    for (size_t i = 0; i < flat.n; i++) {
        const hth_option *row = flat.rows[i].option;
        const char **path = (const char **)((char *)options + flat.rows[i].offset + row->offset);

        if (row->is_path && row->kind == HTH_OPTION_TEXT && *path && !(row->is_word && row->is_word(*path)))
            *path = hth_serve_absolute(l, *path);
    }
}

void hth_serve_setup_make_absolute(const hth_serve_loader *l, hth_model_setup *setup)
{
    hth_serve_make_absolute(l, &hth_worker_model_options, setup);
    for (size_t i = 0; i < setup->runtime.n_more_directories; i++)
        setup->more_directories[i] = hth_serve_absolute(l, setup->more_directories[i]);
    for (size_t i = 0; i < setup->adapters.n; i++)
        setup->adapters.list[i] = absolute_adapter(l, setup->adapters.list[i]);
    for (size_t i = 0; i < setup->model.n_control_vectors; i++)
        setup->control_vectors[i] = hth_serve_absolute(l, setup->control_vectors[i]);
}
