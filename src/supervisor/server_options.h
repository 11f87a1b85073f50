/*
 * server_options.h - the options of the front, from the command line and the configuration file
 *
 * The command (options/serve_config.c) builds a set of options and checks it, with file and line for errors. The server
 * takes it as given. A reload hands over another set. Everything in a set belongs to it and lives until its last use.
 */
#ifndef HTH_SUPERVISOR_SERVER_OPTIONS_H
#define HTH_SUPERVISOR_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/route.h"
#include "hearth.h"
#include "http/http.h"
#include "supervisor/pressure.h"
#include "wire/worker_settings.h"

/* A secret option of workers: a worker gets it in its environment, and pages do not show it. */
#define HTH_SERVER_SECRET_OPTION "--cache-salt"
#define HTH_SERVER_SECRET_VARIABLE "HEARTH_CACHE_SALT"

/* What moves models into memory and out of it: requests and this server, or an operator's orders alone. */
typedef enum hth_residency_mode { HTH_RESIDENCY_AUTOMATIC, HTH_RESIDENCY_EXTERNAL } hth_residency_mode;

/* The names of models that were found in a folder. */
typedef enum hth_folder_names { HTH_FOLDER_NAMES_FILE, HTH_FOLDER_NAMES_METADATA } hth_folder_names;

/* When the worker of a model starts: with the server, or with the first request. */
typedef enum hth_model_start { HTH_START_AT_ONCE, HTH_START_ON_DEMAND } hth_model_start;

/* The options of a model that the supervisor applies; its worker does not know them. */
typedef struct hth_model_rules {
    hth_model_start start;
    bool is_pinned;           /* its worker never ends to make room for another model */
    uint32_t unload_after_ms; /* its worker ends after this time without use; 0: never */
} hth_model_rules;

typedef struct hth_server_model {
    const char *name;  /* the name that clients use */
    const char *shown; /* the name in lists and replies; NULL: the same */
    /* Options of its worker's command line, ending with NULL: "--model", "x.gguf", "--name", "x", ... */
    const char *const *worker;
    uint64_t ram_bytes; /* of its RAM tier, in memory that the front holds; 0: the worker keeps its own */
    bool has_history;   /* it keeps the tokens of earlier conversations */
    hth_model_rules rules;
    const char *path;           /* of its file; NULL: unknown */
    const char *const *aliases; /* [n_aliases]: other names, and patterns of names with '*' (front/model_names.h) */
    size_t n_aliases;
    const char *const *adapters; /* [n_adapters]: names of LoRA adapters, which clients use like model names */
    size_t n_adapters;
    const char *adapters_directory; /* of adapters that may be loaded at run time; NULL: none may be */
    const char *const *tags;        /* [n_tags]: shown in lists of models */
    size_t n_tags;
} hth_server_model;

typedef struct hth_server_address {
    const char *host; /* NULL: a unix socket */
    uint16_t port;
    const char *path; /* of the unix socket */
} hth_server_address;

/* The rights of a client that shows this key. */
typedef struct hth_server_key {
    const char *name;
    uint8_t sha256[32];        /* of the key */
    const char *const *models; /* [n_models]; none: all */
    size_t n_models;
    uint32_t requests_per_minute; /* 0: no limit, here and below */
    uint32_t tokens_per_minute;   /* of prompts and replies, cached tokens included */
    uint32_t concurrency;
    const char *salt; /* of its tenant; NULL: it shares the cache with all keys without a salt */
    bool is_admin;
    int64_t expires_s; /* Unix time at which it expires; 0: never */
} hth_server_key;

/*
 * Options that one part of the front uses unchanged. A new field here needs a row of options and the code that uses it,
 * and nothing in between.
 */
typedef struct hth_relay_limits {
    uint32_t retries_max;     /* how often in a row a request is retried after its worker died */
    uint32_t wait_timeout_ms; /* the longest wait of a request for its worker to start, or for its turn there */
    /*
     * A stream of events sends a keep-alive after this time of silence; 0: never. A worker that has the request sends
     * it, in the form of its API. The front sends it if no worker has the request, or after twice this time.
     */
    uint32_t keep_alive_ms;
} hth_relay_limits;

