#include "supervisor/descriptors.h"

#include <sys/resource.h>

enum {
    OWN_DESCRIPTORS = 96, /* listeners, logs, the event loop, pipes for starting workers, operators' connections */
    SHARE_OF_REQUESTS = 4 /* if the limit is too low, 1 / this of it is for requests; a guess */
};

uint32_t hth_descriptors_for(uint32_t connections_max, uint32_t requests_max)
{
    const uint64_t needed = (uint64_t)connections_max + requests_max + OWN_DESCRIPTORS;
    struct rlimit limit;
    uint64_t n_open, n_requests = requests_max, n_connections;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed)
        return connections_max;
    n_open = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > needed ? needed : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        n_open = limit.rlim_cur;
    if (n_open >= needed)
        return connections_max;
    if (n_requests > n_open / SHARE_OF_REQUESTS)
        n_requests = n_open / SHARE_OF_REQUESTS;
    n_connections = n_open > n_requests + OWN_DESCRIPTORS ? n_open - n_requests - OWN_DESCRIPTORS : 1;
    return n_connections < connections_max ? (uint32_t)n_connections : connections_max;
}
