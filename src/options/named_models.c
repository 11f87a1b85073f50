/*
 * named_models.c - makes sets of options with one model more or fewer than the set in force
 *
 * Such a set reads no configuration file: it has the models of the last reading, and the models added by operators,
 * each read again from its order. It keeps a reference to the set of that reading, which owns most of its texts. So
 * errors in a file, or half-finished edits, do not matter, and a failed order leaves nothing behind.
 *
 * A reload reads all orders again. An error in an order by then, such as a missing file, is a warning: it must not make
 * the server refuse a valid configuration file. The model is left out, and its order stays for the next reload. Without
 * memory for an order, nothing is known about its model, and the reload fails: the set in force stays.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "options/file_name.h"
#include "options/model_source.h"
#include "options/serve_config_inside.h"

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

/* Find its file, as the first reading found it: a downloaded model may have other files since. */
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

static bool copy_order(const hth_serve_loader *l, const hth_named_model *named, hth_named_model *out)
{
    *out = (hth_named_model){ .name = copy(l, named->name),
                              .settings = copy(l, named->settings),
                              .path = copy(l, named->path),
                              .is_left_out = named->is_left_out };
    if (out->name && out->settings && (out->path || !named->path))
        return true;
    (void)hth_serve_no_memory(l); /* returns false in any case */
    return false;
}

/* Add the model of an order. */
static void add_model(hth_serve_loader *l, hth_named_model *named)
{
    hth_serve_model model = l->o->defaults;

    model.name = named->name;
    model.rules.start = HTH_START_ON_DEMAND;
    if (!hth_serve_name_is_good(model.name))
        hth_problems_add(l->problems, "a model is called '%.128s'; %s", model.name, HTH_SERVE_NAME_RULE);
    else if (read_settings(l, named->settings, &model) && find_file(l, named, &model))
        hth_serve_model_finish(l, &model, "");
    named->path = model.setup.path;
}

/* Likewise at a reload: a model that can no longer be served is left out with a warning. False: no memory. */
static bool add_again(hth_serve_loader *l, hth_named_model *named)
{
    hth_problems *all = l->problems, *own = calloc(1, sizeof(*own)); /* large */
    const char *path = named->path;
    const size_t n_before = l->n_models;

    if (!own)
        return hth_serve_no_memory(l);
    l->problems = own;
    add_model(l, named);
    if (l->n_models > n_before)
        hth_serve_check_model(&l->models[n_before], own);
    l->problems = all;
    if (hth_pool_lacked_memory(l->pool)) {
        free(own);
        return hth_serve_no_memory(l);
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

bool hth_serve_named_models_read(hth_serve_loader *l, bool is_reload)
{
    hth_named_model *list = hth_pool_alloc(l->pool, (l->n_named + 1) * sizeof(*list));

    if (!list)
        return hth_serve_no_memory(l);
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
    if (hth_serve_named_models_read(l, false) && hth_serve_workers_make(l))
        hth_serve_check_default_model(l);
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
