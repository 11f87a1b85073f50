/*
 * adapter_state.h - the adapters loaded and the scales set since the server started, and the files to load
 *
 * The front keeps the state of each model. A new worker gets it on its command line, and a running one with every
 * change. The worker makes its adapters match the state. Adapters of the configuration are not part of the state, but
 * their scales are. As JSON: {"added":64,"loaded":[{"id":64,"name":"sql","file":"sql.gguf","scale":0,"sha256":"9f"}],
 *  "scales":[{"id":64,"scale":0.5}]}, where sha256 has 64 digits
 */
#ifndef HTH_WIRE_ADAPTER_STATE_H
#define HTH_WIRE_ADAPTER_STATE_H

#include <limits.h>

#include "api/error.h"
#include "engine/backend.h"

enum {
    HTH_LIVE_ID_MIN = HTH_ADAPTERS_MAX, /* adapters of the configuration have smaller ids: 0, 1, ... */
    HTH_LIVE_FILE_BYTES = 512,
    HTH_ADAPTERS_JSON_BYTES_MAX = 64 << 10, /* of a client's body */
};

typedef struct hth_live_adapter {
    uint32_t id; /* never reused for another adapter */
    float scale; /* the scale that it was loaded with */
    char name[128];
    char file[HTH_LIVE_FILE_BYTES]; /* relative to the folder of adapters */
    char sha256[65];                /* of the file when it was loaded, in hexadecimal; "": unknown */
} hth_live_adapter;

typedef struct hth_adapter_state {
    uint32_t added;                            /* id of the adapter that a change adds and that must load; 0: none */
    hth_live_adapter loaded[HTH_ADAPTERS_MAX]; /* [n_loaded], by id */
    size_t n_loaded;
    hearth_adapter_scale scales[2 * HTH_ADAPTERS_MAX]; /* [n_scales]: the scales that were set; each id once */
    size_t n_scales;
} hth_adapter_state;

/* Read a state. False with error; then *out is unspecified. */
bool hth_adapter_state_read(const char *text, size_t n, hth_adapter_state *out, hth_api_error *error);
/* Append it as JSON. out->failed without memory. */
void hth_adapter_state_write(const hth_adapter_state *state, hth_buffer *out);

/* The loaded adapter of this name; NULL: none. */
const hth_live_adapter *hth_adapter_state_find(const hth_adapter_state *state, const char *name);
/* The scale for requests that name no adapters. */
float hth_adapter_state_scale_of(const hth_adapter_state *state, const hth_live_adapter *one);
/* Copy unknown hashes from a worker's list of adapters. */
void hth_adapter_state_learn(hth_adapter_state *state, const json_t *list);
/* Remove an adapter and its scale. */
void hth_adapter_state_drop(hth_adapter_state *state, uint32_t id);
/* Set the scale of an adapter. False: too many scales are set. */
bool hth_adapter_state_scale(hth_adapter_state *state, uint32_t id, float scale);
/* Remove the scales of the configuration's adapters, because other adapters have their ids now. */
void hth_adapter_state_forget_configured(hth_adapter_state *state);

/*
 * Read the body of llama.cpp's POST /lora-adapters, [{"id": 0, "scale": 0.5}, ...]. False with error.
 */
bool hth_adapter_scales_read(const char *text, size_t n, hearth_adapter_scale out[HTH_ADAPTERS_MAX], size_t *n_out,
                             hth_api_error *error);

/* ---- files that can be loaded: those in a configured folder ---- */

/*
 * Find the path, without links, of a file in the folder or below it (NULL: no folder is configured). file is relative
 * to the folder or absolute. HEARTH_UNSUPPORTED without a folder, HEARTH_NOT_FOUND, HEARTH_MISUSE for a file outside of
 * it and for anything but a file.
 */
hearth_status hth_adapter_file_find(const char *directory, const char *file, char path[PATH_MAX], hearth_error *err);

/*
 * The sorted names of the .gguf files in the folder itself (NULL: no folder). At most 1,000 names from the first 4,096
 * entries, because the front's event loop waits. *n_entries_out: the number of entries that were read. NULL without
 * memory.
 */
json_t *hth_adapter_files_list(const char *directory, size_t *n_entries_out);

#endif
