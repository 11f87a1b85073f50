/*
 * command_list.c - see command_list.h
 */
#include "cli/command_list.h"

#include <string.h>
#include <sys/stat.h>

#include "console/nearest.h"
#include "console/wrap.h"

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
    { &hth_worker_manual, hth_command_worker, NULL },
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
