/*
 * completion_command.c - `hearth completion`: completions for shells, made from the manuals of all commands
 */
#include <stdio.h>
#include <string.h>

#include "cli/command_list.h"
#include "console/output.h"

enum { WORDS_BYTES = 1024, PATH_BYTES = 64 };

typedef void (*page_fn)(const char *path, const hth_manual *manual, FILE *out);

/* Call visit for each page. */
static void visit_pages(page_fn visit, FILE *out)
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

/* The options that a page takes, without headings; for all pages, at most HTH_OPTIONS_MAX. */
static size_t options_of_page(const hth_manual *manual, const hth_option *out[HTH_OPTIONS_MAX])
{
    hth_flat_table flat;
    size_t n = 0;

    hth_option_table_flatten(manual->options, true, &flat);
    for (size_t i = 0; i < flat.n; i++)
        if (flat.rows[i].option->kind != HTH_OPTION_HEADING && hth_manual_takes(manual, flat.rows[i].option))
            out[n++] = flat.rows[i].option;
    return n;
}

/*
 * The kind of an option's value, as in the arguments of a manual: HTH_COMPLETE_..., or words separated by '|', written
 * to words. NULL if it takes no value, or the value is optional.
 */
static const char *value_of(const hth_option *option, char words[WORDS_BYTES])
{
    size_t n = 0;

    if (!option->value || hth_option_may_omit_value(option))
        return NULL;
    if (option->kind == HTH_OPTION_WORD) {
        for (size_t i = 0; option->words[i] && n < WORDS_BYTES; i++)
            n += (size_t)snprintf(words + n, WORDS_BYTES - n, "%s%s", i > 0 ? "|" : "",
                                  option->words[i]); /* sized for it */
        return words;
    }
    if (strcmp(option->name, "model") == 0)
        return HTH_COMPLETE_MODEL;
    if (strstr(option->value, "DIR"))
        return HTH_COMPLETE_DIRECTORY;
    return strstr(option->value, "FILE") || strstr(option->value, "PATH") ? HTH_COMPLETE_FILE : HTH_COMPLETE_NOTHING;
}

/* The candidates of kinds: the options of fish's `complete`, and the actions of zsh's _arguments. */
static const struct {
    const char *kind, *fish, *zsh;
} kinds[] = {
    { HTH_COMPLETE_FILE, " -F", "_files" },
    { HTH_COMPLETE_DIRECTORY, " -a '(__fish_complete_directories)'", "_files -/" },
    { HTH_COMPLETE_MODEL, " -F -a '(hearth models ls --names 2>/dev/null)'", "_hearth_model" },
    { HTH_COMPLETE_NAME, " -a '(hearth models ls --names 2>/dev/null)'", "_hearth_name" },
    { HTH_COMPLETE_SERVED, " -a '(hearth ps --names 2>/dev/null)'", "_hearth_served" },
    { HTH_COMPLETE_COMMAND, " -a '(hearth help --names)'", "_hearth_command" },
    { HTH_COMPLETE_VERB, "", "_hearth_verb $words[2]" },
    { HTH_COMPLETE_NOTHING, "", " " },
};

/* Print the candidates of a kind, n bytes. */
static void print_kind(const char *kind, size_t n, bool for_zsh, FILE *out)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].kind) == n && strncmp(kind, kinds[i].kind, n) == 0) {
            (void)fputs(for_zsh ? kinds[i].zsh : kinds[i].fish, out);
            return;
        }
    }
    (void)fputs(for_zsh ? "(" : " -a '", out);
    for (size_t i = 0; i < n; i++)
        (void)fputc(kind[i] == '|' ? ' ' : kind[i], out);
    (void)fputc(for_zsh ? ')' : '\'', out);
}

/*
 * ---- the completion of bash ----
 *
 * The script has a case for each page, with its options, the kinds of its arguments, and the kinds of option values.
 * The rest of the script is fixed.
 */

/* bash also splits words at ':' and '='. */
static const char functions[] =
    "# Sets `options`, `arguments`, and `value`, the kind of the value of option $2, for page $1.\n"
    "_hearth_page() {\n"
    "    options= arguments= value=\n"
    "    case $1 in\n";

