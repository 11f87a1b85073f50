/*
 * manual.h - the manual of a command, or of one of its verbs
 *
 * Terminal help, man pages and shell completions are made from it and from the table of options.
 */
#ifndef HTH_OPTIONS_MANUAL_H
#define HTH_OPTIONS_MANUAL_H

#include <stdbool.h>
#include <stdio.h>

#include "options/option_table.h"

typedef struct hth_manual hth_manual;
struct hth_manual {
    const char *name;  /* "cache", or "ls" for a verb */
    const char *alias; /* another name of a verb; NULL: none */
    const char *summary;
    /*
     * "usage: hearth NAME ...", an empty line, paragraphs, and an empty line. For a command with verbs, only the
     * paragraphs: the usage lines are those of the verbs.
     */
    const char *usage;
    const char *closing; /* NULL: none */
    const hth_option_table *options;
    const char *option_names;    /* the rows that it accepts, with a space on both sides of each; NULL: all */
    void (*init)(void *options); /* sets the defaults of a struct of n_bytes; NULL: the help texts name the defaults */
    size_t n_bytes;
    /*
     * Kinds of the arguments for completion, separated by spaces; the last one repeats; NULL: none. A kind is
     * HTH_COMPLETE_..., or words separated by '|'.
     */
    const char *arguments;
    const hth_manual *const *verbs; /* ending with NULL; NULL: no verbs */
};

#define HTH_COMPLETE_FILE ":file"
#define HTH_COMPLETE_DIRECTORY ":directory"
#define HTH_COMPLETE_MODEL ":model"     /* a file, or a downloaded model */
#define HTH_COMPLETE_NAME ":name"       /* a downloaded model */
#define HTH_COMPLETE_SERVED ":served"   /* a model of the running server */
#define HTH_COMPLETE_COMMAND ":command" /* of the program */
#define HTH_COMPLETE_VERB ":verb"       /* of the command before it */
#define HTH_COMPLETE_NOTHING ":nothing"

/* Does the command accept this option of its table? */
bool hth_manual_takes(const hth_manual *manual, const hth_option *option);
/*
 * Read the command line of a command, or of a verb of the command `parent`, into options, which have their defaults.
 * Returns the index of the first argument that is not an option. -1: the help or a message was printed, and *exit_out
 * is the exit code.
 */
int hth_manual_parse(const hth_manual *manual, const hth_manual *parent, int argc, char **argv, void *options,
                     int *exit_out);
/* New default options, for free(); NULL: init is NULL, or there is no memory. */
void *hth_manual_defaults(const hth_manual *manual);
/* Print the help: all options, or the common ones if --help-all shows the others. */
void hth_manual_print(const hth_manual *manual, bool all, FILE *out);
/* Call visit for each usage line, with the text after "hearth "; a line is not terminated. */
void hth_manual_visit_usage(const hth_manual *manual, void (*visit)(const char *line, size_t n, void *user_data),
                            void *user_data);
/* The paragraphs after the usage lines. */
const char *hth_manual_text(const hth_manual *manual);

/* A verb of a command, such as `ls` of `hearth cache`. NULL, with a message: the command has no such verb. */
const hth_manual *hth_verb_find(const hth_manual *command, const char *name);
/*
 * The verb in argv[1]. NULL: the help (for --help or no verb) or a message was printed, and *exit_out is the exit code.
 */
const hth_manual *hth_verb_read(const hth_manual *command, int argc, char **argv, int *exit_out);

#endif
