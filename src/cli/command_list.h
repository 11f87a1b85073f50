/*
 * command_list.h - all commands, and the overview of them
 */
#ifndef HTH_CLI_COMMAND_LIST_H
#define HTH_CLI_COMMAND_LIST_H

#include <stdio.h>

#include "options/commands.h"

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

#endif
