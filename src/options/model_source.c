/*
 * model_source.c - see model_source.h
 */
#include "options/model_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "engine/backend.h"
#include "hub/ollama.h"
#include "hub/pull.h"
#include "hub/registry.h"
#include "options/pull_view.h"

static bool find_at_ollama(const char *name, char path_out[PATH_MAX])
{
    char folder[PATH_MAX];
    hth_ollama_model model;

    return hth_ollama_folder(folder) && hth_ollama_find(folder, name, &model) &&
           snprintf(path_out, PATH_MAX, "%s", model.path) < PATH_MAX;
}

static hearth_status find_or_pull(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX],
                                  hearth_error *err)
{
    hth_hub_settings settings;
    hth_hub_reference reference;
    hth_pull_view view;
    hth_hub_watch watch;
    hearth_status status = hth_hub_settings_read(&settings, err);

    if (status == HEARTH_OK)
        status = hth_hub_reference_read(text, &reference, err);
    if (status == HEARTH_OK)
        status = hth_hub_find(&settings, &reference, NULL, path_out, err);
    if (status != HEARTH_NOT_FOUND || !may_pull)
        return status;
    hth_pull_view_init(&view, is_quiet);
    watch = hth_pull_view_watch(&view);
    status = hth_hub_pull(&settings, &reference, NULL, &watch, path_out, err);
    hth_pull_view_end(&view);
    return status;
}

static hearth_status find_or_pull_ollama(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX],
                                         hearth_error *err)
{
    hth_hub_settings settings;
    hth_ollama_reference reference;
    hth_pull_view view;
    hth_hub_watch watch;
    hearth_status status = hth_ollama_settings_read(text, false, &settings, err);

    if (status == HEARTH_OK)
        status = hth_ollama_reference_read(text, &reference, err);
    if (status == HEARTH_OK)
        status = hth_ollama_reference_find(&settings, &reference, path_out, err);
    if (status != HEARTH_NOT_FOUND || !may_pull)
        return status;
    status = hth_ollama_settings_read(text, true, &settings, err);
    if (status != HEARTH_OK)
        return status;
    hth_pull_view_init(&view, is_quiet);
    watch = hth_pull_view_watch(&view);
    status = hth_ollama_pull(&settings, &reference, &watch, path_out, err);
    hth_pull_view_end(&view);
    return status;
}

/* Without the prefix, a text may as well be the path of a missing file. */
static bool may_be_at_registry(const char *text)
{
    const char *registry = getenv(HTH_OLLAMA_REGISTRY_VARIABLE);
    hth_ollama_reference reference;

    return registry && *registry && hth_ollama_reference_read(text, &reference, NULL) == HEARTH_OK;
}

static hearth_status find(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX], hearth_error *err)
{
    if (access(text, F_OK) != 0) {
        const bool may_be_there = may_be_at_registry(text);

        if (hth_hub_is_reference(text))
            return find_or_pull(text, may_pull, is_quiet, path_out, err);
        if (strncmp(text, HTH_OLLAMA_PREFIX, strlen(HTH_OLLAMA_PREFIX)) == 0)
            return find_or_pull_ollama(text, may_pull, is_quiet, path_out, err);
        if (may_be_there && find_or_pull_ollama(text, false, true, path_out, NULL) == HEARTH_OK)
            return HEARTH_OK; /* the registry's model, if there are several of this name */
        if (find_at_ollama(text, path_out))
            return HEARTH_OK;
        if (may_pull && may_be_there)
            return find_or_pull_ollama(text, may_pull, is_quiet, path_out, err);
    }
    return snprintf(path_out, PATH_MAX, "%s", text) < PATH_MAX
             ? HEARTH_OK
             : hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", text);
}

static hearth_status fail_missing(const char *text, hearth_error *err)
{
    static const char open[] = "cannot open", why[] = "No such file or directory",
                      remedy[] = "'hearth pull OWNER/REPO[:QUANT]' downloads a model, and 'hearth models ls' lists "
                                 "those that are there";
    char folder[PATH_MAX];
    hth_ollama_reference reference;

    if (hth_ollama_reference_read(text, &reference, NULL) == HEARTH_OK && hth_ollama_folder(folder))
        return hth_fail(err, HEARTH_NOT_FOUND,
                        "%s '%.100s': %s, and Ollama's folder '%.100s' has no model of this name; %s", open, text, why,
                        folder, remedy);
    return hth_fail(err, HEARTH_NOT_FOUND, "%s '%.200s': %s; %s", open, text, why, remedy);
}

hearth_status hth_model_source_find(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX],
                                    hearth_error *err)
{
    const hearth_status status = find(text, may_pull, is_quiet, path_out, err);

    if (status == HEARTH_OK && hth_model_path_is_file(NULL, path_out) && access(path_out, F_OK) != 0 && errno == ENOENT)
        return fail_missing(text, err);
    return status;
}

const char *hth_model_source_downloaded(hth_pool *pool, const char *text, hth_problems *problems)
{
    char found[PATH_MAX];
    hearth_error err = { .message = "no memory" };
    const char *path = NULL;

    if (find(text, false, true, found, &err) == HEARTH_OK)
        path = hth_pool_text(pool, found, strlen(found));
    if (!path)
        hth_problems_add(problems, "--model: %s", err.message);
    return path ? path : text;
}
