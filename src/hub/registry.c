/*
 *   request the manifest -> download each layer (download.c) -> check that all are present -> write the manifest
 *
 * Ollama finds a model by its manifest, so a crash before the last step leaves only unreferenced blobs; a later pull
 * uses them, and Ollama removes them when it starts. That may also happen during a pull, hence the check.
 *
 * FOLDER/.locks/sha256-DIGEST.lock is locked (flock) while a process downloads a blob; Ollama does not use it.
 *
 * Invariant: all paths are made only of the directory, the registry's host, parts of a reference and hex digits.
 */
#include "hub/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/gguf_name.h"
#include "base/status.h"
#include "hub/client.h"
#include "hub/ollama.h"

#define JOIN(out, format, ...) (snprintf(out, sizeof(out), format, __VA_ARGS__) < (int)sizeof(out))

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

/* ---- names ---- */

/* False if the n bytes are not a file name that is safe everywhere. */
static bool take_part(const char *text, size_t n, char out[HTH_OLLAMA_PART_BYTES])
{
    if (n == 0 || n >= HTH_OLLAMA_PART_BYTES || strspn(text, letters) < n || *text == '-' || *text == '.')
        return false;
    (void)snprintf(out, HTH_OLLAMA_PART_BYTES, "%.*s", (int)n, text); /* n fits */
    return true;
}

hearth_status hth_ollama_reference_read(const char *text, hth_ollama_reference *out, hearth_error *err)
{
    const size_t n_prefix = strlen(HTH_OLLAMA_PREFIX);
    hth_ollama_reference reference = { .has_prefix = strncmp(text, HTH_OLLAMA_PREFIX, n_prefix) == 0 };
    const char *name = reference.has_prefix ? text + n_prefix : text;
    const char *slash = reference.has_prefix ? strchr(name, '/') : NULL, *owner = slash ? name : "library", *tag;
    size_t n_name;
    bool is_right;

    name = slash ? slash + 1 : name;
    n_name = strcspn(name, ":");
    tag = name[n_name] ? name + n_name + 1 : "latest";
    is_right = take_part(owner, slash ? (size_t)(slash - owner) : strlen(owner), reference.owner) &&
               take_part(name, n_name, reference.name) && take_part(tag, strlen(tag), reference.tag) &&
               (reference.has_prefix || (!hth_gguf_is_name(reference.name) && !hth_gguf_is_name(reference.tag)));
    if (!is_right)
        return hth_fail(err, HEARTH_MISUSE,
                        "'%.200s' is not the name of a model of Ollama's; the form is NAME[:TAG] or "
                        "ollama:OWNER/NAME[:TAG]",
                        text);
    /* As in the names from hth_ollama_visit. The text is as large as the parts. */
    if (strcmp(reference.owner, "library") == 0)
        (void)snprintf(reference.text, sizeof(reference.text), "%s:%s", reference.name, reference.tag);
    else
        (void)snprintf(reference.text, sizeof(reference.text), "%s/%s:%s", reference.owner, reference.name,
                       reference.tag);
    *out = reference;
    return HEARTH_OK;
}

/* ---- settings ---- */

static const char *host_of(const hth_hub_settings *settings)
{
    return strstr(settings->endpoint, "://") + 3; /* hth_hub_endpoint_take has checked it */
}

/* The host must be usable as a directory name. */
static bool is_registry(const hth_hub_settings *settings)
{
    const char *host = host_of(settings);
    const size_t n_name = strspn(host, letters), n_port = strlen(host) - n_name;

    return n_name > 0 && *host != '.' && *host != '-' && strlen(host) <= NAME_MAX &&
           (n_port == 0 ||
            (n_port > 1 && host[n_name] == ':' && strspn(host + n_name + 1, "0123456789") == n_port - 1));
}

