/*
 * cache_open.h - shared by the verbs of `hearth cache`: opening the roots, keys, Ctrl-C, errors
 */
#ifndef HTH_CLI_CACHE_OPEN_H
#define HTH_CLI_CACHE_OPEN_H

#include "cli/cache_options.h"
#include "console/units.h"

typedef enum hth_cache_purpose {
    HTH_CACHE_TO_LOOK, /* also to remove rows; does not create a cache */
    HTH_CACHE_TO_ADD,  /* creates a cache if needed; keeps the recorded quota and a reserve of free space */
} hth_cache_purpose;

/* Was anything ever cached in this directory? The check does not create a cache. */
bool hth_cache_command_was_used(const char *directory);
/* Fill err with HEARTH_NOT_FOUND for an unused directory. */
hearth_status hth_cache_command_fail_empty(const char *directory, hearth_error *err);
/*
 * Open the roots of the options and wait until their indexes are complete. A missing root causes a warning.
 * HEARTH_NOT_FOUND if nothing was ever cached in any root, HEARTH_MISUSE if a path is too long; other statuses as for
 * hth_file_tier_set_open.
 */
hearth_status hth_cache_command_open(const hth_cache_command_options *options, hth_cache_purpose purpose,
                                     hth_file_tier_set **out, hearth_error *err);
/*
 * The only key of a row or a pin that begins with the digits of the options. A complete key is not looked up.
 * HEARTH_NOT_FOUND: no key begins with them. HEARTH_MISUSE: several do.
 */
hearth_status hth_cache_command_find_key(const hth_cache_command_options *options, hth_file_tier_set *files,
                                         hth_key *out, hearth_error *err);
/* Write the displayed digits of a key, or all; returns text. */
const char *hth_cache_command_key_text(const hth_key *key, bool full, char text[2 * HTH_KEY_BYTES + 1]);
/* interrupted: true after Ctrl-C, if hth_cache_command_watch was called before; long operations check it regularly. */
void hth_cache_command_watch(void);
bool hth_cache_command_interrupted(void);
/* Print the error. Returns the exit code for it. */
int hth_cache_command_fail(hearth_status status, const hearth_error *err);

#endif
