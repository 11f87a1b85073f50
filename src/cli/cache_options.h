/*
 * cache_options.h - the command line of `hearth cache`, and the functions that its verbs share: for roots, keys, Ctrl-C
 * and errors
 */
#ifndef HTH_CLI_CACHE_OPTIONS_H
#define HTH_CLI_CACHE_OPTIONS_H

#include "cache/file_tier_set.h"
#include "console/units.h"
#include "options/manual.h"

enum {
    HTH_CACHE_PATH_BYTES = 4096,
    HTH_CACHE_KEY_DIGITS = 12, /* displayed digits of a key */
    HTH_CACHE_KEY_DIGITS_MIN = 4,
};
#define HTH_CACHE_NO_SIZE UINT64_MAX

typedef enum hth_cache_verb {
    HTH_CACHE_STAT,
    HTH_CACHE_LS,
    HTH_CACHE_VERIFY,
    HTH_CACHE_GC,
    HTH_CACHE_RM,
    HTH_CACHE_EXPORT,
    HTH_CACHE_IMPORT,
    HTH_CACHE_REPAIR,
    HTH_CACHE_PIN,
    HTH_CACHE_UNPIN,
    HTH_CACHE_VERBS,
} hth_cache_verb;

typedef struct hth_cache_command_options {
    hth_cache_verb verb;
    const char *directory; /* from the command line, or default_directory */
    char default_directory[HTH_CACHE_PATH_BYTES];
    const char *more_directories[HTH_FILE_TIER_ROOTS_MAX - 1];
    size_t n_more_directories;
    const char *index_directory; /* NULL: with the rows */
    bool as_json;
    bool quiet;
    hth_row_kind kind;      /* HTH_ROW_KINDS: any */
    const char *key_prefix; /* ls: hex digits, NULL: any */
    uint32_t limit;
    uint32_t hits_min;
    uint64_t to_bytes; /* gc; HTH_CACHE_NO_SIZE: not given */
    bool with_descendants;
    bool replace;
    const char *signing_key_file;
    bool full_keys;        /* ls */
    const char *key_begin; /* rm, export, pin, unpin: the first hex digits of a key; NULL: none */
    const char *file;      /* export, import */
} hth_cache_command_options;

extern const hth_manual hth_cache_why_manual; /* its options are those of `hearth run` */

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

/* The verbs; the result is the exit code. */
int hth_cache_show(const hth_cache_command_options *options);     /* stat, ls */
int hth_cache_care(const hth_cache_command_options *options);     /* verify, gc, rm, repair */
int hth_cache_transfer(const hth_cache_command_options *options); /* export, import */
/*
 * why: argv[0] is the verb; the options of `hearth run` follow. 0: the whole prompt is known, 1: only part of it, 2:
 * failed.
 */
int hth_cache_why(int argc, char **argv);

#endif
