/*
 * front.h - the process with the public port
 *
 * It connects listeners (http.h), keys and limits (keys.h), the choice of the model, the relay to its worker (proxy.h),
 * workers (supervisor.h), pages for operators (admin.h), metrics and logs. It has one thread with one event loop, and
 * never loads the engine.
 */
#ifndef HTH_FRONT_FRONT_H
#define HTH_FRONT_FRONT_H

#include <jansson.h>

#include "supervisor/server_options.h"

/* Options under their names in the configuration file, as new JSON objects; NULL without memory. */
typedef struct hth_options_json {
    json_t *(*server)(const hth_server_options *options);
    json_t *(*rules)(const hth_model_rules *rules);
    json_t *(*pressure)(const hth_pressure_settings *settings);
} hth_options_json;

typedef struct hth_front_hooks {
    const char *program; /* the executable for workers */
    /*
     * Read the configuration again (SIGHUP), with the models that operators added at run time. current: the options in
     * force. NULL with err: it is wrong, and the old one stays. release gets the options when they are no longer used.
     */
    const hth_server_options *(*reload)(const hth_server_options *current, void *user_data, hearth_error *err);
    void (*release)(const hth_server_options *options, void *user_data);
    /*
     * The options in force with one more model, or without a model that was added so (else HEARTH_NOT_FOUND). settings:
     * a JSON object with keys of a model's section. NULL with err: the options stay.
     */
    const hth_server_options *(*name_model)(const hth_server_options *current, const char *name, const char *settings,
                                            void *user_data, hearth_error *err);
    const hth_server_options *(*forget_model)(const hth_server_options *current, const char *name, void *user_data,
                                              hearth_error *err);
    /*
     * Read pressure settings, a JSON object with keys of their section, into *settings, which is unchanged if one is
     * wrong.
     */
    hearth_status (*read_pressure)(const char *text, hth_pressure_settings *settings, void *user_data,
                                   hearth_error *err);
    hth_options_json json;
    /* The server listens on these ports, in the order of options->listen (0: a unix socket). */
    void (*on_listening)(const uint16_t *ports, size_t n, void *user_data);
    void *user_data;
} hth_front_hooks;

/*
 * Serve until SIGTERM or SIGINT. Then /ready is 503, running requests may finish for options->drain_timeout_ms, and
 * workers save and end: HEARTH_OK. A second signal ends the server at once: HEARTH_CANCELLED. Must run on the process'
 * first thread.
 */
hearth_status hth_front_run(const hth_server_options *options, const hth_front_hooks *hooks, hearth_error *err);

#endif
