/*
 * config_reader.h - sections of a configuration file into options, by the rows that the command line has, too
 *
 * A member is read by the row that has its key; a row of the kind HTH_OPTION_TABLE with a key is a section. What is wrong
 * is said with the file's name, the line, the key and what was expected, and reading goes on, so that all that is wrong is
 * found at once.
 */
#ifndef HTH_CLI_CONFIG_READER_H
#define HTH_CLI_CONFIG_READER_H

#include "cli/config_file.h"
#include "cli/option_table.h"
#include "cli/problems.h"

typedef struct hth_config_reader {
    const char *name;             /* of the file, as messages show it */
    const char *directory;        /* where its relative paths begin; ends with '/' */
    const hth_option_table *root; /* the whole file's, to tell where a key belongs; may be NULL */
    hth_pool *pool;               /* for paths */
    hth_problems *problems;
} hth_config_reader;

/* The directory of a file, for a reader: absolute, ends with '/'. NULL without memory. */
const char *hth_config_directory(hth_pool *pool, const char *path);
/* path where it is absolute or for an engine without files, otherwise behind directory; NULL without memory. */
const char *hth_config_path(hth_pool *pool, const char *directory, const char *path);

typedef struct hth_config_scope {
    const char *prefix; /* of keys in messages: "limits."; "": none */
    const char *where;  /* "here", "of a model" */
    /* A key that the caller reads by itself; NULL: none. May come several times. */
    const char *own_key;
    void (*read_own)(const hth_config_reader *reader, const hth_config_node *node, void *user_data);
    void *user_data;
} hth_config_scope;

/* Read a section's members into options. */
void hth_config_read(const hth_config_reader *reader, const hth_config_node *section, const hth_option_table *table,
                     void *options, const hth_config_scope *scope);

#endif