hearth_status hth_ollama_settings_read(const char *wanted, bool need_registry, hth_hub_settings *out, hearth_error *err)
{
    const char *registry = getenv(HTH_OLLAMA_REGISTRY_VARIABLE);
    hth_hub_settings settings = {
        .is_offline = hth_hub_is_offline(), .is_registry = true, .called = "registry", .cache_variable = "OLLAMA_MODELS"
    };

    if (!hth_ollama_folder(settings.cache))
        return hth_fail(err, HEARTH_MISUSE, "there is no folder for Ollama's models; set OLLAMA_MODELS or HOME");
    if (registry && *registry && (!hth_hub_endpoint_take(registry, settings.endpoint) || !is_registry(&settings)))
        return hth_fail(err, HEARTH_MISUSE,
                        HTH_OLLAMA_REGISTRY_VARIABLE
                        " is not the address of a registry; its form is https://HOST or https://HOST:PORT");
    if (!*settings.endpoint && need_registry && !settings.is_offline)
        return hth_fail(err, HEARTH_MISUSE,
                        "no registry is known that could have '%.200s': set " HTH_OLLAMA_REGISTRY_VARIABLE
                        " to the address of one. A model that is in Ollama's folder needs no download",
                        wanted);
    *out = settings;
    return HEARTH_OK;
}

hearth_status hth_ollama_reference_find(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                                        char path_out[PATH_MAX], hearth_error *err)
{
    hth_ollama_model *model = malloc(sizeof(*model));
    bool found;

    if (!model)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a model of Ollama's folder");
    found = (*settings->endpoint &&
             hth_ollama_find_at(settings->cache, host_of(settings), wanted->owner, wanted->name, wanted->tag, model)) ||
            hth_ollama_find(settings->cache, wanted->text, model);
    if (found)
        (void)snprintf(path_out, PATH_MAX, "%s", model->path); /* as large */
    free(model);
    return found
             ? HEARTH_OK
             : hth_fail(err, HEARTH_NOT_FOUND, "'%s' is not in Ollama's folder '%s'; download it with 'hearth pull'",
                        wanted->text, settings->cache);
}

/* ---- pull ---- */

/* The paths of a pull, all in Ollama's directory; large. */
typedef struct pull {
    const hth_hub_settings *settings;
    const hth_ollama_reference *wanted;
    hth_ollama_manifest manifest, old; /* the registry's; the one in the directory */
    char manifest_path[PATH_MAX];
    char blob[PATH_MAX], lock[PATH_MAX], url[HTH_FETCH_URL_BYTES]; /* of the current layer */
} pull;

static bool has_layer(const hth_ollama_manifest *manifest, const hth_ollama_layer *layer)
{
    for (size_t i = 0; i < manifest->n; i++)
        if (strcmp(manifest->layers[i].digest, layer->digest) == 0)
            return true;
    return false;
}

static hearth_status set_places(pull *p, const hth_ollama_layer *layer, hearth_error *err)
{
    const hth_ollama_reference *w = p->wanted;
    const char *folder = p->settings->cache;

    if (JOIN(p->blob, "%s/blobs/sha256-%s", folder, layer->digest) &&
        JOIN(p->lock, "%s/.locks/sha256-%s.lock", folder, layer->digest) &&
        JOIN(p->url, "/v2/%s/%s/blobs/sha256:%s", w->owner, w->name, layer->digest))
        return HEARTH_OK;
    return hth_fail(err, HEARTH_MISUSE, "the path of Ollama's folder is too long; set OLLAMA_MODELS");
}

static hearth_status download_layer(pull *p, const hth_ollama_layer *layer, const hth_hub_watch *watch,
                                    hearth_error *err)
{
    hth_hub_file file = { .bytes = layer->bytes };
    const hth_hub_blob blob = { .repo = p->wanted->text,
                                .file = &file,
                                .url = p->url,
                                .path = p->blob,
                                .lock = p->lock,
                                .is_known = has_layer(&p->old, layer) };
    const hearth_status status = set_places(p, layer, err);

    (void)snprintf(file.digest, sizeof(file.digest), "%s", layer->digest); /* as large */
    (void)snprintf(file.path, sizeof(file.path), "%s %s %.12s", p->wanted->text, layer->kind,
                   layer->digest); /* sized for it */
    return status == HEARTH_OK ? hth_hub_download_blob(p->settings, &blob, watch, err) : status;
}

