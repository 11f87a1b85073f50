/*
 * version_command.c - `hearth version`: shows exact versions
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "cli/result_json.h"
#include "console/output.h"
#include "engine/backend.h"
#include "options/commands.h"
#include "options/option_table.h"
#include "rows/kvc.h"

enum { DEVICES_MAX = 64 };

/* Facts about the engine. */
typedef struct engine_facts {
    const char *build; /* "": no engine, and err has the reason */
    hth_engine_device devices[DEVICES_MAX];
    size_t n_devices;
    hearth_error err;
} engine_facts;

typedef struct version_options {
    bool json;
} version_options;

static const hth_option rows[] = {
    { "json", 0, HTH_OPTION_FLAG, NULL, "print one JSON object", .offset = offsetof(version_options, json) },
    { "help", 'h', HTH_OPTION_END, .help = "show this help" },
};

const hth_manual hth_version_manual = {
    .name = "version",
    .summary = "show versions of program, engine and formats",
    .usage = "usage: hearth version [--json]\n"
             "\n"
             "Shows the versions of Hearth, of the engine module and of the row format, "
             "and the devices that the engine can\n"
             "compute on in this machine, by back end.\n"
             "\n",
    .options = HTH_OPTION_ROWS(rows),
};

static void ask_engine(engine_facts *out)
{
    const hth_backend *backend = NULL;

    *out = (engine_facts){ .build = "" };
    if (hth_backend_llama(NULL, &backend, &out->err) != HEARTH_OK)
        return;
    out->build = backend->build();
    if (backend->devices(out->devices, DEVICES_MAX, &out->n_devices, &out->err) != HEARTH_OK)
        out->n_devices = 0;
}

static bool print_json(const engine_facts *engine)
{
    json_t *devices = json_array();

    for (size_t i = 0; i < engine->n_devices; i++) {
        const hth_engine_device *device = &engine->devices[i];

        (void)json_array_append_new(devices, /* if it fails, json_pack fails below */
                                    json_pack("{s:s, s:s, s:s, s:I}", "backend", device->backend, "name", device->name,
                                              "description", device->description, "memory_bytes",
                                              (json_int_t)device->memory_bytes));
    }
    return hth_json_print(json_pack("{s:s, s:s, s:i, s:i, s:o}", "hearth", HEARTH_VERSION, "engine", engine->build,
                                    "kvc_version", HTH_KVC_VERSION, "block_tokens", (int)HTH_BLOCK_TOKENS, "devices",
                                    devices),
                          false);
}

static void print_device(const hth_engine_device *device)
{
    printf("%-6s ", device->backend);
    if (!device->name[0])
        puts(strcmp(device->backend, "RPC") == 0 ? "the devices of servers that --rpc names" : "no device");
    else if (device->memory_bytes > 0)
        printf("%s, %s, %.1f GiB\n", device->name, device->description,
               (double)device->memory_bytes / (double)(UINT64_C(1) << 30));
    else
        printf("%s, %s\n", device->name, device->description);
}

static void print_text(const engine_facts *engine)
{
    printf("hearth %s\n", HEARTH_VERSION);
    printf("engine %s\n", *engine->build ? engine->build : engine->err.message);
    printf("rows   KVC version %d, blocks of %u tokens\n", HTH_KVC_VERSION, HTH_BLOCK_TOKENS);
    for (size_t i = 0; i < engine->n_devices; i++)
        print_device(&engine->devices[i]);
}

int hth_command_version(int argc, char **argv)
{
    version_options options = { .json = false };
    int exit_code;
    const int first = hth_manual_parse(&hth_version_manual, NULL, argc, argv, &options, &exit_code);
    engine_facts engine;

    if (first < 0)
        return exit_code;
    if (first < argc)
        return hth_sayf(HTH_EXIT_USAGE, "version takes no argument '%s'; leave it out", argv[first]);
    ask_engine(&engine);
    if (!options.json)
        print_text(&engine);
    else if (!print_json(&engine) && !ferror(stdout)) /* main reports the other failure */
        return HTH_EXIT_FAILED;
    return HTH_EXIT_OK;
}
