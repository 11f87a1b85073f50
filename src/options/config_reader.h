/*
 * config_reader.h - reads sections of a configuration file into options, by the rows of the command line
 *
 * The row with the key of a member reads the value; a row of the kind HTH_OPTION_TABLE with a key is a section. An
 * error has the name of the file, the line, the key and the expected value. Reading continues after an error, so that
 * all errors are found at once.
 */
#ifndef HTH_OPTIONS_CONFIG_READER_H
#define HTH_OPTIONS_CONFIG_READER_H

#include "console/problems.h"
#include "options/config_file.h"
#include "options/option_table.h"

typedef struct hth_config_reader {
    const char *name;             /* of the file, as messages show it; NULL: they show neither it nor lines */
    const char *directory;        /* the directory that its relative paths start from; ends with '/' */
    const hth_option_table *root; /* that of the whole file, to find the section of a misplaced key; may be NULL */
    hth_pool *pool;               /* for paths */
    hth_problems *problems;
} hth_config_reader;

/* Add an error in this line to the reader's problems. */
void hth_config_say(const hth_config_reader *reader, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The directory of a file, for a reader: absolute, with '/' at its end. NULL without memory. */
const char *hth_config_directory(hth_pool *pool, const char *path);
/* path itself when it is absolute or names no file for its engine, otherwise path in directory; NULL without memory. */
const char *hth_config_path(hth_pool *pool, const char *directory, const char *path);
/* The same for a path that may stand behind "NAME=", which stays. */
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

#endif
