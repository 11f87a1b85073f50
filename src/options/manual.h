/*
 * manual.h - the manual of a command, or of one of its verbs
 *
 * Help in the terminal, man pages and the completions of shells are made of it, and of the table of options.
 */
#ifndef HTH_OPTIONS_MANUAL_H
#define HTH_OPTIONS_MANUAL_H

#include <stdbool.h>
#include <stdio.h>

#include "options/option_table.h"

typedef struct hth_manual hth_manual;
struct hth_manual {
    const char *name;  /* "cache"; of a verb "ls" */
    const char *alias; /* another name that a verb has; NULL: none */
    const char *summary;
    /*
     * "usage: hearth NAME ...", an empty line, paragraphs, and an empty line. Of a command with verbs, the paragraphs
     * only: the lines of usage are those of the verbs.
     */
    const char *usage;
    const char *closing; /* NULL: none */
    const hth_option_table *options;
    const char *option_names;      /* the rows that it takes, a space on both sides of each; NULL: all */
    const void *(*defaults)(void); /* the options before anything was read; NULL: their help names the defaults */
    /*
     * Kinds of the arguments for completion, separated by spaces; the last one repeats; NULL: there is none. A kind is
     * HTH_COMPLETE_..., or words separated by '|'.
     */
    const char *arguments;
    const hth_manual *const *verbs; /* NULL ends them; NULL: it has none */
};

#define HTH_COMPLETE_FILE ":file"
#define HTH_COMPLETE_DIRECTORY ":directory"
#define HTH_COMPLETE_MODEL ":model"     /* a file, or a downloaded model */
#define HTH_COMPLETE_NAME ":name"       /* a downloaded model */
#define HTH_COMPLETE_SERVED ":served"   /* a model of the running server */
#define HTH_COMPLETE_COMMAND ":command" /* of the program */
#define HTH_COMPLETE_VERB ":verb"       /* of the command before it */
#define HTH_COMPLETE_NOTHING ":nothing"

/* Does the command, which has this option in its table, take it? */
bool hth_manual_takes(const hth_manual *manual, const hth_option *option);
/* Print the help: all options, or the common ones if --help-all shows the others. */
void hth_manual_print(const hth_manual *manual, bool all, FILE *out);
/* Run visit for the lines of usage, from behind "hearth " on; the text of a line is not ended. */
void hth_manual_visit_usage(const hth_manual *manual, void (*visit)(const char *line, size_t n, void *user_data),
                            void *user_data);
/* The paragraphs behind the lines of usage. */
const char *hth_manual_text(const hth_manual *manual);

#endif