static hearth_status check_layers(pull *p, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    for (size_t i = 0; i < p->manifest.n && status == HEARTH_OK; i++) {
        status = set_places(p, &p->manifest.layers[i], err);
        if (status == HEARTH_OK && !hth_hub_blob_is_there(p->blob, p->manifest.layers[i].bytes))
            status = hth_fail(err, HEARTH_IO,
                              "'%s' was removed during the download, perhaps by Ollama, which does so when it starts; "
                              "pull again",
                              p->blob);
    }
    return status;
}

/* Read the model's manifest in the directory; empty if the model there is incomplete. */
static void read_old(pull *p)
{
    size_t n = 0;
    char *text = hth_ollama_manifest_text(p->manifest_path, &n);

    if (!text || hth_ollama_manifest_read(text, n, &p->old, NULL) != HEARTH_OK)
        p->old.n = 0;
    free(text);
}

/*
 * Does the directory already have a manifest with the same layers? If so, nothing is written: the directory may be
 * read-only.
 */
static bool is_same(pull *p)
{
    bool same = p->old.n == p->manifest.n;

    for (size_t i = 0; i < p->manifest.n && same; i++)
        same = has_layer(&p->old, &p->manifest.layers[i]);
    return same && check_layers(p, NULL) == HEARTH_OK;
}

static hearth_status read_manifest(pull *p, hth_buffer *text, hearth_error *err)
{
    const hth_ollama_reference *w = p->wanted;
    char url[HTH_FETCH_URL_BYTES];
    hearth_status status;

    if (!hth_ollama_manifest_path(p->settings->cache, host_of(p->settings), w->owner, w->name, w->tag,
                                  p->manifest_path))
        return hth_fail(err, HEARTH_MISUSE, "the path of Ollama's folder is too long; set OLLAMA_MODELS");
    (void)snprintf(url, sizeof(url), "/v2/%s/%s/manifests/%s", w->owner, w->name, w->tag); /* sized for it */
    status = hth_hub_read(p->settings, w->text, url, HTH_OLLAMA_MANIFEST ", " HTH_OCI_MANIFEST,
                          HTH_OLLAMA_MANIFEST_BYTES_MAX, text, err);
    if (status != HEARTH_OK)
        return status;
    status = hth_ollama_manifest_read(hth_buffer_text(text), text->n, &p->manifest, err);
    if (status != HEARTH_OK)
        hth_fail_prefix(err, "'%s' of the registry %s", w->text, host_of(p->settings));
    return status;
}

static hearth_status pull_all(pull *p, const hth_hub_watch *watch, hearth_error *err)
{
    hth_buffer text = { .text = NULL };
    hearth_status status = read_manifest(p, &text, err);
    bool same = false;

    if (status == HEARTH_OK) {
        read_old(p);
        same = is_same(p);
    }
    for (size_t i = 0; i < p->manifest.n && status == HEARTH_OK && !same; i++)
        status = download_layer(p, &p->manifest.layers[i], watch, err);
    if (status == HEARTH_OK && !same)
        status = check_layers(p, err);
    if (status == HEARTH_OK && !same)
        status = hth_hub_write_file(p->manifest_path, text.text, text.n, err);
    if (status == HEARTH_PERMISSION)
        hth_fail_prefix(err, "cannot write to Ollama's folder; set OLLAMA_MODELS to another one");
    if (status == HEARTH_OK)
        status = set_places(p, &p->manifest.layers[p->manifest.model], err);
    hth_buffer_deinit(&text);
    return status;
}

hearth_status hth_ollama_pull(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                              const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err)
{
    hearth_status status;
    pull *p;

    if (settings->is_offline) {
        status = hth_ollama_reference_find(settings, wanted, path_out, err);
        if (status == HEARTH_NOT_FOUND)
            hth_fail_prefix(err, "HF_HUB_OFFLINE is set");
        return status;
    }
    p = calloc(1, sizeof(*p));
    if (!p)
        return hth_fail(err, HEARTH_NO_MEMORY, "no memory for a download");
    p->settings = settings;
    p->wanted = wanted;
    status = pull_all(p, watch, err);
    if (status == HEARTH_OK)
        (void)snprintf(path_out, PATH_MAX, "%s", p->blob); /* as large */
    free(p);
    return status;
}
