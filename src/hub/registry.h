/*
 * registry.h - download a model from a registry of Ollama's kind into Ollama's directory (ollama.h)
 *
 * HEARTH_OLLAMA_REGISTRY names the registry, https://HOST or https://HOST:PORT. There is no default.
 */
#ifndef HTH_HUB_REGISTRY_H
#define HTH_HUB_REGISTRY_H

#include <limits.h>
#include <stdbool.h>

#include "hub/download.h"
#include "hub/settings.h"

#define HTH_OLLAMA_PREFIX "ollama:"
#define HTH_OLLAMA_REGISTRY_VARIABLE "HEARTH_OLLAMA_REGISTRY"

enum { HTH_OLLAMA_PART_BYTES = 81 };

/* Each part can be a file name: letters, digits, '_', '-' and '.', not beginning with the last two. */
typedef struct hth_ollama_reference {
    char owner[HTH_OLLAMA_PART_BYTES]; /* "library" if not given */
    char name[HTH_OLLAMA_PART_BYTES];
    char tag[HTH_OLLAMA_PART_BYTES];      /* "latest" if not given */
    char text[3 * HTH_OLLAMA_PART_BYTES]; /* "NAME:TAG" or "OWNER/NAME:TAG" */
    bool has_prefix;                      /* it was named with HTH_OLLAMA_PREFIX */
} hth_ollama_reference;

/*
 * Read "NAME[:TAG]", or after the prefix "[OWNER/]NAME[:TAG]". Without the prefix, NAME and TAG must not end in
 * ".gguf". HEARTH_MISUSE, with the expected form, if it is not a reference.
 */
hearth_status hth_ollama_reference_read(const char *text, hth_ollama_reference *out, hearth_error *err);

/*
 * The registry, with Ollama's directory as the cache. If the registry's variable is not set, and need_registry is false
 * or downloads are forbidden, the endpoint is "". HEARTH_MISUSE: a variable is wrong or missing; the message names it
 * and, if the registry is missing, the wanted model.
 */
hearth_status hth_ollama_settings_read(const char *wanted, bool need_registry, hth_hub_settings *out,
                                       hearth_error *err);

/*
 * The path of the model's GGUF file in the settings' directory: from their registry, otherwise from any other.
 * HEARTH_NOT_FOUND: the directory has no such model; the message has the remedy.
 */
hearth_status hth_ollama_reference_find(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                                        char path_out[PATH_MAX], hearth_error *err);

/*
 * Ask the registry for the model's manifest, and download the layers that the directory lacks. The settings name the
 * registry, unless they are offline. The manifest gets its name when all layers are present and correct. If the
 * settings are offline, the same as hth_ollama_reference_find. Statuses as for hth_hub_download; HEARTH_CORRUPT also
 * for a wrong manifest. Blocks.
 */
hearth_status hth_ollama_pull(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                              const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err);

#endif
