/*
 * model_source.c - see model_source.h
 */
#include "cli/model_source.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/pull_view.h"
#include "hub/ollama.h"
#include "hub/pull.h"

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

hearth_status hth_model_source_find(const char *text, bool may_pull, bool is_quiet, char path_out[PATH_MAX],
                                    hearth_error *err)
{
    if (access(text, F_OK) != 0) {
        if (hth_hub_is_reference(text))
            return find_or_pull(text, may_pull, is_quiet, path_out, err);
        if (find_at_ollama(text, path_out))
            return HEARTH_OK;
    }
    return snprintf(path_out, PATH_MAX, "%s", text) < PATH_MAX
             ? HEARTH_OK
             : hth_fail(err, HEARTH_MISUSE, "the path '%.200s...' is too long", text);
}

const char *hth_model_source_downloaded(hth_pool *pool, const char *text, hth_problems *problems)
{
    char found[PATH_MAX];
    hearth_error err = { .message = "no memory" };
    const char *path = NULL;

    if (hth_model_source_find(text, false, true, found, &err) == HEARTH_OK)
        path = hth_pool_text(pool, found, strlen(found));
    if (!path)
        hth_problems_add(problems, "--model: %s", err.message);
    return path ? path : text;
}
