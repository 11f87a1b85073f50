#include "hub/ollama.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hex.h"
#include "base/json_bounds.h"
#include "base/status.h"

/* ---- manifests ---- */

enum { LEVELS_MAX = 16, VALUES_MAX = 1 << 16, SHA256_DIGITS = 64 };

static const char digest_kind[] = "sha256:", layer_prefix[] = "application/vnd.ollama.image.";
static const json_int_t layer_bytes_max = (json_int_t)1 << 46; /* 64 TiB, as in a hub's list */

/* The SHA-256 of a digest "sha256:HEX", in hex; NULL if it is not one. */
static const char *digest_hex(const char *digest)
{
    const size_t n = strlen(digest_kind);

    return digest && strncmp(digest, digest_kind, n) == 0 && hth_is_hex(digest + n, SHA256_DIGITS) ? digest + n : NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool is_manifest_type(const json_t *root)
{
    const json_t *type = json_object_get(root, "mediaType");
    const char *text = json_string_value(type);

    return !type /* as OCI allows */ ||
           (text && (strcmp(text, HTH_OLLAMA_MANIFEST) == 0 || strcmp(text, HTH_OCI_MANIFEST) == 0));
}

/* kind is the layer's. */
static hearth_status add_layer(hth_ollama_manifest *out, const json_t *object, const char *kind, hearth_error *err)
{
    const char *hex = digest_hex(text_of(object, "digest"));
    const json_t *size = json_object_get(object, "size");
    hth_ollama_layer *layer = &out->layers[out->n];

    /* It is shown to users, also on a terminal. */
    if (kind[strspn(kind, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._")])
        return hth_fail(err, HEARTH_CORRUPT,
                        "the manifest has a layer of the type '%.80s', which is no name; nothing was downloaded", kind);
    if (!hex)
        return hth_fail(err, HEARTH_CORRUPT,
                        "the manifest gives no SHA-256 of the layer '%.40s'; nothing was downloaded", kind);
    if (!json_is_integer(size) || json_integer_value(size) <= 0 || json_integer_value(size) > layer_bytes_max)
        return hth_fail(err, HEARTH_CORRUPT,
                        "the manifest tells no possible size of the layer '%.40s'; nothing was downloaded", kind);
    for (size_t i = 0; i < out->n; i++) {
        if (strcmp(out->layers[i].digest, hex) != 0)
            continue;
        return out->layers[i].bytes == (uint64_t)json_integer_value(size)
                 ? HEARTH_OK
                 : hth_fail(err, HEARTH_CORRUPT,
                            "the manifest tells two sizes of the layer %.12s...; nothing was downloaded", hex);
    }
    (void)snprintf(layer->digest, sizeof(layer->digest), "%s", hex); /* is_hex */
    (void)snprintf(layer->kind, sizeof(layer->kind), "%s", kind);    /* may be truncated: only a name for users */
    layer->bytes = (uint64_t)json_integer_value(size);
    out->n++;
    return HEARTH_OK;
}

static hearth_status read_layers(const json_t *root, hth_ollama_manifest *out, hearth_error *err)
{
    const json_t *layers = json_object_get(root, "layers");
    const char *model = NULL;
    hearth_status status = HEARTH_OK;

    if (json_array_size(layers) > HTH_OLLAMA_LAYERS_MAX)
        return hth_fail(err, HEARTH_CORRUPT, "the manifest has %zu layers; %d are possible", json_array_size(layers),
                        HTH_OLLAMA_LAYERS_MAX);
    for (size_t i = 0; i < json_array_size(layers) && status == HEARTH_OK; i++) {
        const json_t *layer = json_array_get(layers, i);
        const char *type = text_of(layer, "mediaType");

        if (!type || strncmp(type, layer_prefix, strlen(layer_prefix)) != 0)
            return hth_fail(err, HEARTH_CORRUPT,
                            "the manifest has a layer of the type '%.80s', which no model of Ollama has; nothing was "
                            "downloaded",
                            type ? type : "(none)");
        status = add_layer(out, layer, type + strlen(layer_prefix), err);
        if (!model && strcmp(type, HTH_OLLAMA_MODEL_LAYER) == 0)
            model = digest_hex(text_of(layer, "digest"));
    }
    if (status == HEARTH_OK && !model)
        return hth_fail(err, HEARTH_NOT_FOUND, "the manifest has no model in GGUF format (no layer of the type %s)",
                        HTH_OLLAMA_MODEL_LAYER);
    if (status == HEARTH_OK)
        status = add_layer(out, json_object_get(root, "config"), "config", err);
    for (size_t i = 0; i < out->n && status == HEARTH_OK; i++)
        if (strcmp(out->layers[i].digest, model) == 0)
            out->model = i;
    return status;
}

hearth_status hth_ollama_manifest_read(const char *text, size_t n_bytes, hth_ollama_manifest *out, hearth_error *err)
{
    json_t *root =
        hth_json_is_within(text, n_bytes, LEVELS_MAX, VALUES_MAX) ? json_loadb(text, n_bytes, 0, NULL) : NULL;
    hearth_status status;

    out->n = out->model = 0;
    if (!json_is_array(json_object_get(root, "layers")) || !is_manifest_type(root))
        status = hth_fail(err, HEARTH_CORRUPT, "the answer is not the manifest of a model");
    else
        status = read_layers(root, out, err);
    json_decref(root);
    return status;
}

char *hth_ollama_manifest_text(const char *path, size_t *n_out)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(HTH_OLLAMA_MANIFEST_BYTES_MAX + 1) : NULL;
    const size_t n = text ? fread(text, 1, HTH_OLLAMA_MANIFEST_BYTES_MAX + 1, file) : 0;

    if (file)
        (void)fclose(file); /* only read from */
    if (n == 0 || n > HTH_OLLAMA_MANIFEST_BYTES_MAX) {
        free(text);
        return NULL;
    }
    *n_out = n;
    return text;
}

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
            hex = digest_hex(json_string_value(json_object_get(layer, "digest")));
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
