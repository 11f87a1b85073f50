/*
 * node_page.h - what a node tells the other nodes of itself, each second: an object of JSON
 *
 *   {"protocol": 1, "version": "0.1.0", "name": "a", "epoch": "<32 hex digits>", "cache": "<32 hex digits>",
 *    "draining": false, "models": [
 *     {"name": "m", "aliases": [...], "adapters": [...], "digest": "<hex digits>",
 *      "keyspace": "<hex digits>", "state": "ready", "at_work": 3, "waiting": 0, "parallel": 8,
 *      "prompt_left": 512, "prompt_token_ns": 2000000, "reply_token_ns": 50000000, "load_ms": 0,
 *      "pull_token_ns": 200000, "history": true}]}
 *
 * epoch is drawn when the node starts. cache names its cache of rows, and stays the same while that does, also when the
 * node starts anew: then rows are on its disk. Unknown members are ignored, so that a later version can have more. The
 * reader bounds everything, because a member of the fleet may be compromised.
 */
#ifndef HTH_FLEET_NODE_PAGE_H
#define HTH_FLEET_NODE_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/buffer.h"
#include "hearth.h"

enum {
    HTH_FLEET_PROTOCOL = 1, /* nodes with another number do not work together */
    HTH_NODE_NAME_BYTES = 65,
    HTH_NODE_EPOCH_BYTES = 33,
    HTH_NODE_PAGE_BYTES_MAX = 4 << 20,
    HTH_NODE_MODELS_MAX = 1024,
    HTH_NODE_NAMES_MAX = 256, /* aliases of a model, and adapters */
};

/* Texts belong to the page, or to its writer. */
typedef struct hth_node_model {
    const char *name;
    const char *const *aliases; /* [n_aliases] */
    size_t n_aliases;
    const char *const *adapters; /* [n_adapters] */
    size_t n_adapters;
    const char *digest;   /* of its file, template and format of replies (wire/status_page.h); "": not known yet */
    const char *keyspace; /* of its rows (hth_worker_load); "": not known yet, or of a node that does not tell it */
    bool is_ready;        /* its worker takes requests */
    bool is_broken;       /* its worker dies again and again */
    bool has_history;     /* it keeps the tokens of earlier conversations */
    uint32_t n_at_work;
    uint32_t n_waiting;
    uint32_t n_parallel; /* that run at once; 0: unknown */
    /* These three as in hearth_model_info. */
    uint32_t n_prompt_left;
    uint32_t prompt_token_ns;
    uint32_t reply_token_ns;
    uint32_t load_ms;       /* until it is ready; 0: it is, or that is not known */
    uint32_t pull_token_ns; /* for a token of a prompt whose row comes from another node; 0: unknown */
} hth_node_model;

typedef struct hth_node_page {
    uint32_t protocol;
    char version[32];
    char name[HTH_NODE_NAME_BYTES];
    char epoch[HTH_NODE_EPOCH_BYTES];
    char cache[HTH_NODE_EPOCH_BYTES]; /* "": not made yet; of a page without one: the epoch */
    bool is_draining;                 /* it takes no more requests of others */
    hth_node_model *models;           /* [n_models] */
    size_t n_models;
    json_t *json;       /* of a page that was read: owns the texts */
    const char **names; /* likewise: the lists of them */
} hth_node_page;

/* Is it a name of a node: 1 to 64 letters, digits and . _ -? */
bool hth_node_name_is_valid(const char *name);

/* out->failed without memory. */
void hth_node_page_write(const hth_node_page *page, hth_buffer *out);
/*
 * HEARTH_CORRUPT: it is no page, with the reason. HEARTH_UNSUPPORTED: it is the page of another protocol; protocol,
 * version and name are set if they are there. HEARTH_NO_MEMORY. On success, free *out with hth_node_page_deinit.
 */
hearth_status hth_node_page_read(const char *bytes, size_t n, hth_node_page *out, hearth_error *err);
void hth_node_page_deinit(hth_node_page *page); /* of a page that was read, or of zeros; leaves zeros */

#endif
