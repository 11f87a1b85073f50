/*
 * ollama.c - see ollama.h
 */
#include "hub/ollama.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "hub/manifest.h"

enum { LEVELS = 4 };

typedef struct visitor {
    const char *folder;
    bool (*visit)(const hth_ollama_model *model, void *user_data);
    void *user_data;
    const char *parts[LEVELS]; /* HOST, NAMESPACE, NAME, TAG */
    bool ended;
} visitor;

bool hth_ollama_folder(char out[PATH_MAX])
{
    const char *folder = getenv("OLLAMA_MODELS"), *home = getenv("HOME");

    if (folder && *folder)
        return snprintf(out, PATH_MAX, "%s", folder) < PATH_MAX;
    return home && *home && snprintf(out, PATH_MAX, "%s/.ollama/models", home) < PATH_MAX;
}

/*
 * The digest of the model's layer; false if the manifest has none, and may not be a model's. It is read more leniently
 * than one from a registry: only the model matters here.
 */
static bool read_manifest(const char *path, char digest[HTH_HUB_DIGEST_BYTES])
{
    size_t n = 0;
    char *text = hth_ollama_manifest_text(path, &n);
    json_t *root = text ? json_loadb(text, n, 0, NULL) : NULL;
    const json_t *layers = json_object_get(root, "layers");
    const char *hex = NULL;

    for (size_t i = 0; i < json_array_size(layers) && !hex; i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = json_string_value(json_object_get(layer, "mediaType"));

        if (type && strcmp(type, HTH_OLLAMA_MODEL_LAYER) == 0)
            hex = hth_ollama_digest_hex(json_string_value(json_object_get(layer, "digest")));
    }
    if (hex)
        (void)snprintf(digest, HTH_HUB_DIGEST_BYTES, "%s", hex); /* as large */
    json_decref(root);
    free(text);
    return hex != NULL;
}

static void visit_manifest(visitor *v, const char *path)
{
    const char *const *p = v->parts;
    char digest[HTH_HUB_DIGEST_BYTES];
    hth_ollama_model model;
    struct stat st;
    int n;

    if (!read_manifest(path, digest))
        return;
    n = strcmp(p[1], "library") == 0 ? snprintf(model.name, sizeof(model.name), "%s:%s", p[2], p[3])
                                     : snprintf(model.name, sizeof(model.name), "%s/%s/%s:%s", p[0], p[1], p[2], p[3]);
    if (n >= (int)sizeof(model.name) ||
        snprintf(model.path, sizeof(model.path), "%s/blobs/sha256-%s", v->folder, digest) >= (int)sizeof(model.path) ||
        stat(model.path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    model.bytes = (uint64_t)st.st_size;
    v->ended = !v->visit(&model, v->user_data);
}

static void visit_level(visitor *v, const char *folder, unsigned level)
{
    DIR *directory = opendir(folder);
    const struct dirent *entry;
    char path[PATH_MAX];

    while (directory && !v->ended && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
            continue;
        v->parts[level] = entry->d_name;
        if (level + 1 < LEVELS)
            visit_level(v, path, level + 1);
        else
            visit_manifest(v, path);
    }
    if (directory)
        (void)closedir(directory);
}

void hth_ollama_visit(const char *folder, bool (*visit)(const hth_ollama_model *model, void *user_data),
                      void *user_data)
{
    visitor v = { .folder = folder, .visit = visit, .user_data = user_data };
    char manifests[PATH_MAX];

    if (snprintf(manifests, sizeof(manifests), "%s/manifests", folder) < (int)sizeof(manifests))
        visit_level(&v, manifests, 0);
}

typedef struct finder {
    const char *name;
    hth_ollama_model *out;
    bool found;
} finder;

static bool is_called(const char *name, const char *wanted)
{
    const size_t n = strlen(wanted);

    return strncmp(name, wanted, n) == 0 &&
           (name[n] == '\0' || (!strchr(wanted, ':') && strcmp(name + n, ":latest") == 0));
}

static bool take(const hth_ollama_model *model, void *user_data)
{
    finder *f = user_data;

    f->found = true;
    *f->out = *model;
    return false;
}

static bool take_if_called(const hth_ollama_model *model, void *user_data)
{
    const finder *f = user_data;
    const char *slash = strchr(model->name, '/'); /* after the host */

    return is_called(model->name, f->name) || (slash && is_called(slash + 1, f->name)) ? take(model, user_data) : true;
}

bool hth_ollama_manifest_path(const char *folder, const char *host, const char *owner, const char *name,
                              const char *tag, char out[PATH_MAX])
{
    return snprintf(out, PATH_MAX, "%s/manifests/%s/%s/%s/%s", folder, host, owner, name, tag) < PATH_MAX;
}

bool hth_ollama_find_at(const char *folder, const char *host, const char *owner, const char *name, const char *tag,
                        hth_ollama_model *out)
{
    finder f = { .out = out };
    visitor v = { .folder = folder, .visit = take, .user_data = &f, .parts = { host, owner, name, tag } };
    char path[PATH_MAX];

    if (hth_ollama_manifest_path(folder, host, owner, name, tag, path))
        visit_manifest(&v, path);
    return f.found;
}

bool hth_ollama_find(const char *folder, const char *name, hth_ollama_model *out)
{
    finder f = { .name = name, .out = out };

    hth_ollama_visit(folder, take_if_called, &f);
    return f.found;
}