/* Streams that clients may resume (front/kept_streams.h). */
typedef struct hth_kept_options {
    uint32_t keep_ms;         /* without a reader, or after its end; 0: no stream is kept */
    uint64_t bytes_max;       /* of one stream */
    uint64_t total_bytes_max; /* of all */
} hth_kept_options;

/* Responses that clients may fetch again, or continue (front/response_store.h). */
typedef struct hth_response_limits {
    const char *directory; /* NULL: in memory. Made if it is missing, mode 0700 */
    uint64_t bytes_max;    /* of all records; 0: none is kept */
    uint32_t days_max;
} hth_response_limits;

/* The fleet that the server is a node of (docs/fleet.md). */
typedef struct hth_fleet_options {
    const char *file;          /* fleet.pem; NULL: no fleet */
    const char *name;          /* of this node; NULL: the machine's */
    hth_server_address listen; /* for other nodes; host "*": every address */
    const char *const *peers;  /* [n_peers]: "HOST:PORT" of the other nodes, or of all */
    size_t n_peers;
    const char *host;                /* where other nodes reach this one; NULL: listen's, or by the store */
    const char *store;               /* store_url.h; NULL: none */
    const char *id;                  /* of the fleet in the store; NULL: by the certificate */
    const char *store_password_file; /* NULL: the password of store */
    const char *store_authorities;   /* a PEM file; NULL: the system's */
    hth_route_policy policy;
    bool no_rows;   /* it neither fetches rows from other nodes nor gives them any */
    bool same_bits; /* replies go on only where the rest comes out as it would have */
} hth_fleet_options;
enum { HTH_FLEET_PORT = 9430 };

typedef enum hth_log_format { HTH_LOG_AUTO, HTH_LOG_TEXT, HTH_LOG_JSON } hth_log_format;

typedef struct hth_server_options {
    const hth_server_model *models; /* [n_models] */
    size_t n_models;
    const char *const *warnings; /* [n_warnings]: found while a reload made this set */
    size_t n_warnings;
    const char *models_folder; /* the folder that some of them were found in; NULL: none */
    hth_folder_names models_folder_names;
    /* [n_watched_folders]: it and its sub-folders. A change in one of them causes a reload. */
    const char *const *watched_folders;
    size_t n_watched_folders;
    /*
     * The model for requests that name none or an unknown one. NULL: the first; HTH_NO_DEFAULT_MODEL: none, status 404.
     */
    const char *default_model;
    const hth_server_address *listen; /* [n_listen] */
    size_t n_listen;
    /*
     * For /admin and /metrics. Without host and path, they are on the public addresses and need an admin key; /metrics
     * needs none if there are no keys.
     */
    hth_server_address admin;
    const char *tls_certificate; /* PEM files; NULL: no TLS */
    const char *tls_key;
    const hth_server_key *keys; /* [n_keys]; none: every client may do everything except administer */
    size_t n_keys;
    const char *const *cors_origins; /* [n_cors_origins], "*" for all; none: CORS is off */
    size_t n_cors_origins;

    /* Limits of requests. */
    hth_worker_settings worker;
    hth_http_options http; /* its body_bytes_max is the worker's; the system's limit may allow fewer connections */
    uint32_t requests_max; /* at once, in total; beyond it: status 503 */

    hth_response_limits responses;

    /* Supervision. */
    const char *runtime_directory; /* for the workers' sockets, mode 0700; NULL: a new one in the temporary folder */
    /*
     * A worker that was ready this long, or served a request, restarts at once; earlier deaths are forgotten
     * (restart_policy.h).
     */
    uint32_t healthy_ms;
    uint32_t hang_ms;          /* a longer evaluation counts as a hang; 0: never */
    uint32_t start_timeout_ms; /* loading without progress for this long counts as a hang; 0: never */
    uint32_t drain_timeout_ms; /* when the server stops, running requests may finish for this long */
    hth_relay_limits relay;
    bool no_sandbox;

    /* Residency (residency.h). */
    hth_residency_mode residency_mode;
    uint64_t memory_bytes;        /* for all models; 0: nine tenths of the machine's memory */
    uint64_t device_memory_bytes; /* of each device, for all models; 0: nine tenths, or what is free if that is less */
    uint64_t ram_total_bytes;     /* for the rows of all models; 0: see hth_server_ram_total */
    uint32_t models_max;          /* with a worker at once; 0: no limit */
    uint32_t turn_ms;             /* a waiting model closes busy ones after this time */
    /*
     * An idle model stays for this time after its last request, if that came within this time after the one before; not
     * when another model has waited for turn_ms.
     */
    uint32_t stay_ms;
    const char *learned_path;  /* of the file with the measured memory use of models (learned.h); NULL: none */
    uint32_t needs_timeout_ms; /* the time limit for a process that measures the needs of a model */
    /* After the n-th one was killed or could not start, the next one starts 2^n times this later; 5 at most. */
    uint32_t needs_again_ms;

    /* Pressure (pressure.h). */
    const char *pressure_command; /* a line of the shell that prints the use of memory; NULL: none */
    const char *pressure_library; /* "FILE:SYMBOL", a function that reports it (pressure_library.h); NULL: none */
    bool pressure_nvidia_smi;     /* ask nvidia-smi, too */
    hth_pressure_settings pressure;

    hth_kept_options kept;
    hth_fleet_options fleet;
    /*
     * Options of the carrier's command line, ending with NULL: the fleet's file, and where rows lie, as of the section
     * `cache`; NULL: no carrier. Those in force at the start.
     */
    const char *const *carrier;

    /* Logs. */
    hth_log_format log_format; /* AUTO: text on a terminal, JSON elsewhere */
    hearth_log_level log_level;
    const char *log_file; /* NULL: standard error */
    bool no_access_log;
    bool log_prompts;               /* for debugging only: log the bodies of requests */
    bool allow_public_without_keys; /* listen without keys on addresses that other machines can reach */
    bool allows_props;              /* POST /props is answered */
    bool no_slots;                  /* GET /slots is not answered */
    bool no_ui;                     /* "/" has no page for browsers */
} hth_server_options;

