/*
 * man_page.h - manuals as pages for `man`, in roff
 */
#ifndef HTH_CLI_MAN_PAGE_H
#define HTH_CLI_MAN_PAGE_H

#include <stdio.h>

#include "options/manual.h"

/* hearth(1), with a list of all commands */
void hth_man_overview_print(FILE *out);
/* hearth-COMMAND(1), with its verbs */
void hth_man_command_print(const hth_manual *manual, FILE *out);
/* hearth.conf(5), with all keys */
void hth_man_config_print(FILE *out);

#endif
