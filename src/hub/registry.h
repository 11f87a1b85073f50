/*
 * registry.h - a model of a registry of Ollama's kind is downloaded into Ollama's folder (ollama.h)
 *
 * HEARTH_OLLAMA_REGISTRY names the registry, https://HOST or https://HOST:PORT. The program knows no other one.
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

/* Each part can be the name of a file: letters, digits, '_', '-' and '.', but for the last two at its begin. */
typedef struct hth_ollama_reference {
    char owner[HTH_OLLAMA_PART_BYTES]; /* "library" where none was given */
    char name[HTH_OLLAMA_PART_BYTES];
    char tag[HTH_OLLAMA_PART_BYTES];      /* "latest" where none was given */
    char text[3 * HTH_OLLAMA_PART_BYTES]; /* "NAME:TAG" or "OWNER/NAME:TAG" */
    bool has_prefix;                      /* it was named with HTH_OLLAMA_PREFIX */
} hth_ollama_reference;

/*
 * Read "NAME[:TAG]", or behind the prefix "[OWNER/]NAME[:TAG]". Without the prefix, NAME and TAG do not end in ".gguf".
 * HEARTH_MISUSE, with the expected form: it is none.
 */
hearth_status hth_ollama_reference_read(const char *text, hth_ollama_reference *out, hearth_error *err);

/*
 * The registry, and Ollama's folder as the cache. Without a variable for the registry the endpoint is "", if
 * need_registry is false or downloads are forbidden. HEARTH_MISUSE: a variable is wrong or missing; the message names
 * it, and, where the registry is missing, the model that was wanted.
 */
hearth_status hth_ollama_settings_read(const char *wanted, bool need_registry, hth_hub_settings *out,
                                       hearth_error *err);

/*
 * The path of the model's GGUF file in the folder of the settings: that of their registry, else of any other.
 * HEARTH_NOT_FOUND: the folder has no such model; the message tells the remedy.
 */
hearth_status hth_ollama_reference_find(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                                        char path_out[PATH_MAX], hearth_error *err);

/*
 * Ask the registry for the model's manifest, and download the layers that the folder lacks. The settings name it,
 * unless they are offline. The manifest gets its name when all layers are there and right. Where the settings are
 * offline, the same as hth_ollama_reference_find. Statuses as hth_hub_download; HEARTH_CORRUPT also for a manifest that
 * lies. Blocks.
 */
hearth_status hth_ollama_pull(const hth_hub_settings *settings, const hth_ollama_reference *wanted,
                              const hth_hub_watch *watch, char path_out[PATH_MAX], hearth_error *err);

#endif
