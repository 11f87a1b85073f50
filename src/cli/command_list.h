/*
 * command_list.h - all commands, and the overview of them
 */
#ifndef HTH_CLI_COMMAND_LIST_H
#define HTH_CLI_COMMAND_LIST_H

#include <stdio.h>

#include "options/commands.h"
#include "options/manual.h"

typedef struct hth_command {
    const hth_manual *manual;
    int (*run)(int argc, char **argv);
    const char *group; /* of this command and those after it; NULL: that of the command before */
} hth_command;

extern const hth_command hth_commands[]; /* ended by one without a manual */

/* The command with this name. NULL if there is none, with a message that may name a similar one. */
const hth_command *hth_command_find(const char *name);
/* Print the help of `hearth` without arguments. */
void hth_overview_print(FILE *out);

/* Pages for `man`, in roff: hearth(1), with a list of all commands */
void hth_man_overview_print(FILE *out);
/* hearth-COMMAND(1), with its verbs */
void hth_man_command_print(const hth_manual *manual, FILE *out);
/* hearth.conf(5), with all keys */
void hth_man_config_print(FILE *out);

#endif
