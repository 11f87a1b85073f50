/*
 * descriptors.h - the number of connections that the system's limit on open files allows
 */
#ifndef HTH_SUPERVISOR_DESCRIPTORS_H
#define HTH_SUPERVISOR_DESCRIPTORS_H

#include <stdint.h>

/*
 * Raise this process' limit on open files, as far as the system allows, to the number that these connections and
 * requests need. Return the number of connections that fit: connections_max, or fewer. Each request also needs a
 * connection to a worker. Descriptors for these are reserved: otherwise idle client connections could block requests.
 */
uint32_t hth_descriptors_for(uint32_t connections_max, uint32_t requests_max);

#endif
