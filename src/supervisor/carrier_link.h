/*
 * carrier_link.h - the front's hold on its carrier, the process that moves rows between nodes
 *
 * The carrier is started with the server, and again when it dies, after a pause as for workers. It keeps nothing that
 * the next one needs: this link tells each one which nodes there are, and hands it the sockets to the workers, of which
 * it keeps the carrier's ends. Without a carrier, workers compute what they lack. Event loop only; nothing blocks but
 * hth_carrier_link_free.
 */
#ifndef HTH_SUPERVISOR_CARRIER_LINK_H
#define HTH_SUPERVISOR_CARRIER_LINK_H

#include "api/buffer.h"
#include "base/log.h"
#include "hearth.h"

struct event_base;

typedef struct hth_carrier_link hth_carrier_link;

typedef struct hth_carrier_link_options {
    struct event_base *base;
    const char *program;          /* the executable */
    const char *const *arguments; /* of its command line, ending with NULL: where rows lie; and of hth_worker_process */
    bool no_sandbox;
    const hth_log *log; /* outlives the link, like program and arguments */
} hth_carrier_link_options;

/* Start the carrier. HEARTH_NO_MEMORY; other failures are logged, and it is started again. */
hearth_status hth_carrier_link_new(const hth_carrier_link_options *options, hth_carrier_link **out, hearth_error *err);
void hth_carrier_link_free(hth_carrier_link *link); /* kills it; accepts NULL */

/*
 * A socket to the carrier for a new worker of the model, which has this command line. The caller closes it once the
 * worker has it. -1: its rows lie elsewhere, or descriptors or memory are short. link NULL: -1.
 */
int hth_carrier_link_attach(hth_carrier_link *link, const char *model, const char *const *arguments);
/* The node of this name listens there. */
void hth_carrier_link_note_node(hth_carrier_link *link, const char *name, const char *address);
/* No node listens there any more, or none of the fleet. */
void hth_carrier_link_forget_node(hth_carrier_link *link, const char *address);
/* A connection of another node is for the carrier. Takes over the descriptor. */
void hth_carrier_link_serve_take(hth_carrier_link *link, int fd);

/* The time in which a token of a prompt of the model comes from another node, as measured here; 0: unknown. */
uint32_t hth_carrier_link_token_ns(const hth_carrier_link *link, const char *model);

/* Append the metrics of rows between nodes to a page of Prometheus' format. */
void hth_carrier_link_write_metrics(const hth_carrier_link *link, hth_buffer *out);

#endif
