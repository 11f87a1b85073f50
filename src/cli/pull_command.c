/*
 * pull_command.c - `hearth pull`: downloads a model of a hub into the cache that its programs share
 */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/option_table.h"
#include "cli/output.h"
#include "cli/pull_view.h"
#include "cli/result_json.h"
#include "cli/units.h"
#include "hub/pull.h"

enum { NAME_COLUMNS = 50 };

typedef struct pull_options {
    const char *revision;
    bool list;
    bool json;
    bool quiet;
    bool help;
} pull_options;

#define AT(field) offsetof(pull_options, field)

static const hth_option rows[] = {
    { "revision", 0, HTH_OPTION_TEXT, "REVISION", "a branch, tag or commit (default: " HTH_HUB_REVISION ")",
      .offset = AT(revision) },
    { "list", 0, HTH_OPTION_FLAG, NULL, "show the repository's models and download nothing", .offset = AT(list) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "of --list: one JSON object a line", .offset = AT(json) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress", .offset = AT(quiet) },
    { "help", 'h', HTH_OPTION_END, NULL, "show this help", .offset = AT(help) },
};

static const hth_option_table table = { rows, sizeof(rows) / sizeof(rows[0]) };

static const char usage[] =
    "usage: hearth pull OWNER/REPO[:QUANT | :FILE.gguf] [--revision REVISION] [--quiet]\n"
    "       hearth pull OWNER/REPO --list [--json] [--revision REVISION]\n"
    "\n"
    "Downloads a model in GGUF format from a hub, and prints the path of its file. Without QUANT and FILE, Q4_K_M is\n"
    "taken, or the next best. All parts of a split file are taken. What is there already is not downloaded again, and\n"
    "a download that ended early goes on. --list shows the models that there are, their sizes, and those that were\n"
    "downloaded; * marks the one that is taken without QUANT.\n"
    "\n";

static const char closing[] =
    "\nVariables: HF_TOKEN or HF_TOKEN_PATH (the token for private and gated models), HF_HUB_CACHE or HF_HOME (the\n"
    "folder), HF_ENDPOINT (the hub; default " HTH_HUB_ENDPOINT "), HF_HUB_OFFLINE=1 (download nothing).\n"
    "Exit codes: 0 done, 1 failed, 2 wrong usage.\n"
    "\n"
    "  hearth pull OWNER/REPO --list\n"
    "  hearth pull OWNER/REPO:Q4_K_M\n";

const hth_manual hth_pull_manual = {
    .name = "pull",
    .summary = "download a model from a hub",
    .usage = usage,
    .closing = closing,
    .options = &table,
};

static int fail(const hearth_error *err, int exit_code)
{
    (void)fprintf(stderr, "hearth: %s\n", err->message);
    return exit_code;
}

static bool print_offer(const hth_hub_offer *o, bool as_json)
{
    char size[32];

    if (as_json)
        return hth_json_print(json_pack("{ss ss* ss sI sI sb sb}", "choice", o->choice, "quant",
                                        o->quant[0] ? o->quant : NULL, "path", o->path, "bytes", (json_int_t)o->bytes,
                                        "parts", (json_int_t)o->n_parts, "here", o->is_here, "default", o->is_chosen),
                              true);
    return printf("%-*s %10s %5zu %s\n", NAME_COLUMNS, o->choice, hth_size_text(o->bytes, size), o->n_parts,
                  o->is_here ? "yes" : "-") > 0;
}

static int list(const pull_options *options, const char *text)
{
    hth_hub_settings settings;
    hth_hub_reference reference;
    hth_hub_offer *offers = NULL;
    size_t n = 0;
    hearth_error err = { .message = "" };

    if (hth_hub_reference_read(text, &reference, &err) != HEARTH_OK)
        return fail(&err, HTH_EXIT_USAGE);
    if (reference.choice[0]) {
        (void)fprintf(stderr, "hearth: --list shows all models of '%s'; leave out ':%s'\n", reference.repo,
                      reference.choice);
        return HTH_EXIT_USAGE;
    }
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_offers_read(&settings, reference.repo, options->revision, &offers, &n, &err) != HEARTH_OK)
        return fail(&err, HTH_EXIT_FAILED);
    if (n == 0 && !options->json)
        (void)fprintf(stderr, "hearth: '%s' has no model in a GGUF file\n", reference.repo);
    else if (!options->json)
        printf("  %-*s %10s %5s %s\n", NAME_COLUMNS, "NAME", "SIZE", "PARTS", "HERE");
    for (size_t i = 0; i < n; i++) {
        if (!options->json)
            (void)fputs(offers[i].is_chosen ? "* " : "  ", stdout); /* the end tells a failure */
        (void)print_offer(&offers[i], options->json);
    }
    free(offers);
    return hth_output_end(HTH_EXIT_OK);
}

static int pull(const pull_options *options, const char *text)
{
    hth_hub_settings settings;
    hth_hub_reference reference;
    hth_pull_view view;
    hth_hub_watch watch;
    char path[PATH_MAX];
    hearth_error err = { .message = "" };
    hearth_status status;

    if (hth_hub_reference_read(text, &reference, &err) != HEARTH_OK)
        return fail(&err, HTH_EXIT_USAGE);
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK)
        return fail(&err, HTH_EXIT_FAILED);
    hth_pull_view_init(&view, options->quiet);
    watch = hth_pull_view_watch(&view);
    status = hth_hub_pull(&settings, &reference, options->revision, &watch, path, &err);
    hth_pull_view_end(&view);
    if (status != HEARTH_OK)
        return fail(&err, HTH_EXIT_FAILED);
    (void)puts(path); /* the end tells a failure */
    if (!options->quiet)
        (void)fprintf(stderr, "hearth: try it: hearth run '%s' --chat -p 'Hello'\n", options->revision ? path : text);
    return hth_output_end(HTH_EXIT_OK);
}

int hth_command_pull(int argc, char **argv)
{
    pull_options options = { .revision = NULL };
    const int first = hth_option_table_parse(&table, "hearth pull", argc, argv, &options);

    if (first < 0)
        return HTH_EXIT_USAGE;
    if (options.help) {
        hth_manual_print(&hth_pull_manual, true, stdout);
        return HTH_EXIT_OK;
    }
    if (first + 1 != argc) {
        (void)fputs("hearth: pull needs one model, OWNER/REPO[:QUANT]; 'hearth pull --help' shows an example\n",
                    stderr);
        return HTH_EXIT_USAGE;
    }
    if (options.json && !options.list) {
        (void)fputs("hearth: --json needs --list\n", stderr);
        return HTH_EXIT_USAGE;
    }
    return options.list ? list(&options, argv[first]) : pull(&options, argv[first]);
}
