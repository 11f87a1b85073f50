/*
 * manifest.c - see manifest.h
 */
#include "hub/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/json_bounds.h"
#include "base/status.h"

enum { LEVELS_MAX = 16, VALUES_MAX = 1 << 16, SHA256_DIGITS = 64 };

static const char digest_kind[] = "sha256:", layer_prefix[] = "application/vnd.ollama.image.";
static const json_int_t layer_bytes_max = (json_int_t)1 << 46; /* 64 TiB, as in a hub's list */

const char *hth_ollama_digest_hex(const char *digest)
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
    const char *hex = hth_ollama_digest_hex(text_of(object, "digest"));
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
            model = hth_ollama_digest_hex(text_of(layer, "digest"));
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
