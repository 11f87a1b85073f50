#include "front/model_names.h"

#include <stdio.h>
#include <string.h>

#include "base/gguf_name.h"
#include "front/keys.h"

enum { NAME_BYTES = 257 }; /* clients cannot use longer names */

bool hth_pattern_fits(const char *pattern, const char *text)
{
    const char *star = NULL, *tried = NULL;

    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            tried = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) { /* the last star takes one more character */
            pattern = star + 1;
            text = ++tried;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}

static bool has_alias(const hth_server_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_aliases; i++)
        if (strcmp(model->aliases[i], name) == 0)
            return true;
    return false;
}

const hth_server_model *hth_model_exactly(const hth_server_options *options, const char *name)
{
    for (size_t i = 0; i < options->n_models; i++)
        if (strcmp(options->models[i].name, name) == 0)
            return &options->models[i];
    return NULL;
}

/*
 * Find a model by its name, then by an alias. A pattern that a client sends literally counts as an alias, too: it is a
 * configured text.
 */
static const hth_server_model *find_exactly(const hth_server_options *options, const char *name)
{
    const hth_server_model *model = hth_model_exactly(options, name);

    for (size_t i = 0; i < options->n_models && !model; i++)
        if (has_alias(&options->models[i], name))
            model = &options->models[i];
    return model;
}

static size_t n_own_characters(const char *pattern)
{
    size_t n = 0;

    for (; *pattern; pattern++)
        n += *pattern != '*';
    return n;
}

static const hth_server_model *find_by_pattern(const hth_server_options *options, const char *name)
{
    const hth_server_model *best = NULL;
    size_t n_best = 0;

    for (size_t i = 0; i < options->n_models; i++)
        for (size_t j = 0; j < options->models[i].n_aliases; j++) {
            const char *pattern = options->models[i].aliases[j];
            const size_t n = n_own_characters(pattern);

            if ((best && n <= n_best) || !strchr(pattern, '*') || !hth_pattern_fits(pattern, name))
                continue;
            best = &options->models[i];
            n_best = n;
        }
    return best;
}

/* Remove the tag ("org/model:latest"); false: there is none. */
static bool cut_tag(char *name)
{
    char *slash = strrchr(name, '/');
    char *colon = strrchr(slash ? slash : name, ':');

    if (!colon || colon == name)
        return false;
    *colon = '\0';
    return true;
}

/* Remove ".gguf"; false: the name does not end with it. */
static bool cut_suffix(char *name)
{
    const size_t n = strlen(name), n_stem = hth_gguf_stem(name, n);

    name[n_stem] = '\0';
    return n_stem < n;
}

/* Find a model after removing folders, tag, or both from the name. */
static const hth_server_model *find_inside(const hth_server_options *options, const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *const beginnings[] = { name, slash ? slash + 1 : name };
    const hth_server_model *model = NULL;

    for (int i = 0; i < (slash ? 2 : 1) && !model; i++) {
        char text[NAME_BYTES];

        if (!*beginnings[i] || (size_t)snprintf(text, sizeof(text), "%s", beginnings[i]) >= sizeof(text))
            continue;
        model = find_exactly(options, text);
        if (!model && cut_suffix(text))
            model = find_exactly(options, text);
        if (!model && cut_tag(text))
            model = find_exactly(options, text);
    }
    return model;
}

bool hth_model_has_adapter(const hth_server_model *model, const char *name, const char *owner)
{
    for (size_t i = 0; i < model->n_adapters; i++)
        if (strcmp(model->adapters[i], name) == 0)
            return true;
    return owner && strcmp(model->name, owner) == 0;
}

/* The worker looks for the same name, so it must be exact. */
static const hth_server_model *find_by_adapter(const hth_server_options *options, const char *name, const char *owner)
{
    for (size_t i = 0; i < options->n_models; i++)
        if (hth_model_has_adapter(&options->models[i], name, owner))
            return &options->models[i];
    return NULL;
}

const hth_server_model *hth_model_called(const hth_server_options *options, const char *name, const char *owner)
{
    const hth_server_model *model = find_inside(options, name);

    if (!model)
        model = find_by_adapter(options, name, owner);
    return model;
}

const hth_server_model *hth_model_named(const hth_server_options *options, const char *name, const char *owner)
{
    const hth_server_model *model = hth_model_called(options, name, owner);

    if (model || !options->models)
        return model;
    return find_by_pattern(options, name);
}

static bool may_use(const hth_server_key *key, const hth_server_model *model)
{
    return !key || hth_key_allows_model(key, model->name);
}

/* The default model, or the first that the key may use. */
static const hth_server_model *find_default(const hth_server_options *options, const hth_server_key *key)
{
    const hth_server_model *model = options->default_model ? hth_model_exactly(options, options->default_model) : NULL;

    if (model && may_use(key, model))
        return model;
    for (size_t i = 0; i < options->n_models; i++)
        if (may_use(key, &options->models[i]))
            return &options->models[i];
    return NULL;
}

const hth_server_model *hth_model_choose(const hth_server_options *options, const char *name, const char *owner,
                                         const hth_server_key *key)
{
    const bool is_named = name && *name;
    const hth_server_model *model = is_named ? hth_model_named(options, name, owner) : NULL;

    if (model)
        return model;
    if (is_named && options->default_model && strcmp(options->default_model, HTH_NO_DEFAULT_MODEL) == 0)
        return NULL;
    return find_default(options, key);
}
