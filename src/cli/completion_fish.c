/*
 * completion_fish.c - the completion of fish: a line for each command, verb and option
 */
#include <string.h>

#include "cli/completion.h"

static void print_description(const char *text, FILE *out)
{
    (void)fputs(" -d '", out);
    for (; *text; text++)
        (void)fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    (void)fputs("'\n", out);
}

/* Print the candidates of a kind. */
static void print_kind(const char *kind, size_t n, FILE *out)
{
    static const struct {
        const char *kind, *words;
    } kinds[] = {
        { HTH_COMPLETE_FILE, " -F" },
        { HTH_COMPLETE_DIRECTORY, " -a '(__fish_complete_directories)'" },
        { HTH_COMPLETE_MODEL, " -F -a '(hearth models ls --names 2>/dev/null)'" },
        { HTH_COMPLETE_NAME, " -a '(hearth models ls --names 2>/dev/null)'" },
        { HTH_COMPLETE_SERVED, " -a '(hearth ps --names 2>/dev/null)'" },
        { HTH_COMPLETE_COMMAND, " -a '(hearth help --names)'" },
        { HTH_COMPLETE_VERB, "" },
        { HTH_COMPLETE_NOTHING, "" },
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].kind) == n && strncmp(kind, kinds[i].kind, n) == 0) {
            (void)fputs(kinds[i].words, out);
            return;
        }
    }
    (void)fputs(" -a '", out);
    for (size_t i = 0; i < n; i++)
        (void)fputc(kind[i] == '|' ? ' ' : kind[i], out);
    (void)fputc('\'', out);
}

static void print_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = hth_completion_options(manual, options);

    for (size_t i = 0; i < n; i++) {
        char words[HTH_COMPLETION_WORDS_BYTES];
        const char *value = hth_completion_value(options[i], words);

        (void)fprintf(out, "complete -c hearth -n '__hearth_is %s' -l %s", path, options[i]->name);
        if (options[i]->letter)
            (void)fprintf(out, " -s %c", options[i]->letter);
        if (value) {
            const bool is_file = strcmp(value, HTH_COMPLETE_FILE) == 0 || strcmp(value, HTH_COMPLETE_MODEL) == 0;

            (void)fputs(is_file ? " -r" : " -x", out);
            print_kind(value, strlen(value), out);
        }
        print_description(options[i]->help, out);
    }
    for (const char *kind = manual->arguments ? manual->arguments : ""; *kind;) {
        const size_t n_kind = strcspn(kind, " ");

        if (strncmp(kind, HTH_COMPLETE_NOTHING, n_kind) != 0 && strncmp(kind, HTH_COMPLETE_VERB, n_kind) != 0) {
            (void)fprintf(out, "complete -c hearth -n '__hearth_is %s'", path);
            print_kind(kind, n_kind, out);
            (void)fputc('\n', out);
        }
        kind += n_kind + (kind[n_kind] != '\0');
    }
}

void hth_completion_fish(FILE *out)
{
    (void)fputs("# fish completion for hearth; made by 'hearth completion fish'\n\n"
                "# Does the command line begin with these words?\n"
                "function __hearth_is\n"
                "    set -l words (commandline -opc)\n"
                "    set -l n (count $argv)\n"
                "    set -l last (math $n + 1)\n"
                "    test (count $words) -gt $n; and test \"$words[2..$last]\" = \"$argv\"\n"
                "end\n\n"
                "function __hearth_has_words\n"
                "    test (count (commandline -opc)) -eq $argv[1]\n"
                "end\n\n"
                "complete -c hearth -f\n"
                "complete -c hearth -n '__hearth_has_words 1' -l version -d 'show versions'\n",
                out);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        (void)fprintf(out, "complete -c hearth -n '__hearth_has_words 1' -a %s", c->manual->name);
        print_description(c->manual->summary, out);
        for (size_t i = 0; c->manual->verbs && c->manual->verbs[i]; i++) {
            (void)fprintf(out, "complete -c hearth -n '__hearth_has_words 2; and __hearth_is %s' -a %s",
                          c->manual->name, c->manual->verbs[i]->name);
            print_description(c->manual->verbs[i]->summary, out);
        }
    }
    hth_completion_visit(print_page, out);
}
