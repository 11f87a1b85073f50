/*
 * key_edit.h - changes one key in the text of a key file, and leaves the rest unchanged
 *
 * The new text is parsed again before it is returned, to verify that it is a key file with only this change.
 */
#ifndef HTH_CLI_KEY_EDIT_H
#define HTH_CLI_KEY_EDIT_H

#include <stdint.h>

#include "options/config_file.h"

/*
 * Remove the block of a key. The text belongs to pool. HEARTH_NOT_FOUND; HEARTH_MISUSE if it is the only key, because a
 * server refuses a file without keys; HEARTH_CORRUPT if the text cannot be changed this way; HEARTH_NO_MEMORY.
 */
hearth_status hth_key_text_remove(hth_pool *pool, const hth_config_file *file, const char *name, const char **text_out,
                                  size_t *n_out, hearth_error *err);
/* Set the Unix time when a key expires; 0: never. Text and errors are as above. */
hearth_status hth_key_text_set_expiry(hth_pool *pool, const hth_config_file *file, const char *name, int64_t expires_s,
                                      const char **text_out, size_t *n_out, hearth_error *err);

#endif
