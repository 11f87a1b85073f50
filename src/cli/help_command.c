/*
 * help_command.c - `hearth help`: the manuals, in the terminal or for `man`
 */
#include <stdio.h>
#include <string.h>

#include "cli/command_list.h"
#include "cli/man_page.h"
#include "console/output.h"
#include "options/verb.h"

typedef struct help_options {
    bool all;
    bool man;
    bool names;
    bool help;
} help_options;

#define AT(field) offsetof(help_options, field)

static const hth_option rows[] = {
    { "all", 'a', HTH_OPTION_FLAG, NULL, "show all options, as --help-all of the command does", .offset = AT(all) },
    { "man", 0, HTH_OPTION_FLAG, NULL,
      "print the page for man, in roff: of COMMAND, of the configuration (hearth.conf), or of the program",
      .offset = AT(man) },
    { "names", 0, HTH_OPTION_FLAG, NULL, "print the names of all commands, one a line", .offset = AT(names) },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = AT(help) },
};

static const hth_option_table table = { rows, sizeof(rows) / sizeof(rows[0]) };

const hth_manual hth_help_manual = {
    .name = "help",
    .summary = "explain a command: help COMMAND [VERB]",
    .usage = "usage: hearth help [COMMAND [VERB]] [--all]\n"
             "       hearth help --man [COMMAND | hearth.conf]\n"
             "\n"
             "Explains a command or one of its verbs. Without COMMAND it shows all commands.\n"
             "\n",
    .closing = "\nExit codes: 0 done, 2 there is no such command.\n"
               "\n"
               "  hearth help cache ls\n"
               "  hearth help --man serve | man -l -\n",
    .options = &table,
    .arguments = HTH_COMPLETE_COMMAND " " HTH_COMPLETE_VERB " " HTH_COMPLETE_NOTHING,
};

static int explain(const help_options *options, int n, char **names)
{
    const hth_command *command;
    const hth_manual *manual;

    if (n == 0) {
        (options->man ? hth_man_overview_print : hth_overview_print)(stdout);
        return HTH_EXIT_OK;
    }
    if (options->man && strcmp(names[0], "hearth.conf") == 0) {
        hth_man_config_print(stdout);
        return HTH_EXIT_OK;
    }
    command = hth_command_find(names[0]);
    if (!command)
        return HTH_EXIT_USAGE;
    manual = n > 1 ? hth_verb_find(command->manual, names[1]) : command->manual;
    if (!manual)
        return HTH_EXIT_USAGE;
    if (n > 2) {
        (void)fprintf(stderr, "hearth: help takes a command and a verb, no '%s'\n", names[2]);
        return HTH_EXIT_USAGE;
    }
    if (options->man)
        hth_man_command_print(command->manual, stdout);
    else
        hth_manual_print(manual, options->all, stdout);
    return HTH_EXIT_OK;
}

int hth_command_help(int argc, char **argv)
{
    help_options options = { .all = false };
    const int first = hth_option_table_parse(&table, "hearth help", argc, argv, &options);
    int exit_code = HTH_EXIT_OK;

    if (first < 0)
        return HTH_EXIT_USAGE;
    if (options.help)
        hth_manual_print(&hth_help_manual, true, stdout);
    else if (options.names)
        for (const hth_command *c = hth_commands; c->manual; c++)
            (void)puts(c->manual->name); /* the end tells a failure */
    else
        exit_code = explain(&options, argc - first, argv + first);
    return hth_output_end(exit_code);
}
