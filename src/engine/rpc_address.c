/*
 * rpc_address.c - the addresses of RPC servers, as users write them and as the engine expects them
 */
#include "engine/rpc_address.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The port of "host:port", or 0. For the engine, the host ends at the first colon and must have an IPv4 address. */
static uint16_t port_of(const char *address)
{
    const char *colon = strchr(address, ':');
    char *rest = NULL;
    unsigned long port;

    if (!colon || colon == address || colon[1] < '0' || colon[1] > '9')
        return 0;
    port = strtoul(colon + 1, &rest, 10);
    return *rest || port > UINT16_MAX ? 0 : (uint16_t)port;
}

static hearth_status read_one(const char *text, size_t n, hth_rpc_addresses *out, hearth_error *err)
{
    char *address = out->texts[out->n];

    if (out->n == HTH_RPC_SERVERS_MAX)
        return hth_fail(err, HEARTH_MISUSE, "there are more than %d RPC servers in '%s'", HTH_RPC_SERVERS_MAX, text);
    if (n >= HTH_RPC_ADDRESS_BYTES)
        return hth_fail(err, HEARTH_MISUSE, "an RPC server's address of %zu bytes is too long", n);
    memcpy(address, text, n);
    address[n] = '\0';
    out->ports[out->n] = port_of(address);
    if (out->ports[out->n] == 0)
        return hth_fail(err, HEARTH_MISUSE,
                        "'%s' is no address of an RPC server: a name or IPv4 address, a colon and a port are", address);
    for (unsigned i = 0; i < out->n; i++)
        if (strcmp(out->texts[i], address) == 0)
            return hth_fail(err, HEARTH_MISUSE, "the RPC server '%s' is named twice", address);
    out->n++;
    return HEARTH_OK;
}

hearth_status hth_rpc_addresses_read(const char *text, hth_rpc_addresses *out, hearth_error *err)
{
    hearth_status status = HEARTH_OK;

    out->n = 0;
    while (status == HEARTH_OK) {
        size_t n = strcspn(text, ",");

        status = read_one(text, n, out, err);
        if (!text[n])
            break;
        text += n + 1;
    }
    return status;
}
