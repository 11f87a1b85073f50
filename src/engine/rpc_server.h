/*
 * rpc_server.h - check that a server of the engine's RPC back end answers
 */
#ifndef HTH_ENGINE_RPC_SERVER_H
#define HTH_ENGINE_RPC_SERVER_H

#ifdef __cplusplus
extern "C" { /* our own headers are C and do not say so themselves */
#endif

#include "base/status.h"

/*
 * Connect, greet and read the server's version, as the engine will. The check comes first, because the engine ends the
 * process when this fails. HEARTH_ENGINE when nobody listens there, the name is unknown, the answer is missing or of
 * another version, or it comes too late: a server serves one client at a time. Blocks for at most ten seconds, plus the
 * time that the system takes to resolve the name.
 */
hearth_status hth_rpc_server_check(const char *address, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
