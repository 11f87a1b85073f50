/*
 * ollama.h - the models in Ollama's directory; registry.h adds to it
 *
 *   DIRECTORY/manifests/HOST/NAMESPACE/NAME/TAG   JSON: layers with mediaType, digest and size
 *   DIRECTORY/blobs/sha256-DIGEST                 the bytes of a layer
 *
 * The directory is $OLLAMA_MODELS or ~/.ollama/models. A manifest is that of the registry:
 * {"mediaType", "config": {"digest", "size"}, "layers": [{"mediaType", "digest", "size"}]}. The layer with the media
 * type application/vnd.ollama.image.model is the GGUF file.
 */
#ifndef HTH_HUB_OLLAMA_H
#define HTH_HUB_OLLAMA_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"
#include "hub/listing.h"

/* Media types: of manifests, and of the layer that is the GGUF file. */
#define HTH_OLLAMA_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define HTH_OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define HTH_OLLAMA_MODEL_LAYER "application/vnd.ollama.image.model"

enum { HTH_OLLAMA_KIND_BYTES = 32, HTH_OLLAMA_LAYERS_MAX = 256, HTH_OLLAMA_MANIFEST_BYTES_MAX = 1 << 20 };

typedef struct hth_ollama_layer {
    char digest[HTH_HUB_DIGEST_BYTES]; /* SHA-256 in hex; the name of the blob */
    char kind[HTH_OLLAMA_KIND_BYTES];  /* "model", "license", ...; "config" */
    uint64_t bytes;
} hth_ollama_layer;

typedef struct hth_ollama_manifest {
    hth_ollama_layer
        layers[HTH_OLLAMA_LAYERS_MAX + 1]; /* each digest once; the config last, unless another layer has its digest */
    size_t n;
    size_t model; /* the layer of the GGUF file */
} hth_ollama_manifest;

/*
 * Read a manifest. HEARTH_CORRUPT if it is not one, or its digests, sizes or types are not valid for a model.
 * HEARTH_NOT_FOUND if it has no GGUF file.
 */
hearth_status hth_ollama_manifest_read(const char *text, size_t n_bytes, hth_ollama_manifest *out, hearth_error *err);

/*
 * The text of a manifest's file, with its length; the caller frees it. NULL if it cannot be opened, is empty or too
 * large, or memory is out. Text that could be read only in part is not JSON.
 */
char *hth_ollama_manifest_text(const char *path, size_t *n_out);

enum { HTH_OLLAMA_NAME_BYTES = 512 };

typedef struct hth_ollama_model {
    /* "NAME:TAG" in the namespace "library", as Ollama shows it; otherwise "HOST/NAMESPACE/NAME:TAG" */
    char name[HTH_OLLAMA_NAME_BYTES];
    char path[PATH_MAX]; /* of the GGUF file, which exists */
    uint64_t bytes;
} hth_ollama_model;

/* Ollama's directory. False if no variable names it. */
bool hth_ollama_folder(char out[PATH_MAX]);

/* Visit the models, in no particular order, until visit returns false. A missing directory has none. */
void hth_ollama_visit(const char *folder, bool (*visit)(const hth_ollama_model *model, void *user_data),
                      void *user_data);

/*
 * The model with this name; the host before "NAMESPACE/NAME:TAG" and the tag "latest" may be omitted. False if there is
 * none.
 */
bool hth_ollama_find(const char *folder, const char *name, hth_ollama_model *out);

/* The path of a manifest. False if it is too long. */
bool hth_ollama_manifest_path(const char *folder, const char *host, const char *owner, const char *name,
                              const char *tag, char out[PATH_MAX]);
/* The model with exactly this registry host, owner ("library": none), name and tag. False if there is none. */
bool hth_ollama_find_at(const char *folder, const char *host, const char *owner, const char *name, const char *tag,
                        hth_ollama_model *out);

#endif
