/*
 * completion_command.c - `hearth completion`: completions for shells, made of the manuals of all commands
 */
#include <string.h>

#include "cli/completion.h"
#include "console/output.h"

enum { PATH_BYTES = 64 };

typedef struct completion_options {
    bool help;
} completion_options;

static const hth_option rows[] = {
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = offsetof(completion_options, help) },
};

static const hth_option_table table = { rows, sizeof(rows) / sizeof(rows[0]) };

const hth_manual hth_completion_manual = {
    .name = "completion",
    .summary = "print completions for a shell: bash, zsh or fish",
    .usage =
        "usage: hearth completion bash | zsh | fish\n"
        "\n"
        "Prints a script with which the shell completes commands, options, their words, files and downloaded models.\n"
        "'make install' puts it where shells look for it. Without that:\n"
        "\n"
        "  bash   source <(hearth completion bash)                                   in ~/.bashrc\n"
        "  zsh    source <(hearth completion zsh)                                    in ~/.zshrc, after compinit\n"
        "  fish   hearth completion fish > ~/.config/fish/completions/hearth.fish    once\n"
        "\n",
    .closing = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n",
    .options = &table,
    .arguments = "bash|zsh|fish " HTH_COMPLETE_NOTHING,
};

void hth_completion_visit(hth_completion_page_fn visit, FILE *out)
{
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (!c->manual->verbs)
            visit(c->manual->name, c->manual, out);
        for (size_t i = 0; c->manual->verbs && c->manual->verbs[i]; i++) {
            char path[PATH_BYTES];

            (void)snprintf(path, sizeof(path), "%s %s", c->manual->name, c->manual->verbs[i]->name); /* sized for it */
            visit(path, c->manual->verbs[i], out);
        }
    }
}

size_t hth_completion_options(const hth_manual *manual, const hth_option *out[HTH_OPTIONS_MAX])
{
    hth_flat_table flat;
    size_t n = 0;

    hth_option_table_flatten(manual->options, true, &flat);
    for (size_t i = 0; i < flat.n; i++)
        if (flat.rows[i].option->kind != HTH_OPTION_HEADING && hth_manual_takes(manual, flat.rows[i].option))
            out[n++] = flat.rows[i].option;
    return n;
}

const char *hth_completion_value(const hth_option *option, char words[HTH_COMPLETION_WORDS_BYTES])
{
    size_t n = 0;

    if (!option->value || hth_option_may_omit_value(option))
        return NULL;
    if (option->kind == HTH_OPTION_WORD) {
        for (size_t i = 0; option->words[i] && n < HTH_COMPLETION_WORDS_BYTES; i++)
            n += (size_t)snprintf(words + n, HTH_COMPLETION_WORDS_BYTES - n, "%s%s", i > 0 ? "|" : "",
                                  option->words[i]); /* sized for it */
        return words;
    }
    if (strcmp(option->name, "model") == 0)
        return HTH_COMPLETE_MODEL;
    if (strstr(option->value, "DIR"))
        return HTH_COMPLETE_DIRECTORY;
    return strstr(option->value, "FILE") || strstr(option->value, "PATH") ? HTH_COMPLETE_FILE : HTH_COMPLETE_NOTHING;
}

int hth_command_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = { { "bash", hth_completion_bash }, { "zsh", hth_completion_zsh }, { "fish", hth_completion_fish } };
    completion_options options = { .help = false };
    const int first = hth_option_table_parse(&table, "hearth completion", argc, argv, &options);

    if (first < 0)
        return HTH_EXIT_USAGE;
    if (options.help) {
        hth_manual_print(&hth_completion_manual, true, stdout);
        return HTH_EXIT_OK;
    }
    for (size_t i = 0; argc - first == 1 && i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(argv[first], shells[i].name) != 0)
            continue;
        shells[i].print(stdout);
        return hth_output_end(HTH_EXIT_OK);
    }
    (void)fputs("hearth: completion needs the name of a shell: bash, zsh or fish\n", stderr);
    return HTH_EXIT_USAGE;
}
