/*
 * completion_bash.c - the completion of bash
 *
 * The script has a case for each page with its options, the kinds of its arguments, and the kind of the value of an
 * option; the rest of it is the same for all.
 */
#include "cli/completion.h"

/* bash parts words at ':' and '=', too. */
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

static void print_page(const char *path, const hth_manual *manual, FILE *out)
{
    const hth_option *options[HTH_OPTIONS_MAX];
    const size_t n = hth_completion_options(manual, options);

    (void)fprintf(out, "    '%s')\n        arguments='%s'\n        options='", path,
                  manual->arguments ? manual->arguments : "");
    for (size_t i = 0; i < n; i++)
        (void)fprintf(out, "%s--%s", i > 0 ? "|" : "", options[i]->name);
    (void)fputs("'\n        case $2 in\n", out);
    for (size_t i = 0; i < n; i++) {
        char words[HTH_COMPLETION_WORDS_BYTES];
        const char *value = hth_completion_value(options[i], words);

        if (!value)
            continue;
        (void)fprintf(out, "        --%s", options[i]->name);
        if (options[i]->letter)
            (void)fprintf(out, " | -%c", options[i]->letter);
        (void)fprintf(out, ") value='%s' ;;\n", value);
    }
    (void)fputs("        esac ;;\n", out);
}

void hth_completion_bash(FILE *out)
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
    hth_completion_visit(print_page, out);
    (void)fputs(more_functions, out);
}
