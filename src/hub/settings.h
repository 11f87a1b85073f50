/*
 * settings.h - the hub, the token and the cache that the environment names, as other programs of this ecosystem read it
 * (registry.h has those of a registry)
 *
 *   HF_ENDPOINT                            the hub's address
 *   HF_TOKEN; HF_TOKEN_PATH; $HF_HOME/token    the token, or the file that has it
 *   HF_HUB_CACHE; $HF_HOME/hub             the folder of the cache; HF_HOME is ~/.cache/huggingface where it is not set
 *   HF_HUB_OFFLINE                         1, true, yes or on: use the cache only
 */
#ifndef HTH_HUB_SETTINGS_H
#define HTH_HUB_SETTINGS_H

#include <limits.h>
#include <stdbool.h>

#include "hearth.h"

#define HTH_HUB_ENDPOINT "https://huggingface.co"

enum { HTH_HUB_TOKEN_BYTES = 1024, HTH_HUB_ENDPOINT_BYTES = 1024 };

typedef struct hth_hub_settings {
    char endpoint[HTH_HUB_ENDPOINT_BYTES]; /* without a '/' at its end */
    char token[HTH_HUB_TOKEN_BYTES];       /* "": none */
    char cache[PATH_MAX];
    bool is_offline;
    bool is_registry;
    const char *called;         /* in messages: "hub" or "registry" */
    const char *cache_variable; /* likewise: the one that names another folder */
} hth_hub_settings;

/* HEARTH_MISUSE: a variable is wrong; the message names it. A token is never part of a message. */
hearth_status hth_hub_settings_read(hth_hub_settings *out, hearth_error *err);

/* Does HF_HUB_OFFLINE forbid downloads? */
bool hth_hub_is_offline(void);
/* Take the address of a server, without a '/' at its end. False: it is none. */
bool hth_hub_endpoint_take(const char *value, char out[HTH_HUB_ENDPOINT_BYTES]);

#endif
