/*
 * models_command.c - `hearth models`: lists and removes downloaded models
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/models_add.h"
#include "cli/models_orders.h"
#include "cli/result_json.h"
#include "console/output.h"
#include "console/units.h"
#include "hub/ollama.h"
#include "hub/settings.h"
#include "hub/stock.h"
#include "options/commands.h"
#include "options/verb.h"

enum { NAME_COLUMNS = 50 };

typedef struct models_options {
    bool json;
    bool names;
    bool yes;
    size_t n_shown; /* rows of the table of ls */
} models_options;

#define AT(field) offsetof(models_options, field)

static const hth_option ls_rows[] = {
    { "json", 0, HTH_OPTION_FLAG, NULL, "one JSON object a line, with the path", .offset = AT(json) },
    { "names", 0, HTH_OPTION_FLAG, NULL, "the names alone, one a line", .offset = AT(names) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const hth_option rm_rows[] = {
    { "yes", 'y', HTH_OPTION_FLAG, NULL, "do not ask", .offset = AT(yes) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

static const char closing[] = "\nExit codes: 0 done, 1 failed, 2 wrong usage.\n";

static const hth_manual ls_manual = {
    .name = "ls",
    .alias = "list",
    .summary = "list the models that were downloaded",
    .usage =
        "usage: hearth models ls [--json | --names]\n"
        "\n"
        "Lists the GGUF models that 'hearth pull' and other programs of its hub downloaded, and those of Ollama's\n"
        "folder.\n"
        "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(ls_rows),
};

static const hth_manual rm_manual = {
    .name = "rm",
    .alias = "remove",
    .summary = "remove downloaded models",
    .usage =
        "usage: hearth models rm NAME... [--yes]\n"
        "\n"
        "Removes downloaded models by the names that 'hearth models ls' shows; asks first if standard input is a\n"
        "terminal. Models in Ollama's folder, also those that 'hearth pull' brought there, are left to 'ollama rm'.\n"
        "\n",
    .closing = closing,
    .options = HTH_OPTION_ROWS(rm_rows),
    .arguments = HTH_COMPLETE_NAME,
};

static const hth_manual *const verbs[] = {
    &ls_manual,
    &rm_manual,
    &hth_models_add_manual,
    &hth_models_forget_manual,
    &hth_models_load_manual,
    &hth_models_unload_manual,
    &hth_models_move_manual,
    &hth_models_release_manual,
    &hth_models_compact_manual,
    NULL,
};

const hth_manual hth_models_manual = {
    .name = "models",
    .summary = "list and remove downloaded models; give orders to a running server",
    .usage = "Looks after downloaded models (ls, rm), and after those of a running server (add, forget, load, unload, "
             "move, ...).\n\n",
    .closing = "'hearth help models VERB' explains a verb and its options.\n",
    .verbs = verbs,
};

/* ---- ls ---- */

typedef struct row {
    const char *name, *quant, *path, *source;
    uint64_t bytes, used;
} row;

static bool print_row(const row *r, models_options *options)
{
    char size[32], unused[32] = "-";
    const uint64_t now = (uint64_t)time(NULL);

    if (options->names)
        return puts(r->name) >= 0;
    if (options->json)
        return hth_json_print(json_pack("{ss ss* sI sI ss ss}", "name", r->name, "quant", r->quant[0] ? r->quant : NULL,
                                        "bytes", (json_int_t)r->bytes, "used", (json_int_t)r->used, "source", r->source,
                                        "path", r->path),
                              true);
    if (options->n_shown++ == 0)
        printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, "NAME", "QUANT", "SIZE", "UNUSED", "SOURCE");
    if (r->used > 0)
        (void)hth_time_text(now > r->used ? (now - r->used) * 1000 : 0, unused);
    return printf("%-*s %-10s %10s %7s %s\n", NAME_COLUMNS, r->name, r->quant[0] ? r->quant : "-",
                  hth_size_text(r->bytes, size), unused, r->source) > 0;
}

static bool print_ollama(const hth_ollama_model *model, void *user_data)
{
    models_options *options = user_data;
    const row r = { .name = model->name, .quant = "", .path = model->path, .source = "ollama", .bytes = model->bytes };

    return print_row(&r, options);
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
        return hth_say(err.message, HTH_EXIT_FAILED);
    for (size_t i = 0; i < n; i++) {
        const hth_hub_model *m = &models[i];
        const row r = { m->name, m->quant, m->path, "hub", m->bytes, m->used };

        (void)print_row(&r, options); /* failures are reported at the end */
    }
    free(models);
    if (hth_ollama_folder(folder))
        hth_ollama_visit(folder, print_ollama, options);
    if (options->n_shown == 0 && !options->json && !options->names)
        (void)fputs("hearth: no models are downloaded; 'hearth pull OWNER/REPO' gets one\n", stderr);
    return hth_output_end(HTH_EXIT_OK);
}

/* ---- rm ---- */

static bool agrees(const char *name)
{
    int first, c;

    (void)fprintf(stderr, "remove '%s'? [y/N] ", name);
    first = c = getchar();
    while (c != '\n' && c != EOF) /* the rest of the line must not answer the next question */
        c = getchar();
    return first == 'y' || first == 'Y';
}

static bool is_at_ollama(const char *name)
{
    char folder[PATH_MAX];
    hth_ollama_model unused;

    return hth_ollama_folder(folder) && hth_ollama_find(folder, name, &unused);
}

static int remove_models(const models_options *options, int n, char **names)
{
    const bool asks = !options->yes && isatty(STDIN_FILENO);
    hth_hub_settings settings;
    int exit_code = HTH_EXIT_OK;
    hearth_error err;

    if (n == 0)
        return hth_say("models rm needs a NAME; 'hearth models ls' lists them", HTH_EXIT_USAGE);
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    for (int i = 0; i < n; i++) {
        uint64_t n_freed;
        char size[32];
        hearth_status status;

        if (asks && !agrees(names[i]))
            continue;
        status = hth_hub_model_remove(settings.cache, names[i], &n_freed, &err);
        if (status == HEARTH_NOT_FOUND && is_at_ollama(names[i]))
            (void)hth_fail(&err, status,
                           "'%.200s' is a model of Ollama's folder, where Hearth removes nothing; 'ollama rm %.200s' "
                           "does",
                           names[i], names[i]);
        if (status != HEARTH_OK)
            exit_code = hth_say(err.message, HTH_EXIT_FAILED);
        else
            printf("removed %s, %s\n", names[i], hth_size_text(n_freed, size));
    }
    return hth_output_end(exit_code);
}

int hth_command_models(int argc, char **argv)
{
    int exit_code;
    const hth_manual *manual = hth_verb_read(&hth_models_manual, argc, argv, &exit_code);
    models_options options = { .json = false };
    int first;

    if (!manual)
        return exit_code;
    if (manual == &hth_models_add_manual)
        return hth_models_add(argc - 1, argv + 1);
    if (manual != &ls_manual && manual != &rm_manual)
        return hth_models_order(manual, argc - 1, argv + 1);
    first = hth_manual_parse(manual, &hth_models_manual, --argc, ++argv, &options, &exit_code);
    if (first < 0)
        return exit_code;
    if (manual == &rm_manual)
        return remove_models(&options, argc - first, argv + first);
    return first == argc ? list(&options) : hth_say("models ls takes no further argument", HTH_EXIT_USAGE);
}
