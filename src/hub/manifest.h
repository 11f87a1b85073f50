/*
 * manifest.h - the manifest of a model at a registry of Ollama's kind: the blobs that make up the model
 *
 * JSON: {"mediaType", "config": {"digest", "size"}, "layers": [{"mediaType", "digest", "size"}]}. The layer with the
 * media type application/vnd.ollama.image.model is the GGUF file.
 */
#ifndef HTH_HUB_MANIFEST_H
#define HTH_HUB_MANIFEST_H

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

/* The SHA-256 of a digest "sha256:HEX", in hex; NULL if it is not one. */
const char *hth_ollama_digest_hex(const char *digest);

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

#endif
