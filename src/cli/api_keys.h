/*
 * api_keys.h - keys of the command line: --api-key KEY and --api-key-file FILE, as llama-server has them
 *
 * They are keys without limits, called "api-key-1", "api-key-2" and so on in logs. A file has one key a line; empty
 * lines and those that begin with '#' are passed over. It is read again with a reload.
 */
#ifndef HTH_CLI_API_KEYS_H
#define HTH_CLI_API_KEYS_H

#include "cli/pool.h"
#include "cli/problems.h"
#include "server/options.h"

enum { HTH_API_KEYS_MAX = 1000, HTH_API_KEY_BYTES_MAX = 4096 };

/*
 * Add keys to those that options have, from pool: given [n], each perhaps several between commas, and those of the
 * file, NULL: none. What cannot be a key is a problem, which does not show it.
 */
void hth_api_keys_add(hth_pool *pool, const char *const *given, size_t n, const char *file, hth_server_options *options,
                      hth_problems *problems);

#endif
