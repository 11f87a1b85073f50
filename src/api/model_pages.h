/*
 * model_pages.h - pages that describe models without asking one: lists, properties, slots, health
 */
#ifndef HTH_API_MODEL_PAGES_H
#define HTH_API_MODEL_PAGES_H

#include "api/buffer.h"
#include "api/defaults.h"

/* A model in a list. */
typedef struct hth_api_listed_model {
    const char *name;
    const char *shown; /* the name that clients see; NULL: the model's own name */
    const char *asked; /* the name in the request, which the object shows; NULL: the one before */
    json_int_t created_s;
    const hearth_model_info *info; /* NULL: the model is not loaded */
    uint64_t file_bytes;           /* of its files, also before it is loaded; 0: unknown */
    char architecture[64];         /* in its file, for a model that is not loaded; "": unknown */
    const char *status;            /* "loaded", "loading", "unloaded"; NULL: not shown */
    bool has_failed;               /* its worker died too often */
    int64_t expires_s;             /* Unix time at which it is unloaded if nobody uses it; 0: never */
    const char *const *aliases;    /* [n_aliases] */
    size_t n_aliases;
    const char *const *tags; /* [n_tags] */
    size_t n_tags;
} hth_api_listed_model;

/* GET /v1/models; GET /v1/models/NAME. */
/* The type of the weights, as files are called: "Q4_K_M", "UNKNOWN". "" for a model that is not loaded (NULL). */
void hth_api_weight_type(const hearth_model_info *info, char out[sizeof(info->quant_type)]);

void hth_api_models_write(const hth_api_listed_model *models, size_t n, hth_buffer *out);
void hth_api_model_write(const hth_api_listed_model *model, hth_buffer *out);

/*
 * GET /props. name is the one that clients see. file is the path of the loaded model, whose base name is shown.
 * defaults (NULL: none) are the server's defaults of requests.
 */
void hth_api_props_write(hearth_model *model, const hearth_model_info *info, const char *name, const char *file,
                         const hth_api_defaults *defaults, hth_buffer *out);
/* A number of GET /slots, and the request that has it, or had it last. */
typedef struct hth_api_slot {
    bool is_processing;
    uint64_t task;  /* the number of the request; 0: none had this slot yet, and the rest is unset */
    json_t *params; /* hth_api_native_numbers of the request; NULL: no memory */
    uint32_t n_prompt;
    uint32_t n_cached;  /* of n_prompt, as far as it is known */
    uint32_t n_read;    /* of n_prompt, evaluated */
    uint32_t n_decoded; /* tokens of the reply */
    int64_t n_remain;   /* until the limit of its length; -1: it has none */
    bool has_next;      /* the reply has not ended; it may wait */
    bool has_new_line;  /* in the reply */
} hth_api_slot;

/* GET /slots: slots[info->n_parallel]. */
void hth_api_slots_write(const hearth_model_info *info, const hth_api_slot *slots, bool is_drafting, hth_buffer *out);
/* GET /health. problem NULL: the server is well (200); otherwise the reason why it is not (503). Returns the status. */
int hth_api_health_write(const char *problem, hth_buffer *out);

#endif
