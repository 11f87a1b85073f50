/*
 * serve_options.h - the options of `hearth serve`, as flags and as keys of its configuration file
 *
 * There are three tables of rows: the options of the server, the options of one model, and the command line, which has
 * both. A server option is a key at the top level of the file or in a section. A model option is a key in the section
 * of the model or, for all models, a flag.
 */
#ifndef HTH_OPTIONS_SERVE_OPTIONS_H
#define HTH_OPTIONS_SERVE_OPTIONS_H

#include "options/model_options.h"
#include "supervisor/server_options.h"

enum {
    HTH_SERVE_MODELS_MAX = 256,
    HTH_SERVE_LISTEN_MAX = 64,
    HTH_SERVE_ORIGINS_MAX = 256,
    HTH_SERVE_API_KEYS_MAX = 256,
    HTH_SERVE_PEERS_MAX = 64, /* as HTH_NODES_MAX */
    HTH_SERVE_NAME_BYTES_MAX = 128,
    HTH_SERVE_ALIAS_BYTES_MAX = 255, /* the limit of a file name; requests may have 256 (api/peek.h) */
    HTH_SERVE_ALIASES_MAX = 64,
    HTH_SERVE_TAGS_MAX = 16,
    HTH_SERVE_VALUE_BYTES = (64 << 10) + 64, /* of one value in the form of the command line, with its terminator */
};

/* One model, or the options of all models. */
typedef struct hth_serve_model {
    const char *name;
    const char *shown; /* to clients; NULL: the name */
    hth_model_setup setup;
    hth_model_rules rules;
    const char *aliases[HTH_SERVE_ALIASES_MAX];
    size_t n_aliases;
    const char *tags[HTH_SERVE_TAGS_MAX];
    size_t n_tags;
} hth_serve_model;

/* A model that an operator added at run time (POST /admin/models), read again for each set of options. */
typedef struct hth_named_model {
    const char *name;
    const char *settings; /* a JSON object with the keys of a model's section */
    const char *path;     /* of its file, as the first reading found it; NULL: not yet */
    bool is_left_out;     /* it could not be served at the last reload */
} hth_named_model;

/* Texts belong to the command line or to the pool of the configuration. */
typedef struct hth_serve_options {
    hth_server_options server; /* without lists, which are below until everything is read */
    const char *listen[HTH_SERVE_LISTEN_MAX];
    size_t n_listen;
    /* --host, each a comma-separated list; used with --port instead of listen */
    const char *hosts[HTH_SERVE_LISTEN_MAX];
    size_t n_hosts;
    uint32_t port;
    bool has_port;
    const char *admin;
    const char *keys_file;
    /* --api-key, each a comma-separated list; see key_file.h */
    const char *api_keys[HTH_SERVE_API_KEYS_MAX];
    size_t n_api_keys;
    const char *api_key_file;
    const char *fleet_listen;
    const char *fleet_peers[HTH_SERVE_PEERS_MAX];
    size_t n_fleet_peers;
    const char *origins[HTH_SERVE_ORIGINS_MAX];
    size_t n_origins;

    hth_serve_model defaults;
    const char *models[HTH_SERVE_MODELS_MAX]; /* from the command line: "FILE" or "NAME=FILE" */
    size_t n_models;
    const hth_named_model *named; /* [n_named], added by operators; in no table */
    size_t n_named;

    const char *config_file;
    const char *port_file;
    bool is_offline; /* no model is downloaded */
    bool check;
    bool print_config;
    bool print_keys;
} hth_serve_options;

extern const hth_option_table hth_serve_flags; /* in an hth_serve_options: all flags */
/* in an hth_serve_options: all keys of the configuration except those of models */
extern const hth_option_table hth_serve_keys;
extern const hth_option_table hth_serve_server_keys; /* likewise, without the sections for all models */
extern const hth_option_table hth_serve_model_keys;  /* in an hth_serve_model: the keys of a model's section */
extern const hth_option_table hth_serve_model_rules; /* in an hth_model_rules */
extern const hth_option_table hth_serve_model_flags; /* likewise: the same options as flags, without the path */
/* in an hth_pressure_settings: the pressure keys that operators may change at run time */
extern const hth_option_table hth_serve_pressure_settings;
/* The options on the command line of a worker. */
extern const hth_option_table hth_worker_model_options;   /* in an hth_model_setup */
extern const hth_option_table hth_worker_request_options; /* in an hth_server_options */
extern const hth_option_table hth_worker_stream_options;  /* likewise */
extern const hth_option_table hth_worker_slot_options;    /* likewise */

void hth_serve_options_init(hth_serve_options *out); /* the defaults */
/* Must clients send a key, according to the options so far? */
bool hth_serve_asks_for_keys(const hth_serve_options *options);

#endif
