/*
 * rpc_server.h - checks that a server of the engine's RPC backend answers
 */
#ifndef HTH_LLAMA_RPC_SERVER_H
#define HTH_LLAMA_RPC_SERVER_H

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"

/*
 * Connect, greet and read the server's version, as the engine will. The check comes first, because the engine ends the
 * process when this fails. address is one of hth_rpc_addresses. HEARTH_ENGINE: no server listens there, the name is
 * unknown, or the answer is missing, late (a server serves one client at a time) or of another version. Blocks for at
 * most ten seconds, plus the time that the system takes to resolve the name. Any thread.
 */
hearth_status hth_rpc_server_check(const char *address, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
