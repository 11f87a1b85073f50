#include "options/model_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/gguf_name.h"
#include "base/os.h"
#include "base/status.h"
#include "console/progress.h"
#include "console/units.h"
#include "engine/backend.h"
#include "hub/ollama.h"
#include "hub/pull.h"
#include "hub/registry.h"

/*
 * ---- the view of a download: a bar with speed and remaining time on a terminal, otherwise a line for each tenth ----
 */

typedef struct view {
    hth_progress bar;
    bool is_quiet;
    char path[HTH_HUB_PATH_BYTES]; /* of the file that is shown; "": none yet */
    uint64_t begin_ns;
    uint64_t n_begin; /* bytes already present at begin_ns */
    unsigned tenths;  /* tenths reported so far */
} view;

static void begin_file(view *v, const char *path, uint64_t n_done, uint64_t n_total)
{
    char done[32], total[32];

    (void)snprintf(v->path, sizeof(v->path), "%s", path); /* fits any path */
    v->begin_ns = hth_os_monotonic_ns();
    v->n_begin = n_done;
    v->tenths = (unsigned)(n_done * 10 / n_total);
    hth_progress_end(&v->bar);
    if (n_done > 0)
        (void)fprintf(stderr, "hearth: %s: %s of %s are there already\n", hth_gguf_base_name(path),
                      hth_size_text(n_done, done), hth_size_text(n_total, total));
    else
        (void)fprintf(stderr, "hearth: downloading %s, %s\n", hth_gguf_base_name(path), hth_size_text(n_total, total));
}

static void show_progress(const char *path, uint64_t n_done, uint64_t n_total, void *user_data)
{
    view *v = user_data;
    char done[32], total[32], speed[32], left[32] = "", detail[160];
    double seconds, bytes_a_second;
    uint64_t n_new;

    if (v->is_quiet)
        return;
    if (strcmp(v->path, path) != 0)
        begin_file(v, path, n_done, n_total);
    seconds = (double)(hth_os_monotonic_ns() - v->begin_ns) / 1e9;
    n_new = n_done > v->n_begin ? n_done - v->n_begin : 0; /* an interrupted piece is downloaded again */
    bytes_a_second = seconds > 0 ? (double)n_new / seconds : 0;
    if (bytes_a_second >= 1)
        (void)hth_time_text((uint64_t)((double)(n_total - n_done) / bytes_a_second * 1000), left);
    (void)snprintf(detail, sizeof(detail), "%s of %s, %s/s%s%s", hth_size_text(n_done, done),
                   hth_size_text(n_total, total), hth_size_text((uint64_t)bytes_a_second, speed),
                   n_done < n_total && left[0] ? ", time left: " : "", n_done < n_total ? left : "");
    if (v->bar.enabled) {
        hth_progress_draw(&v->bar, hth_gguf_base_name(path), (double)n_done / (double)n_total, detail);
    } else if (n_done * 10 / n_total > v->tenths) {
        v->tenths = (unsigned)(n_done * 10 / n_total);
        (void)fprintf(stderr, "hearth: %s: %u%%, %s\n", hth_gguf_base_name(path), v->tenths * 10, detail);
    }
}

static void show_note(const char *text, void *user_data)
{
    view *v = user_data;

    hth_progress_end(&v->bar);
    if (!v->is_quiet)
        (void)fprintf(stderr, "hearth: %s\n", text);
}

/* ---- sources ---- */

static bool find_at_ollama(const char *name, char path_out[PATH_MAX])
{
    char folder[PATH_MAX];
    hth_ollama_model model;

    return hth_ollama_folder(folder) && hth_ollama_find(folder, name, &model) &&
           snprintf(path_out, PATH_MAX, "%s", model.path) < PATH_MAX;
}

/* A model at a hub, or at a registry of Ollama's kind. */
typedef struct source {
    bool is_ollama;
    hth_hub_settings settings;
    hth_hub_reference at_hub;
    hth_ollama_reference at_registry;
} source;

static hearth_status read_settings(source *s, const char *text, bool need_registry, hearth_error *err)
{
    return s->is_ollama ? hth_ollama_settings_read(text, need_registry, &s->settings, err)
                        : hth_hub_settings_read(&s->settings, err);
}

static hearth_status read_source(const char *text, bool is_ollama, bool need_registry, source *out, hearth_error *err)
{
    hearth_status status;

    out->is_ollama = is_ollama;
    status = is_ollama ? hth_ollama_reference_read(text, &out->at_registry, err)
                       : hth_hub_reference_read(text, &out->at_hub, err);
    return status == HEARTH_OK ? read_settings(out, text, need_registry, err) : status;
}

static hearth_status pull(const source *s, const char *revision, bool is_quiet, char path_out[PATH_MAX],
                          hearth_error *err)
{
    view v = { .is_quiet = is_quiet };
    const hth_hub_watch watch = { .on_progress = show_progress, .on_note = show_note, .user_data = &v };
    hearth_status status;

    hth_progress_init(&v.bar, !is_quiet);
    status = s->is_ollama ? hth_ollama_pull(&s->settings, &s->at_registry, &watch, path_out, err)
                          : hth_hub_pull(&s->settings, &s->at_hub, revision, &watch, path_out, err);
    hth_progress_end(&v.bar);
    return status;
}

/* What to do for a model that is not there. */
typedef enum if_missing { FAIL, PULL, PULL_QUIETLY } if_missing;

static hearth_status find_or_pull(const char *text, bool is_ollama, if_missing missing, char path_out[PATH_MAX],
                                  hearth_error *err)
{
    source s;
    hearth_status status = read_source(text, is_ollama, false, &s, err);

    if (status == HEARTH_OK)
        status = is_ollama ? hth_ollama_reference_find(&s.settings, &s.at_registry, path_out, err)
                           : hth_hub_find(&s.settings, &s.at_hub, NULL, path_out, err);
    if (status != HEARTH_NOT_FOUND || missing == FAIL)
        return status;
    status = read_settings(&s, text, true, err);
    return status == HEARTH_OK ? pull(&s, NULL, missing == PULL_QUIETLY, path_out, err) : status;
}

static bool has_prefix(const char *text)
{
    return strncmp(text, HTH_OLLAMA_PREFIX, strlen(HTH_OLLAMA_PREFIX)) == 0;
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
        const if_missing missing = !may_pull ? FAIL : is_quiet ? PULL_QUIETLY : PULL;
        const bool may_be_there = may_be_at_registry(text);

        if (hth_hub_is_reference(text))
            return find_or_pull(text, false, missing, path_out, err);
        if (has_prefix(text))
            return find_or_pull(text, true, missing, path_out, err);
        if (may_be_there && find_or_pull(text, true, FAIL, path_out, NULL) == HEARTH_OK)
            return HEARTH_OK; /* the registry's model, if there are several of this name */
        if (find_at_ollama(text, path_out))
            return HEARTH_OK;
        if (may_pull && may_be_there)
            return find_or_pull(text, true, missing, path_out, err);
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

bool hth_model_source_is_ollama(const char *text)
{
    hth_ollama_reference unused;

    return has_prefix(text) || hth_ollama_reference_read(text, &unused, NULL) == HEARTH_OK;
}

hearth_status hth_model_source_pull(const char *text, const char *revision, bool is_quiet, char path_out[PATH_MAX],
                                    hearth_error *err)
{
    source s;
    const hearth_status status = read_source(text, hth_model_source_is_ollama(text), true, &s, err);

    return status == HEARTH_OK ? pull(&s, revision, is_quiet, path_out, err) : status;
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