static const char more_functions[] =
    "    esac\n"
    "}\n"
    "\n"
    "# Offers those lines of the input that begin with $1. They are names of others: bash must not expand them.\n"
    "_hearth_names() {\n"
    "    local name\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name == \"$1\"* ]] && COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
    "    done\n"
    "}\n"
    "\n"
    "# Offers completions of the word $2, of a kind, or of words between '|'.\n"
    "_hearth_offer() {\n"
    "    local IFS=$'\\n'\n"
    "    case $1 in\n"
    "    '' | :nothing) ;;\n"
    "    :file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- \"$2\") ;;\n"
    "    :directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- \"$2\") ;;\n"
    "    :name) _hearth_names \"$2\" < <(\"${COMP_WORDS[0]}\" models ls --names 2>/dev/null) ;;\n"
    "    :served) _hearth_names \"$2\" < <(\"${COMP_WORDS[0]}\" ps --names 2>/dev/null) ;;\n"
    "    :model)\n"
    "        _hearth_offer :name \"$2\"\n"
    "        [[ ${COMPREPLY[*]} ]] || _hearth_offer :file \"$2\" ;;\n"
    "    :command) _hearth_offer \"$_hearth_commands\" \"$2\" ;;\n"
    "    :verb) _hearth_offer \"$(_hearth_verbs \"${COMP_WORDS[2]}\")\" \"$2\" ;;\n"
    "    *) COMPREPLY=($(compgen -W \"${1//|/$IFS}\" -- \"$2\")) ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_hearth() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} at=$COMP_CWORD page=${COMP_WORDS[1]} first=2 n=0 i verbs\n"
    "    local options arguments value kinds previous\n"
    "    COMPREPLY=()\n"
    "    # Words are parted at ':' and '=', too.\n"
    "    while ((at > 1)) && [[ $word == :* || ${COMP_WORDS[at - 1]} == : ]]; do\n"
    "        ((at -= 1)); word=${COMP_WORDS[at]}$word\n"
    "    done\n"
    "    [[ $word == = ]] && { word=; ((at += 1)); }\n"
    "    if ((at == 1)); then\n"
    "        _hearth_offer \"$_hearth_commands|--help|--version\" \"$word\"\n"
    "        return\n"
    "    fi\n"
    "    verbs=$(_hearth_verbs \"$page\")\n"
    "    if [[ $verbs ]]; then\n"
    "        if ((at == 2)); then _hearth_offer \"$verbs|--help\" \"$word\"; return; fi\n"
    "        page+=\" ${COMP_WORDS[2]}\" first=3\n"
    "    fi\n"
    "    previous=${COMP_WORDS[at - 1]}\n"
    "    [[ $previous == = ]] && previous=${COMP_WORDS[at - 2]}\n"
    "    for ((i = first; i < at; i++)); do # count the arguments\n"
    "        [[ ${COMP_WORDS[i]} == -* ]] || { ((n += 1)); continue; }\n"
    "        _hearth_page \"$page\" \"${COMP_WORDS[i]}\"\n"
    "        [[ ${COMP_WORDS[i + 1]} == = ]] && ((i += 2)) || { [[ $value ]] && ((i += 1)); }\n"
    "    done\n"
    "    _hearth_page \"$page\" \"$previous\"\n"
    "    read -ra kinds <<<\"$arguments\"\n"
    "    ((n < ${#kinds[@]})) || n=$((${#kinds[@]} - 1))\n"
    "    if [[ $value ]]; then _hearth_offer \"$value\" \"$word\"\n"
    "    elif [[ $word == -* ]]; then _hearth_offer \"$options\" \"$word\"\n"
    "    elif ((n >= 0)); then _hearth_offer \"${kinds[n]}\" \"$word\"\n"
    "    fi\n"
    "    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then # bash adds what stands behind the last ':'\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"${word%\"${word##*:}\"}\"}\")\n"
    "    fi\n"
    "}\n"
    "\n"
    "complete -F _hearth hearth\n";

static void print_bash_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = options_of_page(manual, options);

    (void)fprintf(out, "    '%s')\n        arguments='%s'\n        options='", path,
                  manual->arguments ? manual->arguments : "");
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, "%s--%s", i > 0 ? "|" : "", options[i]->name);
    (void)fputs("'\n        case $2 in\n", out);
    for (size_t i = 0; i < n; i++) {
        char words[WORDS_BYTES];
        const char *value = value_of(options[i], words);

        if (!value)
            continue;
        (void)fprintf(out, "        --%s", options[i]->name);
        if (options[i]->letter)
            (void)fprintf(out, " | -%c", options[i]->letter);
        (void)fprintf(out, ") value='%s' ;;\n", value);
    }
    (void)fputs("        esac ;;\n", out);
}

