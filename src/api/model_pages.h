/*
 * model_pages.h - responses that describe models without running one: lists, properties, slots, settings, health
 */
#ifndef HTH_API_MODEL_PAGES_H
#define HTH_API_MODEL_PAGES_H

#include "api/buffer.h"
#include "api/request.h"

/* A model in a list. */
typedef struct hth_api_listed_model {
    const char *name;
    const char *shown; /* the name that clients see; NULL: the model's own name */
    const char *asked; /* the name in the request, which the object shows; NULL: shown */
    json_int_t created_s;
    const hearth_model_info *info; /* NULL: the model is not loaded */
    uint64_t file_bytes;           /* of its files, known even before it is loaded; 0: unknown */
    char architecture[64];         /* from its file, for a model that is not loaded; "": unknown */
    const char *status;            /* "loaded", "loading", "unloaded"; NULL: not shown */
    bool has_failed;               /* its worker died too often */
    int64_t expires_s;             /* Unix time when it is unloaded if it stays unused; 0: never */
    const char *const *aliases;    /* [n_aliases] */
    size_t n_aliases;
    const char *const *tags; /* [n_tags] */
    size_t n_tags;
} hth_api_listed_model;

/* GET /v1/models; GET /v1/models/NAME. */
/*
 * The type of the weights, in the form that file names use: "Q4_K_M", "UNKNOWN". "" for a model that is not loaded
 * (NULL).
 */
void hth_api_weight_type(const hearth_model_info *info, char out[sizeof(info->quant_type)]);

void hth_api_models_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);
void hth_api_model_write(const hth_api_listed_model *model, hth_buffer *out);

/*
 * GET /props. name is the one that clients see. file is the path of the loaded model, whose base name is shown.
 * defaults (NULL: none) are the server's request defaults.
 */
void hth_api_props_write(hearth_model *model, const hearth_model_info *info, const char *name, const char *file,
                         const hth_api_defaults *defaults, hth_buffer *out);
/* A slot of GET /slots, with the request that uses it or used it last. */
typedef struct hth_api_slot {
    bool is_processing;
    uint64_t task;  /* the request's number; 0: the slot is unused so far, and the rest is unset */
    json_t *params; /* hth_api_native_numbers of the request; NULL: out of memory */
    uint32_t n_prompt;
    uint32_t n_cached;  /* of n_prompt, as far as known */
    uint32_t n_read;    /* of n_prompt, evaluated */
    uint32_t n_decoded; /* tokens of the reply */
    int64_t n_remain;   /* tokens until its length limit; -1: no limit */
    bool has_next;      /* the reply has not ended; it may be queued */
    bool has_new_line;  /* the reply contains a line break */
} hth_api_slot;

/* GET /slots: slots[info->n_parallel]. */
void hth_api_slots_write(const hearth_model_info *info, const hth_api_slot *slots, bool is_drafting, hth_buffer *out);
/*
 * GET /health. problem is NULL if the server is healthy (200), otherwise the reason it is not (503). Returns the
 * status.
 */
int hth_api_health_write(const char *problem, hth_buffer *out);

/* ---- the settings of a request, under llama.cpp's names ---- */

/* A new array. Texts that are not UTF-8 are left out. */
json_t *hth_api_texts_json(const char *const *texts, size_t n);
/* Like hth_api_native_settings, but without settings that contain the client's text or tokens. */
json_t *hth_api_native_numbers(const hearth_request *request, const hth_api_request *asked);
/* A new object; NULL if out of memory. asked is the client's request; NULL: the settings do not come from a client. */
json_t *hth_api_native_settings(const hearth_request *request, const hth_api_request *asked);

#endif
