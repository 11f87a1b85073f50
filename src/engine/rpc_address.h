/*
 * rpc_address.h - the addresses of RPC servers, as users write them and as the engine expects them
 */
#ifndef HTH_ENGINE_RPC_ADDRESS_H
#define HTH_ENGINE_RPC_ADDRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" { /* our own headers are C and have no extern "C" themselves */
#endif

#include "base/status.h"

enum { HTH_RPC_SERVERS_MAX = 16, HTH_RPC_ADDRESS_BYTES = 300 };

/* The addresses in "host:port,host:port", in order. */
typedef struct hth_rpc_addresses {
    char texts[HTH_RPC_SERVERS_MAX][HTH_RPC_ADDRESS_BYTES]; /* "host:port" */
    uint16_t ports[HTH_RPC_SERVERS_MAX];
    unsigned n;
} hth_rpc_addresses;

/*
 * HEARTH_MISUSE for a text that is not an address, an address given twice, or too many addresses; the message names the
 * first such text.
 */
hearth_status hth_rpc_addresses_read(const char *text, hth_rpc_addresses *out, hearth_error *err);

#ifdef __cplusplus
}
#endif

#endif