static void print_bash(FILE *out)
{
    (void)fputs("# bash completion for hearth; made by 'hearth completion bash'\n\n_hearth_commands='", out);
    for (const hth_command *c = hth_commands; c->manual; c++)
        (void)fprintf(out, "%s%s", c == hth_commands ? "" : "|", c->manual->name);
    (void)fputs("'\n\n_hearth_verbs() {\n    case $1 in\n", out);
    for (const hth_command *c = hth_commands; c->manual; c++) {
        if (!c->manual->verbs)
            continue;
        (void)fprintf(out, "    %s) echo '", c->manual->name);
        for (size_t i = 0; c->manual->verbs[i]; i++)
            (void)fprintf(out, "%s%s", i > 0 ? "|" : "", c->manual->verbs[i]->name);
        (void)fputs("' ;;\n", out);
    }
    (void)fputs("    esac\n}\n\n", out);
    (void)fputs(functions, out);
    visit_pages(print_bash_page, out);
    (void)fputs(more_functions, out);
}

/* ---- the completion of fish: a line for each command, verb and option ---- */

static void print_description(const char *text, FILE *out)
{
    (void)fputs(" -d '", out);
    for (; *text; text++)
        (void)fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    (void)fputs("'\n", out);
}

static void print_fish_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = options_of_page(manual, options);

    for (size_t i = 0; i < n; i++) {
        char words[WORDS_BYTES];
        const char *value = value_of(options[i], words);

        (void)fprintf(out, "complete -c hearth -n '__hearth_is %s' -l %s", path, options[i]->name);
        if (options[i]->letter)
            (void)fprintf(out, " -s %c", options[i]->letter);
        if (value) {
            const bool is_file = strcmp(value, HTH_COMPLETE_FILE) == 0 || strcmp(value, HTH_COMPLETE_MODEL) == 0;

            (void)fputs(is_file ? " -r" : " -x", out);
            print_kind(value, strlen(value), false, out);
        }
        print_description(options[i]->help, out);
    }
    for (const char *kind = manual->arguments ? manual->arguments : ""; *kind;) {
        const size_t n_kind = strcspn(kind, " ");

        if (strncmp(kind, HTH_COMPLETE_NOTHING, n_kind) != 0 && strncmp(kind, HTH_COMPLETE_VERB, n_kind) != 0) {
            (void)fprintf(out, "complete -c hearth -n '__hearth_is %s'", path);
            print_kind(kind, n_kind, false, out);
            (void)fputc('\n', out);
        }
        kind += n_kind + (kind[n_kind] != '\0');
    }
}

static void print_fish(FILE *out)
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
    visit_pages(print_fish_page, out);
}

/* ---- the completion of zsh: a function for each page, which calls _arguments ---- */

/* Print text in single quotes, escaping brackets, which would end a description. */
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

static void print_option(const hth_option *option, FILE *out)
{
    const bool repeats = option->repeats;
    char words[WORDS_BYTES];
    const char *value = value_of(option, words);

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
        print_kind(value, strlen(value), true, out);
    }
    (void)fputc('\'', out);
}

static void print_zsh_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = options_of_page(manual, options);
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
        print_kind(kind, n_kind, true, out);
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

static void print_zsh(FILE *out)
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
    visit_pages(print_zsh_page, out);
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

/* ---- the command ---- */

static const hth_option rows[] = {
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

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
    .options = HTH_OPTION_ROWS(rows),
    .arguments = "bash|zsh|fish " HTH_COMPLETE_NOTHING,
};

int hth_command_completion(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
    char no_options;
    int exit_code;
    const int first = hth_manual_parse(&hth_completion_manual, NULL, argc, argv, &no_options, &exit_code);

    if (first < 0)
        return exit_code;
    for (size_t i = 0; argc - first == 1 && i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(argv[first], shells[i].name) != 0)
            continue;
        shells[i].print(stdout);
        return hth_output_end(HTH_EXIT_OK);
    }
    return hth_say("completion needs the name of a shell: bash, zsh or fish", HTH_EXIT_USAGE);
}
