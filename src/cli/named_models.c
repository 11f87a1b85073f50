/*
 * named_models.c - sets of options with one model more or fewer than the set in force
 *
 * Such a set reads no file of the configuration: it has the models of the last reading, and the named ones, each read
 * anew from its order. It holds the set of that reading, to which most of its texts belong. So what is wrong with a
 * file
 * now, or half edited, does not matter, and an order that fails leaves nothing behind.
 */
#include <string.h>

#include "base/status.h"
#include "cli/model_source.h"
#include "cli/serve_config_inside.h"

static const char *copy(const hth_serve_loader *l, const char *text)
{
    return text ? hth_pool_text(l->pool, text, strlen(text)) : NULL;
}

/* Read the members of an order over the model's options; relative paths stay. */
static bool read_settings(const hth_serve_loader *l, const char *settings, hth_serve_model *model)
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

/* Its file, as the first reading found it: a downloaded model may have other files since. */
static bool find_file(hth_serve_loader *l, const hth_named_model *named, hth_serve_model *model)
{
    const size_t n_before = l->problems->n_errors;

    if (named->path)
        model->setup.path = copy(l, named->path);
    else if (!model->setup.path)
        hth_problems_add(l->problems, "model '%s' has no 'path'; give the path of its GGUF file", model->name);
    else
        model->setup.path = hth_serve_absolute(l, hth_model_source_downloaded(l->pool, model->setup.path, l->problems));
    return l->problems->n_errors == n_before && (model->setup.path || hth_serve_no_memory(l));
}

bool hth_serve_named_models_read(hth_serve_loader *l)
{
    hth_named_model *list = hth_pool_alloc(l->pool, (l->n_named + 1) * sizeof(*list));

    if (!list)
        return hth_serve_no_memory(l);
    l->set->n_read = l->n_models;
    l->set->named = list;
    for (size_t i = 0; i < l->n_named; i++) {
        const hth_named_model *named = &l->named[i];
        hth_serve_model model = l->o->defaults;

        model.name = copy(l, named->name);
        model.start = HTH_START_ON_DEMAND;
        list[i] = (hth_named_model){ .name = model.name, .settings = copy(l, named->settings) };
        if (!model.name || !list[i].settings)
            return hth_serve_no_memory(l);
        if (!hth_serve_name_is_good(model.name))
            hth_problems_add(l->problems, "a model is called '%.128s'; %s", model.name, HTH_SERVE_NAME_RULE);
        else if (read_settings(l, list[i].settings, &model) && find_file(l, named, &model))
            hth_serve_model_finish(l, &model, "");
        list[i].path = model.setup.path;
    }
    l->set->n_named = l->n_named;
    return true;
}

/* The set of options that current was read into, with these named models. */
static hth_serve_set *set_of(const hth_serve_set *current, const hth_named_model *named, size_t n,
                             hth_problems *problems)
{
    const hth_serve_set *base = current->base ? current->base : current;
    hth_serve_loader *l = hth_serve_loader_new(problems);

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
        (void)hth_serve_no_memory(l); /* problems has the error */
        return l->set;
    }
    memcpy(l->models, base->models, base->n_read * sizeof(*l->models));
    l->n_models = base->n_read;
    l->set->models = l->models;
    if (hth_serve_named_models_read(l) && hth_serve_workers_make(l))
        hth_serve_check_default_model(l);
    return l->set;
}

hth_serve_set *hth_serve_set_with(const hth_serve_set *current, const char *name, const char *settings,
                                  hth_problems *problems)
{
    hth_named_model named[HTH_SERVE_MODELS_MAX];
    hth_serve_set *set;

    if (current->n_named == HTH_SERVE_MODELS_MAX) {
        hth_problems_add(problems, "model '%.128s' is one too many; at most %d are allowed", name,
                         HTH_SERVE_MODELS_MAX);
        return NULL;
    }
    memcpy(named, current->named, current->n_named * sizeof(*named));
    named[current->n_named] = (hth_named_model){ .name = name, .settings = settings };
    set = set_of(current, named, current->n_named + 1, problems);
    if (set && problems->n_errors == 0)
        hth_serve_set_check_model(set, set->options.n_models - 1, problems);
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
