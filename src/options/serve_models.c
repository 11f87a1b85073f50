/*
 * serve_models.c - the models from flags, sections of the configuration file, and a folder; without any of these, the
 * downloaded models
 *
 * A model starts as a copy of the options of all models. A section of the file adds its presets in their order, then
 * its own keys. Flags are applied last.
 */
#include <ctype.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/status.h"
#include "cache/policy.h"
#include "models/runtime.h"
#include "options/downloaded_models.h"
#include "options/file_name.h"
#include "options/model_source.h"
#include "options/models_folder.h"
#include "options/serve_config_inside.h"
#include "sched/strategy.h"

const char *hth_serve_given_path(const char *given)
{
    const char *equals = strchr(given, '=');

    return equals && access(given, F_OK) != 0 ? equals + 1 : given;
}

/*
 * Is there a model with this name or path? path may be NULL. For models that operators added, only names count: an
 * order adds a model but removes none.
 */
static bool is_served(const hth_serve_loader *l, const char *name, const char *path)
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
static bool is_given(const hth_serve_loader *l, const char *name, const char *flag)
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
static void add_original(const hth_serve_loader *l, hth_serve_model *model, const char *original)
{
    hth_serve_name others[HTH_SERVE_NAMES_MAX];
    size_t ignored;

    if (hth_serve_name_is_good(original) || !hth_alias_is_good(original) || strchr(original, '*') ||
        model->n_aliases == HTH_SERVE_ALIASES_MAX)
        return;
    for (size_t k = 0; k <= l->n_models; k++) {
        const size_t n = hth_serve_names_list(l, k < l->n_models ? &l->models[k] : model, others, &ignored);

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
static void add_flag_model(hth_serve_loader *l, const char *given)
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
        (void)hth_serve_no_memory(l);
    } else if (!*model.setup.path) {
        hth_problems_add(l->problems, "--model '%s' names no file", given);
    } else if (!hth_serve_name_is_good(model.name)) {
        hth_problems_add(l->problems, "--model '%s' would be called '%.128s'; %s: give it one, as NAME=FILE", given,
                         model.name, HTH_SERVE_NAME_RULE);
    } else {
        if (is_made)
            add_original(l, &model, original);
        hth_serve_model_finish(l, &model, "");
    }
}

/* Apply the flags, which apply to all models, to this one. */
static bool apply_flags_to_model(const hth_serve_loader *l, hth_serve_model *model)
{
    hth_serve_options *options = hth_pool_alloc(l->pool, sizeof(*options));

    if (!options)
        return hth_serve_no_memory(l);
    options->defaults = *model;
    hth_serve_apply_flags(l, options);
    *model = options->defaults;
    return true;
}

static void add_file_model(hth_serve_loader *l, const hth_config_node *section)
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
        hth_serve_model_finish(l, &model, where);
}

/*
 * Add a model of the folder, unless it is configured elsewhere. A name that was made from another text hides no file.
 */
static void add_found_model(hth_serve_loader *l, const hth_found_model *found)
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
    hth_serve_model_finish(l, &model, "");
}

/* Find models in the folder or, if no models are configured, among the downloaded ones. */
static bool find_models(hth_serve_loader *l, hth_found_models *out)
{
    const hth_server_options *server = &l->o->server;

    *out = (hth_found_models){ .n = 0 };
    l->set->serves_downloads = l->argc > 0 && l->o->n_models == 0 && !l->o->config_file && !server->models_folder;
    if (l->set->serves_downloads)
        return hth_downloaded_models_read(l->pool, HTH_SERVE_MODELS_MAX, l->problems, out);
    return !server->models_folder || hth_models_folder_read(l->pool, server->models_folder, server->models_folder_names,
                                                            HTH_SERVE_MODELS_MAX, l->problems, out);
}

bool hth_serve_models_read(hth_serve_loader *l)
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
        return hth_serve_no_memory(l);
    if (l->presets.n > 0) /* otherwise there may be no file */
        hth_config_presets_check(&l->presets, &l->reader, &unused);
    for (size_t i = 0; i < l->o->n_models; i++)
        add_flag_model(l, l->o->models[i]);
    for (size_t i = 0; i < l->n_sections; i++)
        add_file_model(l, l->sections[i]);
    for (size_t i = 0; i < found.n; i++)
        add_found_model(l, &found.list[i]);
    if (!hth_serve_named_models_read(l, true))
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
