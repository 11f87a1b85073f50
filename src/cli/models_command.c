/*
 * models_command.c - `hearth models`: the models that were downloaded, and their removal
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/result_json.h"
#include "cli/units.h"
#include "hub/ollama.h"
#include "hub/settings.h"
#include "hub/stock.h"

enum { NAME_COLUMNS = 50 };

typedef struct models_options {
    bool json;
    bool yes;
    bool help;
} models_options;

#define AT(field) offsetof(models_options, field)

static const hth_option ls_rows[] = {
    { "json", 0, HTH_OPTION_FLAG, NULL, "one JSON object a line, with the path", .offset = AT(json) },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = AT(help) },
};

static const hth_option rm_rows[] = {
    { "yes", 'y', HTH_OPTION_FLAG, NULL, "do not ask", .offset = AT(yes) },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = AT(help) },
};

static const hth_option_table ls_table = { ls_rows, sizeof(ls_rows) / sizeof(ls_rows[0]) };
static const hth_option_table rm_table = { rm_rows, sizeof(rm_rows) / sizeof(rm_rows[0]) };

static const char usage[] = "usage: hearth models ls [--json]\n"
                            "       hearth models rm NAME... [--yes]\n"
                            "\n"
                            "'ls' lists the GGUF models that 'hearth pull' and other programs of its hub downloaded, "
                            "and those of Ollama.\n"
                            "'rm' removes downloaded models by the names that 'ls' shows; it asks first if standard "
                            "input is a terminal.\n"
                            "Ollama's models are not touched.\n"
                            "\n";

static const char closing[] = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n";

static int say(const char *message, int exit_code)
{
    (void)fprintf(stderr, "hearth: %s\n", message);
    return exit_code;
}

static int end_output(void)
{
    return fflush(stdout) == 0 ? HTH_EXIT_OK : say("cannot write to standard output", HTH_EXIT_FAILED);
}

/* ---- ls ---- */

typedef struct row {
    const char *name, *quant, *path, *source;
    uint64_t bytes, used;
} row;

static bool print_row(const row *r, bool json)
{
    char size[32], unused[32] = "-";
    const uint64_t now = (uint64_t)time(NULL);

    if (json)
        return hth_json_print(json_pack("{ss ss* sI sI ss ss}", "name", r->name, "quant", r->quant[0] ? r->quant : NULL,
                                        "bytes", (json_int_t)r->bytes, "used", (json_int_t)r->used, "source", r->source,
                                        "path", r->path),
                              true);
    if (r->used > 0)
        (void)hth_time_text(now > r->used ? (now - r->used) * 1000 : 0, unused);
    return printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, r->name, r->quant[0] ? r->quant : "-",
                  hth_size_text(r->bytes, size), unused, r->source) > 0;
}

static bool print_ollama(const hth_ollama_model *model, void *user_data)
{
    const models_options *options = user_data;
    const row r = { .name = model->name, .quant = "", .path = model->path, .source = "ollama", .bytes = model->bytes };

    return print_row(&r, options->json);
}

static int list(models_options *options)
{
    hth_hub_settings settings;
    hth_hub_model *models = NULL;
    size_t n = 0;
    char folder[PATH_MAX];
    hearth_error err;

    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_models_read(settings.cache, &models, &n, &err) != HEARTH_OK)
        return say(err.message, HTH_EXIT_FAILED);
    if (!options->json)
        printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, "NAME", "QUANT", "SIZE", "UNUSED", "FROM");
    for (size_t i = 0; i < n; i++) {
        const hth_hub_model *m = &models[i];
        const row r = { m->name, m->quant, m->path, "hub", m->bytes, m->used };

        (void)print_row(&r, options->json); /* end_output tells */
    }
    free(models);
    if (hth_ollama_folder(folder))
        hth_ollama_visit(folder, print_ollama, options);
    return end_output();
}

/* ---- rm ---- */

static bool agrees(const char *name)
{
    char answer[16];

    (void)fprintf(stderr, "remove '%s'? [y/N] ", name);
    return fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static int remove_models(const models_options *options, int n, char **names)
{
    const bool asks = !options->yes && isatty(STDIN_FILENO);
    hth_hub_settings settings;
    int exit_code = HTH_EXIT_OK;
    hearth_error err;

    if (n == 0)
        return say("models rm needs a NAME; 'hearth models ls' lists them", HTH_EXIT_USAGE);
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK)
        return say(err.message, HTH_EXIT_FAILED);
    for (int i = 0; i < n; i++) {
        uint64_t n_freed;
        char size[32];

        if (asks && !agrees(names[i]))
            continue;
        if (hth_hub_model_remove(settings.cache, names[i], &n_freed, &err) != HEARTH_OK)
            exit_code = say(err.message, HTH_EXIT_FAILED);
        else
            printf("removed %s, %s\n", names[i], hth_size_text(n_freed, size));
    }
    return exit_code == HTH_EXIT_OK ? end_output() : exit_code;
}

int hth_command_models(int argc, char **argv)
{
    const bool removes = argc > 1 && strcmp(argv[1], "rm") == 0;
    const bool has_verb = removes || (argc > 1 && strcmp(argv[1], "ls") == 0);
    const hth_option_table *table = removes ? &rm_table : &ls_table;
    models_options options = { .json = false };
    const int first = hth_option_table_parse(table, "hearth models", argc - has_verb, argv + has_verb, &options);

    if (first < 0)
        return HTH_EXIT_USAGE;
    if (options.help) {
        hth_option_table_help(usage, table, true, &options, closing, stdout);
        return HTH_EXIT_OK;
    }
    argc -= has_verb + first;
    argv += has_verb + first;
    if (!has_verb)
        return say("models needs a verb, ls or rm; 'hearth models --help' explains them", HTH_EXIT_USAGE);
    if (removes)
        return remove_models(&options, argc, argv);
    return argc == 0 ? list(&options) : say("models ls takes no further argument", HTH_EXIT_USAGE);
}
