/*
 * serve_options.h - what `hearth serve` can be told, by flags and by keys of its configuration file
 *
 * Three tables of rows: of the whole server, of one model, and the command line, which has both. An option of the server
 * is a key at the top of the file or in a section, an option of a model a key in its section or, for all models, a flag.
 */
#ifndef HTH_CLI_SERVE_OPTIONS_H
#define HTH_CLI_SERVE_OPTIONS_H

#include "cli/model_options.h"
#include "server/options.h"

enum {
    HTH_SERVE_MODELS_MAX = 256,
    HTH_SERVE_LISTEN_MAX = 64,
    HTH_SERVE_ORIGINS_MAX = 256,
    HTH_SERVE_API_KEYS_MAX = 256,
    HTH_SERVE_NAME_BYTES_MAX = 128,
    HTH_SERVE_ALIASES_MAX = 64,
    HTH_SERVE_TAGS_MAX = 16,
    HTH_SERVE_PORT = 8080,
};

/* One model, or what all have in common. */
typedef struct hth_serve_model {
    const char *name;
    hth_model_setup setup;
    bool on_demand;
    const char *aliases[HTH_SERVE_ALIASES_MAX];
    size_t n_aliases;
    const char *tags[HTH_SERVE_TAGS_MAX];
    size_t n_tags;
} hth_serve_model;

/* Texts are those of the command line and of the configuration's pool. */
typedef struct hth_serve_options {
    hth_server_options server; /* its numbers and texts; lists are those below until all is read */
    const char *listen[HTH_SERVE_LISTEN_MAX];
    size_t n_listen;
    const char
        *hosts[HTH_SERVE_LISTEN_MAX]; /* --host, perhaps several between commas; with --port in place of listen */
    size_t n_hosts;
    uint32_t port;
    bool has_port;
    const char *admin;
    const char *keys_file;
    const char *api_keys[HTH_SERVE_API_KEYS_MAX]; /* --api-key, likewise; see api_keys.h */
    size_t n_api_keys;
    const char *api_key_file;
    const char *origins[HTH_SERVE_ORIGINS_MAX];
    size_t n_origins;

    hth_serve_model defaults;
    const char *models[HTH_SERVE_MODELS_MAX]; /* of the command line: "FILE" or "NAME=FILE" */
    size_t n_models;

    const char *config_file;
    const char *port_file;
    bool check;
    bool print_config;
    bool print_keys;
    bool help;
    bool help_all;
} hth_serve_options;

extern const hth_option_table hth_serve_flags;      /* in an hth_serve_options: all that the command line has */
extern const hth_option_table hth_serve_keys;       /* in an hth_serve_options: the configuration's, without models */
extern const hth_option_table hth_serve_model_keys; /* in an hth_serve_model: those of a model's section */
/* What a worker is told on its command line. */
extern const hth_option_table hth_worker_model_options;   /* in an hth_model_setup */
extern const hth_option_table hth_worker_request_options; /* in an hth_server_options */
extern const hth_option_table hth_worker_stream_options;  /* likewise */
extern const hth_option_table hth_worker_slot_options;    /* likewise */

void hth_serve_options_init(hth_serve_options *out); /* the defaults */
/* Do clients have to show a key, by what was said so far? */
bool hth_serve_asks_for_keys(const hth_serve_options *options);

/*
 * Read an address: "HOST:PORT", "[IPV6]:PORT", "HOST", "PORT", "unix:PATH". host_out, of n bytes, receives the host, ""
 * for a unix socket, whose path is *path_out, within text. False with a message.
 */
bool hth_serve_address_read(const char *shown, const char *text, char *host_out, size_t n, uint16_t *port_out,
                            const char **path_out, hearth_error *err);

#endif
