/*
 * rpc_server.h - is there a server of the engine's RPC back end, and does it answer?
 */
#ifndef HTH_ENGINE_RPC_SERVER_H
#define HTH_ENGINE_RPC_SERVER_H

#ifdef __cplusplus
extern "C" { /* our own headers are C and do not say so themselves */
#endif

#include "base/status.h"

/*
 * Speak to a server as the engine will: connect, greet, read its version. The engine ends the process where that fails.
 * HEARTH_ENGINE when nobody listens there, when the name is unknown, when the answer is that of another version or none,
 * or when it does not come: a server serves one client at a time. Blocks for at most ten seconds, and for as long as
 * the system takes to find a name.
 */
hearth_status hth_rpc_server_check(const char *address, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
