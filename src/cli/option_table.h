/*
 * option_table.h - a command's options as rows of one table: flag, value, help and where it goes
 *
 * A row says everything about an option, so that the help cannot lie about the parser. The same rows read the members
 * of a JSON object, where a command takes options from there, too. A table may contain other tables, so that commands share
 * rows whose options lie in a struct within theirs.
 */
#ifndef HTH_CLI_OPTION_TABLE_H
#define HTH_CLI_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hearth.h"

typedef enum hth_option_kind {
    HTH_OPTION_HEADING, /* no option: `help` is a heading in the help */
    HTH_OPTION_FLAG,    /* sets a bool */
    HTH_OPTION_END,     /* likewise, and what follows on the command line is not looked at: --help */
    HTH_OPTION_TEXT,    /* a const char *, which points to the value */
    HTH_OPTION_I32,
    HTH_OPTION_U32,
    HTH_OPTION_U64,
    HTH_OPTION_FLOAT,
    HTH_OPTION_NUMBER, /* a double that may be missing: NAN, which has no value to write */
    HTH_OPTION_COUNT,  /* likewise, a whole number */
    HTH_OPTION_MS,     /* a uint32_t of milliseconds; its value may have a unit, "30s" */
    HTH_OPTION_SIZE,   /* a uint64_t of bytes, at least `low` */
    HTH_OPTION_OWN,    /* read by a function */
    HTH_OPTION_TABLE,  /* no option: the rows of `table` stand here, their options begin at `offset` */
} hth_option_kind;

typedef struct hth_option hth_option;
typedef struct hth_option_table {
    const hth_option *rows;
    size_t n;
} hth_option_table;

/*
 * Read a value into the command's options. shown is how messages name the option. value NULL, only where the option
 * repeats or its value may be left out: forget what was given before. False when the value is wrong, with a message in err.
 */
typedef bool (*hth_option_read_fn)(void *options, const char *shown, const char *value, hearth_error *err);
/* Write value i as the command line would have it; false: there are not so many, or text has no room. */
typedef bool (*hth_option_write_fn)(const void *options, size_t i, char *text, size_t capacity);

struct hth_option {
    const char *name; /* without the dashes */
    int letter;       /* 0: none */
    hth_option_kind kind;
    const char *value; /* how the help names its value, NULL: it takes none; in brackets: it may be left out */
    const char *help;
    size_t offset; /* in the command's options; not with a function */
    double low, high;
    hth_option_read_fn read;
    /* Its name in a JSON object or a configuration file, where a table with a key is a section; NULL: not allowed there. */
    const char *key;
    const hth_option_table *table;
    hth_option_write_fn write;          /* of what is read by a function; where values are printed */
    bool (*is_word)(const char *value); /* of a path: values that are none; NULL: there are no such */
    bool is_common;                     /* in the short help, too */
    bool repeats;                       /* each value adds to a list; with a function, which takes NULL to empty it */
    bool is_path;                       /* in a configuration file, a relative one begins at the file's folder */
    bool is_pairs;                      /* "KEY=VALUE"; in a configuration file, a section of keys with values */
};

/*
 * Read a command line into options. The index of the first argument that is no option, or -1 when an option is wrong,
 * which was said. command begins the messages.
 */
int hth_option_table_parse(const hth_option_table *table, const char *command, int argc, char **argv, void *options);

/* A row, and where the options of its table begin. */
typedef struct hth_placed_option {
    const hth_option *option;
    size_t offset;
} hth_placed_option;

enum { HTH_OPTIONS_MAX = 256 };
typedef struct hth_flat_table {
    hth_placed_option rows[HTH_OPTIONS_MAX];
    size_t n;
} hth_flat_table;

/* A table with the rows of the tables within it in their places; those with a key stay as they are if sections is false. */
void hth_option_table_flatten(const hth_option_table *table, bool sections, hth_flat_table *out);

/* The row of a JSON key, not those of tables within; NULL when there is none. */
const hth_option *hth_option_table_find(const hth_option_table *table, const char *key);
/* Read one value; for a flag, value is ignored. */
bool hth_option_read(const hth_option *option, void *options, const char *shown, const char *value, hearth_error *err);
/*
 * Write value i as hth_option_read would read it. False: there are not so many values (a text that is not given has none),
 * or text has no room.
 */
bool hth_option_write(const hth_option *option, const void *options, size_t i, char *text, size_t capacity);
/* Is its value, on a command line, one that may be left out? */
bool hth_option_may_omit_value(const hth_option *option);
/* Set or clear an HTH_OPTION_FLAG. */
void hth_option_set_flag(const hth_option *option, void *options, bool on);

/* Print the options under their headings, all or the common ones. Headings without a row are left out. */
void hth_option_table_print(const hth_option_table *table, bool all, FILE *out);

#endif
