/*
 * trusted_file.h - checks that only trusted users can change a file that controls access
 */
#ifndef HTH_CONSOLE_TRUSTED_FILE_H
#define HTH_CONSOLE_TRUSTED_FILE_H

#include <stdint.h>

#include "console/problems.h"

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
