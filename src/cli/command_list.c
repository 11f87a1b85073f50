#include "cli/command_list.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "console/nearest.h"
#include "console/output.h"
#include "console/wrap.h"
#include "options/manual.h"

const hth_command hth_commands[] = {
    { &hth_chat_manual, hth_command_chat, "Use a model" },
    { &hth_run_manual, hth_command_run, NULL },
    { &hth_embed_manual, hth_command_embed, NULL },
    { &hth_bench_manual, hth_command_bench, NULL },
    { &hth_pull_manual, hth_command_pull, "Get models" },
    { &hth_models_manual, hth_command_models, NULL },
    { &hth_convert_manual, hth_command_convert, NULL },
    { &hth_serve_manual, hth_command_serve, "Serve models" },
    { &hth_ps_manual, hth_command_ps, NULL },
    { &hth_key_manual, hth_command_key, NULL },
    { &hth_fleet_manual, hth_command_fleet, NULL },
    { &hth_worker_manual, hth_command_worker, NULL },
    { &hth_carrier_manual, hth_command_carrier, NULL },
    { &hth_cache_manual, hth_command_cache, "Look at what is kept" },
    { &hth_kvc_manual, hth_command_kvc, NULL },
    { &hth_help_manual, hth_command_help, "More" },
    { &hth_completion_manual, hth_command_completion, NULL },
    { &hth_version_manual, hth_command_version, NULL },
    { .manual = NULL },
};

const hth_command *hth_command_find(const char *name)
{
    const char *thing = name[0] == '-' ? "option" : "command";
    hth_nearest nearest;
    struct stat st;

    hth_nearest_init(&nearest, name);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (strcmp(name, c->manual->name) == 0)
            return c;
        hth_nearest_try(&nearest, c->manual->name);
    }
    hth_nearest_try(&nearest, "--help");
    hth_nearest_try(&nearest, "--version");
    if (nearest.name)
        (void)fprintf(stderr, "hearth: there is no %s '%s'; did you mean '%s'?\n", thing, name, nearest.name);
    else if (stat(name, &st) == 0 && S_ISREG(st.st_mode))
        (void)fprintf(stderr, "hearth: '%s' is a file; did you mean 'hearth chat %s'?\n", name, name);
    else
        (void)fprintf(stderr, "hearth: there is no %s '%s'; see 'hearth help'\n", thing, name);
    return NULL;
}

void hth_overview_print(FILE *out)
{
    (void)fputs("Hearth runs large language models and never computes the same prompt twice.\n"
                "\n"
                "Type this first, with a GGUF file of yours or OWNER/REPO of a hub as the model:\n"
                "  hearth chat models/hearth-tiny.gguf       talk with a model\n"
                "  hearth serve -m models/hearth-tiny.gguf   serve it, and a page for browsers\n"
                "  hearth bench models/hearth-tiny.gguf      draw new prompts beside known ones\n",
                out);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (c->group)
            (void)fprintf(out, "\n%s\n", c->group);
        (void)fprintf(out, "  %-11s ", c->manual->name);
        hth_wrap_words(c->manual->summary, strlen(c->manual->summary), 14, 14, out);
    }
    (void)fputs("\n'hearth help COMMAND' explains a command.\n", out);
}

/* ---- `hearth help`: the manuals, in the terminal or for `man` ---- */

typedef struct help_options {
    bool all;
    bool man;
    bool names;
} help_options;

#define AT(field) offsetof(help_options, field)

static const hth_option rows[] = {
    { "all", 'a', HTH_OPTION_FLAG, NULL, "show all options, as --help-all of the command does", .offset = AT(all) },
    { "man", 0, HTH_OPTION_FLAG, NULL,
      "print the page for man, in roff: of COMMAND, of the configuration (hearth.conf), or of the program",
      .offset = AT(man) },
    { "names", 0, HTH_OPTION_FLAG, NULL, "print the names of all commands, one a line", .offset = AT(names) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

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
    .options = HTH_OPTION_ROWS(rows),
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
    if (n > 2)
        return hth_sayf(HTH_EXIT_USAGE, "help takes a command and a verb, no '%s'", names[2]);
    if (options->man)
        hth_man_command_print(command->manual, stdout);
    else
        hth_manual_print(manual, options->all, stdout);
    return HTH_EXIT_OK;
}

int hth_command_help(int argc, char **argv)
{
    help_options options = { .all = false };
    int exit_code;
    const int first = hth_manual_parse(&hth_help_manual, NULL, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    if (!options.names)
        return hth_output_end(explain(&options, argc - first, argv + first));
    for (const hth_command *c = hth_commands; c->manual; c++)
        (void)puts(c->manual->name); /* failures are reported at the end */
    return hth_output_end(HTH_EXIT_OK);
}
