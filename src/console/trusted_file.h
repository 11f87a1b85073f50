/*
 * trusted_file.h - is a file that decides about access in the hands of those who may decide?
 */
#ifndef HTH_CONSOLE_TRUSTED_FILE_H
#define HTH_CONSOLE_TRUSTED_FILE_H

#include <stdint.h>

#include "console/problems.h"

/*
 * Look at a regular file's owner and mode. Its owner may write it at any time, so he is root or the server's user: else
 * an error, as where others may write. A warning where its group may write, or others may read.
 *
 * what: "the keys", at the end of a sentence's subject; secrets: what others may read there.
 * False: it must not be used, and problems has the reason.
 */
bool hth_trusted_file_check(const char *path, const char *what, const char *secrets, uint32_t owner, uint32_t mode,
                            hth_problems *problems);

#endif
