/*
 * descriptors.h - how many connections the system's limit of open files leaves room for
 */
#ifndef HTH_SUPERVISOR_DESCRIPTORS_H
#define HTH_SUPERVISOR_DESCRIPTORS_H

#include <stdint.h>

/*
 * Raise this process' limit of open files, as far as it may, to what so many connections and requests need, and return
 * how many connections there is room for: connections_max, or fewer. Each request needs a connection to a worker, and
 * that is kept free: else clients that are merely connected could keep those that ask from being served.
 */
uint32_t hth_descriptors_for(uint32_t connections_max, uint32_t requests_max);

#endif
