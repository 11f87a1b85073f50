/*
 * completion_zsh.c - the completion of zsh: a function for each page, which calls _arguments
 */
#include <string.h>

#include "cli/completion.h"

/* In single quotes; brackets would end a description. */
static void print_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", out);
        else if (*text == '[' || *text == ']')
            (void)fputc(*text == '[' ? '(' : ')', out);
        else if (*text == ':')
            (void)fputs("\\:", out);
        else
            (void)fputc(*text, out);
    }
}

/* Print the action of _arguments for a kind. */
static void print_action(const char *kind, size_t n, FILE *out)
{
    static const struct {
        const char *kind, *action;
    } actions[] = {
        { HTH_COMPLETE_FILE, "_files" },
        { HTH_COMPLETE_DIRECTORY, "_files -/" },
        { HTH_COMPLETE_MODEL, "_hearth_model" },
        { HTH_COMPLETE_NAME, "_hearth_name" },
        { HTH_COMPLETE_SERVED, "_hearth_served" },
        { HTH_COMPLETE_COMMAND, "_hearth_command" },
        { HTH_COMPLETE_VERB, "_hearth_verb $words[2]" },
        { HTH_COMPLETE_NOTHING, " " },
    };

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strlen(actions[i].kind) == n && strncmp(kind, actions[i].kind, n) == 0) {
            (void)fputs(actions[i].action, out);
            return;
        }
    }
    (void)fputc('(', out);
    for (size_t i = 0; i < n; i++)
        (void)fputc(kind[i] == '|' ? ' ' : kind[i], out);
    (void)fputc(')', out);
}

static void print_option(const hth_option *option, FILE *out)
{
    const bool repeats = option->repeats;
    char words[HTH_COMPLETION_WORDS_BYTES];
    const char *value = hth_completion_value(option, words);

    (void)fputs(" \\\n        ", out);
    if (option->letter && !repeats)
        (void)fprintf(out, "'(-%c --%s)'", option->letter, option->name);
    else if (repeats)
        (void)fputs("\\*", out);
    if (option->letter)
        (void)fprintf(out, "{-%c%s,--%s%s}", option->letter, value ? "+" : "", option->name, value ? "=" : "");
    else
        (void)fprintf(out, "--%s%s", option->name, value ? "=" : "");
    (void)fputs("'[", out);
    print_text(option->help, out);
    (void)fputs("]", out);
    if (value) {
        (void)fputc(':', out);
        print_text(option->value, out);
        (void)fputc(':', out);
        print_action(value, strlen(value), out);
    }
    (void)fputc('\'', out);
}

static void print_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = hth_completion_options(manual, options);
    const char *kind = manual->arguments ? manual->arguments : "";

    (void)fputs("_hearth_", out);
    for (const char *c = path; *c; c++)
        (void)fputc(*c == ' ' ? '_' : *c, out);
    (void)fputs("() {\n    _arguments -s", out);
    for (size_t i = 0; i < n; i++)
        print_option(options[i], out);
    for (size_t i = 1; *kind; i++) {
        const size_t n_kind = strcspn(kind, " ");

        if (kind[n_kind])
            (void)fprintf(out, " \\\n        '%zu: :", i);
        else
            (void)fputs(" \\\n        '*: :", out);
        print_action(kind, n_kind, out);
        (void)fputc('\'', out);
        kind += n_kind + (kind[n_kind] != '\0');
    }
    (void)fputs("\n}\n\n", out);
}

static void print_summary(const hth_manual *manual, FILE *out)
{
    (void)fprintf(out, "        '%s:", manual->name);
    print_text(manual->summary, out);
    (void)fputs("'\n", out);
}

void hth_completion_zsh(FILE *out)
{
    (void)fputs("#compdef hearth\n# zsh completion for hearth; made by 'hearth completion zsh'\n\n"
                "_hearth_name() {\n"
                "    local -a names=(${(f)\"$(_call_program names hearth models ls --names 2>/dev/null)\"})\n"
                "    compadd -a names\n"
                "}\n\n"
                "_hearth_served() {\n"
                "    local -a names=(${(f)\"$(_call_program names hearth ps --names 2>/dev/null)\"})\n"
                "    compadd -a names\n"
                "}\n\n"
                "_hearth_model() {\n"
                "    _alternative 'names:downloaded model:_hearth_name' 'files:file:_files'\n"
                "}\n\n"
                "_hearth_command() {\n"
                "    local -a commands=(\n",
                out);
    for (const hth_command *c = hth_commands; c->manual; c++)
        print_summary(c->manual, out);
    (void)fputs("    )\n    _describe command commands\n}\n\n_hearth_verb() {\n    local -a verbs\n    case $1 in\n",
                out);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (!c->manual->verbs)
            continue;
        (void)fprintf(out, "    %s) verbs=(\n", c->manual->name);
        for (size_t i = 0; c->manual->verbs[i]; i++)
            print_summary(c->manual->verbs[i], out);
        (void)fputs("    ) ;;\n", out);
    }
    (void)fputs("    esac\n    _describe verb verbs\n}\n\n", out);
    hth_completion_visit(print_page, out);
    (void)fputs("_hearth() {\n"
                "    local page=_hearth_$words[2]\n"
                "    if ((CURRENT == 2)); then\n"
                "        _hearth_command\n"
                "    elif (($+functions[$page])); then\n"
                "        shift words; ((CURRENT -= 1))\n"
                "        $page\n"
                "    elif ((CURRENT == 3)); then\n"
                "        _hearth_verb $words[2]\n"
                "    else\n"
                "        page+=_$words[3]\n"
                "        shift 2 words; ((CURRENT -= 2))\n"
                "        (($+functions[$page])) && $page\n"
                "    fi\n"
                "}\n\n"
                "if [[ $funcstack[1] == _hearth ]]; then _hearth; else compdef _hearth hearth; fi\n",
                out);
}
