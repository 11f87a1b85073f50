/*
 * api_keys.h - keys from the command line: --api-key KEY and --api-key-file FILE, as in llama-server
 *
 * These keys have no limits. Logs call them "api-key-1", "api-key-2" and so on. A file has one key on each line; empty
 * lines and lines that begin with '#' are skipped. A reload reads the file again.
 */
#ifndef HTH_OPTIONS_API_KEYS_H
#define HTH_OPTIONS_API_KEYS_H

#include "console/problems.h"
#include "options/pool.h"
#include "supervisor/options.h"

enum { HTH_API_KEYS_MAX = 1000, HTH_API_KEY_BYTES_MAX = 4096 };

/*
 * Append keys to those in options, with memory from pool: the keys in given, [n], each a comma-separated list, and the
 * keys in the file (NULL: none). An invalid key is a problem; its message does not show the key.
 */
void hth_api_keys_add(hth_pool *pool, const char *const *given, size_t n, const char *file, hth_server_options *options,
                      hth_problems *problems);

#endif
