/*
 * ollama.h - the models in Ollama's directory; registry.h adds to it
 *
 *   DIRECTORY/manifests/HOST/NAMESPACE/NAME/TAG   JSON: layers with mediaType, digest and size
 *   DIRECTORY/blobs/sha256-DIGEST                 the bytes of a layer
 *
 * The layer of the model is the GGUF file (manifest.h). The directory is $OLLAMA_MODELS or ~/.ollama/models.
 */
#ifndef HTH_HUB_OLLAMA_H
#define HTH_HUB_OLLAMA_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "hearth.h"

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
