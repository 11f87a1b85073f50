/*
 * settings.h - the hub, the token and the cache that the environment names, read like other programs of this ecosystem
 * do (registry.h has those of a registry)
 *
 *   HF_ENDPOINT                            the hub's address
 *   HF_TOKEN; HF_TOKEN_PATH; $HF_HOME/token    the token, or the file that contains it
 *   HF_HUB_CACHE; $HF_HOME/hub             the cache directory; HF_HOME defaults to ~/.cache/huggingface
 *   HF_HUB_OFFLINE                         1, true, yes or on: use only the cache
 */
#ifndef HTH_HUB_SETTINGS_H
#define HTH_HUB_SETTINGS_H

#include <limits.h>
#include <stdbool.h>

#include "hearth.h"

#define HTH_HUB_ENDPOINT "https://huggingface.co"

enum { HTH_HUB_TOKEN_BYTES = 1024, HTH_HUB_ENDPOINT_BYTES = 1024 };

typedef struct hth_hub_settings {
    char endpoint[HTH_HUB_ENDPOINT_BYTES]; /* without a trailing '/' */
    char token[HTH_HUB_TOKEN_BYTES];       /* "": none */
    char cache[PATH_MAX];
    bool is_offline;
    bool is_registry;
    const char *called;         /* in messages: "hub" or "registry" */
    const char *cache_variable; /* in messages: the variable that names another directory */
} hth_hub_settings;

/* HEARTH_MISUSE: a variable is wrong; the message names it, but never includes a token. */
hearth_status hth_hub_settings_read(hth_hub_settings *out, hearth_error *err);

/* Does HF_HUB_OFFLINE forbid downloads? */
bool hth_hub_is_offline(void);
/* Read the address of a server, removing a trailing '/'. False if it is not one. */
bool hth_hub_endpoint_take(const char *value, char out[HTH_HUB_ENDPOINT_BYTES]);

#endif
