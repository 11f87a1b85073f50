/*
 * version_command.c - `hearth version`: what exactly is running here
 */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache/cache.h"
#include "cache/kvc.h"
#include "cli/commands.h"
#include "engine/backend.h"

static void print_help(void)
{
    puts("usage: hearth version [--json]\n"
         "\n"
         "Shows the version of Hearth, of the engine module beside it, and of the row format.\n"
         "\n"
         "  --json    as one JSON object");
}

int hth_command_version(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    const hth_backend *backend = NULL;
    hearth_error err = { .message = "" };
    bool as_json = false;
    const char *engine;
    int option;

    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'h') {
            print_help();
            return HTH_EXIT_OK;
        }
        if (option != 'j')
            return HTH_EXIT_USAGE;
        as_json = true;
    }
    if (optind < argc) {
        (void)fprintf(stderr, "hearth: version takes no argument '%s'\n", argv[optind]);
        return HTH_EXIT_USAGE;
    }
    engine = hth_backend_llama(NULL, &backend, &err) == HEARTH_OK ? backend->build() : "";
    if (as_json) {
        json_t *object = json_pack("{s:s, s:s, s:i, s:i}", "hearth", HEARTH_VERSION, "engine", engine, "kvc_version",
                                   HTH_KVC_VERSION, "block_tokens", (int)HTH_BLOCK_TOKENS);
        char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;

        if (text)
            puts(text);
        free(text);
        json_decref(object);
    } else {
        printf("hearth %s\n", HEARTH_VERSION);
        printf("engine %s\n", *engine ? engine : err.message);
        printf("rows   KVC version %d, blocks of %u tokens\n", HTH_KVC_VERSION, HTH_BLOCK_TOKENS);
    }
    return HTH_EXIT_OK;
}
