/*
 * config_reader.h - reads sections of a configuration file into options, with the table rows of the command line
 *
 * The row with a member's key reads its value; a row of the kind HTH_OPTION_TABLE with a key is a section. An error has
 * the name of the file, the line, the key and the expected value. Reading continues after an error, so that all errors
 * are found at once.
 */
#ifndef HTH_OPTIONS_CONFIG_READER_H
#define HTH_OPTIONS_CONFIG_READER_H

#include "console/problems.h"
#include "options/config_file.h"
#include "options/option_table.h"

typedef struct hth_config_reader {
    const char *name;             /* of the file, for messages; NULL: they have neither name nor lines */
    const char *directory;        /* the base directory of its relative paths; ends with '/' */
    const hth_option_table *root; /* the table of the whole file, to find the section of a misplaced key; may be NULL */
    hth_pool *pool;               /* for paths */
    hth_problems *problems;
} hth_config_reader;

/* The directory of a file, for a reader: absolute, ending with '/'. NULL without memory. */
const char *hth_config_directory(hth_pool *pool, const char *path);
/*
 * path itself if it is absolute or does not name a file for its engine, otherwise path within directory. NULL without
 * memory.
 */
const char *hth_config_path(hth_pool *pool, const char *directory, const char *path);
/* Likewise for a path that may follow "NAME=", which is kept. */
const char *hth_config_named_path(hth_pool *pool, const char *directory, const char *text);

enum { HTH_CONFIG_OWN_KEYS_MAX = 2 };
typedef struct hth_config_scope {
    const char *prefix; /* of keys in messages: "limits."; "": none */
    const char *where;  /* "here", "of a model" */
    /* Keys that the caller reads itself; NULL: none. They may occur several times. */
    const char *own_keys[HTH_CONFIG_OWN_KEYS_MAX];
    void (*read_own)(const hth_config_reader *reader, const hth_config_node *node, void *user_data);
    void *user_data;
} hth_config_scope;

/* Read a section's members into options. */
void hth_config_read(const hth_config_reader *reader, const hth_config_node *section, const hth_option_table *table,
                     void *options, const hth_config_scope *scope);

/*
 * Options that several sections share:
 *
 *     preset "small" { context = 4096; type_k = q8_0 }
 *     model "chat" { path = "chat.gguf"; preset = "small" }
 *
 * A preset may have any keys of a model. A model gets the keys of its presets in the order in which it names them. A
 * later preset overrides an earlier one, and the model's own keys override all presets.
 */
enum { HTH_CONFIG_PRESETS_MAX = 256 };
typedef struct hth_config_presets {
    const hth_config_node *sections[HTH_CONFIG_PRESETS_MAX]; /* their keys are the names of the presets */
    size_t n;
    const char *directory;         /* base of their relative paths */
    const hth_option_table *table; /* the keys that a preset may have */
    bool is_wrong;                 /* one of them has an error, which was reported */
} hth_config_presets;

/* Report the errors of all presets, including unused ones. options is scratch that they are read into. */
void hth_config_presets_check(hth_config_presets *presets, const hth_config_reader *reader, void *options);

/*
 * Read the presets that a section names, and then the section, over options. `where` is as in hth_config_scope. Errors
 * go to the reader's problems.
 */
void hth_config_presets_read(const hth_config_presets *presets, const hth_config_reader *reader,
                             const hth_config_node *section, const char *where, void *options);

#endif
