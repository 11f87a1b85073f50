/*
 * cache_options.h - the command line of `hearth cache`
 */
#ifndef HTH_CLI_CACHE_OPTIONS_H
#define HTH_CLI_CACHE_OPTIONS_H

#include "cache/file_tier_set.h"
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

/*
 * Read the command line of a verb, which argv[0] names. True if the options are complete. Otherwise the help or a
 * message has been printed, and *exit_out is the exit code. out may point into argv and into itself: do not copy or
 * move it.
 */
bool hth_cache_options_parse(const hth_manual *verb, int argc, char **argv, hth_cache_command_options *out,
                             int *exit_out);

extern const hth_manual hth_cache_why_manual; /* its options are those of `hearth run` */

#endif
