/*
 * file_name.h - makes names of models from names of files, which may have any characters
 *
 * A model's name appears in logs, metrics, keys and addresses, so only some characters are allowed
 * (HTH_SERVE_NAME_RULE). A file with any name is served: under a name made from it and, if clients can send that, under
 * its own name as an alias.
 */
#ifndef HTH_OPTIONS_FILE_NAME_H
#define HTH_OPTIONS_FILE_NAME_H

#include "options/pool.h"

/* The name of a model, of at most HTH_SERVE_NAME_BYTES_MAX bytes. */
#define HTH_SERVE_NAME_RULE "names have 1 to 128 letters, digits and . _ - : /, the first of them a letter or digit"
bool hth_serve_name_is_good(const char *name);

/*
 * Turn a text into a name, in place. Characters other than letters, digits, '.', '_' and those in others become '-'.
 * False: the result is not a name, because it does not begin with a letter or digit.
 */
bool hth_name_make_safe(char *text, const char *others);

/* A valid name from n bytes of a file's name, which may include folders; unchanged if it is valid. NULL: no memory. */
const char *hth_file_name_safe(hth_pool *pool, const char *file, size_t n);
/* A unique name if several files would have the same: name with a number made from the file's name. NULL: no memory. */
const char *hth_file_name_parted(hth_pool *pool, const char *name, const char *file);

/*
 * May the text be an alias of a model? Clients send it, so it must be UTF-8, of at most HTH_SERVE_ALIAS_BYTES_MAX
 * bytes, without control characters and invisible marks (base/controls.h). It may be a pattern with '*'.
 */
bool hth_alias_is_good(const char *text);

#endif