static inline hth_server_options hth_server_options_default(void)
{
    return (hth_server_options){
        .http = hth_http_options_default(),
        .worker = hth_worker_settings_default(),
        .requests_max = 4096,
        .responses = { .bytes_max = 64 << 20, .days_max = 30 },
        .healthy_ms = 30000,
        .hang_ms = 60000,
        .start_timeout_ms = 600000,
        .drain_timeout_ms = 30000,
        .relay = { .retries_max = 3, .wait_timeout_ms = 120000, .keep_alive_ms = 5000 },
        .turn_ms = 10000,
        .stay_ms = 250,
        .needs_timeout_ms = 5000,
        .needs_again_ms = 5000,
        .pressure = { .marks = { .high_percent = 95,
                                 .low_percent = 90,
                                 .stall_percent = 20,
                                 .evict_bytes_min = 64 << 20 },
                      .poll_ms = 1000 },
        .kept = { .keep_ms = 300000, .bytes_max = 4 << 20, .total_bytes_max = 256 << 20 },
        .fleet = { .listen = { .host = "*", .port = HTH_FLEET_PORT } },
        .log_level = HEARTH_LOG_INFO,
    };
}

/*
 * The memory for the rows of all models: the option, or by default as much as one model may have, but at most a quarter
 * of memory_bytes if that is set. Never more than all models may have together.
 */
static inline uint64_t hth_server_ram_total(const hth_server_options *options)
{
    uint64_t total = options->ram_total_bytes, most = 0, sum = 0;

    for (size_t i = 0; i < options->n_models; i++) {
        most = options->models[i].ram_bytes > most ? options->models[i].ram_bytes : most;
        sum += options->models[i].ram_bytes;
    }
    if (total == 0) {
        total = most;
        if (options->memory_bytes > 0 && total > options->memory_bytes / 4)
            total = options->memory_bytes / 4;
    }
    return total < sum ? total : sum;
}

/* Do operators have an address of their own? */
static inline bool hth_server_has_admin_address(const hth_server_options *options)
{
    return options->admin.host || options->admin.path;
}

#endif
