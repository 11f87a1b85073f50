/*
 * file_name.h - names of models from names of files, which may have any characters
 *
 * A model's name is in logs, metrics, keys and addresses, so it has few characters (HTH_SERVE_NAME_RULE). A file is
 * served whatever its name: under one that is made of it, and under its own as an alias, where clients can send that.
 */
#ifndef HTH_OPTIONS_FILE_NAME_H
#define HTH_OPTIONS_FILE_NAME_H

#include "options/pool.h"

/* The name of a model, of at most HTH_SERVE_NAME_BYTES_MAX bytes. */
#define HTH_SERVE_NAME_RULE "names have 1 to 128 letters, digits and . _ - : /, the first of them a letter or digit"
bool hth_serve_name_is_good(const char *name);

/*
 * Make a name of a text, in place, with '-' for what is neither letter, digit, '.', '_' nor one of others. False: it is
 * none, since it has no letter or digit, or begins with neither.
 */
bool hth_name_make_safe(char *text, const char *others);

/*
 * A good name from n bytes of a file's name, which may have folders; they themselves if they are one. NULL: no
 * memory.
 */
const char *hth_file_name_safe(hth_pool *pool, const char *file, size_t n);
/* Another one, of a name that several files would have: with a number made of the file's name. NULL: no memory. */
const char *hth_file_name_parted(hth_pool *pool, const char *name, const char *file);

/*
 * May it be another name of a model? Clients send it, so it is UTF-8, of at most HTH_SERVE_ALIAS_BYTES_MAX bytes, and
 * without control characters and marks that show nothing (base/controls.h). It may be a pattern of names with '*'.
 */
bool hth_alias_is_good(const char *text);

#endif
