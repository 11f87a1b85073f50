/*
 * front.h - the process with the public port
 *
 * Puts the parts together: listeners (http.h), who may do what (keys.h), which model (the request's "model"), the relay
 * to its worker (proxy.h), workers (supervisor.h), pages for operators (admin.h), metrics and logs. One thread, one event
 * loop; it carries no engine.
 */
#ifndef HTH_SERVER_FRONT_H
#define HTH_SERVER_FRONT_H

#include "server/options.h"

typedef struct hth_front_hooks {
    const char *program; /* the executable for workers */
    /*
     * Read the configuration anew (SIGHUP). NULL with err: it is wrong, and the old one stays. The set is given back by
     * release once it is not used any more. May be NULL: nothing to reload.
     */
    const hth_server_options *(*reload)(void *user_data, hearth_error *err);
    void (*release)(const hth_server_options *options, void *user_data);
    /* The server listens: the ports that were taken, in the order of options->listen (0 of a unix socket). May be NULL. */
    void (*on_listening)(const uint16_t *ports, size_t n, void *user_data);
    void *user_data;
} hth_front_hooks;

/*
 * Serve until SIGTERM or SIGINT: then readiness goes, running requests finish for options->drain_timeout_ms, workers save
 * and end, HEARTH_OK. A second signal ends at once: HEARTH_CANCELLED. Must run on the process' first thread.
 */
hearth_status hth_front_run(const hth_server_options *options, const hth_front_hooks *hooks, hearth_error *err);

#endif
