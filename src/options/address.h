/*
 * address.h - addresses to listen on, as text
 */
#ifndef HTH_OPTIONS_ADDRESS_H
#define HTH_OPTIONS_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hearth.h"

enum { HTH_ADDRESS_HOST_BYTES = 256, HTH_ADDRESS_PORT = 8080 /* if the text has none */ };

/*
 * Read "HOST:PORT", "[IPV6]:PORT", "HOST", "PORT" or "unix:PATH". host_out, of n bytes, receives the host, or "" for a
 * unix socket; *path_out receives the path of the socket, within text, or NULL. shown is the option in messages. False
 * with a message.
 */
bool hth_address_read(const char *shown, const char *text, char *host_out, size_t n, uint16_t *port_out,
                      const char **path_out, hearth_error *err);
/* Is text a valid address? An hth_option_check_fn. */
bool hth_address_check(const char *shown, const char *text, hearth_error *err);

#endif
