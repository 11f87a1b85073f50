/*
 * worker_view.c - the names of a worker's states
 */
#include "server/worker_view.h"

const char *hth_worker_state_name(hth_worker_state state)
{
    static const char *const names[] = { "stopped", "starting", "ready", "stopping", "waiting", "broken" };

    return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}
