/*
 * option_table.h - the options of a command as rows of one table: flag, value, help, and offset
 *
 * A row has everything about an option, so the help always matches the parser. The same rows read the members of a JSON
 * object or of a configuration file. A table may contain other tables, so that commands share rows whose options are in
 * a nested struct.
 */
#ifndef HTH_OPTIONS_OPTION_TABLE_H
#define HTH_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "hearth.h"

typedef enum hth_option_kind {
    HTH_OPTION_HEADING, /* no option: `help` is a heading of the help */
    HTH_OPTION_FLAG,    /* sets a bool */
    HTH_OPTION_END,     /* sets nothing, and ends the parsing of the command line: --help */
    HTH_OPTION_TEXT,    /* a const char *, which points to the value */
    HTH_OPTION_TEXTS,   /* a list of texts, const char *[n_max], with their number, a size_t, at `n_offset` */
    HTH_OPTION_WORD,    /* an int or an enumeration: the index of the value in `words` */
    HTH_OPTION_I32,     /* numbers from `low` on may have names, in `words` */
    HTH_OPTION_U32,
    HTH_OPTION_NUMBER, /* a double that may be missing: NAN */
    HTH_OPTION_COUNT,  /* likewise for an integer */
    HTH_OPTION_MS,     /* a uint32_t of milliseconds; its value may have a unit, "30s" */
    HTH_OPTION_SIZE,   /* a uint64_t of bytes, at least `low` */
    HTH_OPTION_OWN,    /* read by a function */
    HTH_OPTION_TABLE,  /* no option: stands for the rows of `table`; `offset` is that of their options */
} hth_option_kind;

typedef struct hth_option hth_option;
typedef struct hth_option_table {
    const hth_option *rows;
    size_t n;
} hth_option_table;

/* The initialiser of a table that has an array of rows, and a pointer to such a table. */
#define HTH_OPTION_TABLE_OF(rows)              \
    {                                          \
        rows, sizeof(rows) / sizeof((rows)[0]) \
    }
#define HTH_OPTION_ROWS(rows) (&(const hth_option_table)HTH_OPTION_TABLE_OF(rows))

/*
 * Read a value into the options. shown is the name of the option in messages. value is NULL to empty a list, or to
 * reset an option whose value may be omitted. False, with a message in err, if the value is invalid.
 */
typedef bool (*hth_option_read_fn)(void *options, const char *shown, const char *value, hearth_error *err);
/* Write value i in the form of the command line; false: there are fewer values, or text is too short. */
typedef bool (*hth_option_write_fn)(const void *options, size_t i, char *text, size_t capacity);

/* Is value allowed? False with a message in err. */
typedef bool (*hth_option_check_fn)(const char *shown, const char *value, hearth_error *err);

struct hth_option {
    const char *name; /* without the dashes */
    int letter;       /* 0: none */
    hth_option_kind kind;
    /* the name of its value in the help; NULL: it has no value; in brackets: the value may be omitted */
    const char *value;
    const char *help;
    size_t offset; /* in the options of the command; unused by OWN */
    double low, high;
    const char *const *words;  /* of a WORD or I32; NULL ends them */
    size_t n_offset, n_max;    /* of TEXTS */
    hth_option_check_fn check; /* of a value, before it is read; NULL: none */
    hth_option_read_fn read;
    /*
     * Its name in a JSON object or a configuration file, where a table with a key is a section; NULL: it is not allowed
     * there.
     */
    const char *key;
    const hth_option_table *table;
    hth_option_write_fn write;          /* of OWN; needed if values are printed */
    bool (*is_word)(const char *value); /* of a path: is the value a word instead? NULL: never */
    bool is_common;                     /* shown in the short help, too */
    bool repeats;                       /* each value is appended to a list; NULL empties the list */
    bool is_path;                       /* a relative path in a configuration file starts from the folder of the file */
    bool is_named;                      /* of a path: it may follow "NAME=" */
    bool is_pairs;                      /* "KEY=VALUE"; in a configuration file, a section of keys and values */
};

/*
 * Read a command line into options. Returns the index of the first argument that is not an option; -1, with a message
 * on standard error, if an option is invalid. Messages begin with command.
 */
int hth_option_table_parse(const hth_option_table *table, const char *command, int argc, char **argv, void *options);
/* Likewise, and a function is called for each option after it was read. value: as given; NULL: the option has none. */
typedef void (*hth_option_fn)(const hth_option *option, const char *value, void *user_data);
int hth_option_table_visit(const hth_option_table *table, const char *command, int argc, char **argv, void *options,
                           hth_option_fn visit, void *user_data);

/* A row, and the offset of its table's options. */
typedef struct hth_placed_option {
    const hth_option *option;
    size_t offset;
} hth_placed_option;

enum { HTH_OPTIONS_MAX = 256 };
typedef struct hth_flat_table {
    hth_placed_option rows[HTH_OPTIONS_MAX];
    size_t n;
} hth_flat_table;

/* Replace the tables within a table by their rows; tables with a key stay if sections is false. */
void hth_option_table_flatten(const hth_option_table *table, bool sections, hth_flat_table *out);

/* The row with this key in the table itself; NULL: none. */
const hth_option *hth_option_table_find(const hth_option_table *table, const char *key);
/* Read one value; for a flag, value is ignored. */
bool hth_option_read(const hth_option *option, void *options, const char *shown, const char *value, hearth_error *err);
/*
 * Write value i in the form that hth_option_read reads. False: there are fewer values (an unset text has none), or text
 * is too short.
 */
bool hth_option_write(const hth_option *option, const void *options, size_t i, char *text, size_t capacity);
/* May its value be omitted on a command line? */
bool hth_option_may_omit_value(const hth_option *option);
/* Set or clear an HTH_OPTION_FLAG. */
void hth_option_set_flag(const hth_option *option, void *options, bool on);

/* Does the option, which must not be a list, have a valid value? A number below its range means "not chosen". */
bool hth_option_has_value(const hth_option *option, const void *options);

/*
 * Print the help of all options, or of the common ones, under their headings. Headings without a row are omitted.
 * defaults (NULL: none) are the initial options; a row shows its number, size, time or word there as its default.
 */
void hth_option_table_help(const hth_option_table *table, bool all, const void *defaults, FILE *out);
/* Write " (default 8)" for kinds with short values; "" if there is no default. */
void hth_option_default_text(const hth_option *option, const void *defaults, char *text, size_t capacity);

#endif
