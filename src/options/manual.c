/*
 * manual.c - help in the terminal
 */
#include "options/manual.h"

#include <stdlib.h>
#include <string.h>

#include "console/nearest.h"
#include "console/output.h"
#include "console/wrap.h"
#include "options/commands.h"

enum { NAME_COLUMNS = 10, COMMAND_BYTES = 64 };

static const char usage_begin[] = "usage: hearth ", usage_more[] = "       hearth ";

bool hth_manual_takes(const hth_manual *manual, const hth_option *option)
{
    if (!manual->option_names)
        return true;
    for (const char *at = manual->option_names; option->name && (at = strstr(at, option->name)); at++)
        if (at[-1] == ' ' && at[strlen(option->name)] == ' ') /* the list begins with a space */
            return true;
    return false;
}

void hth_manual_visit_usage(const hth_manual *manual, void (*visit)(const char *line, size_t n, void *user_data),
                            void *user_data)
{
    for (size_t i = 0; manual->verbs && manual->verbs[i]; i++)
        hth_manual_visit_usage(manual->verbs[i], visit, user_data);
    if (manual->verbs)
        return;
    for (const char *line = manual->usage; *line && *line != '\n'; line += strcspn(line, "\n") + 1)
        visit(line + strlen(usage_begin), strcspn(line, "\n") - strlen(usage_begin), user_data);
}

const char *hth_manual_text(const hth_manual *manual)
{
    const char *blank = manual->verbs ? NULL : strstr(manual->usage, "\n\n");

    return manual->verbs ? manual->usage : blank ? blank + 2 : "";
}

typedef struct usage_printer {
    const char *begin;
    FILE *out;
} usage_printer;

static void print_usage(const char *line, size_t n, void *user_data)
{
    usage_printer *p = user_data;

    (void)fputs(p->begin, p->out); /* a failure cannot be reported, here and below */
    hth_wrap_words(line, n, (int)strlen(p->begin), (int)strlen(p->begin) + 4, p->out);
    p->begin = usage_more;
}

static bool has_more_help(const hth_manual *manual)
{
    for (size_t i = 0; manual->options && i < manual->options->n; i++)
        if (manual->options->rows[i].name && strcmp(manual->options->rows[i].name, "help-all") == 0)
            return true;
    return false;
}

/* The rows of the manual's table that it takes; they are copied to rows. */
static hth_option_table taken_options(const hth_manual *manual, hth_option rows[HTH_OPTIONS_MAX])
{
    hth_option_table table = { rows, 0 };

    for (size_t i = 0; manual->options && i < manual->options->n; i++)
        if (hth_manual_takes(manual, &manual->options->rows[i]))
            rows[table.n++] = manual->options->rows[i];
    return table;
}

void *hth_manual_defaults(const hth_manual *manual)
{
    void *options = manual->init ? calloc(1, manual->n_bytes) : NULL;

    if (options)
        manual->init(options);
    return options;
}

void hth_manual_print(const hth_manual *manual, bool all, FILE *out)
{
    usage_printer p = { .begin = usage_begin, .out = out };
    hth_option rows[HTH_OPTIONS_MAX];
    const hth_option_table table = taken_options(manual, rows);
    void *defaults = hth_manual_defaults(manual);

    hth_manual_visit_usage(manual, print_usage, &p);
    (void)fputc('\n', out);
    hth_wrap_text(hth_manual_text(manual), out);
    for (size_t i = 0; manual->verbs && manual->verbs[i]; i++) {
        const hth_manual *verb = manual->verbs[i];
        const int n = fprintf(out, "  %-*s ", NAME_COLUMNS, verb->name);

        hth_wrap_words(verb->summary, strlen(verb->summary), n, n, out);
        (void)fputs(manual->verbs[i + 1] ? "" : "\n", out);
    }
    all = all || !has_more_help(manual);
    hth_option_table_help(&table, all, defaults, out);
    hth_wrap_text(manual->closing ? manual->closing : "", out);
    if (!all)
        (void)fputs("\n--help-all shows all options.\n", out);
    free(defaults);
}

/* Remember the option that asks for help. */
static void note_help(const hth_option *option, const char *value, void *user_data)
{
    const hth_option **help = user_data;

    (void)value; /* it has none */
    if (option->kind == HTH_OPTION_END)
        *help = option;
}

int hth_manual_parse(const hth_manual *manual, const hth_manual *parent, int argc, char **argv, void *options,
                     int *exit_out)
{
    hth_option rows[HTH_OPTIONS_MAX];
    const hth_option_table table = taken_options(manual, rows);
    const hth_option *help = NULL;
    char command[COMMAND_BYTES];
    int first;

    (void)snprintf(command, sizeof(command), "hearth %s%s%s", parent ? parent->name : "", parent ? " " : "",
                   manual->name); /* sized for it */
    first = hth_option_table_visit(&table, command, argc, argv, options, note_help, &help);
    *exit_out = help ? HTH_EXIT_OK : HTH_EXIT_USAGE;
    if (!help)
        return first;
    hth_manual_print(manual, strcmp(help->name, "help-all") == 0, stdout);
    return -1;
}

const hth_manual *hth_verb_find(const hth_manual *command, const char *name)
{
    hth_nearest nearest;

    hth_nearest_init(&nearest, name);
    for (size_t i = 0; command->verbs && command->verbs[i]; i++) {
        const hth_manual *verb = command->verbs[i];

        if (strcmp(nearest.wanted, verb->name) == 0 || (verb->alias && strcmp(nearest.wanted, verb->alias) == 0))
            return verb;
        hth_nearest_try(&nearest, verb->name);
    }
    if (nearest.name)
        (void)fprintf(stderr, "hearth: '%s' has no verb '%s'; did you mean '%s'?\n", command->name, name, nearest.name);
    else
        (void)fprintf(stderr, "hearth: '%s' has no verb '%s'; see 'hearth help %s'\n", command->name, name,
                      command->name);
    return NULL;
}

const hth_manual *hth_verb_read(const hth_manual *command, int argc, char **argv, int *exit_out)
{
    const char *name = argc > 1 ? argv[1] : NULL;

    if (!name || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        hth_manual_print(command, true, stdout);
        *exit_out = HTH_EXIT_OK;
        return NULL;
    }
    *exit_out = HTH_EXIT_USAGE;
    return hth_verb_find(command, name);
}
