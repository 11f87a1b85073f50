/*
 * key_edit.h - change one key in the text of a file of keys, and leave all else as it is
 *
 * What comes out is read again before it is given back: it is a file of keys that has just the change.
 */
#ifndef HTH_CLI_KEY_EDIT_H
#define HTH_CLI_KEY_EDIT_H

#include <stdint.h>

#include "cli/config_file.h"

/*
 * Take the block of a key away. The text belongs to pool. HEARTH_NOT_FOUND; HEARTH_MISUSE where it is the only one, since a
 * server takes no file without keys; HEARTH_CORRUPT where the text cannot be changed so; HEARTH_NO_MEMORY.
 */
hearth_status hth_key_text_remove(hth_pool *pool, const hth_config_file *file, const char *name, const char **text_out,
                                  size_t *n_out, hearth_error *err);
/* Let a key expire at that Unix time; 0: never. Likewise. */
hearth_status hth_key_text_set_expiry(hth_pool *pool, const hth_config_file *file, const char *name, int64_t expires_s,
                                      const char **text_out, size_t *n_out, hearth_error *err);

#endif
