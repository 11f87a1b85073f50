/*
 * worker_rows.h - asks the carrier for rows that another node has
 *
 * A request comes with the name of a node that probably has more of its prompt (HTH_HEADER_ROWS). When blocks are
 * missing here, the scheduler's thread sends FETCH to the carrier (wire/carrier_messages.h), and the request waits, but
 * not longer than computing would take. FETCHED ends the wait on the event loop. A request that ends earlier sends
 * DROP. Without a carrier, which says HERE and whose end the front tells by GONE, or while too many fetches run,
 * requests compute as if there were no other node.
 */
#ifndef HTH_WORKER_WORKER_ROWS_H
#define HTH_WORKER_WORKER_ROWS_H

#include "base/status.h"
#include "hearth.h"

typedef struct hth_worker_rows hth_worker_rows;

/* socket: to the carrier, SOCK_SEQPACKET; borrowed. HEARTH_NO_MEMORY. */
hearth_status hth_worker_rows_new(int socket, hth_worker_rows **out, hearth_error *err);
void hth_worker_rows_free(hth_worker_rows *rows); /* after the end of every request; accepts NULL */

/*
 * Ask for missing blocks from the node of that name. False: nobody fetches them. Never waits. Any thread; for
 * hearth_request.on_missing.
 */
bool hth_worker_rows_fetch(hth_worker_rows *rows, const char *node, const hearth_missing *missing);
/* The request has ended: nobody waits for its rows any more. Accepts NULL, requests that asked for nothing, and 0. */
void hth_worker_rows_drop(hth_worker_rows *rows, uint64_t request_id);
/*
 * Read what the carrier has sent, and let requests of the model go on. False: the carrier is gone, and so are all
 * fetches; the socket needs no more attention. Event loop.
 */
bool hth_worker_rows_take(hth_worker_rows *rows, hearth_model *model);

#endif
