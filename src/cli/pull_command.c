/*
 * pull_command.c - `hearth pull`: downloads a model from a hub into the shared model cache, or from a registry into
 * Ollama's directory
 */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/result_json.h"
#include "console/output.h"
#include "console/units.h"
#include "hub/pull.h"
#include "hub/registry.h"
#include "options/commands.h"
#include "options/model_source.h"
#include "options/option_table.h"

enum { NAME_COLUMNS = 50 };

typedef struct pull_options {
    const char *revision;
    bool list;
    bool json;
    bool quiet;
} pull_options;

#define AT(field) offsetof(pull_options, field)

static const hth_option rows[] = {
    { "revision", 0, HTH_OPTION_TEXT, "REVISION", "a branch, tag or commit (default: " HTH_HUB_REVISION ")",
      .offset = AT(revision) },
    { "list", 0, HTH_OPTION_FLAG, NULL, "show the repository's models and download nothing", .offset = AT(list) },
    { "json", 0, HTH_OPTION_FLAG, NULL, "of --list: one JSON object a line", .offset = AT(json) },
    { "quiet", 'q', HTH_OPTION_FLAG, NULL, "no progress", .offset = AT(quiet) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

const hth_manual hth_pull_manual = {
    .name = "pull",
    .summary = "download a model from a hub or a registry",
    .usage = "usage: hearth pull OWNER/REPO[:QUANT | :FILE.gguf] [--revision REVISION] [--quiet]\n"
             "       hearth pull OWNER/REPO --list [--json] [--revision REVISION]\n"
             "       hearth pull NAME[:TAG] | ollama:OWNER/NAME[:TAG] [--quiet]\n"
             "\n"
             "Downloads a model in GGUF format from a hub, and prints the path of its file. "
             "Without QUANT and FILE, Q4_K_M is\n"
             "taken, or the next best. All parts of a split file are taken. "
             "What is there already is not downloaded again, and\n"
             "a download that ended early goes on. "
             "--list shows the models that there are, their sizes, and those that were\n"
             "downloaded; * marks the one that is taken without QUANT.\n"
             "\n"
             "NAME[:TAG] is a model of a registry of Ollama's kind, which HEARTH_OLLAMA_REGISTRY names. "
             "It comes into Ollama's\n"
             "folder, where Ollama finds it, too.\n"
             "\n",
    .closing =
        "\nVariables: HF_TOKEN or HF_TOKEN_PATH (the token for private and gated models), "
        "HF_HUB_CACHE or HF_HOME (the\n"
        "folder), HF_ENDPOINT (the hub; default " HTH_HUB_ENDPOINT "), HF_HUB_OFFLINE=1 (download nothing),\n"
        "HEARTH_OLLAMA_REGISTRY (the registry, https://HOST[:PORT]; default: none), OLLAMA_MODELS (Ollama's folder).\n"
        "Exit codes: 0 done, 1 failed, 2 wrong usage.\n"
        "\n"
        "  hearth pull OWNER/REPO --list\n"
        "  hearth pull OWNER/REPO:Q4_K_M\n"
        "  HEARTH_OLLAMA_REGISTRY=https://HOST hearth pull NAME:TAG\n",
    .options = HTH_OPTION_ROWS(rows),
};

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
        return hth_say(err.message, HTH_EXIT_USAGE);
    if (reference.choice[0])
        return hth_sayf(HTH_EXIT_USAGE, "--list shows all models of '%s'; leave out ':%s'", reference.repo,
                        reference.choice);
    if (hth_hub_settings_read(&settings, &err) != HEARTH_OK ||
        hth_hub_offers_read(&settings, reference.repo, options->revision, &offers, &n, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    if (n == 0 && !options->json)
        (void)fprintf(stderr, "hearth: '%s' has no model in a GGUF file\n", reference.repo);
    else if (!options->json)
        printf("  %-*s %10s %5s %s\n", NAME_COLUMNS, "NAME", "SIZE", "PARTS", "HERE");
    for (size_t i = 0; i < n; i++) {
        if (!options->json)
            (void)fputs(offers[i].is_chosen ? "* " : "  ", stdout); /* failures are reported at the end */
        (void)print_offer(&offers[i], options->json);
    }
    free(offers);
    return hth_output_end(HTH_EXIT_OK);
}

static int pull(const pull_options *options, const char *text)
{
    hth_hub_reference at_hub;
    hth_ollama_reference at_registry;
    char path[PATH_MAX];
    hearth_error err = { .message = "" };

    /* Only checks the name: a wrong one is wrong usage. */
    if ((hth_model_source_is_ollama(text) ? hth_ollama_reference_read(text, &at_registry, &err)
                                          : hth_hub_reference_read(text, &at_hub, &err)) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_USAGE);
    if (hth_model_source_pull(text, options->revision, options->quiet, path, &err) != HEARTH_OK)
        return hth_say(err.message, HTH_EXIT_FAILED);
    (void)puts(path); /* failures are reported at the end */
    if (!options->quiet)
        (void)fprintf(stderr, "hearth: try it: hearth run '%s' --chat -p 'Hello'\n", options->revision ? path : text);
    return hth_output_end(HTH_EXIT_OK);
}

int hth_command_pull(int argc, char **argv)
{
    pull_options options = { .revision = NULL };
    int exit_code;
    const int first = hth_manual_parse(&hth_pull_manual, NULL, argc, argv, &options, &exit_code);

    if (first < 0)
        return exit_code;
    if (first + 1 != argc)
        return hth_say("pull needs one model, OWNER/REPO[:QUANT] or NAME[:TAG]; 'hearth pull --help' shows an example",
                       HTH_EXIT_USAGE);
    if (options.json && !options.list)
        return hth_say("--json needs --list", HTH_EXIT_USAGE);
    if (hth_model_source_is_ollama(argv[first]) && (options.list || options.revision))
        return hth_sayf(HTH_EXIT_USAGE,
                        "--list and --revision are for models of a hub, OWNER/REPO; '%s' is one of a registry",
                        argv[first]);
    return options.list ? list(&options, argv[first]) : pull(&options, argv[first]);
}
