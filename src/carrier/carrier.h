/*
 * carrier.h - a carrier's life: orders of the front and of workers, and a thread for each transfer
 *
 * The messages are those of wire/carrier_messages.h. The carrier ends when the front's socket closes: it stops all
 * transfers, and leaves whole rows only. It keeps nothing that its successor would need.
 */
#ifndef HTH_CARRIER_CARRIER_H
#define HTH_CARRIER_CARRIER_H

#include "carrier/tiers.h"
#include "fleet/fleet_pem.h"

typedef struct hth_carrier_options {
    hth_tiers *tiers;   /* borrowed, like the rest */
    hth_fleet_pem *pem; /* of the fleet */
    int control_fd;     /* the socket to the front */
    const hth_log *log;
} hth_carrier_options;

enum { HTH_CARRIER_FETCHES_MAX = 16, HTH_CARRIER_SERVED_MAX = 16 };

/* Work until the front is gone. HEARTH_NO_MEMORY; other failures as hth_fail_errno. */
hearth_status hth_carrier_run(const hth_carrier_options *options, hearth_error *err);

#endif
