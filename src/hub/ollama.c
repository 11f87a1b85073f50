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

#include "hub/listing.h"

enum { LEVELS = 4, MANIFEST_BYTES_MAX = 1 << 20, SHA256_DIGITS = 64 };

static const char model_layer[] = "application/vnd.ollama.image.model";
static const char digest_kind[] = "sha256:";

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

/* The digest of the model's layer; false: the manifest has none, and is perhaps that of something else. */
static bool read_manifest(const char *path, char digest[HTH_HUB_DIGEST_BYTES])
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(MANIFEST_BYTES_MAX) : NULL;
    const size_t n = text ? fread(text, 1, MANIFEST_BYTES_MAX, file) : 0;
    json_t *root = n > 0 && n < MANIFEST_BYTES_MAX ? json_loadb(text, n, 0, NULL) : NULL;
    const json_t *layers = json_object_get(root, "layers");
    bool found = false;

    for (size_t i = 0; i < json_array_size(layers) && !found; i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        const char *name = json_string_value(json_object_get(layer, "digest"));

        found = type && name && strcmp(type, model_layer) == 0 &&
                strncmp(name, digest_kind, strlen(digest_kind)) == 0 &&
                hth_hub_is_hex(name + strlen(digest_kind), SHA256_DIGITS);
        if (found)
            (void)snprintf(digest, HTH_HUB_DIGEST_BYTES, "%s", name + strlen(digest_kind)); /* is_hex */
    }
    json_decref(root);
    free(text);
    if (file)
        (void)fclose(file); /* only read from */
    return found;
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

static bool compare(const hth_ollama_model *model, void *user_data)
{
    finder *f = user_data;
    const size_t n = strlen(f->name);

    f->found = strncmp(model->name, f->name, n) == 0 &&
               (model->name[n] == '\0' || (!strchr(f->name, ':') && strcmp(model->name + n, ":latest") == 0));
    if (f->found)
        *f->out = *model;
    return !f->found;
}

bool hth_ollama_find(const char *folder, const char *name, hth_ollama_model *out)
{
    finder f = { .name = name, .out = out };

    hth_ollama_visit(folder, compare, &f);
    return f.found;
}
