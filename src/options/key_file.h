/*
 * key_file.h - the keys of clients, from their file and from the command line
 *
 *     key "alice" {
 *       sha256 = "..."             # of the key, which is not stored
 *       models = ["chat"]          # if this is missing: all
 *       requests_per_minute = 60   # if a limit is missing: no limit
 *       tokens_per_minute = 100000
 *       concurrency = 4
 *       salt = "..."               # shares cached prompts only with keys of the same salt
 *       admin = true
 *       expires = "2027-01-31"     # refused from then on; a date means its beginning in UTC
 *     }
 */
#ifndef HTH_OPTIONS_KEY_FILE_H
#define HTH_OPTIONS_KEY_FILE_H

#include <stdint.h>

#include "console/problems.h"
#include "options/config_file.h"
#include "options/option_table.h"
#include "options/pool.h"
#include "supervisor/server_options.h"

enum { HTH_KEY_NAME_BYTES_MAX = 64, HTH_KEY_MODELS_MAX = 64, HTH_KEYS_MAX = 10000, HTH_KEY_SALT_BYTES_MAX = 256 };

/* One key of the file. */
typedef struct hth_key_entry {
    hth_server_key key;
    bool has_sha256;
    const char *models[HTH_KEY_MODELS_MAX];
} hth_key_entry;

/* Limits, salt and rights, in an hth_key_entry: keys of the file, and options of `hearth key new`. */
extern const hth_option_table hth_key_limit_options;

bool hth_key_name_is_valid(const char *name);

/*
 * Read the keys into options, with memory from pool. Refuses a file that other users may write to. Warns about models
 * that options->models does not have.
 */
void hth_key_file_read(hth_pool *pool, const char *path, hth_server_options *options, hth_problems *problems);
/* Likewise for a parsed file, without checking models. */
void hth_key_file_read_tree(hth_pool *pool, const char *name, const hth_config_node *root, hth_server_options *options,
                            hth_problems *problems);

/*
 * Keys of the command line, --api-key KEY and --api-key-file FILE, as in llama-server. They have no limits. Logs call
 * them "api-key-1", "api-key-2" and so on. A file has one key on each line; empty lines and lines that begin with '#'
 * are skipped. A reload reads the file again.
 */
enum { HTH_API_KEYS_MAX = 1000, HTH_API_KEY_BYTES_MAX = 4096 };

/*
 * Append keys to those in options, with memory from pool: the keys in given, [n], each a comma-separated list, and the
 * keys in the file (NULL: none). An invalid key is a problem; its message does not show the key.
 */
void hth_api_keys_add(hth_pool *pool, const char *const *given, size_t n, const char *file, hth_server_options *options,
                      hth_problems *problems);

/*
 * Check the owner and mode of a regular file. Its owner can write to it at any time, so the owner must be root or the
 * server's user, and other users must not have write permission: otherwise it is an error. Write permission of its
 * group, or read permission of others, is a warning.
 *
 * what: "the keys", for the subject of a message; secrets: the contents that others could read. False: the file must
 * not be used, and problems has the reason.
 */
bool hth_trusted_file_check(const char *path, const char *what, const char *secrets, uint32_t owner, uint32_t mode,
                            hth_problems *problems);

#endif
