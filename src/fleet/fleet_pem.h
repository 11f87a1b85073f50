/*
 * fleet_pem.h - the file that makes machines a fleet: one key and one certificate for all of them
 *
 * `hearth fleet init` makes the file, and its owner copies it to every machine, like an ssh key. Both sides of a
 * connection show the certificate, and accept exactly this one. Certificates after the first are authorities: then each
 * machine may have a file of its own, with a certificate that one of them signed.
 *
 * Who has the file is a member: docs/fleet.md says what a member can do.
 */
#ifndef HTH_FLEET_FLEET_PEM_H
#define HTH_FLEET_FLEET_PEM_H

#include "http/upstream.h"

struct ssl_ctx_st;

typedef struct hth_fleet_pem hth_fleet_pem;

enum { HTH_FLEET_PRINT_BYTES = 2 * 32 + 1 };

/*
 * Make a new file, mode 0600, with a new key and a certificate for 20 years. print: the SHA-256 of the certificate in
 * hexadecimal digits. HEARTH_MISUSE: the name is taken. HEARTH_NOT_FOUND, HEARTH_PERMISSION, HEARTH_FULL, HEARTH_IO,
 * HEARTH_NO_MEMORY, HEARTH_FAILED.
 */
hearth_status hth_fleet_pem_make(const char *path, char print[HTH_FLEET_PRINT_BYTES], hearth_error *err);

/*
 * Read a file. HEARTH_NOT_FOUND, HEARTH_PERMISSION (also: others of this machine may read it), HEARTH_IO,
 * HEARTH_CORRUPT: no key and certificate that belong together, or a certificate that no member would accept;
 * HEARTH_NO_MEMORY. Free with hth_fleet_pem_free, after
 * everything that uses it.
 */
hearth_status hth_fleet_pem_read(const char *path, hth_fleet_pem **out, hearth_error *err);
void hth_fleet_pem_free(hth_fleet_pem *pem); /* accepts NULL */

/*
 * An hth_http_tls_fn for the listener of other nodes; user_data is the hth_fleet_pem. A client may use the context,
 * too: it shows the same certificate, and accepts the same members.
 */
struct ssl_ctx_st *hth_fleet_pem_context(void *user_data);
/* For requests to other nodes. */
const hth_upstream_tls *hth_fleet_pem_tls(const hth_fleet_pem *pem);
const char *hth_fleet_pem_print(const hth_fleet_pem *pem); /* as above */
/*
 * A digest of the file's key, which only this node has, or, if true, all members: the file has no authorities, so it is
 * the same for all.
 */
bool hth_fleet_pem_secret(const hth_fleet_pem *pem, uint8_t out[32]);
/* The same for all members: likewise, of the first authority if there is one. */
const char *hth_fleet_pem_fleet(const hth_fleet_pem *pem);

#endif
