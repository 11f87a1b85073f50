/*
 * serve_loader.c - shared by the files that make a set of options: the loader, absolute paths, and complete models
 */
#include <string.h>

#include "base/status.h"
#include "cache/policy.h"
#include "front/model_names.h"
#include "models/runtime.h"
#include "options/file_name.h"
#include "options/serve_config_inside.h"
#include "sched/strategy.h"

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

bool hth_serve_no_memory(const hth_serve_loader *l)
{
    hth_problems_add(l->problems, "no memory for the configuration");
    return false;
}

void hth_serve_apply_flags(const hth_serve_loader *l, hth_serve_options *options)
{
    if (l->argc > 0)
        (void)hth_option_table_parse(&hth_serve_flags, "hearth serve", l->argc, l->argv, options);
}

void hth_serve_check_default_model(const hth_serve_loader *l)
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

hth_serve_loader *hth_serve_loader_new(hth_problems *problems)
{
    hth_pool *pool = hth_pool_new();
    hth_serve_set *set = pool ? hth_pool_alloc(pool, sizeof(*set)) : NULL;
    hth_serve_loader *l = set ? hth_pool_alloc(pool, sizeof(*l)) : NULL;
    unsigned *n_users = l ? hth_pool_alloc(pool, sizeof(*n_users)) : NULL;

    if (!n_users) {
        hth_problems_add(problems, "no memory for the configuration");
        hth_pool_free(pool);
        return NULL;
    }
    set->pool = pool;
    set->n_users = n_users;
    *n_users = 1;
    *l = (hth_serve_loader){ .set = set, .o = &set->effective, .pool = pool, .problems = problems };
    l->presets.table = &hth_serve_model_keys;
    hth_serve_options_init(l->o);
    return l;
}

/* ---- models ---- */

enum { TEMPLATE_BYTES_MAX = 64 << 10 };

size_t hth_serve_names_list(const hth_serve_loader *l, const hth_serve_model *model, hth_serve_name *out,
                            size_t *first_adapter)
{
    size_t n = 0;

    out[n++] = (hth_serve_name){ model->name, "name" };
    for (size_t i = 0; i < model->n_aliases; i++)
        out[n++] = (hth_serve_name){ model->aliases[i], "alias" };
    *first_adapter = n;
    for (size_t i = 0; i < model->setup.adapters.n; i++) {
        hth_adapter_spec spec;
        const char *name = NULL;

        if (hth_adapter_spec_read(model->setup.adapters.list[i], &spec, NULL) == HEARTH_OK)
            name = hth_pool_text(l->pool, spec.name, strlen(spec.name));
        if (name) /* otherwise the error was reported with its option */
            out[n++] = (hth_serve_name){ name, "adapter" };
    }
    return n;
}

/*
 * Names must be unique: the second of two models with one name would never be used, and an adapter changes all requests
 * that name it.
 */
static void check_names(const hth_serve_loader *l, const hth_serve_model *model, const char *where)
{
    hth_serve_name own[HTH_SERVE_NAMES_MAX], others[HTH_SERVE_NAMES_MAX];
    size_t first_adapter, ignored, n_own = hth_serve_names_list(l, model, own, &first_adapter);

    for (size_t i = first_adapter; i < n_own; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(own[i].name, own[j].name) == 0)
                hth_problems_add(l->problems,
                                 "%smodel '%s' has the adapter '%s' and the %s '%s'; give the adapter another name, "
                                 "NAME=FILE",
                                 where, model->name, own[i].name, own[j].kind, own[j].name);
    for (size_t k = 0; k < l->n_models; k++) {
        size_t n_others = hth_serve_names_list(l, &l->models[k], others, &ignored);

        for (size_t i = 0; i < n_own; i++)
            for (size_t j = 0; j < n_others; j++)
                if (strcmp(own[i].name, others[j].name) == 0)
                    hth_problems_add(l->problems,
                                     "%sthe %s '%s' of model '%s' is the %s of model '%s', too; rename one of them",
                                     where, own[i].kind, own[i].name, model->name, others[j].kind, l->models[k].name);
    }
}

void hth_serve_model_finish(hth_serve_loader *l, hth_serve_model *model, const char *where)
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
    hth_serve_setup_make_absolute(l, &model->setup);
    if (model->setup.runtime.ram_bytes_max == 0)
        model->setup.runtime.ram_bytes_max = hth_runtime_ram_bytes_default() >> 20 << 20;
    model->setup.model.name = model->name;
    l->models[l->n_models++] = *model;
}
